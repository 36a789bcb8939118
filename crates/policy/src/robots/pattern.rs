//! The paths of rules, with `*` for any text and `$` for the end.

/// A pattern for paths.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// The texts between the stars, normalised.
    pieces: Vec<String>,
    /// Set if the path must end with the pattern.
    anchored: bool,
    /// The length in octets, which decides between rules.
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

    /// Matches a path, as [`path`] writes it, from its beginning. The leftmost position of each
    /// piece is always sufficient, so there is no backtracking.
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

/// Writes a path in the form for comparison with patterns.
pub(super) fn path(text: &str) -> String {
    let path = literal(&normalise(text));
    if path.starts_with('/') {
        path
    } else {
        format!("/{path}")
    }
}

/// Decodes the escapes of star and dollar, after the special characters were processed.
fn literal(text: &str) -> String {
    text.replace("%2A", "*").replace("%24", "$")
}

/// Normalises escapes (RFC 9309 section 2.2.2): octets outside printable ASCII are escaped,
/// needless escapes are decoded, and hex is in upper case.
///
/// Escapes of reserved characters remain, so `%2F` is not `/`.
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

    /// Matches a path by trying every combination.
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
