//! Replays the corpus of the filter's fuzz target, so that everybody runs it without a fuzzer.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "checks/filter.rs"]
mod checks;
#[path = "checks/mutate.rs"]
mod mutate;

fn corpus() -> Vec<Vec<u8>> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/filter");
    let files = std::fs::read_dir(directory).unwrap();
    files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn filter() {
    let files = corpus();
    assert!(files.len() >= 24);
    for file in files {
        checks::filter(&String::from_utf8_lossy(&file));
    }
}

#[test]
#[ignore = "takes as long as FUZZ_SECONDS says"]
fn changed_corpus() {
    mutate::mutate(&corpus(), |bytes| checks::filter(&String::from_utf8_lossy(bytes)));
}
