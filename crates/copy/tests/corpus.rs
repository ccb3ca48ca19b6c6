//! Replays the corpora of the fuzz targets, and inputs near to them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod checks;
#[path = "../../model/tests/checks/mutate.rs"]
mod mutate;

type Check = fn(&[u8]);

const TARGETS: [(&str, Check); 7] = [
    ("csv", checks::csv),
    ("json_lines", checks::json_lines),
    ("json_document", checks::json_document),
    ("azurite", checks::azurite),
    ("pages", checks::pages),
    ("batch_answer", checks::batch_answer),
    ("service_xml", checks::service_xml),
];

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn files_cut_at_any_byte_and_without_any_one_byte() {
    for (target, check) in TARGETS {
        let files = corpus(target);
        assert!(files.len() >= 4, "{target}");
        for file in files {
            check(&file);
            for index in 0..file.len() {
                check(&file[..index]);
                check(&[&file[..index], &file[index + 1..]].concat());
            }
        }
    }
}

#[test]
#[ignore = "takes as long as FUZZ_SECONDS says"]
fn changed_corpora() {
    for (target, check) in TARGETS {
        mutate::mutate(&corpus(target), check);
    }
}
