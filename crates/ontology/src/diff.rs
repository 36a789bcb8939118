//! The differences between two versions of an ontology, term by term, across formats.
//!
//! Both files are read into a [`TermTable`], a fraction of their size: label, definition, parents
//! and state of each term. Blank nodes (restrictions, anonymous classes) are left out.

use serde::{Deserialize, Serialize};

mod table;

pub use table::{DEFAULT_TABLE_BYTES, TableError, TermTable};

use table::Term;

/// A term and its label, for lists in an [`OntologyDiff`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedTerm {
    /// The IRI of the term.
    pub iri: String,
    /// The label of the term, if there is one.
    pub label: Option<String>,
}

/// A property of a term whose values differ between the versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TermChange {
    /// The IRI of the term.
    pub iri: String,
    /// Its label in the newer version, or else in the older one.
    pub label: Option<String>,
    /// Values that only the older version has.
    pub removed: Vec<String>,
    /// Values that only the newer version has.
    pub added: Vec<String>,
}

/// The differences between two ontologies. Every list is sorted by IRI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OntologyDiff {
    /// Terms of the newer version only.
    pub added: Vec<NamedTerm>,
    /// Terms of the older version only.
    pub removed: Vec<NamedTerm>,
    /// Terms that became obsolete.
    pub obsoleted: Vec<NamedTerm>,
    /// Terms that are no longer obsolete.
    pub restored: Vec<NamedTerm>,
    /// Terms whose labels changed.
    pub labels: Vec<TermChange>,
    /// Terms whose definitions changed.
    pub definitions: Vec<TermChange>,
    /// Terms whose parents changed.
    pub parents: Vec<TermChange>,
    /// Number of terms of both versions without a difference.
    pub unchanged: u64,
}

impl OntologyDiff {
    /// Returns true if the versions do not differ.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.removed.is_empty()
            && self.obsoleted.is_empty()
            && self.restored.is_empty()
            && self.labels.is_empty()
            && self.definitions.is_empty()
            && self.parents.is_empty()
    }
}

/// Compares the [`TermTable`]s of an older and a newer version.
#[must_use]
pub fn diff(older: &TermTable, newer: &TermTable) -> OntologyDiff {
    let mut diff = OntologyDiff::default();
    for (iri, term) in older.terms() {
        match newer.get(iri) {
            None => diff.removed.push(named(iri, term)),
            Some(other) => compare(iri, term, other, &mut diff),
        }
    }
    for (iri, term) in newer.terms() {
        if older.get(iri).is_none() {
            diff.added.push(named(iri, term));
        }
    }
    for list in [
        &mut diff.added,
        &mut diff.removed,
        &mut diff.obsoleted,
        &mut diff.restored,
    ] {
        list.sort();
    }
    for list in [&mut diff.labels, &mut diff.definitions, &mut diff.parents] {
        list.sort_by(|a, b| a.iri.cmp(&b.iri));
    }
    diff
}

fn named(iri: &str, term: &Term) -> NamedTerm {
    NamedTerm {
        iri: iri.to_owned(),
        label: term.label().map(str::to_owned),
    }
}

fn compare(iri: &str, older: &Term, newer: &Term, diff: &mut OntologyDiff) {
    let mut is_changed = true;
    match (older.is_obsolete, newer.is_obsolete) {
        (false, true) => diff.obsoleted.push(named(iri, newer)),
        (true, false) => diff.restored.push(named(iri, newer)),
        _ => is_changed = false,
    }
    let label = newer.label().or(older.label());
    for (before, after, list) in [
        (&older.labels.values, &newer.labels.values, &mut diff.labels),
        (
            &older.definitions.values,
            &newer.definitions.values,
            &mut diff.definitions,
        ),
        (&older.parents, &newer.parents, &mut diff.parents),
    ] {
        let removed: Vec<_> = before.difference(after).cloned().collect();
        let added: Vec<_> = after.difference(before).cloned().collect();
        if !removed.is_empty() || !added.is_empty() {
            is_changed = true;
            let (iri, label) = (iri.to_owned(), label.map(str::to_owned));
            list.push(TermChange {
                iri,
                label,
                removed,
                added,
            });
        }
    }
    diff.unchanged += u64::from(!is_changed);
}

#[cfg(test)]
#[path = "diff/tests.rs"]
mod tests;
