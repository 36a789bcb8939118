//! Reads N-Triples lines in their common form quickly, without copies.
//!
//! In the common form, IRIs have only ASCII letters, literals have no escapes, and one space
//! separates terms. Such a line is canonical already. Every other line, whether valid or not, must
//! be read by the general parser.

use super::statement::{Object, RdfStatement, StatementNode};

/// Bytes of an IRI after its host: letters, digits, and the punctuation that RFC 3986 allows in
/// path, query and fragment alike.
const IRI: [bool; 256] = table(b"-._~!$&'()*+,;=:@/?");
const HOST: [bool; 256] = table(b"-.");
const LABEL: [bool; 256] = table(b"");

const XSD_STRING: &str = "http://www.w3.org/2001/XMLSchema#string";
const RDF_LANG_STRING: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString";

const fn table(punctuation: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < punctuation.len() {
        table[punctuation[at] as usize] = true;
        at += 1;
    }
    table
}

/// A cursor over one line, for [`read_common`].
struct LineCursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> LineCursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self, expected: &str) -> Option<()> {
        let rest = self.text.as_bytes().get(self.at..)?;
        rest.starts_with(expected.as_bytes())
            .then(|| self.at += expected.len())
    }

    fn skip_while(&mut self, table: &[bool; 256]) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest
            .iter()
            .position(|&byte| !table[usize::from(byte)])
            .unwrap_or(rest.len());
        self.at += length;
        length
    }

    fn iri(&mut self) -> Option<&'a str> {
        let start = self.at + 1;
        self.skip("<http")?;
        if self.peek() == Some(b's') {
            self.at += 1;
        }
        self.skip("://")?;
        if self.skip_while(&HOST) == 0 {
            return None;
        }
        // An IRI with a port or a user name goes to the general parser.
        if !matches!(self.peek()?, b'/' | b'>' | b'#') {
            return None;
        }
        self.skip_while(&IRI);
        if self.peek() == Some(b'#') {
            self.at += 1;
            self.skip_while(&IRI);
        }
        let end = self.at;
        self.skip(">")?;
        Some(&self.text[start..end])
    }

    fn node(&mut self) -> Option<StatementNode<'a>> {
        if self.peek()? == b'<' {
            return self.iri().map(StatementNode::Iri);
        }
        self.skip("_:")?;
        let start = self.at;
        (self.skip_while(&LABEL) > 0).then(|| StatementNode::Blank(&self.text[start..self.at]))
    }

    fn literal(&mut self) -> Option<Object<'a>> {
        self.skip("\"")?;
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        let length = rest
            .iter()
            .position(|&byte| byte < b' ' || matches!(byte, b'"' | b'\\' | 0x7f))?;
        self.at += length;
        let value = &self.text[start..self.at];
        self.skip("\"")?;
        match self.peek()? {
            b'@' => {
                self.at += 1;
                let start = self.at;
                let rest = &self.text.as_bytes()[start..];
                let length = rest
                    .iter()
                    .take_while(|byte| byte.is_ascii_lowercase())
                    .count();
                self.at += length;
                matches!(length, 2 | 3).then_some(())?;
            }
            b'^' => {
                self.skip("^^")?;
                let datatype = self.iri()?;
                (datatype != XSD_STRING && datatype != RDF_LANG_STRING).then_some(())?;
            }
            _ => (),
        }
        Some(Object::Literal(value))
    }
}

/// Returns the [`RdfStatement`] of a line in the common form. `None` means that the general parser
/// must read the line, which may be valid.
pub(crate) fn read_common(line: &str, with_graph: WithGraph) -> Option<RdfStatement<'_>> {
    let mut cursor = LineCursor { text: line, at: 0 };
    let subject = cursor.node()?;
    cursor.skip(" ")?;
    let predicate = cursor.iri()?;
    cursor.skip(" ")?;
    let object = match cursor.peek()? {
        b'"' => cursor.literal()?,
        _ => Object::Node(cursor.node()?),
    };
    cursor.skip(" ")?;
    let graph = match (with_graph, cursor.peek()?) {
        (WithGraph::Yes, b'<' | b'_') => {
            let graph = cursor.node()?;
            cursor.skip(" ")?;
            Some(graph)
        }
        _ => None,
    };
    cursor.skip(".")?;
    (cursor.at == line.len()).then_some(RdfStatement {
        subject,
        predicate,
        object,
        graph,
    })
}

/// Tells whether a line may have a named graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithGraph {
    /// Named graphs are permitted, as in N-Quads.
    Yes,
    /// Named graphs are not permitted, as in N-Triples.
    No,
}

#[cfg(test)]
mod tests {
    use oxttl::NQuadsParser;
    use proptest::prelude::*;

    use super::*;
    use crate::format::canonical::{ShapeOnly, write_line};

    #[test]
    fn the_common_shape_is_recognised() {
        let common = |line| read_common(line, WithGraph::No).is_some();
        for line in [
            "<http://a> <https://b.c/d?e=f#g/h> <http://a/> .",
            "_:a <http://b#c> _:b2 .",
            "<http://a> <http://b> \"\" .",
            "<http://a> <http://b> \"é x\"@en .",
            "<http://a> <http://b> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .",
        ] {
            assert!(common(line), "{line}");
        }
        for line in [
            "",
            "# comment",
            "<urn:a> <http://b> <http://c> .",
            "<http://a:80/> <http://b> <http://c> .",
            "<http://a/%20> <http://b> <http://c> .",
            "<http://a/##> <http://b> <http://c> .",
            "<http://a>  <http://b> <http://c> .",
            "<http://a> <http://b> <http://c>",
            "<http://a> <http://b> <http://c> . # x",
            "<http://a> <http://b> \"x\\n\" .",
            "<http://a> <http://b> \"x\"@EN .",
            "<http://a> <http://b> \"x\"^^<http://www.w3.org/2001/XMLSchema#string> .",
            "<http://a> <http://b> <http://c> <http://g> .",
            "\"x\" <http://b> <http://c> .",
            "<http://a> _:b <http://c> .",
        ] {
            assert!(!common(line), "{line}");
        }
        assert!(read_common("<http://a> <http://b> \"c\" <http://g> .", WithGraph::Yes).is_some());
    }

    proptest! {
        /// Checks that a recognised line is valid, canonical, and has the same meaning for the
        /// general parser.
        #[test]
        fn the_general_parser_agrees(
            line in "(<https?://[a-z.:-]{0,3}[/#?%a-z:@\\[é-]{0,4}>|_:[a-z.]{0,2}) \
                     <http://[a/#]{1,3}> \
                     (<http://[a/#?]{1,4}>|\"[a\\\\é\"n]{0,3}\"(@[a-zA-Z-]{1,4}|\\^\\^<http://a[b/]{0,2}>|)) \
                     (<http://g> )?\\.?",
        ) {
            if let Some(common) = read_common(&line, WithGraph::Yes) {
                let parsed: Vec<_> = NQuadsParser::new().for_slice(&line).collect();
                prop_assert_eq!(parsed.len(), 1);
                let quad = parsed[0].as_ref().unwrap();
                let general = RdfStatement::of(quad);
                prop_assert_eq!(format!("{:?}", general), format!("{:?}", common));
                if !common.has_blank_node() {
                    let mut canonical = Vec::new();
                    write_line(quad, &mut ShapeOnly, &mut canonical);
                    prop_assert_eq!(canonical, line.as_bytes());
                }
            }
        }
    }
}
