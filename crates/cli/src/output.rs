//! stdout is data, stderr is for people. A closed pipe ends the output, not the program's good
//! manners.

use std::borrow::Cow;
use std::io::Write;

use serde_json::Value;

/// Makes text fit for a terminal: what would steer it is shown, not done. New lines and tabs stay.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let steers = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if steers(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Writes text to stdout: tables and lists that may hold what others wrote.
pub(crate) fn text(text: &str) {
    data(plain(text).as_bytes());
}

/// Writes data to stdout, as it is.
pub(crate) fn data(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    // Whoever closed the pipe has seen enough.
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Writes a line to stdout.
pub(crate) fn line(text: &str) {
    data(format!("{}\n", plain(text)).as_bytes());
}

/// Writes JSON to stdout, one object.
pub(crate) fn json(value: &Value) {
    data(
        format!(
            "{}\n",
            docstokg_hub::json::escape_controls(format!("{value:#}"))
        )
        .as_bytes(),
    );
}

/// Writes a line for a person to stderr.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", plain(text));
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
