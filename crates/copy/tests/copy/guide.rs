//! The programs of `docs/guide/move.md`, in the order of the page.

use std::path::Path;
use std::process::Command;

use crate::entities::lines;
use crate::program::{Place, file, quietly, succeeds, text};

#[test]
fn the_programs_of_the_page_run() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/move.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut blocks = Vec::new();
    let mut rest = page.as_str();
    while let Some((_, after)) = rest.split_once("```sh\n") {
        let (block, after) = after.split_once("```").unwrap();
        blocks.push(block.to_owned());
        rest = after;
    }
    assert!(blocks.len() >= 5, "the page has {} programs", blocks.len());
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Orders.jsonl", &lines(17, 200));
    let (old, new) = (Place::of("rest"), Place::of("sql"));
    succeeds(&quietly(text(&begin), &old.argument(), &[]));
    let work = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_table-service-copy"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    for block in blocks {
        let output = Command::new("bash")
            .args(["-eo", "pipefail", "-c", &block])
            .current_dir(work.path())
            .env("PATH", &path)
            .env("OLD", old.argument())
            .env("NEW", new.argument())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}{said}");
    }
    let csv = std::fs::read_to_string(work.path().join("orders.csv")).unwrap();
    assert!(csv.starts_with("PartitionKey,RowKey,Timestamp,"), "{csv}");
    assert!(work.path().join("backup/Orders.jsonl.zst").exists());
}

/// Every option of the page is one of the program.
#[test]
fn the_page_knows_the_options() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/move.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut help = String::new();
    for arguments in [
        &["--help"][..],
        &["verify", "--help"],
        &["delete", "--help"],
        &["count", "--help"],
    ] {
        help.push_str(&String::from_utf8(crate::program::output(arguments).stdout).unwrap());
    }
    for word in page.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')) {
        let is_cargos = ["--release", "-p"].contains(&word);
        if word.starts_with("--") && word.contains(char::is_alphabetic) && !is_cargos {
            assert!(help.contains(word), "{word} is no option");
        }
    }
}
