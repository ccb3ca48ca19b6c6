//! Damaged files: a copy of one is whole, or the file is refused.

use std::path::Path;

use tempfile::TempDir;

use crate::entities::lines;
use crate::program::{ends_with, file, output, quietly, succeeds, text};

/// The entities as the program writes them, in every format.
fn written(format: &str) -> (Vec<u8>, String) {
    let directory = tempfile::tempdir().unwrap();
    let begin = file(&directory, "Nasty.jsonl", &lines(3, 40));
    let ending = format.replace("azcopy", "json");
    let target = directory.path().join(format!("out/Nasty.{ending}"));
    let out = directory.path().join("out");
    succeeds(&quietly(text(&begin), text(&out), &["--format", format]));
    let whole = directory.path().join("whole");
    succeeds(&quietly(text(&target), text(&whole), &["--format", "jsonl"]));
    (
        std::fs::read(target).unwrap(),
        std::fs::read_to_string(whole.join("Nasty.jsonl")).unwrap(),
    )
}

/// Copies a file with these contents into JSON lines. Returns the copy, if there is one, and the program's messages.
fn copied(directory: &TempDir, ending: &str, contents: &[u8]) -> (Option<String>, String) {
    let damaged = directory.path().join(format!("Nasty.{ending}"));
    std::fs::write(&damaged, contents).unwrap();
    let target = directory.path().join("to");
    let _ = std::fs::remove_dir_all(&target);
    let done = output(&quietly(text(&damaged), text(&target), &["--format", "jsonl"]));
    let said = String::from_utf8(done.stderr).unwrap();
    match done.status.code() {
        Some(0) => (Some(std::fs::read_to_string(target.join("Nasty.jsonl")).unwrap()), said),
        Some(1) => {
            assert!(!target.join("Nasty.jsonl").exists(), "{said}");
            (None, said)
        }
        code => panic!("{code:?}: {said}"),
    }
}

/// About so many places in a file, the last ones among them.
fn places(length: usize, count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..length).step_by((length / count).max(1)).collect();
    places.extend(length.saturating_sub(12)..length);
    places.dedup();
    places
}

#[test]
fn files_of_a_directory_that_are_not_read_are_named() {
    let (directory, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let copying = quietly(text(directory.path()), text(target.path()), &[]);
    file(&directory, "Orders.jsonl.gz", "x");
    let said = ends_with(1, &copying);
    assert!(said.contains("not read") && said.contains("Orders.jsonl.gz"), "{said}");
    file(&directory, "Others.jsonl", &lines(3, 1));
    file(&directory, "x.manifest", "x");
    let said = succeeds(&copying);
    assert!(
        said.contains("Orders.jsonl.gz") && said.contains("Others: 1 read"),
        "{said}"
    );
    assert!(!said.contains("manifest"), "{said}");
    // A service without tables has its properties alone, and others may keep notes beside them.
    let empty = tempfile::tempdir().unwrap();
    file(&empty, "service-properties.json", "{}");
    file(&empty, "README", "x");
    let said = succeeds(&quietly(text(empty.path()), text(target.path()), &[]));
    assert!(
        said.contains("files that are not read") && said.contains("README"),
        "{said}"
    );
}

#[test]
fn a_file_that_is_cut_short_is_refused_or_ends_with_a_whole_entity() {
    let directory = tempfile::tempdir().unwrap();
    for format in ["jsonl", "csv", "azcopy", "jsonl.zst", "csv.zst", "azcopy.zst"] {
        let (bytes, whole) = written(format);
        let mut refused = 0;
        for end in places(bytes.len(), 40) {
            let (copied, said) = copied(&directory, &format.replace("azcopy", "json"), &bytes[..end]);
            match copied {
                None => refused += 1,
                Some(copied) => {
                    let rows_are_lost = ["jsonl", "csv"].contains(&format) && whole.starts_with(copied.trim_end());
                    // Of a document, only the line end behind it can be missing.
                    let line_end = format == "azcopy" && end + 1 == bytes.len();
                    assert!(rows_are_lost || line_end, "{format}, {end} bytes: {said}{copied}");
                }
            }
        }
        assert!(refused >= 30, "{format}: {refused}");
    }
}

#[test]
fn a_changed_bit_of_a_compressed_file_is_noticed_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    for format in ["jsonl.zst", "csv.zst", "azcopy.zst"] {
        let (bytes, whole) = written(format);
        for (turn, at) in places(bytes.len(), 40).into_iter().enumerate() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (turn % 8);
            let (copied, said) = copied(&directory, &format.replace("azcopy", "json"), &damaged);
            match copied {
                // A bit that no decoder looks at.
                Some(copied) => assert_eq!(copied, whole, "{format}, byte {at}"),
                None => {
                    let part = directory.path().join("to/Nasty.jsonl.part");
                    let length = std::fs::metadata(&part).map_or(0, |part| part.len());
                    assert_eq!(length, 0, "{format}, byte {at}: {said}");
                }
            }
        }
    }
}

#[test]
fn what_is_damaged_is_named_with_its_line_and_column() {
    let directory = tempfile::tempdir().unwrap();
    for (name, contents, says) in [
        ("Ord.csv", "", "there is not one byte in it"),
        ("Ord.json", "", "there is not one byte in it"),
        ("Ord.jsonl", "", "there is not one byte in it"),
        ("Ord.csv", "\n", "line 2, column 1: there is no header"),
        ("Ord.json", " ", "line 1, column 2: the document is empty"),
        (
            "Ord.csv",
            "PartitionKey,RowKey,A\np,r,x\np,r",
            "record 2, line 3, column 4: The row has 2 fields",
        ),
        (
            "Ord.csv",
            "PartitionKey,RowKey,A\np,r,\"x\"y\n",
            "line 2, column 8: text stands behind the closing quote",
        ),
        (
            "Ord.csv",
            "PartitionKey,RowKey,A\np,r,x\np,r,\"é",
            "line 3, column 5: the file ends within the field",
        ),
        (
            "Ord.csv",
            "PartitionKey,RowKey,\"A",
            "line 1, column 21: the file ends within the field",
        ),
        (
            "Ord.json",
            "[{\"PartitionKey\":\"p\",\"RowKey\":\"r\"},\n",
            "line 2, column 1: the document ends",
        ),
        (
            "Ord.json",
            "[{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}]\n[]",
            "line 2, column 1: text stands behind",
        ),
        (
            "Ord.jsonl",
            "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n{\"PartitionKey\":\"p",
            "record 2, line 2, column 1",
        ),
        (
            "__azurite_db_table__.json",
            "{\"collections\":[",
            "column 17: the document ends",
        ),
    ] {
        let damaged = file(&directory, name, contents);
        let target = directory.path().join("to");
        let said = ends_with(1, &quietly(text(&damaged), text(&target), &["--format", "jsonl"]));
        assert!(said.contains(says) && said.contains(name), "{contents}: {said}");
        let _ = std::fs::remove_dir_all(&target);
    }
}

#[test]
fn a_table_without_entities_is_a_whole_file_in_every_format() {
    for format in ["jsonl", "csv", "azcopy", "jsonl.zst", "csv.zst", "azcopy.zst"] {
        let directory = tempfile::tempdir().unwrap();
        let begin = file(&directory, "Empty.jsonl", "\n");
        let (first, second) = (directory.path().join("a"), directory.path().join("b"));
        succeeds(&quietly(text(&begin), text(&first), &["--format", format]));
        let from = first.join(format!("Empty.{}", format.replace("azcopy", "json")));
        let said = succeeds(&["--from", text(&from), "--to", text(&second), "--format", "jsonl"]);
        assert!(said.contains("Empty: 0 read"), "{said}");
        let standard: &Path = &second.join("Empty.jsonl");
        assert_eq!(std::fs::read_to_string(standard).unwrap(), "\n");
    }
}
