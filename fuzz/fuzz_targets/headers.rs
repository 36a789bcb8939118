//! `Retry-After` and `Date`: the value, a zero byte, the date.
#![no_main]
#![allow(
    dead_code,
    reason = "each target uses one of the shared entry functions"
)]

#[path = "../../crates/policy/tests/it/parsers.rs"]
mod parsers;

use docstokg_policy::time::Timestamp;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (value, date) = match text.split_once('\0') {
        Some((value, date)) => (value, Some(date)),
        None => (text, None),
    };
    parsers::read_retry_after(value, date, Timestamp::from_micros(1_700_000_000_000_000));
});
