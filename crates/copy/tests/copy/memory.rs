//! The memory of the program stays under a bound, whatever a file says.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::program::{command, quietly, text};

/// docs/guide/move.md names 384 MiB for everything; files take less.
const MOST: u64 = 256 << 20;
/// The size that a small file grows to.
const LARGE: usize = 512 << 20;

/// The most memory that a process had, in bytes.
pub fn most_of(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Runs it to its end. Returns the status, the most memory that it had, and its messages.
fn measured(arguments: &[&str]) -> (Option<i32>, u64, String) {
    let mut child = command(arguments).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = most.max(most_of(child.id()));
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    assert!(most > 0, "it ended before its memory was seen");
    (
        output.status.code(),
        most,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// A compressed file that begins with one text and goes on with another one.
fn bomb(path: &Path, begin: &[u8], again: &[u8]) {
    let mut file = zstd::Encoder::new(std::fs::File::create(path).unwrap(), 1).unwrap();
    file.write_all(begin).unwrap();
    let block = again.repeat((1 << 20) / again.len());
    for _ in 0..LARGE / block.len() {
        file.write_all(&block).unwrap();
    }
    file.finish().unwrap();
}

#[test]
fn small_files_that_become_large_ones_take_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let header = b"PartitionKey,RowKey,A\n";
    for (ending, begin, again, says) in [
        (
            "csv",
            &b"PartitionKey"[..],
            &b"x"[..],
            "line 1, column 1: what begins here goes on",
        ),
        (
            "csv",
            b"\"PartitionKey",
            b"\n",
            "line 1, column 1: what begins here goes on",
        ),
        ("csv", b"PartitionKey", b",", "the row has more than 20000 fields"),
        ("csv", header, b"\"x", "line 2, column 4: text stands behind"),
        (
            "csv",
            b"PartitionKey,RowKey,A\np,r,\"",
            b"x\n",
            "line 2, column 1: what begins here goes on",
        ),
        ("csv", header, b",", "the row has more than 20000 fields"),
        ("csv", header, b"\r\n", ""),
        ("csv", header, b"p,r\n", ""),
        ("jsonl", b"", b"x", ""),
        ("jsonl", b"{\"PartitionKey\":\"", b"\\u0001", ""),
        ("jsonl", b"", b"{\"x\":\"\xff\xff\"}\n", ""),
        ("json", b"[", b" ", "the document ends"),
        (
            "json",
            b"[{\"PartitionKey\":\"",
            b"x",
            "line 1, column 2: what begins here goes on",
        ),
        (
            "json",
            b"[{\"PartitionKey\":",
            b"[",
            "more than 64 values stand in each other",
        ),
        ("json", b"{\"x\":", b"1", "line 1, column 1: what begins here goes on"),
        (
            "json",
            b"\xff\xfe[\0{\0\"\0",
            b"x\0",
            "line 1, column 2: what begins here goes on",
        ),
    ] {
        let from = directory.path().join(format!("Orders.{ending}.zst"));
        bomb(&from, begin, again);
        assert!(from.metadata().unwrap().len() < LARGE as u64 / 500);
        let (to, rejects) = (directory.path().join("to"), directory.path().join("rejects"));
        let arguments = quietly(
            text(&from),
            text(&to),
            &[
                "--format",
                "jsonl",
                "--rejects",
                text(&rejects),
                "--max-rejects",
                "20000",
            ],
        );
        let (status, most, said) = measured(&arguments);
        let what = String::from_utf8_lossy(begin);
        assert!(most < MOST, "{what}: {most} bytes, {said}");
        assert!(
            says.is_empty() || status == Some(1) && said.contains(says),
            "{what}: {status:?} {said}"
        );
        assert!(said.len() < 20_000, "{} bytes were said", said.len());
        let _ = std::fs::remove_dir_all(&to);
        let _ = std::fs::remove_file(&rejects);
    }
}

#[test]
fn a_compressed_file_cannot_ask_for_a_large_window() {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("Orders.jsonl.zst");
    // A frame's header that asks for 2 GiB.
    std::fs::write(&from, b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00").unwrap();
    let to = directory.path().join("to");
    let output = command(&quietly(text(&from), text(&to), &[])).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("a window of more than 8 MiB"), "{said}");
}
