//! Replays the corpus of the fuzz targets, so that everybody runs it without a fuzzer.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod checks;
#[path = "checks/mutate.rs"]
mod mutate;

use std::path::{Path, PathBuf};

use table_service_model::Properties;
use table_service_model::json::parse_properties;

fn directory(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target)
}

/// Names and contents of the corpus of a target.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(directory(target))
        .unwrap()
        .map(|file| {
            let path = file.unwrap().path();
            (
                path.file_stem().unwrap().to_str().unwrap().to_owned(),
                std::fs::read(path).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

#[test]
fn json() {
    let files = corpus("json");
    assert!(files.len() >= 24);
    for (name, text) in files {
        println!("{name}");
        checks::json(&String::from_utf8_lossy(&text));
    }
}

#[test]
fn bag() {
    let files = corpus("bag");
    assert!(files.len() >= 24);
    for (name, bytes) in &files {
        println!("{name}");
        checks::bag(bytes);
        // The name of a file says whether its bytes are refused.
        assert_eq!(
            Properties::validate(bytes).is_err(),
            name.starts_with("refused-"),
            "{name}"
        );
    }
}

/// The messages that servers have sent for the same writes. Each major version sends the same changes.
#[test]
fn changes() {
    let files = corpus("changes");
    assert!(!files.is_empty());
    for (name, bytes) in files {
        assert_eq!(
            checks::changes(&bytes),
            [
                r#"insert Orders p 1 {"A":1} -"#,
                r#"update Orders p 1 {"A":1,"B":2.5} -"#,
                r#"insert Items é😀  {"T":"é😀"} -"#,
                "update Orders q out of line - -",
                "delete Items é😀  - -",
                r#"insert Items é😀 r {"T":"é😀"} -"#,
                r#"update Full p 1 {"A":2} {"A":1}"#,
                r#"delete Full p 1 - {"A":2}"#,
                "clear Orders - - - -",
                "clear Items - - - -",
            ],
            "{name}"
        );
    }
}

#[test]
#[ignore = "takes as long as FUZZ_SECONDS says"]
fn changed_corpora() {
    let contents = |target: &str| corpus(target).into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>();
    mutate::mutate(&contents("json"), |bytes| checks::json(&String::from_utf8_lossy(bytes)));
    mutate::mutate(&contents("bag"), checks::bag);
    mutate::mutate(&contents("changes"), |bytes| {
        checks::changes(bytes);
    });
}

/// Writes the corpus of bags anew after a change of the format: those of the JSON corpus, and damaged ones.
#[test]
#[ignore = "writes files"]
fn write_the_corpus_of_bags() {
    let directory = directory("bag");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(directory.join(name), bytes).unwrap();
    for (name, text) in corpus("json") {
        if let Ok(bag) = parse_properties(&String::from_utf8_lossy(&text)) {
            write(&name, bag.as_bytes());
        }
    }
    let bag = parse_properties(
        r#"{"A":"é😀","B":1,"C":true,"D":2.5,"E@odata.type":"Edm.Guid","E":"a455c812-1f7a-4f5c-9c3b-0123456789ab"}"#,
    );
    let bytes = bag.unwrap().as_bytes().to_vec();
    for (name, at, byte) in [
        ("format", 0, 2),
        ("wide", 0, 0x81),
        ("count-less", 1, 4),
        ("count-more", 1, 6),
        ("count-most", 1, 255),
        ("size", 2, 0),
        ("size-large", 5, 255),
        ("type-unknown", 6, 0),
        ("type-other", 7, 3),
        ("name-end-backwards", 11, 255),
        ("name-end-beyond", 27, 255),
        ("value-end-backwards", 13, 255),
        ("value-end-short", 29, 0),
        ("name-order", 31, b'C'),
        ("name-character", 31, b' '),
        ("name-encoding", 31, 0xC3),
        ("text-encoding", 36, 0xFF),
        ("text-u0000", 36, 0),
    ] {
        let mut damaged = bytes.clone();
        *damaged.get_mut(at).unwrap() = byte;
        write(&format!("refused-{name}"), &damaged);
    }
    write("refused-empty", b"");
    write("refused-short", bytes.get(..bytes.len() - 1).unwrap());
    write("refused-long", &[&bytes[..], b"\0"].concat());
}
