//! Configuration files.
#![no_main]

#[path = "../../crates/hub/tests/it/parsers.rs"]
mod parsers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parsers::read_configuration(bytes));
