//! Replays the corpora of the fuzz targets for signatures, so that everybody runs them without a fuzzer.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "checks/sas.rs"]
mod sas_checks;
#[path = "checks/shared_key.rs"]
mod shared_key_checks;

fn replay(target: &str, check: fn(&str)) {
    let directory = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut files = 0;
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        check(&String::from_utf8_lossy(&std::fs::read(path).unwrap()));
        files += 1;
    }
    assert!(files >= 8);
}

#[test]
fn sas() {
    replay("sas", sas_checks::sas);
}

#[test]
fn shared_key() {
    replay("shared_key", shared_key_checks::shared_key);
}
