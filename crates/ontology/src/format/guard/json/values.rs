//! Values that are JSON by its grammar and that its readers refuse or read differently: numbers
//! beyond a double, and halves of characters.

/// The longest number that is judged: more digits than the largest double has.
const MAX_NUMBER_BYTES: usize = 1024;
/// How much of a number is quoted.
const QUOTED_NUMBER_BYTES: usize = 24;

/// A search for such values in JSON that passes by.
#[derive(Debug, Default)]
pub(super) struct ValueScan {
    /// The beginning of the current number.
    number: Vec<u8>,
    /// The value of the current `\u` escape, and how many of its digits it has.
    escape: Option<(u32, u8)>,
    /// The first half of a character, whose second half has to follow.
    first_half: Option<u32>,
}

impl ValueScan {
    /// Looks at bytes outside of texts; says which number is too large.
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

    /// Looks at bytes of a text between its escapes.
    pub(super) fn pass_text(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut bytes = bytes.iter();
        while let Some((value, digits)) = self.escape {
            let Some(&byte) = bytes.next() else {
                return Ok(());
            };
            let Some(digit) = char::from(byte).to_digit(16) else {
                // The reader says that this is no escape.
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

    /// Looks at the byte after a backslash.
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

    /// Ends a text, or what may be of one character in it.
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
