//! Rate headers: lines `name: value`.
#![no_main]
#![allow(
    dead_code,
    reason = "each target uses one of the shared entry functions"
)]

#[path = "../../crates/policy/tests/it/parsers.rs"]
mod parsers;

libfuzzer_sys::fuzz_target!(|text: &str| {
    parsers::read_rate_headers(text);
});
