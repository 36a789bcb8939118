//! One term of a table, by its aspects.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// An aspect of a term that has values and can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TermAspect {
    /// Labels.
    Label,
    /// Definitions.
    Definition,
    /// Synonyms, as `exact: text`.
    Synonym,
    /// Cross-references to other vocabularies.
    Xref,
    /// Named classes or properties that the term is below, as IRIs.
    Parent,
    /// Existential restrictions, as `<RELATION> some <CLASS>`.
    Relationship,
    /// Any other axiom, such as `DisjointWith: <CLASS>`.
    Axiom,
}

impl TermAspect {
    /// Every aspect, in the order of lists.
    pub const ALL: [Self; 7] = [
        Self::Label,
        Self::Definition,
        Self::Synonym,
        Self::Xref,
        Self::Parent,
        Self::Relationship,
        Self::Axiom,
    ];

    /// Returns the word for several values.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Label => "labels",
            Self::Definition => "definitions",
            Self::Synonym => "synonyms",
            Self::Xref => "xrefs",
            Self::Parent => "parents",
            Self::Relationship => "relationships",
            Self::Axiom => "axioms",
        }
    }
}

/// Values of a property in the preferred language.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TermTexts {
    values: BTreeSet<String>,
    /// True if the values are in a language other than English. Values in English, or without a
    /// language, replace them.
    is_foreign: bool,
}

impl TermTexts {
    /// Adds a value, and returns the memory that it takes.
    pub(super) fn add(&mut self, value: &str, language: Option<&str>) -> usize {
        let is_foreign = language.is_some_and(|tag| tag != "en" && !tag.starts_with("en-"));
        if self.values.is_empty() || (self.is_foreign && !is_foreign) {
            self.values.clear();
            self.is_foreign = is_foreign;
        }
        if self.is_foreign != is_foreign {
            return 0;
        }
        insert(&mut self.values, value)
    }
}

/// A term of a [`TermTable`](super::TermTable).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) labels: TermTexts,
    pub(super) definitions: TermTexts,
    synonyms: BTreeSet<String>,
    xrefs: BTreeSet<String>,
    parents: BTreeSet<String>,
    relationships: BTreeSet<String>,
    axioms: BTreeSet<String>,
    pub(super) is_obsolete: bool,
    pub(super) is_property: bool,
    pub(super) replaced_by: Option<String>,
}

impl Term {
    pub(super) fn label(&self) -> Option<&str> {
        self.labels.values.first().map(String::as_str)
    }

    /// Returns the values of an aspect.
    pub(super) const fn values(&self, aspect: TermAspect) -> &BTreeSet<String> {
        match aspect {
            TermAspect::Label => &self.labels.values,
            TermAspect::Definition => &self.definitions.values,
            TermAspect::Synonym => &self.synonyms,
            TermAspect::Xref => &self.xrefs,
            TermAspect::Parent => &self.parents,
            TermAspect::Relationship => &self.relationships,
            TermAspect::Axiom => &self.axioms,
        }
    }

    pub(super) const fn values_mut(&mut self, aspect: TermAspect) -> &mut BTreeSet<String> {
        match aspect {
            TermAspect::Label => &mut self.labels.values,
            TermAspect::Definition => &mut self.definitions.values,
            TermAspect::Synonym => &mut self.synonyms,
            TermAspect::Xref => &mut self.xrefs,
            TermAspect::Parent => &mut self.parents,
            TermAspect::Relationship => &mut self.relationships,
            TermAspect::Axiom => &mut self.axioms,
        }
    }

    /// Adds a value of an aspect, and returns the memory that it takes.
    pub(super) fn add(&mut self, aspect: TermAspect, value: &str) -> usize {
        insert(self.values_mut(aspect), value)
    }
}

fn insert(values: &mut BTreeSet<String>, value: &str) -> usize {
    let is_new = values.insert(value.to_owned());
    if is_new { value.len() + 64 } else { 0 }
}
