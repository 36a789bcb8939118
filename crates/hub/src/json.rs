//! JSON for people and files: without control characters, and with times in whole milliseconds.

use std::time::Duration;

/// Escapes DEL and the C1 control characters in JSON text. JSON has these only in strings, where
/// the escape has the same meaning.
#[must_use]
pub fn escape_controls(json: String) -> String {
    let is_control = |letter: char| matches!(letter, '\u{7f}'..='\u{9f}');
    if !json.contains(is_control) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if is_control(letter) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Converts a duration to milliseconds. The result is rounded up, so that waiting for it is long
/// enough.
#[must_use]
pub fn whole_millis(length: Duration) -> u64 {
    u64::try_from(length.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_means_the_same_and_steers_no_terminal() {
        let text = "a\u{9b}31m\u{7f}\u{1b}[2Jé";
        let json = escape_controls(serde_json::to_string(text).unwrap());
        assert_eq!(json, r#""a\u009b31m\u007f\u001b[2Jé""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
