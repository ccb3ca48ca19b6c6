#![no_main]

#[path = "../../crates/model/tests/checks/filter.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|text: &str| checks::filter(text));
