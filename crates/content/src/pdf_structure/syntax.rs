//! The syntax of PDF values, as far as the structure of a file needs it.

use std::ops::Range;

/// Maximum nesting depth of values.
const MAX_DEPTH: usize = 32;
/// Maximum number of values that a reader keeps: a value takes about ten times the memory of its
/// text.
pub(super) const MAX_VALUES: usize = 1_000_000;

/// The shortest text whose position is kept.
const LONG_TEXT_BYTES: usize = 32;

/// A value of a PDF.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PdfValue {
    /// A whole number.
    Integer(i64),
    /// A name, without its slash.
    Name(Vec<u8>),
    /// The number of an object.
    Reference(u32),
    /// Values in order.
    Array(Vec<PdfValue>),
    /// Values by name.
    Dictionary(Dictionary),
    /// A text, a fraction, a boolean or null.
    Other,
}

impl PdfValue {
    pub(super) fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(values) => Some(values),
            _ => None,
        }
    }

    pub(super) fn as_dictionary(&self) -> Option<&Dictionary> {
        match self {
            Self::Dictionary(dictionary) => Some(dictionary),
            _ => None,
        }
    }

    /// Tells whether this value is the given name.
    pub(super) fn is_name(&self, name: &[u8]) -> bool {
        matches!(self, Self::Name(own) if own == name)
    }
}

/// Values by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Dictionary(Vec<(Vec<u8>, PdfValue)>);

impl Dictionary {
    pub(super) fn get(&self, name: &[u8]) -> Option<&PdfValue> {
        let found = self.0.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value)
    }

    /// Returns the non-negative whole number under a name.
    pub(super) fn number(&self, name: &[u8]) -> Option<u64> {
        u64::try_from(self.get(name)?.as_integer()?).ok()
    }

    pub(super) fn reference(&self, name: &[u8]) -> Option<u32> {
        match self.get(name)? {
            PdfValue::Reference(number) => Some(*number),
            _ => None,
        }
    }

    /// Tells whether the `Type` entry is the given name.
    pub(super) fn has_type(&self, name: &[u8]) -> bool {
        self.get(b"Type").is_some_and(|kind| kind.is_name(name))
    }

    /// Returns the name of the first filter of the stream.
    pub(super) fn first_filter(&self) -> Option<&[u8]> {
        let filter = match self.get(b"Filter")? {
            PdfValue::Array(filters) => filters.first()?,
            filter => filter,
        };
        match filter {
            PdfValue::Name(name) => Some(name),
            _ => None,
        }
    }
}

/// An object with its position in the file.
pub(super) struct ObjectText {
    /// The number of the object.
    pub(super) number: u32,
    /// The value; for a stream, its dictionary.
    pub(super) value: PdfValue,
    /// The end of the value, relative to the start of the object.
    pub(super) value_end: usize,
    /// The start of the stream's data, relative to the start of the object.
    pub(super) data_at: Option<usize>,
    /// The positions of long texts in parentheses, relative to the start of the object.
    pub(super) long_texts: Vec<Range<usize>>,
}

/// Reads [`PdfValue`]s from bytes.
pub(super) struct ValueReader<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    values_left: usize,
    long_texts: Vec<Range<usize>>,
}

impl<'a> ValueReader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            values_left: MAX_VALUES,
            long_texts: Vec::new(),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips white space and comments.
    pub(super) fn skip_space(&mut self) {
        while let Some(byte) = self.peek() {
            if byte == b'%' {
                while self
                    .peek()
                    .is_some_and(|byte| !matches!(byte, b'\n' | b'\r'))
                {
                    self.at += 1;
                }
            } else if is_space(byte) {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    /// Reads a keyword or a number, up to the next delimiter.
    pub(super) fn word(&mut self) -> &'a [u8] {
        self.skip_space();
        let begin = self.at;
        while self.peek().is_some_and(is_regular) {
            self.at += 1;
        }
        &self.bytes[begin..self.at]
    }

    /// Consumes a keyword, if the keyword is next.
    pub(super) fn takes(&mut self, keyword: &[u8]) -> bool {
        let begin = self.at;
        let is_it = self.word() == keyword;
        if !is_it {
            self.at = begin;
        }
        is_it
    }

    /// Reads a non-negative whole number.
    pub(super) fn number(&mut self) -> Option<u64> {
        std::str::from_utf8(self.word()).ok()?.parse().ok()
    }

    /// Reads an object: number, generation, value, and the position of its data.
    pub(super) fn object(&mut self) -> Option<ObjectText> {
        let number = u32::try_from(self.number()?).ok()?;
        self.number()?;
        // The `obj` keyword may be stuck to the following text.
        self.skip_space();
        if !self.bytes.get(self.at..)?.starts_with(b"obj") {
            return None;
        }
        self.at += 3;
        let value = self.value(0)?;
        let value_end = self.at;
        let mut data_at = None;
        if self.takes(b"stream") {
            let rest = self.bytes.get(self.at..)?;
            let line = match rest {
                [b'\r', b'\n', ..] => 2,
                [b'\r' | b'\n', ..] => 1,
                _ => 0,
            };
            data_at = Some(self.at + line);
        }
        Some(ObjectText {
            number,
            value,
            value_end,
            data_at,
            long_texts: std::mem::take(&mut self.long_texts),
        })
    }

    /// Reads a value. Returns `None` if the bytes end within it, or it has more than [`MAX_VALUES`]
    /// values.
    pub(super) fn value(&mut self, depth: usize) -> Option<PdfValue> {
        self.values_left = self.values_left.checked_sub(1)?;
        if depth > MAX_DEPTH {
            return None;
        }
        self.skip_space();
        match (self.peek()?, self.bytes.get(self.at + 1)) {
            (b'<', Some(b'<')) => {
                self.at += 2;
                self.dictionary(depth)
            }
            (b'<', _) => self.skip_past(b'>'),
            (b'(', _) => self.skip_text(),
            (b'[', _) => {
                self.at += 1;
                self.array(depth)
            }
            (b'/', _) => Some(PdfValue::Name(self.name())),
            (byte, _) if is_regular(byte) => Some(self.number_or_reference()),
            _ => None,
        }
    }

    fn dictionary(&mut self, depth: usize) -> Option<PdfValue> {
        let mut entries = Vec::new();
        loop {
            self.skip_space();
            match self.peek()? {
                b'>' => {
                    self.at = (self.at + 2).min(self.bytes.len());
                    return Some(PdfValue::Dictionary(Dictionary(entries)));
                }
                b'/' => {
                    let name = self.name();
                    entries.push((name, self.value(depth + 1)?));
                }
                // Some programs write stray words here.
                _ => {
                    self.value(depth + 1)?;
                }
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<PdfValue> {
        let mut values = Vec::new();
        loop {
            self.skip_space();
            if self.peek()? == b']' {
                self.at += 1;
                return Some(PdfValue::Array(values));
            }
            values.push(self.value(depth + 1)?);
        }
    }

    fn name(&mut self) -> Vec<u8> {
        self.at += 1;
        let begin = self.at;
        while self.peek().is_some_and(is_regular) {
            self.at += 1;
        }
        self.bytes[begin..self.at].to_vec()
    }

    fn number_or_reference(&mut self) -> PdfValue {
        let word = self.word();
        let Some(number) = parse(word) else {
            return PdfValue::Other;
        };
        let behind = self.at;
        if let Ok(object) = u32::try_from(number)
            && parse(self.word()).is_some()
            && self.takes(b"R")
        {
            return PdfValue::Reference(object);
        }
        self.at = behind;
        PdfValue::Integer(number)
    }

    fn skip_past(&mut self, end: u8) -> Option<PdfValue> {
        while self.peek()? != end {
            self.at += 1;
        }
        self.at += 1;
        Some(PdfValue::Other)
    }

    fn skip_text(&mut self) -> Option<PdfValue> {
        let (begin, mut open) = (self.at, 0_usize);
        loop {
            match self.peek()? {
                b'\\' => self.at += 1,
                b'(' => open += 1,
                b')' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                if self.at - begin >= LONG_TEXT_BYTES {
                    self.long_texts.push(begin..self.at);
                }
                return Some(PdfValue::Other);
            }
        }
    }
}

fn parse(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b'\0' | b'\t' | b'\n' | b'\x0c' | b'\r' | b' ')
}

/// Tells whether a byte may be part of a name or a number.
pub(crate) const fn is_regular(byte: u8) -> bool {
    !is_space(byte)
        && !matches!(
            byte,
            b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%'
        )
}
