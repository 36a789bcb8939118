//! What one source states about a work.

use serde::{Deserialize, Serialize};

use super::PersonName;
use crate::titles;
use crate::work::Identifiers;

/// The longest abstract that is kept, in bytes.
const MAX_ABSTRACT_BYTES: usize = 64 << 10;

/// The most authors that are kept.
const MAX_AUTHORS: usize = 5_000;

/// The statement of one source about a work. Fields that it does not state are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetadataStatement {
    /// The title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The authors, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<PersonName>,
    /// The journal, book or series that the work is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
    /// The publisher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// The date of publication: `2020`, `2020-03` or `2020-03-05`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issued: Option<String>,
    /// The volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The issue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issue: Option<String>,
    /// The pages, or the number of the article.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<String>,
    /// The ISSNs of the journal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub issn: Vec<String>,
    /// The language, as the source codes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The type of work, in the source's own words.
    #[serde(skip_serializing_if = "Option::is_none", rename = "type")]
    pub kind: Option<String>,
    /// The abstract as plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#abstract: Option<String>,
    /// True if the work was retracted, false if the source says that it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retracted: Option<bool>,
    /// The licence, in the source's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// The identifiers that the source knows.
    #[serde(skip_serializing_if = "Identifiers::is_empty")]
    pub identifiers: Identifiers,
}

impl MetadataStatement {
    /// Tells whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Bounds its size: some works have more authors than can be of use.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.authors.truncate(MAX_AUTHORS);
        self
    }

    /// Takes over the fields that are empty here, and returns their names. A retraction that any
    /// source knows of counts.
    pub(super) fn fill(&mut self, other: &Self) -> Vec<&'static str> {
        let mut filled = Vec::new();
        let texts = [
            ("title", &mut self.title, &other.title),
            ("journal", &mut self.journal, &other.journal),
            ("publisher", &mut self.publisher, &other.publisher),
            ("issued", &mut self.issued, &other.issued),
            ("language", &mut self.language, &other.language),
            ("type", &mut self.kind, &other.kind),
            ("abstract", &mut self.r#abstract, &other.r#abstract),
            ("licence", &mut self.licence, &other.licence),
        ];
        for (name, own, others) in texts {
            if own.is_none() && others.is_some() {
                own.clone_from(others);
                filled.push(name);
            }
        }
        // The parts of one citation are of one source.
        let has_citation =
            |it: &Self| it.volume.is_some() || it.issue.is_some() || it.pages.is_some();
        if !has_citation(self) && has_citation(other) {
            self.volume.clone_from(&other.volume);
            self.issue.clone_from(&other.issue);
            self.pages.clone_from(&other.pages);
            filled.push("volume, issue, pages");
        }
        if self.authors.is_empty() && !other.authors.is_empty() {
            self.authors.clone_from(&other.authors);
            filled.push("authors");
        }
        if self.issn.is_empty() && !other.issn.is_empty() {
            self.issn.clone_from(&other.issn);
            filled.push("issn");
        }
        if self.retracted != Some(true)
            && other.retracted.is_some()
            && self.retracted != other.retracted
        {
            self.retracted = other.retracted;
            filled.push("retracted");
        }
        filled
    }
}

/// Returns an abstract as plain text; `None` if nothing is left of it.
#[must_use]
pub fn plain_abstract(markup: &str) -> Option<String> {
    titles::plain_text(markup, MAX_ABSTRACT_BYTES)
}
