//! Bibliographic metadata of works, as the sources that were queried on the way state them.
//!
//! Each source's statement is kept as it was read ([`MetadataStatement`]). [`WorkMetadata::merge`]
//! makes one record of all: for each field the most trusted source that states it counts. The order
//! is registry of the DOI, library, preprint server, catalogue, index, other sources.

mod person;
mod statement;

use std::collections::BTreeMap;

use docstokg_hub::clock::Timestamp;
use docstokg_lookup::licence::SourceLicence;
use serde::{Deserialize, Serialize};

pub use person::PersonName;
pub use statement::{MetadataStatement, plain_abstract};

use crate::work::Identifiers;

/// The version of the records.
const SCHEMA_VERSION: u32 = 1;

/// Sources, the most trusted first. Sources that are not named come last, in the order of the
/// alphabet.
const TRUSTED_SOURCES: [&str; 7] = [
    "crossref",
    "europe_pmc",
    "pmc",
    "arxiv",
    "openalex",
    "unpaywall",
    "doaj",
];

/// Metadata of a work, merged from its sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkMetadata {
    /// The version of this record.
    pub schema_version: u32,
    /// The work.
    pub work_id: String,
    /// The statements of the sources, field by field.
    #[serde(flatten)]
    pub statement: MetadataStatement,
    /// The licence as an SPDX name, if its statement is known.
    pub licence_spdx: Option<String>,
    /// Every identifier.
    pub identifiers: Identifiers,
    /// The sources, and when each responded.
    pub sources: Vec<MetadataSource>,
    /// The source of each field.
    pub field_sources: BTreeMap<String, String>,
}

/// A source that said something about a work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataSource {
    /// Its name.
    pub source: String,
    /// When it responded, UTC.
    pub at: String,
}

/// A statement, with its source and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedStatement {
    /// The source.
    pub source: String,
    /// When it responded.
    pub at: Timestamp,
    /// The statement of the source.
    pub statement: MetadataStatement,
}

impl SourcedStatement {
    /// Reads the rows of the queue. A row that cannot be read is left out.
    #[must_use]
    pub fn of_rows(rows: Vec<(String, Timestamp, String)>) -> Vec<Self> {
        let read = |(source, at, payload): (String, Timestamp, String)| {
            let statement = serde_json::from_str(&payload).ok()?;
            Some(Self {
                source,
                at,
                statement,
            })
        };
        rows.into_iter().filter_map(read).collect()
    }

    fn rank(&self) -> (usize, &str) {
        let known = TRUSTED_SOURCES.iter().position(|name| *name == self.source);
        (known.unwrap_or(TRUSTED_SOURCES.len()), &self.source)
    }
}

impl WorkMetadata {
    /// Merges the statements of sources about a work. What the user wrote (`identifiers`) stays; every
    /// other field is that of the most trusted source which states it.
    #[must_use]
    pub fn merge(
        work_id: &str,
        identifiers: Identifiers,
        mut statements: Vec<SourcedStatement>,
    ) -> Self {
        statements.sort_by(|a, b| a.rank().cmp(&b.rank()));
        let mut merged = Self {
            schema_version: SCHEMA_VERSION,
            work_id: work_id.to_owned(),
            identifiers,
            ..Self::default()
        };
        for said in statements {
            let fields = merged.statement.fill(&said.statement);
            for field in fields {
                let source = said.source.clone();
                merged.field_sources.insert(field.to_owned(), source);
            }
            merged.identifiers.merge(said.statement.identifiers);
            merged.sources.push(MetadataSource {
                source: said.source,
                at: said.at.to_string(),
            });
        }
        merged.statement.identifiers = Identifiers::default();
        merged.licence_spdx = (merged.statement.licence.as_deref())
            .and_then(SourceLicence::read)
            .and_then(|licence| licence.expression());
        merged
    }

    /// Returns the type of the work in the words of CSL.
    #[must_use]
    pub fn csl_type(&self) -> &'static str {
        csl_type(self.statement.kind.as_deref().unwrap_or_default())
    }

    /// Returns year, month and day of publication, as far as they are known.
    #[must_use]
    pub fn date_parts(&self) -> Vec<u32> {
        let issued = self.statement.issued.as_deref().unwrap_or_default();
        issued
            .split('-')
            .map_while(|part| part.parse().ok())
            .collect()
    }
}

/// Translates the type of a work, as Crossref, DataCite, OpenAlex and others call it, into the words
/// of CSL. A type that is not known is an article.
#[must_use]
pub fn csl_type(declared: &str) -> &'static str {
    let plain: String = declared
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    match plain.as_str() {
        "journalarticle" | "articlejournal" | "article" | "review" | "reviewarticle"
        | "researcharticle" | "letter" | "editorial" | "erratum" | "retraction" | "datapaper" => {
            "article-journal"
        }
        "book" | "monograph" | "editedbook" | "referencebook" => "book",
        "bookchapter" | "bookpart" | "booksection" | "chapter" => "chapter",
        "proceedingsarticle" | "conferencepaper" | "conferenceproceeding" | "proceedings" => {
            "paper-conference"
        }
        "dissertation" | "thesis" => "thesis",
        "report" | "reportcomponent" | "technicalreport" | "standard" => "report",
        "dataset" | "database" => "dataset",
        "software" | "computationalnotebook" => "software",
        _ => "article",
    }
}

#[cfg(test)]
mod tests;
