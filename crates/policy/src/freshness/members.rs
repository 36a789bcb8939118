//! The members of `Cache-Control` and `Pragma` lines: names, and arguments as tokens or quoted
//! strings (RFC 9110 section 5.6).

use http::{HeaderMap, HeaderName};

/// A member of a list of directives.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// The name in lower case.
    pub(super) name: String,
    /// The text after the equals sign, without quotes and escapes.
    pub(super) argument: Option<Vec<u8>>,
}

/// The members of all lines of a field.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    pub(super) list: Vec<Member>,
    /// Set if a part violates the grammar. Names in that part still apply, because `no-store` in a
    /// malformed line means `no-store`. Lifetimes in that part are ignored.
    pub(super) malformed: bool,
}

impl Members {
    /// Parses all lines of a field.
    pub(super) fn read(headers: &HeaderMap, field: &HeaderName) -> Self {
        let mut members = Self::default();
        for line in headers.get_all(field) {
            members.read_line(line.as_bytes());
        }
        members
    }

    fn read_line(&mut self, line: &[u8]) {
        let parts = split_outside_quotes(line).unwrap_or_else(|| {
            self.malformed = true;
            line.split(|byte| *byte == b',').collect()
        });
        for part in parts {
            let part = part.trim_ascii();
            if part.is_empty() {
                continue;
            }
            if let Some(member) = parse_member(part) {
                self.list.push(member);
            } else {
                self.read_malformed(part);
            }
        }
    }

    /// Finds the names in a malformed part such as `max-age=0; no-store` or `max-age = 60`.
    fn read_malformed(&mut self, part: &[u8]) {
        self.malformed = true;
        let pieces = part.split(|byte| matches!(byte, b';' | b' ' | b'\t' | b'"'));
        for piece in pieces {
            let name = piece.split(|byte| *byte == b'=').next().unwrap_or(piece);
            if let Some(name) = token(name) {
                let argument = None;
                self.list.push(Member { name, argument });
            }
        }
    }
}

/// Splits a line at the commas outside of quoted strings. Returns `None` if a quoted string has no
/// end.
pub(super) fn split_outside_quotes(line: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (at, byte) in line.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                parts.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&line[start..]);
    (!quoted).then_some(parts)
}

fn parse_member(part: &[u8]) -> Option<Member> {
    let Some(equals) = part.iter().position(|byte| *byte == b'=') else {
        let (name, argument) = (token(part)?, None);
        return Some(Member { name, argument });
    };
    let (name, argument) = (token(&part[..equals])?, &part[equals + 1..]);
    let argument = match argument {
        [b'"', inner @ .., b'"'] => unescape(inner)?,
        // RFC 9111 section 5.2: recipients accept both forms of an argument.
        plain if is_token(plain) => plain.to_vec(),
        _ => return None,
    };
    Some(Member {
        name,
        argument: Some(argument),
    })
}

/// Removes the escapes of a quoted string. Returns `None` if it contains a bare quote or a trailing
/// escape.
fn unescape(inner: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return None,
            b'\\' => text.push(*bytes.next()?),
            _ => text.push(*byte),
        }
    }
    Some(text)
}

/// Returns a token in lower case.
fn token(bytes: &[u8]) -> Option<String> {
    is_token(bytes).then(|| String::from_utf8_lossy(bytes).to_ascii_lowercase())
}

/// Returns whether bytes are a token (RFC 9110 section 5.6.2).
pub(super) fn is_token(bytes: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (Vec<(String, Option<String>)>, bool) {
        let mut members = Members::default();
        members.read_line(line.as_bytes());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let list = members.list.into_iter();
        let list = list.map(|member| (member.name, member.argument.map(text)));
        (list.collect(), members.malformed)
    }

    fn names(line: &str) -> Vec<String> {
        read(line).0.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn members_are_tokens_with_plain_or_quoted_arguments() {
        let (list, malformed) = read(r#"No-Store,max-age="36\00" ,, x="a, \"b\", c=1" , y='q'"#);
        let expected = [
            ("no-store", None),
            ("max-age", Some("3600")),
            ("x", Some(r#"a, "b", c=1"#)),
            ("y", Some("'q'")),
        ];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.map(str::to_owned)));
        assert_eq!(list, expected);
        assert!(!malformed);
    }

    #[test]
    fn names_are_found_in_malformed_lines_and_their_arguments_are_not_believed() {
        for (line, expected) in [
            ("max-age=0; no-store", vec!["max-age", "no-store"]),
            ("max-age = 60", vec!["max-age", "60"]),
            ("no-cache no-store", vec!["no-cache", "no-store"]),
            ("x=\"open, no-store", vec!["x", "open", "no-store"]),
            (
                "max-age=\"1\"2, private",
                vec!["max-age", "1", "2", "private"],
            ),
            ("max-age=", vec!["max-age"]),
        ] {
            assert_eq!(names(line), expected, "{line}");
            assert!(read(line).1, "{line}");
        }
        assert_eq!(read(" , ,"), (Vec::new(), false));
    }
}
