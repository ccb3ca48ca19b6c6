#![no_main]

#[path = "../../crates/gateway/tests/checks/mod.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|text: &str| checks::token(text));
