//! The differences between two versions of an ontology, term by term, across formats.
//!
//! Both files are read into a [`TermTable`], a fraction of their size. The table has the header of
//! the ontology, and of each term the state and the values of each [`TermAspect`]. Class expressions
//! are compared as texts of the Manchester syntax; annotations of axioms are left out.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

mod expression;
mod frames;
mod kgcl;
mod names;
mod table;
mod term;

pub use kgcl::{KgclChanges, kgcl};
pub use names::with_labels;
pub use table::{DEFAULT_TABLE_BYTES, TableError, TermTable};
pub use term::TermAspect;

use term::Term;

/// A term and its label, for lists in an [`OntologyDiff`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedTerm {
    /// The IRI of the term.
    pub iri: String,
    /// The label of the term, if there is one.
    pub label: Option<String>,
    /// The IRI of the term that replaces an obsolete one, if the version names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
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

/// A field of the header whose values differ between the versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderChange {
    /// The field: `version`, `imports` or `licence`.
    pub field: String,
    /// Values that only the older version has.
    pub removed: Vec<String>,
    /// Values that only the newer version has.
    pub added: Vec<String>,
}

/// The differences between two ontologies. Every list is sorted by IRI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OntologyDiff {
    /// Fields of the header that changed.
    #[serde(default)]
    pub header: Vec<HeaderChange>,
    /// Terms of the newer version only.
    pub added: Vec<NamedTerm>,
    /// Terms of the older version only.
    pub removed: Vec<NamedTerm>,
    /// Terms that became obsolete.
    pub obsoleted: Vec<NamedTerm>,
    /// Terms that are no longer obsolete.
    pub restored: Vec<NamedTerm>,
    /// The changes of terms that both versions have, by aspect.
    #[serde(flatten)]
    pub aspects: AspectChanges,
    /// Number of terms of both versions without a difference.
    pub unchanged: u64,
    /// Labels of the terms that values mention, by IRI.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
    /// The values of added terms, which belong to their creation.
    #[serde(skip)]
    pub creations: AspectChanges,
    /// The changed terms that are properties, by IRI.
    #[serde(skip)]
    pub properties: BTreeSet<String>,
}

/// Changes by [`TermAspect`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AspectChanges {
    /// Terms whose labels changed.
    pub labels: Vec<TermChange>,
    /// Terms whose definitions changed.
    pub definitions: Vec<TermChange>,
    /// Terms whose synonyms changed.
    pub synonyms: Vec<TermChange>,
    /// Terms whose cross-references changed.
    pub xrefs: Vec<TermChange>,
    /// Terms whose parents changed.
    pub parents: Vec<TermChange>,
    /// Terms whose existential restrictions changed.
    pub relationships: Vec<TermChange>,
    /// Terms whose other axioms changed.
    pub axioms: Vec<TermChange>,
}

impl AspectChanges {
    /// Returns the changes of an aspect.
    #[must_use]
    pub const fn of(&self, aspect: TermAspect) -> &Vec<TermChange> {
        match aspect {
            TermAspect::Label => &self.labels,
            TermAspect::Definition => &self.definitions,
            TermAspect::Synonym => &self.synonyms,
            TermAspect::Xref => &self.xrefs,
            TermAspect::Parent => &self.parents,
            TermAspect::Relationship => &self.relationships,
            TermAspect::Axiom => &self.axioms,
        }
    }

    const fn of_mut(&mut self, aspect: TermAspect) -> &mut Vec<TermChange> {
        match aspect {
            TermAspect::Label => &mut self.labels,
            TermAspect::Definition => &mut self.definitions,
            TermAspect::Synonym => &mut self.synonyms,
            TermAspect::Xref => &mut self.xrefs,
            TermAspect::Parent => &mut self.parents,
            TermAspect::Relationship => &mut self.relationships,
            TermAspect::Axiom => &mut self.axioms,
        }
    }

    /// Adds the differences between two states of a term. Returns false if there are none.
    fn add(&mut self, iri: &str, older: &Term, newer: &Term) -> bool {
        let mut is_changed = false;
        for aspect in TermAspect::ALL {
            let (before, after) = (older.values(aspect), newer.values(aspect));
            let removed: Vec<_> = before.difference(after).cloned().collect();
            let added: Vec<_> = after.difference(before).cloned().collect();
            if removed.is_empty() && added.is_empty() {
                continue;
            }
            is_changed = true;
            self.of_mut(aspect).push(TermChange {
                iri: iri.to_owned(),
                label: newer.label().or(older.label()).map(str::to_owned),
                removed,
                added,
            });
        }
        is_changed
    }

    fn sort(&mut self) {
        for aspect in TermAspect::ALL {
            self.of_mut(aspect).sort_by(|a, b| a.iri.cmp(&b.iri));
        }
    }

    fn is_empty(&self) -> bool {
        TermAspect::ALL
            .iter()
            .all(|aspect| self.of(*aspect).is_empty())
    }
}

impl OntologyDiff {
    /// Returns true if the versions do not differ.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.header.is_empty()
            && self.added.is_empty()
            && self.removed.is_empty()
            && self.obsoleted.is_empty()
            && self.restored.is_empty()
            && self.aspects.is_empty()
    }

    fn compare(&mut self, iri: &str, older: &Term, newer: &Term) {
        let is_switched = older.is_obsolete != newer.is_obsolete;
        match (older.is_obsolete, newer.is_obsolete) {
            (false, true) => self.obsoleted.push(named(iri, newer)),
            (true, false) => self.restored.push(named(iri, newer)),
            _ => (),
        }
        let is_changed = self.aspects.add(iri, older, newer);
        self.unchanged += u64::from(!is_changed && !is_switched);
        if is_changed && newer.is_property {
            self.properties.insert(iri.to_owned());
        }
    }

    fn sort(&mut self) {
        for list in [
            &mut self.added,
            &mut self.removed,
            &mut self.obsoleted,
            &mut self.restored,
        ] {
            list.sort();
        }
        self.aspects.sort();
        self.creations.sort();
    }
}

/// Compares the [`TermTable`]s of an older and a newer version.
#[must_use]
pub fn diff(older: &TermTable, newer: &TermTable) -> OntologyDiff {
    let mut diff = OntologyDiff {
        header: header_changes(older, newer),
        ..OntologyDiff::default()
    };
    for (iri, term) in older.terms() {
        match newer.get(iri) {
            None => diff.removed.push(named(iri, term)),
            Some(other) => diff.compare(iri, term, other),
        }
    }
    for (iri, term) in newer.terms() {
        if older.get(iri).is_none() {
            diff.added.push(named(iri, term));
            diff.creations.add(iri, &Term::default(), term);
            if term.is_property {
                diff.properties.insert(iri.to_owned());
            }
        }
    }
    diff.sort();
    diff.names = names::mentioned(&diff, older, newer);
    diff
}

fn named(iri: &str, term: &Term) -> NamedTerm {
    NamedTerm {
        iri: iri.to_owned(),
        label: term.label().map(str::to_owned),
        replaced_by: term.replaced_by.clone(),
    }
}

fn header_changes(older: &TermTable, newer: &TermTable) -> Vec<HeaderChange> {
    let fields: BTreeSet<&str> = [older, newer]
        .into_iter()
        .flat_map(|table| table.header().keys().copied())
        .collect();
    let change = |field: &str| {
        let of = |table: &TermTable| table.header().get(field).cloned().unwrap_or_default();
        let (before, after) = (of(older), of(newer));
        HeaderChange {
            field: field.to_owned(),
            removed: before.difference(&after).cloned().collect(),
            added: after.difference(&before).cloned().collect(),
        }
    };
    let changes = fields.into_iter().map(change);
    let is_change = |change: &HeaderChange| !change.removed.is_empty() || !change.added.is_empty();
    changes.filter(is_change).collect()
}

#[cfg(test)]
#[path = "diff/tests.rs"]
mod tests;
