//! Guards the Turtle and `TriG` parsers, which keep every open bracket and every prefix.

use std::io::{self, Read};

use super::{SharedWatch, refuse};
use crate::format::FormatLimits;
use crate::format::report::FormatProblem;

/// Maximum number of prefix declarations in one file: the parser keeps them all.
const MAX_PREFIXES: u64 = 100_000;
const MAX_PREFIX_BYTES: usize = 16 << 20;
/// Maximum length of a base with the bases that it is relative to, in bytes. The parser copies the
/// base for every IRI.
const MAX_BASE_BYTES: usize = 8 << 10;

/// The kind of declaration that the next IRI belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum IriDeclaration {
    Nothing,
    Prefix,
    Base,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum TurtleState {
    Code,
    /// After a backslash outside strings.
    Escape,
    Comment,
    Iri,
    /// After one or two quotes at the start of a string.
    Opening(u8, u8),
    /// In a string that ends at as many quotes as it began with; the quotes seen so far.
    Text {
        quote: u8,
        length: u8,
        seen: u8,
    },
    /// After a backslash in a string.
    TextEscape {
        quote: u8,
        length: u8,
    },
}

/// Passes a Turtle file on, within the limits of its parser.
pub(crate) struct TurtleGuard<R> {
    inner: R,
    max_depth: usize,
    watch: SharedWatch,
    within: TurtleState,
    depth: usize,
    prefixes: u64,
    declared: IriDeclaration,
    /// Bytes of the IRIs of all prefixes.
    prefix_bytes: usize,
    /// Maximum length of the base, in bytes.
    base_bytes: usize,
    /// Length of the base that is being declared, in bytes. `delimiter` is its first delimiter.
    iri_bytes: usize,
    delimiter: Option<u8>,
    /// The current word in lower case, up to the length of `@prefix`.
    word: [u8; 8],
    word_length: usize,
    /// The byte before the current word, or the last byte outside words.
    before_word: u8,
    line: u64,
}

impl<R: Read> TurtleGuard<R> {
    pub(crate) fn new(inner: R, limits: &FormatLimits, watch: SharedWatch) -> Self {
        Self {
            inner,
            max_depth: limits.max_depth,
            watch,
            within: TurtleState::Code,
            depth: 0,
            prefixes: 0,
            declared: IriDeclaration::Nothing,
            prefix_bytes: 0,
            base_bytes: 0,
            iri_bytes: 0,
            delimiter: None,
            word: [0; 8],
            word_length: 0,
            before_word: 0,
            line: 1,
        }
    }

    fn examine(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            // Most bytes are within IRIs, strings and comments, where few bytes matter.
            let skipped = match self.within {
                TurtleState::Comment => memchr::memchr2(b'\n', b'\r', &bytes[at..]),
                TurtleState::Iri => memchr::memchr2(b'>', b'\n', &bytes[at..]),
                TurtleState::Text { quote, seen: 0, .. } => {
                    memchr::memchr3(quote, b'\\', b'\n', &bytes[at..])
                }
                _ => Some(0),
            };
            if self.within == TurtleState::Iri && self.declared != IriDeclaration::Nothing {
                let length = skipped.unwrap_or(bytes.len() - at);
                self.declare(&bytes[at..at + length], skipped.is_some())?;
            }
            let Some(skipped) = skipped else {
                return Ok(());
            };
            at += skipped;
            self.step(bytes[at])?;
            at += 1;
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) -> io::Result<()> {
        self.line += u64::from(byte == b'\n');
        self.within = match self.within {
            TurtleState::Code => return self.code(byte),
            TurtleState::Escape => TurtleState::Code,
            TurtleState::Comment if matches!(byte, b'\n' | b'\r') => TurtleState::Code,
            TurtleState::Iri if matches!(byte, b'>' | b'\n') => TurtleState::Code,
            TurtleState::Opening(quote, 1) if byte == quote => TurtleState::Opening(quote, 2),
            TurtleState::Opening(quote, 2) if byte == quote => TurtleState::Text {
                quote,
                length: 3,
                seen: 0,
            },
            TurtleState::Opening(_, 2) => {
                // An empty string ended before this byte.
                self.within = TurtleState::Code;
                return self.code(byte);
            }
            TurtleState::Opening(quote, _) => string(quote, 1, 0, byte),
            TurtleState::Text {
                quote,
                length,
                seen,
            } => string(quote, length, seen, byte),
            TurtleState::TextEscape { quote, length } => TurtleState::Text {
                quote,
                length,
                seen: 0,
            },
            unchanged @ (TurtleState::Comment | TurtleState::Iri) => unchanged,
        };
        Ok(())
    }

    fn code(&mut self, byte: u8) -> io::Result<()> {
        match byte {
            b'[' | b'(' | b'{' => {
                self.depth += 1;
                if self.depth > self.max_depth {
                    return Err(self.refuse(format!(
                        "brackets are nested more than {} deep",
                        self.max_depth
                    )));
                }
            }
            b']' | b')' | b'}' => self.depth = self.depth.saturating_sub(1),
            b'#' => self.within = TurtleState::Comment,
            b'<' => self.within = TurtleState::Iri,
            b'\\' => self.within = TurtleState::Escape,
            b'"' | b'\'' => self.within = TurtleState::Opening(byte, 1),
            _ => (),
        }
        if byte.is_ascii_alphabetic() || byte == b'@' {
            if let Some(letter) = self.word.get_mut(self.word_length) {
                *letter = byte.to_ascii_lowercase();
            }
            self.word_length = (self.word_length + 1).min(9);
            return Ok(());
        }
        let may_precede_iri = byte.is_ascii_whitespace() || matches!(byte, b'<' | b'#');
        let length = std::mem::take(&mut self.word_length);
        let word = self.word.get(..length).unwrap_or_default();
        if word == b"@prefix" || word == b"prefix" {
            self.prefixes += 1;
            self.declared = IriDeclaration::Prefix;
            self.prefix_bytes += self.base_bytes;
            self.check_prefixes()?;
        } else if self.declared == IriDeclaration::Base && !may_precede_iri {
            self.declared = IriDeclaration::Nothing;
        }
        let is_keyword = word == b"@base" || word == b"base";
        if is_keyword && may_precede_iri && !is_in_name(self.before_word) {
            self.declared = IriDeclaration::Base;
        }
        self.before_word = byte;
        Ok(())
    }

    /// Counts a part of the IRI of a prefix or base.
    fn declare(&mut self, part: &[u8], is_last: bool) -> io::Result<()> {
        if self.declared == IriDeclaration::Prefix {
            self.prefix_bytes += part.len();
        } else {
            self.iri_bytes += part.len();
            let delimiter = part.iter().find(|byte| b":/?#".contains(byte));
            self.delimiter = self.delimiter.or(delimiter.copied());
            if is_last {
                // A relative base is added to the base before it.
                let is_whole = self.delimiter == Some(b':');
                let before = if is_whole { 0 } else { self.base_bytes };
                self.base_bytes = before + self.iri_bytes;
            }
        }
        if is_last {
            self.declared = IriDeclaration::Nothing;
            (self.iri_bytes, self.delimiter) = (0, None);
        }
        self.check_prefixes()
    }

    fn check_prefixes(&self) -> io::Result<()> {
        if self.base_bytes.max(self.iri_bytes) > MAX_BASE_BYTES {
            return Err(self.refuse(format!(
                "the base of the file grows to more than {} KiB",
                MAX_BASE_BYTES >> 10
            )));
        }
        if self.prefixes > MAX_PREFIXES || self.prefix_bytes > MAX_PREFIX_BYTES {
            return Err(self.refuse("the file declares too many prefixes".to_owned()));
        }
        Ok(())
    }

    fn refuse(&self, message: String) -> io::Error {
        refuse(&self.watch, FormatProblem::at_line(self.line, message))
    }
}

/// Returns true if a word after this byte is the rest of a prefixed name.
fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_digit() || !byte.is_ascii() || matches!(byte, b':' | b'-' | b'_' | b'%' | b'\\')
}

fn string(quote: u8, length: u8, seen: u8, byte: u8) -> TurtleState {
    match byte {
        b'\\' => TurtleState::TextEscape { quote, length },
        // A short string ends with its line at the latest; the parser reports the fault.
        b'\n' if length == 1 => TurtleState::Code,
        _ if byte == quote && seen + 1 == length => TurtleState::Code,
        _ if byte == quote => TurtleState::Text {
            quote,
            length,
            seen: seen + 1,
        },
        _ => TurtleState::Text {
            quote,
            length,
            seen: 0,
        },
    }
}

impl<R: Read> Read for TurtleGuard<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.examine(&out[..read])?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn depth_after(text: &str) -> (usize, u64) {
        let mut guard = TurtleGuard::new(
            text.as_bytes(),
            &FormatLimits::default(),
            SharedWatch::default(),
        );
        io::copy(&mut guard, &mut io::sink()).unwrap();
        (guard.depth, guard.prefixes)
    }

    #[test]
    fn brackets_count_outside_strings_iris_and_comments() {
        for (text, depth) in [
            ("[ ( {", 3),
            ("[] () a", 0),
            ("\"[\" '(' <[> # [\n[", 1),
            ("\"\"\" \" \"\" [ \"\"\" [", 1),
            ("''' \\''' [ ''' [", 1),
            ("\"\"[", 1),
            ("\"\\\"[\"", 0),
            ("a:b\\([", 1),
        ] {
            assert_eq!(depth_after(text).0, depth, "{text}");
        }
    }

    #[test]
    fn turtle_guard_counts_prefixes() {
        let text = "@prefix a: <b> .\nPREFIX c: <d>\n\"x\"@prefix-x . a:prefix a:b \"@prefix\" .";
        assert_eq!(depth_after(text).1, 4);
    }

    #[test]
    fn bases_replace_or_lengthen_each_other() {
        let base_after = |text: &str| {
            let mut guard = TurtleGuard::new(
                text.as_bytes(),
                &FormatLimits::default(),
                SharedWatch::default(),
            );
            io::copy(&mut guard, &mut io::sink()).unwrap();
            guard.base_bytes
        };
        assert_eq!(
            base_after("@base <http://a/> .\n<b> <c> <d> .\nBASE <e/>"),
            11
        );
        let many = "@base <http://example.org/> .\n@base <a/> .\n".repeat(5000);
        assert_eq!(base_after(&many), 21);
        let relative = "base:a a:base <x>, \"y\"@base, <z>; <base> x-base <b> .\n";
        assert_eq!(base_after(&relative.repeat(5000)), 0);
        assert_eq!(base_after("@base #:\n <./a:b> ."), 5);
    }

    #[test]
    fn depth_and_prefixes_are_limited() {
        let long_prefix = format!("@prefix a: <{}> .\n", "b".repeat(1 << 20));
        for text in [
            "[".repeat(5000),
            "@prefix a: <b> .\n".repeat(100_001),
            long_prefix.repeat(17),
            "@base <aaaaaaaa/> .\n".repeat(1000),
            format!("BASE <http://a/{}", "b".repeat(9000)),
            format!(
                "@base <http://{}/> .\n{}",
                "b".repeat(8000),
                "@prefix a: <b> .\n".repeat(3000)
            ),
        ] {
            let watch = SharedWatch::default();
            let limits = FormatLimits::default();
            let mut guard = TurtleGuard::new(text.as_bytes(), &limits, Arc::clone(&watch));
            assert!(io::copy(&mut guard, &mut io::sink()).is_err());
            assert!(watch.lock().failure.is_some());
        }
    }
}
