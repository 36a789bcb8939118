//! The paths of rules, with `*` for anything and `$` for the end.

/// One path pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// What stands between the stars, normalised.
    pieces: Vec<String>,
    /// Whether the path must end where the pattern does.
    anchored: bool,
    /// Its length in octets, which decides between rules.
    specificity: usize,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        let (text, anchored) = text
            .strip_suffix('$')
            .map_or((text, false), |text| (text, true));
        let text = normalise(text);
        let text = if text.starts_with(['/', '*']) {
            text
        } else {
            format!("/{text}")
        };
        let specificity = text.len() + usize::from(anchored);
        Self {
            pieces: text.split('*').map(literal).collect(),
            anchored,
            specificity,
        }
    }

    pub(super) const fn specificity(&self) -> usize {
        self.specificity
    }

    /// Matches a path, as [`path`] writes it, from its beginning. The leftmost place for each piece
    /// is as good as any, so there is no going back.
    pub(super) fn matches(&self, path: &str) -> bool {
        let Some((first, rest)) = self.pieces.split_first() else {
            return true;
        };
        let Some(mut path) = path.strip_prefix(first.as_str()) else {
            return false;
        };
        let Some((last, middle)) = rest.split_last() else {
            return !self.anchored || path.is_empty();
        };
        for piece in middle {
            let Some(at) = path.find(piece.as_str()) else {
                return false;
            };
            path = &path[at + piece.len()..];
        }
        if self.anchored {
            path.ends_with(last.as_str())
        } else {
            path.contains(last.as_str())
        }
    }
}

/// Writes a path as patterns are compared with it.
pub(super) fn path(text: &str) -> String {
    let path = literal(&normalise(text));
    if path.starts_with('/') {
        path
    } else {
        format!("/{path}")
    }
}

/// Undoes the escapes of star and dollar, once they can no longer be taken for more than that.
fn literal(text: &str) -> String {
    text.replace("%2A", "*").replace("%24", "$")
}

/// Brings escapes into one form (RFC 9309 section 2.2.2): octets outside printable ASCII escaped,
/// needless escapes undone, hex in upper case.
///
/// Escapes of reserved characters stay, and so `%2F` is not `/`.
fn normalise(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut normal = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escape = (byte == b'%')
            .then(|| Some((hex(*bytes.get(at + 1)?)?, hex(*bytes.get(at + 2)?)?)))
            .flatten();
        let octet = escape.map_or(byte, |(high, low)| high * 16 + low);
        at += if escape.is_some() { 3 } else { 1 };
        let unreserved = octet.is_ascii_alphanumeric() || b"-._~".contains(&octet);
        if unreserved || (escape.is_none() && octet.is_ascii_graphic()) {
            normal.push(char::from(octet));
        } else {
            normal.push_str(&format!("%{octet:02X}"));
        }
    }
    normal
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by trying everything.
    fn oracle(pattern: &[u8], path: &[u8]) -> bool {
        match pattern.split_first() {
            None => true,
            Some((b'$', [])) => path.is_empty(),
            Some((b'*', rest)) => (0..=path.len()).any(|skipped| oracle(rest, &path[skipped..])),
            Some((byte, rest)) => path.first() == Some(byte) && oracle(rest, &path[1..]),
        }
    }

    proptest! {
        #[test]
        fn wildcards_match_as_if_everything_were_tried(
            pattern in "/[ab*/]{0,8}\\$?",
            path in "/[ab/]{0,10}",
        ) {
            let expected = oracle(pattern.as_bytes(), path.as_bytes());
            let matches = Pattern::new(&pattern).matches(&path);
            prop_assert_eq!(matches, expected, "{} {}", pattern, path);
        }

        #[test]
        fn the_normal_form_of_a_normal_form_is_itself(text in ".{0,30}") {
            let once = normalise(&text);
            prop_assert_eq!(normalise(&once), once.clone());
            prop_assert!(once.is_ascii());
        }
    }
}
