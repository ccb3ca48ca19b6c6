//! Replays the corpus of the filter's fuzz target, so that everybody runs it without a fuzzer.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "checks/filter.rs"]
mod checks;

#[test]
fn filter() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/filter");
    let mut files = 0;
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        checks::filter(&String::from_utf8_lossy(&std::fs::read(path).unwrap()));
        files += 1;
    }
    assert!(files >= 24);
}
