//! Entity tags (RFC 9110 section 8.8.3).

/// A well-formed entity tag. Malformed tags match no other tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntityTag<'a> {
    weak: bool,
    opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let bytes = bytes.trim_ascii();
        let (weak, quoted) = match bytes.strip_prefix(b"W/") {
            Some(rest) => (true, rest),
            None => (false, bytes),
        };
        let [b'"', opaque @ .., b'"'] = quoted else {
            return None;
        };
        let allowed = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..);
        opaque.iter().all(allowed).then_some(Self { weak, opaque })
    }

    pub(super) fn is_weak(self) -> bool {
        self.weak
    }

    /// Compares two tags as RFC 9110 section 8.8.3.2 does for validation: weakness is ignored.
    pub(super) fn matches_weakly(self, other: Self) -> bool {
        self.opaque == other.opaque
    }

    /// Compares two tags as RFC 9110 section 8.8.3.2 does for ranges: both must be strong.
    pub(super) fn matches_strongly(self, other: Self) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }
}

/// Splits a list of entity tags at the commas between them. A tag may contain commas, and a
/// backslash in a tag is not an escape.
pub(super) fn split_tags(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    list.split(move |byte| {
        if *byte == b'"' {
            quoted = !quoted;
        }
        *byte == b',' && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_as_the_table_of_the_rfc_says() {
        // The examples of RFC 9110 section 8.8.3.2.
        for (one, other, strong, weak) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            let tag = |text: &'static str| EntityTag::parse(text.as_bytes()).expect("a tag");
            let (one, other) = (tag(one), tag(other));
            assert_eq!(one.matches_strongly(other), strong, "{one:?} {other:?}");
            assert_eq!(one.matches_weakly(other), weak, "{one:?} {other:?}");
        }
    }

    #[test]
    fn malformed_tags_are_none_and_commas_in_tags_do_not_separate() {
        for text in [
            "", "abc", "\"a", "w/\"a\"", "W\"a\"", "\"a b\"", "\"a\"b\"", "\"", "W/",
        ] {
            assert_eq!(EntityTag::parse(text.as_bytes()), None, "{text}");
        }
        let tags: Vec<_> = split_tags(b"\"a,b\", W/\"c\\\" ,x").collect();
        assert_eq!(tags, [&b"\"a,b\""[..], b" W/\"c\\\" ", b"x"]);
    }
}
