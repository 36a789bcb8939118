//! A JSON reader that refuses values whose tree would take too much memory.
//!
//! A tree takes up to a hundred times the bytes of its text: six megabytes of empty objects took
//! hundreds. So the values are counted before a tree is built.

use serde_json::Value;

/// Maximum number of values in one response. A full page of a catalogue, with two hundred complete
/// records, has half as many.
const MAX_VALUES: usize = 400_000;

/// Reads JSON; `None` if the text is not JSON, or has more than [`MAX_VALUES`] values.
pub(crate) fn read(bytes: &[u8]) -> Option<Value> {
    if has_too_many_values(bytes) {
        return None;
    }
    serde_json::from_slice(bytes).ok()
}

/// Tells whether a text has more than [`MAX_VALUES`] values. The count includes separators within
/// strings, so it may be too high, never too low.
fn has_too_many_values(bytes: &[u8]) -> bool {
    let marks = bytes
        .iter()
        .filter(|byte| matches!(byte, b'{' | b'[' | b',' | b':'));
    marks.take(MAX_VALUES + 1).count() > MAX_VALUES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_very_many_values_are_not_read() {
        let many = format!("[{}{{}}]", "{},".repeat(1_000_000));
        assert_eq!(read(many.as_bytes()), None);
        let few = format!("[{}{{}}]", "{},".repeat(1_000));
        assert!(read(few.as_bytes()).is_some());
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(4 << 20));
        assert!(read(text.as_bytes()).is_some(), "a long text is one value");
        assert_eq!(read(b"<html>"), None);
    }
}
