//! A walk through XML responses: each text with the names of its open elements. Namespaces are
//! ignored, because the names are unique in the documents that are read.

use quick_xml::Reader;
use quick_xml::events::Event;

/// An event of the walk, with the names of the open elements from the root on.
pub(crate) enum XmlStep<'a> {
    /// A text, in pieces if it contains entities.
    Text(&'a [String], &'a str),
    /// The end of the innermost open element.
    End(&'a [String]),
}

/// Walks a document, and calls `visit` with each [`XmlStep`]. Returns the name of its root, or
/// `None` if the document is not XML or ends too early.
pub(crate) fn walk(body: &[u8], mut visit: impl FnMut(XmlStep<'_>)) -> Option<String> {
    let mut reader = Reader::from_reader(body);
    let mut open: Vec<String> = Vec::new();
    let mut root = None;
    loop {
        match reader.read_event().ok()? {
            Event::Start(tag) => {
                open.push(tag.local_name().as_ref().to_owned());
                root = root.or_else(|| open.first().cloned());
            }
            Event::Empty(tag) => root = root.or_else(|| Some(tag.local_name().as_ref().to_owned())),
            Event::End(_) => {
                visit(XmlStep::End(&open));
                open.pop();
            }
            Event::Text(text) => visit(XmlStep::Text(&open, &text.xml10_content())),
            Event::CData(text) => visit(XmlStep::Text(&open, text.as_ref())),
            Event::GeneralRef(reference) => {
                let spelt =
                    reference
                        .resolve_char_ref()
                        .ok()
                        .flatten()
                        .or(match reference.as_ref() {
                            "amp" => Some('&'),
                            "lt" => Some('<'),
                            "gt" => Some('>'),
                            "quot" => Some('"'),
                            "apos" => Some('\''),
                            _ => None,
                        });
                visit(XmlStep::Text(
                    &open,
                    spelt.unwrap_or(' ').encode_utf8(&mut [0; 4]),
                ));
            }
            Event::Eof => return if open.is_empty() { root } else { None },
            _ => {}
        }
    }
}
