//! Splits Rust source into code, comments and strings.
//!
//! Strings in all their forms, nested block comments, characters and lifetimes are distinguished;
//! everything else is code.

/// The kind of a piece of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegionKind {
    /// Everything that is neither a comment nor a string.
    Code,
    /// A line comment, or a block comment with those nested in it.
    Comment,
    /// A string or a character, with its quotes.
    Text,
}

/// A piece of source, by bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourceRegion {
    pub(super) kind: RegionKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Splits a file into [`SourceRegion`]s that follow each other without gaps.
pub(super) fn scan(text: &str) -> Vec<SourceRegion> {
    let bytes = text.as_bytes();
    let mut regions = Vec::new();
    let (mut at, mut code_from) = (0, 0);
    while at < bytes.len() {
        let Some((kind, end)) = piece_at(bytes, at) else {
            at = end_of_code(bytes, at);
            continue;
        };
        if code_from < at {
            regions.push(SourceRegion {
                kind: RegionKind::Code,
                start: code_from,
                end: at,
            });
        }
        regions.push(SourceRegion {
            kind,
            start: at,
            end,
        });
        (at, code_from) = (end, end);
    }
    if code_from < bytes.len() {
        regions.push(SourceRegion {
            kind: RegionKind::Code,
            start: code_from,
            end: bytes.len(),
        });
    }
    regions
}

/// Returns the comment or string that begins at a byte, with its end.
fn piece_at(bytes: &[u8], at: usize) -> Option<(RegionKind, usize)> {
    let rest = &bytes[at..];
    match rest[0] {
        b'/' if rest.starts_with(b"//") => {
            let length = rest.iter().position(|byte| *byte == b'\n');
            Some((RegionKind::Comment, at + length.unwrap_or(rest.len())))
        }
        b'/' if rest.starts_with(b"/*") => Some((RegionKind::Comment, end_of_block(bytes, at))),
        b'"' => Some((RegionKind::Text, end_of_string(bytes, at + 1))),
        b'\'' => end_of_character(bytes, at).map(|end| (RegionKind::Text, end)),
        b'r' | b'b' | b'c' => end_of_prefixed(bytes, at).map(|end| (RegionKind::Text, end)),
        _ => None,
    }
}

/// Returns the end of the word or the single byte of code at a byte. A word is skipped as a whole,
/// so that the prefix of a string is not found inside a word.
fn end_of_code(bytes: &[u8], at: usize) -> usize {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    let length = bytes[at..].iter().take_while(|byte| is_word(byte)).count();
    at + length.max(1)
}

fn end_of_block(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if bytes[at..].starts_with(b"*/") {
            (at, depth) = (at + 2, depth - 1);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Returns the end of a string with escapes, starting after its opening quote.
fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the end of a character; `None` for a lifetime or a label.
fn end_of_character(bytes: &[u8], start: usize) -> Option<usize> {
    let first = *bytes.get(start + 1)?;
    if first == b'\\' {
        // The escaped byte may be a quote, so the search for the closing quote begins after it.
        let behind = start + 3;
        let length = bytes
            .get(behind..)?
            .iter()
            .position(|byte| *byte == b'\'')?;
        return Some(behind + length + 1);
    }
    let length = match first {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    let close = start + 1 + length;
    (bytes.get(close) == Some(&b'\'')).then_some(close + 1)
}

/// Returns the end of a string or a byte with a prefix: `r"`, `r#"`, `b"`, `br"`, `b'`, `c"`,
/// `cr"`.
fn end_of_prefixed(bytes: &[u8], start: usize) -> Option<usize> {
    let rest = &bytes[start..];
    let letters = rest
        .iter()
        .take_while(|byte| byte.is_ascii_lowercase())
        .count();
    let behind = start + letters;
    match &rest[..letters] {
        b"r" | b"br" | b"cr" => {
            let hashes = bytes[behind..]
                .iter()
                .take_while(|byte| **byte == b'#')
                .count();
            let open = behind + hashes;
            (bytes.get(open) == Some(&b'"')).then(|| end_of_raw(bytes, open + 1, hashes))
        }
        b"b" if bytes.get(behind) == Some(&b'\'') => end_of_character(bytes, behind),
        b"b" | b"c" if bytes.get(behind) == Some(&b'"') => Some(end_of_string(bytes, behind + 1)),
        _ => None,
    }
}

fn end_of_raw(bytes: &[u8], from: usize, hashes: usize) -> usize {
    let closes = |at: &usize| {
        let behind = &bytes[*at + 1..];
        bytes[*at] == b'"'
            && behind.len() >= hashes
            && behind[..hashes].iter().all(|byte| *byte == b'#')
    };
    (from..bytes.len())
        .find(closes)
        .map_or(bytes.len(), |at| at + 1 + hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pieces of one kind.
    fn pieces(text: &str, kind: RegionKind) -> Vec<&str> {
        let regions = scan(text).into_iter().filter(|region| region.kind == kind);
        regions
            .map(|region| &text[region.start..region.end])
            .collect()
    }

    #[test]
    fn regions_follow_each_other_without_gaps() {
        let text = "fn a() { /* x /* y */ z */ let b = \"c // d\"; // e\n'f: loop {} }";
        let regions = scan(text);
        assert_eq!(regions[0].start, 0);
        assert!(
            regions.windows(2).all(|pair| pair[0].end == pair[1].start),
            "{regions:?}"
        );
        assert_eq!(regions.last().map(|last| last.end), Some(text.len()));
    }

    #[test]
    fn comments_nest_and_end_with_their_line() {
        let text = "a /* 1 /* 2 */ \" 3 */ b // 4 \"\nc /// 5\n/* open";
        let comments = pieces(text, RegionKind::Comment);
        assert_eq!(
            comments,
            ["/* 1 /* 2 */ \" 3 */", "// 4 \"", "/// 5", "/* open"]
        );
    }

    #[test]
    fn strings_of_every_form_are_skipped() {
        let text =
            r###"f("a\"b", r"c\", r#"d"e"#, b"f", br##"g"#h"##, c"i", cr#"j"#, "k // l") // m"###;
        let strings = pieces(text, RegionKind::Text);
        let expected = [
            r#""a\"b""#,
            r#"r"c\""#,
            r##"r#"d"e"#"##,
            r#"b"f""#,
            r###"br##"g"#h"##"###,
            r#"c"i""#,
            r##"cr#"j"#"##,
            r#""k // l""#,
        ];
        assert_eq!(strings, expected);
        assert_eq!(pieces(text, RegionKind::Comment), ["// m"]);
    }

    #[test]
    fn characters_are_texts_and_lifetimes_are_code() {
        let text = r#"match c { '"' | '\'' | '\\' | '\u{1F600}' | 'ä' | '€' | '😀' | b'"' => f::<'a>(&'static x), _ => r#type }"#;
        let texts = pieces(text, RegionKind::Text);
        let expected = [
            "'\"'",
            r"'\''",
            r"'\\'",
            r"'\u{1F600}'",
            "'ä'",
            "'€'",
            "'😀'",
            "b'\"'",
        ];
        assert_eq!(texts, expected);
        let code = pieces(text, RegionKind::Code).concat();
        assert!(
            code.contains("f::<'a>(&'static x)") && code.contains("r#type"),
            "{code}"
        );
    }

    #[test]
    fn prefixes_inside_a_word_open_nothing() {
        assert_eq!(pieces("bar\"x\"", RegionKind::Text), ["\"x\""]);
        assert_eq!(pieces("br_(1) r#fn", RegionKind::Text), [""; 0]);
    }
}
