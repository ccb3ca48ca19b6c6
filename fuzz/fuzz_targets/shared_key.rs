#![no_main]

#[path = "../../crates/model/tests/checks/shared_key.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|text: &str| checks::shared_key(text));
