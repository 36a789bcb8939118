//! The page tree: the check that every page in the tree exists.

use std::collections::BTreeSet;
use std::io;

use super::objects::{FoundObject, Objects};
use super::source::PdfSource;
use super::syntax::{Dictionary, PdfValue};

/// Maximum number of nodes of the tree that are read.
const MAX_NODES: usize = 20_000;

/// Tells whether the page tree exists, with every page that it names.
pub(super) fn find_pages(source: &mut PdfSource, objects: &mut Objects) -> io::Result<bool> {
    let Some(root) = objects.table.root else {
        return Ok(objects.table.is_partial);
    };
    let pages = match objects.get(source, root)? {
        FoundObject::Unknown => return Ok(true),
        FoundObject::Nothing => return Ok(false),
        FoundObject::Value(catalogue) => catalogue
            .as_dictionary()
            .and_then(|catalogue| catalogue.reference(b"Pages")),
    };
    let mut walk = TreeWalk::default();
    walk.add(pages);
    let mut has_page = false;
    let mut looked_at = 0;
    while let Some(number) = walk.next.pop() {
        looked_at += 1;
        if looked_at > MAX_NODES {
            return Ok(true);
        }
        match objects.get(source, number)? {
            FoundObject::Unknown => has_page = true,
            FoundObject::Nothing => return Ok(false),
            FoundObject::Value(node) => {
                let Some(node) = node.as_dictionary() else {
                    return Ok(false);
                };
                has_page |= walk.add_kids(source, objects, node)?;
            }
        }
    }
    Ok(has_page)
}

/// A walk through a tree whose branches may share nodes: each object is read once.
#[derive(Default)]
struct TreeWalk {
    next: Vec<u32>,
    seen: BTreeSet<u32>,
}

impl TreeWalk {
    /// Adds nodes that are not yet known, up to [`MAX_NODES`].
    fn add(&mut self, nodes: impl IntoIterator<Item = u32>) {
        for node in nodes {
            if self.next.len() >= MAX_NODES {
                return;
            }
            if self.seen.insert(node) {
                self.next.push(node);
            }
        }
    }

    /// Adds the children of a node. A list that several nodes share is read once. Returns true if
    /// the node is a page, or if its list of children cannot be read and so may contain a page.
    fn add_kids(
        &mut self,
        source: &mut PdfSource,
        objects: &mut Objects,
        node: &Dictionary,
    ) -> io::Result<bool> {
        match node.get(b"Kids") {
            None => return Ok(true),
            Some(PdfValue::Reference(list)) if self.seen.insert(*list) => {
                match objects.get(source, *list)? {
                    FoundObject::Unknown => return Ok(true),
                    FoundObject::Nothing => {}
                    FoundObject::Value(kids) => self.add(references(&kids)),
                }
            }
            Some(kids) => self.add(references(kids)),
        }
        Ok(false)
    }
}

fn references(list: &PdfValue) -> impl Iterator<Item = u32> {
    let values = list.as_array().unwrap_or_default().iter();
    values.filter_map(|value| match value {
        PdfValue::Reference(number) => Some(*number),
        _ => None,
    })
}
