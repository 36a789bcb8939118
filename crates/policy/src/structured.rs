//! Structured fields (RFC 9651): the lists and dictionaries of rate headers and
//! `CDN-Cache-Control`.
//!
//! The parser is strict, as section 4.2 requires: a field that does not parse to its end is
//! ignored. Inner lists are not supported, because these fields do not use them.

/// An item with its parameters, in the order of the field.
#[derive(Debug)]
pub(crate) struct StructuredItem {
    pub(crate) value: BareValue,
    parameters: Vec<(Box<str>, BareValue)>,
}

impl StructuredItem {
    /// Returns a parameter. Of several with one name, the last one applies (RFC 9651 section
    /// 4.2.3.2).
    pub(crate) fn parameter(&self, name: &str) -> Option<&BareValue> {
        let named = |(known, _): &&(Box<str>, BareValue)| **known == *name;
        self.parameters.iter().rfind(named).map(|(_, value)| value)
    }
}

/// A value without parameters.
#[derive(Debug, PartialEq)]
pub(crate) enum BareValue {
    Integer(i64),
    /// A string or a token, because servers confuse them.
    Text(Box<str>),
    /// A byte sequence, in base64 as written.
    Bytes(Box<str>),
    /// A boolean; a key or parameter without a value is true.
    Boolean(bool),
    /// A decimal, date or display string: valid, but not used here.
    Other,
}

impl BareValue {
    /// Returns an integer that is not negative.
    pub(crate) fn as_count(&self) -> Option<u64> {
        match self {
            Self::Integer(number) => u64::try_from(*number).ok(),
            Self::Text(_) | Self::Bytes(_) | Self::Boolean(_) | Self::Other => None,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Integer(_) | Self::Bytes(_) | Self::Boolean(_) | Self::Other => None,
        }
    }
}

/// Parses a list (RFC 9651 section 4.2.1).
pub(crate) fn parse_list(text: &str) -> Option<Vec<StructuredItem>> {
    let mut parser = Parser::new(text);
    parser.members(Parser::item)
}

/// Parses a dictionary (RFC 9651 section 4.2.2). Of several members with one key, the caller uses
/// the last.
pub(crate) fn parse_dictionary(text: &str) -> Option<Vec<(Box<str>, StructuredItem)>> {
    let mut parser = Parser::new(text);
    parser.members(|parser| {
        let key = parser.key()?;
        let value = if parser.take(b'=') {
            parser.bare()?
        } else {
            BareValue::Boolean(true)
        };
        let parameters = parser.parameters()?;
        Some((key, StructuredItem { value, parameters }))
    })
}

/// The rest of a text that is parsed.
struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            rest: text.trim_matches(' ').as_bytes(),
        }
    }

    /// Parses members between commas until the end of the field.
    fn members<T>(&mut self, mut member: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut members = Vec::new();
        while !self.rest.is_empty() {
            members.push(member(self)?);
            self.take_while(|byte| matches!(byte, b' ' | b'\t'));
            if self.rest.is_empty() {
                break;
            }
            if !self.take(b',') {
                return None;
            }
            self.take_while(|byte| matches!(byte, b' ' | b'\t'));
            // A trailing comma is an error.
            self.rest.first()?;
        }
        Some(members)
    }

    fn item(&mut self) -> Option<StructuredItem> {
        let value = self.bare()?;
        let parameters = self.parameters()?;
        Some(StructuredItem { value, parameters })
    }

    fn parameters(&mut self) -> Option<Vec<(Box<str>, BareValue)>> {
        let mut parameters = Vec::new();
        while self.take(b';') {
            self.take_while(|byte| byte == b' ');
            let key = self.key()?;
            let value = if self.take(b'=') {
                self.bare()?
            } else {
                BareValue::Boolean(true)
            };
            parameters.push((key, value));
        }
        Some(parameters)
    }

    fn key(&mut self) -> Option<Box<str>> {
        let first = *self.rest.first()?;
        if !first.is_ascii_lowercase() && first != b'*' {
            return None;
        }
        let key = self.take_while(|byte| {
            byte.is_ascii_lowercase()
                || byte.is_ascii_digit()
                || matches!(byte, b'_' | b'-' | b'.' | b'*')
        });
        to_text(key)
    }

    fn bare(&mut self) -> Option<BareValue> {
        match *self.rest.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => self.token(),
            b':' => self.bytes(),
            b'?' => self.boolean(),
            b'@' => {
                self.take(b'@');
                matches!(self.number()?, BareValue::Integer(_)).then_some(BareValue::Other)
            }
            b'%' => {
                self.take(b'%');
                self.display_string()
            }
            _ => None,
        }
    }

    /// Parses an integer of up to 15 digits, or a decimal of up to 12 and 3 (RFC 9651 section
    /// 4.2.4).
    fn number(&mut self) -> Option<BareValue> {
        let sign = if self.take(b'-') { -1 } else { 1 };
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        if self.take(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            let sizes_fit = (1..=12).contains(&whole.len()) && (1..=3).contains(&fraction.len());
            return sizes_fit.then_some(BareValue::Other);
        }
        if !(1..=15).contains(&whole.len()) {
            return None;
        }
        let whole: i64 = std::str::from_utf8(whole).ok()?.parse().ok()?;
        Some(BareValue::Integer(sign * whole))
    }

    fn string(&mut self) -> Option<BareValue> {
        self.take(b'"');
        let mut text = String::new();
        loop {
            let byte = self.next()?;
            match byte {
                b'"' => return Some(BareValue::Text(text.into())),
                b'\\' => {
                    let escaped = self.next().filter(|byte| matches!(byte, b'"' | b'\\'))?;
                    text.push(char::from(escaped));
                }
                b' '..=b'~' => text.push(char::from(byte)),
                _ => return None,
            }
        }
    }

    fn token(&mut self) -> Option<BareValue> {
        let token = self.take_while(|byte| {
            byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
        });
        to_text(token).map(BareValue::Text)
    }

    fn bytes(&mut self) -> Option<BareValue> {
        self.take(b':');
        let bytes = self
            .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
        if !self.take(b':') {
            return None;
        }
        to_text(bytes).map(BareValue::Bytes)
    }

    fn boolean(&mut self) -> Option<BareValue> {
        self.take(b'?');
        match self.next()? {
            b'0' => Some(BareValue::Boolean(false)),
            b'1' => Some(BareValue::Boolean(true)),
            _ => None,
        }
    }

    fn display_string(&mut self) -> Option<BareValue> {
        if !self.take(b'"') {
            return None;
        }
        self.take_while(|byte| matches!(byte, b' '..=b'~') && byte != b'"');
        self.take(b'"').then_some(BareValue::Other)
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Consumes a byte if it is next. Returns whether it was.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.rest.iter().take_while(|byte| wanted(**byte)).count();
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }
}

fn to_text(bytes: &[u8]) -> Option<Box<str>> {
    std::str::from_utf8(bytes).ok().map(Box::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_the_types_of_the_rfc() {
        let list = parse_list(
            r#" "a\"b";q=1;q=2 , tok/en:x;flag;s="c, d" ,:aGk=:,-7,1.5,@1659578233,?1,%"f%c3%bc" "#,
        )
        .expect("a list");
        let values: Vec<_> = list.iter().map(|item| &item.value).collect();
        assert_eq!(
            values,
            [
                &BareValue::Text("a\"b".into()),
                &BareValue::Text("tok/en:x".into()),
                &BareValue::Bytes("aGk=".into()),
                &BareValue::Integer(-7),
                &BareValue::Other,
                &BareValue::Other,
                &BareValue::Boolean(true),
                &BareValue::Other,
            ]
        );
        assert_eq!(list[0].parameter("q"), Some(&BareValue::Integer(2)));
        assert_eq!(list[1].parameter("flag"), Some(&BareValue::Boolean(true)));
        assert_eq!(
            list[1].parameter("s").and_then(BareValue::as_text),
            Some("c, d")
        );
        assert_eq!(list[1].parameter("q"), None);
    }

    #[test]
    fn what_does_not_parse_to_its_end_is_no_list() {
        for text in [
            "a,",
            ",a",
            "a b",
            "a;",
            "a;Q=1",
            "a;q=",
            "\"a",
            "\"a\\n\"",
            "(a b)",
            "1234567890123456",
            "1.2345",
            "1.",
            "-",
            ":a b:",
            ":a",
            "?2",
            "@1.5",
            "limit=10",
            "\u{e9}",
        ] {
            assert!(parse_list(text).is_none(), "{text}");
        }
        assert!(parse_list("").is_some_and(|list| list.is_empty()));
    }

    #[test]
    fn dictionaries_have_keys_and_values() {
        let dictionary = parse_dictionary("limit=10;w=1, remaining=5 ,reset").expect("members");
        let keys: Vec<_> = dictionary.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["limit", "remaining", "reset"]);
        assert_eq!(dictionary[0].1.value.as_count(), Some(10));
        assert_eq!(dictionary[0].1.parameter("w"), Some(&BareValue::Integer(1)));
        assert_eq!(dictionary[2].1.value, BareValue::Boolean(true));
        assert!(parse_dictionary("Limit=10").is_none());
    }
}
