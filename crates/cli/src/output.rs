//! stdout is data, stderr is for people. A closed pipe ends the output, not the program's good manners.

use std::io::Write;

use serde_json::Value;

/// Writes data to stdout.
pub(crate) fn data(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    // Whoever closed the pipe has seen enough.
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Writes a line to stdout.
pub(crate) fn line(text: &str) {
    data(format!("{text}\n").as_bytes());
}

/// Writes JSON to stdout, one object.
pub(crate) fn json(value: &Value) {
    line(&format!("{value:#}"));
}

/// Writes a line for a person to stderr.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes what went wrong.
pub(crate) fn complain(message: &str) {
    tell(&format!("docstokg: {message}"));
}

/// Writes what could be done about it.
pub(crate) fn hint(message: &str) {
    tell(&format!("hint: {message}"));
}

/// Rounds a time up to whole milliseconds.
pub(crate) fn millis(length: std::time::Duration) -> u64 {
    u64::try_from(length.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}
