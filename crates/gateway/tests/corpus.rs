//! Replays the corpora of the fuzz targets, and inputs near to them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod checks;
#[path = "../../model/tests/checks/mutate.rs"]
mod mutate;

use proptest::prelude::*;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

fn replay(target: &str, least: usize, check: fn(&str)) {
    let files = corpus(target);
    assert!(files.len() >= least);
    for file in files {
        check(&String::from_utf8_lossy(&file));
    }
}

#[test]
fn batch() {
    let files = corpus("batch");
    assert!(files.len() >= 8);
    for file in files {
        checks::batch(&file);
        // Cut at any byte, and without any one byte.
        for index in 0..file.len() {
            checks::batch(&file[..index]);
            checks::batch(&[&file[..index], &file[index + 1..]].concat());
        }
    }
}

#[test]
fn url() {
    replay("url", 12, checks::url);
}

#[test]
fn token() {
    replay("token", 6, checks::token);
}

#[test]
fn xml() {
    replay("xml", 6, checks::xml);
}

proptest! {
    #[test]
    fn any_keys_come_back_from_a_url(partition_key in ".{0,20}", row_key in "[ -~]{0,20}") {
        let quoted = |key: &str| {
            let encoded: String = key.bytes().map(|b| format!("%{b:02X}")).collect();
            encoded.replace("%27", "%27%27")
        };
        checks::url(&format!("/a/t(PartitionKey='{}',RowKey='{}')", quoted(&partition_key), quoted(&row_key)));
    }

    #[test]
    fn any_path_is_read_or_refused(path in "[/a-z$()',=%0-9A-F]{0,60}|/a/t\\(.{0,40}") {
        checks::url(&path);
    }

    #[test]
    fn any_key_comes_back_from_its_token(key in ".{0,200}", text in "1![0-9]{1,2}![A-Za-z0-9*_-]{0,20}") {
        checks::token(&key);
        checks::token(&text);
    }

    #[test]
    fn bytes_between_boundaries_do_not_matter(content in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut body = b"multipart/mixed; boundary=b\n--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\
                         Content-Type: application/http\r\n\r\nPOST t HTTP/1.1\r\nContent-Length: "
            .to_vec();
        body.extend_from_slice(content.len().to_string().as_bytes());
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(&content);
        body.extend_from_slice(b"\r\n--c--\r\n--b--\r\n");
        checks::batch(&body);
    }
}

#[test]
#[ignore = "takes as long as FUZZ_SECONDS says"]
fn changed_corpora() {
    let text = |check: fn(&str)| move |bytes: &[u8]| check(&String::from_utf8_lossy(bytes));
    mutate::mutate(&corpus("batch"), checks::batch);
    mutate::mutate(&corpus("url"), text(checks::url));
    mutate::mutate(&corpus("token"), text(checks::token));
    mutate::mutate(&corpus("xml"), text(checks::xml));
}
