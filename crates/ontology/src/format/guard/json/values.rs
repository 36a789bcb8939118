//! Refuses JSON values that the grammar allows, but that readers refuse or interpret differently:
//! numbers beyond the range of a double, and incomplete surrogate pairs.

/// Maximum length of a number that is checked, in bytes: more digits than the largest double has.
const MAX_NUMBER_BYTES: usize = 1024;
/// Number of bytes of a number that a message quotes.
const QUOTED_NUMBER_BYTES: usize = 24;

/// Finds numbers beyond a double and incomplete surrogate pairs in a JSON text as its bytes pass.
#[derive(Debug, Default)]
pub(super) struct ValueScan {
    /// The bytes of the current number, up to [`MAX_NUMBER_BYTES`].
    number: Vec<u8>,
    /// The value of the current `\u` escape, and the number of its digits so far.
    escape: Option<(u32, u8)>,
    /// The first half of a surrogate pair, whose second half must follow.
    first_half: Option<u32>,
}

impl ValueScan {
    /// Scans bytes outside of strings. Returns an error that quotes the number if it is too large.
    pub(super) fn pass_code(&mut self, bytes: &[u8]) -> Result<(), String> {
        for &byte in bytes {
            let is_first = byte.is_ascii_digit() || byte == b'-';
            let is_further = is_first || matches!(byte, b'+' | b'.' | b'e' | b'E');
            if is_first || (is_further && !self.number.is_empty()) {
                if self.number.len() < MAX_NUMBER_BYTES {
                    self.number.push(byte);
                }
            } else if !self.number.is_empty() {
                self.end_number()?;
            }
        }
        Ok(())
    }

    fn end_number(&mut self) -> Result<(), String> {
        let number = std::mem::take(&mut self.number);
        let text = str::from_utf8(&number).unwrap_or_default();
        if text.parse::<f64>().is_ok_and(f64::is_infinite) {
            let quoted: String = text.chars().take(QUOTED_NUMBER_BYTES).collect();
            let rest = if quoted.len() < text.len() { "…" } else { "" };
            return Err(format!("the number {quoted}{rest} is too large to be read"));
        }
        Ok(())
    }

    /// Scans bytes of a string that are not part of an escape.
    pub(super) fn pass_text(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut bytes = bytes.iter();
        while let Some((value, digits)) = self.escape {
            let Some(&byte) = bytes.next() else {
                return Ok(());
            };
            let Some(digit) = char::from(byte).to_digit(16) else {
                // An incomplete escape is reported by the reader.
                (self.escape, self.first_half) = (None, None);
                return Ok(());
            };
            let value = value * 16 + digit;
            self.escape = (digits < 3).then_some((value, digits + 1));
            if self.escape.is_none() {
                self.end_escape(value)?;
            }
        }
        if bytes.len() > 0 {
            self.end_text()
        } else {
            Ok(())
        }
    }

    /// Scans the byte after a backslash.
    pub(super) fn pass_escaped(&mut self, byte: u8) -> Result<(), String> {
        if byte == b'u' {
            self.escape = Some((0, 0));
            return Ok(());
        }
        self.end_text()
    }

    fn end_escape(&mut self, unit: u32) -> Result<(), String> {
        match (self.first_half.take(), unit) {
            (None, 0xD800..=0xDBFF) => self.first_half = Some(unit),
            (None, 0xDC00..=0xDFFF) => return Err(half(unit)),
            (Some(_), 0xDC00..=0xDFFF) | (None, _) => (),
            (Some(first), _) => return Err(half(first)),
        }
        Ok(())
    }

    /// Records that a string ends, or that the next character is not an escape. Returns an error if
    /// a surrogate pair is incomplete.
    pub(super) fn end_text(&mut self) -> Result<(), String> {
        self.escape = None;
        self.first_half
            .take()
            .map_or(Ok(()), |first| Err(half(first)))
    }
}

fn half(unit: u32) -> String {
    format!("a text has \\u{unit:04x}, half of a character, without the other half")
}
