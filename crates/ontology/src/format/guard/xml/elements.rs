//! What tags say: depth, namespaces, collections and literals of an XML file.

use std::io::{self, Read};

use super::XmlGuard;

/// Attributes of one element: the parser compares each with all others.
const MAX_ATTRIBUTES: usize = 1024;
/// Namespaces in scope: the parser searches them for every name.
const MAX_NAMESPACES: usize = 4096;
/// Members of one collection, and bytes of `rdf:ID`s: the parser keeps all of them.
const MAX_COLLECTION: u64 = 500_000;
const MAX_ID_BYTES: usize = 32 << 20;

/// An element that is open.
#[derive(Default)]
pub(super) struct Element {
    namespaces: u16,
    /// Children so far, if it is a collection.
    members: Option<u64>,
    is_xml_literal: bool,
}

impl<R: Read> XmlGuard<R> {
    /// Judges the tag that ends here.
    pub(super) fn close_tag(&mut self) -> io::Result<()> {
        let tag = std::mem::take(&mut self.tag);
        if tag.first() == Some(&b'/') {
            if let Some(element) = self.open.pop() {
                self.namespaces -= usize::from(element.namespaces);
                self.literal_depth = self.literal_depth.saturating_sub(1);
                if self.literal_depth == 0 {
                    self.literal_bytes = 0;
                }
            }
        } else {
            let element = self.enter(&tag)?;
            if tag.last() == Some(&b'/') {
                self.namespaces -= usize::from(element.namespaces);
            } else {
                self.literal_depth += usize::from(self.literal_depth > 0 || element.is_xml_literal);
                self.open.push(element);
            }
        }
        self.tag = tag;
        self.tag.clear();
        Ok(())
    }

    fn enter(&mut self, tag: &[u8]) -> io::Result<Element> {
        if self.open.is_empty() && std::mem::replace(&mut self.has_root, true) {
            return Err(self.refuse("there is a second root element"));
        }
        if self.open.len() >= self.limits.max_depth {
            return Err(self.refuse(format!(
                "elements are nested more than {} deep",
                self.limits.max_depth
            )));
        }
        if let Some(members) = self
            .open
            .last_mut()
            .and_then(|parent| parent.members.as_mut())
        {
            *members += 1;
            if *members > MAX_COLLECTION {
                return Err(self.refuse(format!(
                    "a collection has more than {MAX_COLLECTION} members"
                )));
            }
        }
        let mut element = Element::default();
        let mut count = 0;
        for (name, value) in attributes(tag) {
            count += 1;
            if name.starts_with(b"xmlns") {
                element.namespaces = element.namespaces.saturating_add(1);
            } else if name.ends_with(b"parseType") {
                element.members = (value == b"Collection").then_some(0);
                // Every other value means an XML literal, except this one.
                element.is_xml_literal = value != b"Collection" && value != b"Resource";
            } else if name.ends_with(b":ID") {
                self.id_bytes += value.len() + 64;
            }
        }
        self.namespaces += usize::from(element.namespaces);
        if count > MAX_ATTRIBUTES || self.namespaces > MAX_NAMESPACES {
            return Err(self.refuse("an element has too many attributes or namespaces"));
        }
        if self.id_bytes > MAX_ID_BYTES {
            return Err(self.refuse("the file has more rdf:ID attributes than can be compared"));
        }
        Ok(element)
    }
}

/// Names and raw values of a tag's attributes; quotes are `"` here.
fn attributes(tag: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut parts = tag.split(|&byte| byte == b'"');
    std::iter::from_fn(move || {
        let (before, value) = (parts.next()?, parts.next()?);
        let name = before.trim_ascii_end();
        let name = name.strip_suffix(b"=").unwrap_or(name).trim_ascii_end();
        let start = name
            .iter()
            .rposition(u8::is_ascii_whitespace)
            .map_or(0, |at| at + 1);
        Some((&name[start..], value))
    })
}
