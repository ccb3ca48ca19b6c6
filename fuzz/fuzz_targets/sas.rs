#![no_main]

#[path = "../../crates/model/tests/checks/sas.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|query: &str| checks::sas(query));
