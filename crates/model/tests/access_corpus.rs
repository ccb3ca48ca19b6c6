//! Replays the corpora of the fuzz targets for signatures, so that everybody runs them without a fuzzer.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "checks/mutate.rs"]
mod mutate;
#[path = "checks/sas.rs"]
mod sas_checks;
#[path = "checks/shared_key.rs"]
mod shared_key_checks;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(directory).unwrap();
    files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
}

fn replay(target: &str, check: fn(&str)) {
    let files = corpus(target);
    assert!(files.len() >= 8);
    for file in files {
        check(&String::from_utf8_lossy(&file));
    }
}

#[test]
fn sas() {
    replay("sas", sas_checks::sas);
}

#[test]
fn shared_key() {
    replay("shared_key", shared_key_checks::shared_key);
}

#[test]
#[ignore = "takes as long as FUZZ_SECONDS says"]
fn changed_corpora() {
    let text = |check: fn(&str)| move |bytes: &[u8]| check(&String::from_utf8_lossy(bytes));
    mutate::mutate(&corpus("sas"), text(sas_checks::sas));
    mutate::mutate(&corpus("shared_key"), text(shared_key_checks::shared_key));
}
