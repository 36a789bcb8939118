//! State of the open elements of an XML file: depth, namespaces, collections and literals.

use std::io::{self, Read};

use super::XmlGuard;

/// Maximum number of attributes of one element: the parser compares each with all others.
const MAX_ATTRIBUTES: usize = 1024;
/// Maximum number of namespaces in scope: the parser searches them for every name.
const MAX_NAMESPACES: usize = 4096;
/// Maximum number of members of one collection, because the parser keeps all members in memory. For
/// `rdf:ID`s, which are also kept, see [`MAX_ID_BYTES`].
const MAX_COLLECTION: u64 = 500_000;
const MAX_ID_BYTES: usize = 32 << 20;
/// Maximum length of a base address together with the base addresses that it is relative to, in
/// bytes. The parser copies the base address into every element.
const MAX_BASE_BYTES: usize = 8 << 10;

/// An open element of a file that an [`XmlGuard`] reads.
#[derive(Default)]
pub(super) struct Element {
    namespaces: u16,
    /// Size of the namespace declarations of the element, in bytes.
    namespace_bytes: usize,
    /// Maximum length of the base address of this element, in bytes.
    base_bytes: usize,
    /// Number of children so far, if the element is a collection.
    members: Option<u64>,
    is_xml_literal: bool,
}

impl<R: Read> XmlGuard<R> {
    /// Checks the tag that ends here, and opens or closes its element.
    pub(super) fn close_tag(&mut self) -> io::Result<()> {
        let tag = std::mem::take(&mut self.tag);
        if tag.first() == Some(&b'/') {
            if let Some(element) = self.open.pop() {
                self.leave(&element);
                self.literal_depth = self.literal_depth.saturating_sub(1);
                if self.literal_depth == 0 {
                    self.literal_bytes = 0;
                }
            }
        } else {
            let element = self.enter(&tag)?;
            if tag.last() == Some(&b'/') {
                self.leave(&element);
            } else {
                self.literal_depth += usize::from(self.literal_depth > 0 || element.is_xml_literal);
                self.open.push(element);
            }
        }
        self.tag = tag;
        self.tag.clear();
        Ok(())
    }

    /// Removes the namespaces of an element that ends from the namespaces in scope.
    fn leave(&mut self, element: &Element) {
        self.namespaces -= usize::from(element.namespaces);
        self.namespace_bytes -= element.namespace_bytes;
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
        let mut element = Element {
            base_bytes: self.open.last().map_or(0, |parent| parent.base_bytes),
            ..Element::default()
        };
        let expanded = std::mem::take(&mut self.expanded_in_tag);
        let mut count = 0;
        for (name, value) in attributes(tag) {
            count += 1;
            if name.starts_with(b"xmlns") {
                element.namespaces = element.namespaces.saturating_add(1);
                element.namespace_bytes += name.len() + value.len() + expanded + 4;
            } else if name.ends_with(b"parseType") {
                element.members = (value == b"Collection").then_some(0);
                // `Collection` and `Resource` are not XML literals; every other value is.
                element.is_xml_literal = value != b"Collection" && value != b"Resource";
            } else if name.ends_with(b":ID") {
                self.id_bytes += value.len() + element.base_bytes + 64;
            } else if name == b"xml:base" {
                // A relative base address is appended to the base address of the outer element.
                let delimiter = value.iter().find(|byte| b":/?#".contains(byte));
                let is_whole = delimiter == Some(&b':');
                let around = if is_whole { 0 } else { element.base_bytes };
                element.base_bytes = around + value.len() + expanded;
            }
        }
        self.namespace_bytes += element.namespace_bytes;
        self.namespaces += usize::from(element.namespaces);
        if count > MAX_ATTRIBUTES || self.namespaces > MAX_NAMESPACES {
            return Err(self.refuse("an element has too many attributes or namespaces"));
        }
        if self.id_bytes > MAX_ID_BYTES {
            return Err(self.refuse("the file has more rdf:ID attributes than can be compared"));
        }
        if element.base_bytes > MAX_BASE_BYTES {
            return Err(self.refuse(format!(
                "the base of an element is longer than {} KiB",
                MAX_BASE_BYTES >> 10
            )));
        }
        if self.literal_depth == 1 {
            // The parser repeats all namespaces in scope at each outermost element of an XML
            // literal.
            self.lengthen(self.namespace_bytes)?;
        }
        Ok(element)
    }
}

/// Returns the names and raw values of a tag's attributes. Every value in `tag` is delimited by
/// `"`.
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
