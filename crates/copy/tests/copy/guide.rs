//! The programs of `docs/guide/move.md` and `docs/guide/archive.md`, in the order of the pages.

use std::path::Path;
use std::process::Command;

use system_tests::Database;

use crate::entities::lines;
use crate::program::{End, database_url, file, quietly, succeeds, text};

fn page(name: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/guide/{name}.md"));
    std::fs::read_to_string(page).unwrap()
}

/// The programs of a page.
fn programs(name: &str) -> Vec<String> {
    let page = page(name);
    let mut blocks = Vec::new();
    let mut rest = page.as_str();
    while let Some((_, after)) = rest.split_once("```sh\n") {
        let (block, after) = after.split_once("```").unwrap();
        blocks.push(block.to_owned());
        rest = after;
    }
    blocks
}

/// The page begins with an accident, and ends with the entities back.
#[test]
fn the_accident_of_the_archives_page_is_undone() {
    let database = Database::new();
    let work = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_table-service-copy"));
    let psql = database.cluster().program("psql");
    let path = [
        program.parent().unwrap(),
        Path::new(psql.get_program()).parent().unwrap(),
    ];
    let path = format!(
        "{}:{}:{}",
        path[0].display(),
        path[1].display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &programs("archive").join("\n")])
        .current_dir(work.path())
        .env("PATH", &path)
        .env("DB", database_url(&database))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let file = |name: &str| std::fs::read_to_string(work.path().join(name)).unwrap();
    let page = page("archive");
    let kinds = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter_map(|line| line.split_once("Z ").filter(|(moment, _)| moment.starts_with("20")));
        lines.map(|(_, rest)| rest.to_owned()).collect()
    };
    let history = file("history.txt");
    assert_eq!(kinds(&history).len(), 3, "{history}");
    assert_eq!(kinds(&history), kinds(&page));
    assert_eq!(file("count.txt").trim(), "OrdersBefore: 2 entities");
    for line in file("orders.txt").lines() {
        assert!(page.contains(&format!("    {line}\n")), "{line}");
    }
    assert_eq!(file("orders.txt").lines().count(), 3);
}

#[test]
fn the_programs_of_the_page_run() {
    let blocks = programs("move");
    assert!(blocks.len() >= 5, "the page has {} programs", blocks.len());
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Orders.jsonl", &lines(17, 200));
    let (old, new) = (End::of("rest"), End::of("sql"));
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
    let page = page("move") + &page("archive");
    let mut help = String::new();
    for arguments in [
        &["--help"][..],
        &["verify", "--help"],
        &["delete", "--help"],
        &["count", "--help"],
        &["archive", "--help"],
        &["restore", "--help"],
        &["history", "--help"],
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
