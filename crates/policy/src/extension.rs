//! Extensions of the persisted state: later versions add fields without a change of layout.
//!
//! An extension is a tag and bytes. A version that does not know a tag keeps its bytes unchanged.

use serde::{Deserialize, Serialize};

/// An addition to the persisted state, with its tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// The tag of the addition.
    pub tag: u8,
    /// The contents, in a format that begins with a version.
    pub bytes: Vec<u8>,
}

/// The additions of later versions to a site or a budget. An empty list takes one machine word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extensions(
    #[expect(
        clippy::box_collection,
        reason = "one word in each of very many budgets, most of which never have it"
    )]
    Option<Box<Vec<Extension>>>,
);

impl Extensions {
    /// Returns the bytes under a tag.
    #[must_use]
    pub fn get(&self, tag: u8) -> Option<&[u8]> {
        let found = self
            .0
            .as_ref()?
            .iter()
            .find(|extension| extension.tag == tag)?;
        Some(&found.bytes)
    }

    /// Replaces the bytes under a tag; `None` removes them.
    pub fn set(&mut self, tag: u8, bytes: Option<Vec<u8>>) {
        let mut list = self.0.take().map_or_else(Vec::new, |list| *list);
        list.retain(|extension| extension.tag != tag);
        list.extend(bytes.map(|bytes| Extension { tag, bytes }));
        list.sort_by_key(|extension| extension.tag);
        self.0 = (!list.is_empty()).then(|| Box::new(list));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_version_does_not_know_stays_as_it_is() {
        let mut extensions = Extensions::default();
        extensions.set(7, Some(vec![1, 2]));
        extensions.set(3, Some(vec![9]));
        extensions.set(3, None);
        assert_eq!(
            (extensions.get(7), extensions.get(3)),
            (Some(&[1, 2][..]), None)
        );
        extensions.set(7, None);
        assert_eq!(extensions, Extensions::default());
    }
}
