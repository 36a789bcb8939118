//! Canonical lines of statements, and a hash over them that does not depend on their order.
//!
//! A line is that of canonical N-Triples, or of N-Quads for a statement in a named graph: one space
//! between terms, the shortest escapes, language tags in lower case, no `xsd:string`. The hash of a
//! file is the sum, modulo 2^256, of the SHA-256 of each line. The lines can be hashed in any order
//! and in parallel. A statement that occurs twice is added twice.
//!
//! Labels of blank nodes have no meaning outside their file, so the hash reads each of them as
//! `_:`. Two files with the same hash have the same statements between IRIs and literals, and as
//! many statements of each shape with blank nodes. Their blank nodes may be connected differently.
//!
//! The sum finds changes, but an attacker can construct a collision. Only the SHA-256 of the bytes
//! proves that a file is the pinned one.

use std::fmt::{self, Write as _};

use oxrdf::{GraphName, Literal, NamedOrBlankNode, Quad, Term};
use sha2::{Digest, Sha256};

/// A sum of hashes, modulo 2^256.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatementHash([u64; 4]);

impl StatementHash {
    /// Adds one statement by its canonical line.
    pub fn add_line(&mut self, line: &[u8]) {
        let digest = Sha256::digest(line);
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(digest.chunks_exact(8)) {
            *word = u64::from_be_bytes(bytes.try_into().unwrap_or([0; 8]));
        }
        self.merge(Self(words));
    }

    /// Adds all statements of another [`StatementHash`].
    pub fn merge(&mut self, other: Self) {
        let mut carry = false;
        for (sum, word) in self.0.iter_mut().zip(other.0).rev() {
            let (partial, first) = sum.overflowing_add(word);
            let (total, second) = partial.overflowing_add(u64::from(carry));
            *sum = total;
            carry = first || second;
        }
    }
}

impl fmt::Display for StatementHash {
    /// Writes 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|word| write!(f, "{word:016x}"))
    }
}

/// Writes the label of a blank node for [`write_line`].
pub(crate) trait BlankLabels {
    fn write_label(&mut self, label: &str, line: &mut Vec<u8>);
}

/// The [`BlankLabels`] that write every blank node as `_:`.
pub(crate) struct ShapeOnly;

impl BlankLabels for ShapeOnly {
    fn write_label(&mut self, _label: &str, line: &mut Vec<u8>) {
        line.extend_from_slice(b"_:");
    }
}

/// Appends the canonical line of a statement, without a newline.
pub(crate) fn write_line(quad: &Quad, labels: &mut impl BlankLabels, line: &mut Vec<u8>) {
    match &quad.subject {
        NamedOrBlankNode::NamedNode(node) => write_iri(node.as_str(), line),
        NamedOrBlankNode::BlankNode(node) => labels.write_label(node.as_str(), line),
    }
    line.push(b' ');
    write_iri(quad.predicate.as_str(), line);
    line.push(b' ');
    match &quad.object {
        Term::NamedNode(node) => write_iri(node.as_str(), line),
        Term::BlankNode(node) => labels.write_label(node.as_str(), line),
        Term::Literal(literal) => write_literal(literal, line),
    }
    match &quad.graph_name {
        GraphName::DefaultGraph => (),
        GraphName::NamedNode(node) => {
            line.push(b' ');
            write_iri(node.as_str(), line);
        }
        GraphName::BlankNode(node) => {
            line.push(b' ');
            labels.write_label(node.as_str(), line);
        }
    }
    line.extend_from_slice(b" .");
}

fn write_iri(iri: &str, line: &mut Vec<u8>) {
    line.push(b'<');
    write_escaped(iri, line, &IRI_ESCAPED);
    line.push(b'>');
}

fn write_literal(literal: &Literal, line: &mut Vec<u8>) {
    line.push(b'"');
    write_escaped(literal.value(), line, &LITERAL_ESCAPED);
    line.push(b'"');
    if let Some(language) = literal.language() {
        line.push(b'@');
        line.extend(language.bytes().map(|byte| byte.to_ascii_lowercase()));
    } else if literal.datatype() != oxrdf::vocab::xsd::STRING {
        line.extend_from_slice(b"^^");
        write_iri(literal.datatype().as_str(), line);
    }
}

/// Bytes that canonical lines escape.
const IRI_ESCAPED: [bool; 256] = escaped(b' ', b"<>\"{}|^`\\");
const LITERAL_ESCAPED: [bool; 256] = escaped(0x1f, b"\"\\\x7f");

/// Returns a table of the control characters up to `last`, and of `others`.
const fn escaped(last: u8, others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte <= last as usize {
        table[byte] = true;
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
}

fn write_escaped(text: &str, line: &mut Vec<u8>, special: &[bool; 256]) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|&byte| special[usize::from(byte)]) {
        line.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'\t' => line.extend_from_slice(b"\\t"),
            0x08 => line.extend_from_slice(b"\\b"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            0x0c => line.extend_from_slice(b"\\f"),
            b'"' => line.extend_from_slice(b"\\\""),
            b'\\' => line.extend_from_slice(b"\\\\"),
            other => {
                let mut escape = String::with_capacity(6);
                let _ = write!(escape, "\\u{other:04X}");
                line.extend_from_slice(escape.as_bytes());
            }
        }
        rest = &rest[at + 1..];
    }
    line.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use oxrdf::{BlankNode, NamedNode};
    use proptest::prelude::*;

    use super::*;

    fn line_of(object: impl Into<Term>) -> String {
        let node = NamedNode::new_unchecked("http://a/b");
        let quad = Quad::new(node.clone(), node, object, GraphName::DefaultGraph);
        let mut line = Vec::new();
        write_line(&quad, &mut ShapeOnly, &mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn lines_are_canonical() {
        let prefix = "<http://a/b> <http://a/b> ";
        for (object, expected) in [
            (
                Term::from(Literal::new_simple_literal("a\"\\\n\u{1}é")),
                r#""a\"\\\n\u0001é""#,
            ),
            (
                Literal::new_language_tagged_literal_unchecked("x", "en-GB").into(),
                "\"x\"@en-gb",
            ),
            (
                Literal::new_typed_literal("x", oxrdf::vocab::xsd::STRING).into(),
                "\"x\"",
            ),
            (
                Literal::from(true).into(),
                "\"true\"^^<http://www.w3.org/2001/XMLSchema#boolean>",
            ),
            (BlankNode::new_unchecked("b7").into(), "_:"),
            (
                NamedNode::new_unchecked("http://a/ b>").into(),
                r"<http://a/\u0020b\u003E>",
            ),
        ] {
            assert_eq!(line_of(object), format!("{prefix}{expected} ."));
        }
    }

    #[test]
    fn statement_hash_addition_carries_across_words() {
        let mut sum = StatementHash([0, 0, u64::MAX, u64::MAX]);
        sum.merge(StatementHash([0, 0, 0, 1]));
        assert_eq!(sum, StatementHash([0, 1, 0, 0]));
    }

    proptest! {
        #[test]
        fn order_and_grouping_do_not_matter(
            lines in proptest::collection::vec(".{0,20}", 0..20),
            cut in 0usize..20,
        ) {
            let mut forward = StatementHash::default();
            for line in &lines {
                forward.add_line(line.as_bytes());
            }
            let mut halves = [StatementHash::default(), StatementHash::default()];
            for (at, line) in lines.iter().enumerate().rev() {
                halves[usize::from(at < cut)].add_line(line.as_bytes());
            }
            let [mut backward, other] = halves;
            backward.merge(other);
            prop_assert_eq!(forward, backward);
        }
    }
}
