//! A work: its names, and everything that was learned about it.
//!
//! A work begins with one identifier, or several from one row, and resolvers add further metadata.
//! Earlier facts are kept: a resolver never replaces what the user wrote. The id under which a work
//! is recorded never changes.

use docstokg_hub::redact;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::identifier::{ArxivId, Doi, Identifier, OpenAlexId, Pmcid, Pmid};
use crate::landing_page::names_another_file;
use crate::metadata::MetadataStatement;
use crate::resolver::WorkMention;

/// Maximum number of links to records that are kept for one work.
const MAX_RECORD_LINKS: usize = 8;

/// The identifiers of one work, at most one of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identifiers {
    /// The [`Doi`] of the work.
    pub doi: Option<Doi>,
    /// The [`ArxivId`] of the work.
    pub arxiv: Option<ArxivId>,
    /// The [`Pmid`] of the work.
    pub pmid: Option<Pmid>,
    /// The [`Pmcid`] of the work.
    pub pmcid: Option<Pmcid>,
    /// The id of the work in `OpenAlex`.
    pub openalex: Option<OpenAlexId>,
    /// A page or file of the work.
    pub url: Option<Url>,
}

impl Identifiers {
    /// Adds an [`Identifier`], unless another of its kind is present.
    pub fn insert(&mut self, identifier: Identifier) {
        match identifier {
            Identifier::Doi(id) => fill(&mut self.doi, Some(id)),
            Identifier::Arxiv(id) => fill(&mut self.arxiv, Some(id)),
            Identifier::Pmid(id) => fill(&mut self.pmid, Some(id)),
            Identifier::Pmcid(id) => fill(&mut self.pmcid, Some(id)),
            Identifier::OpenAlex(id) => fill(&mut self.openalex, Some(id)),
            Identifier::Url(url) => fill(&mut self.url, Some(url)),
            // A title is kept as a title.
            Identifier::Title(_) => {}
        }
    }

    /// Adds the identifiers that are missing here. Present identifiers are kept.
    pub fn merge(&mut self, other: Self) {
        fill(&mut self.doi, other.doi);
        fill(&mut self.arxiv, other.arxiv);
        fill(&mut self.pmid, other.pmid);
        fill(&mut self.pmcid, other.pmcid);
        fill(&mut self.openalex, other.openalex);
        fill(&mut self.url, other.url);
    }

    /// Adds the identifier in a link, such as the arXiv id of an abstract page. A link without an
    /// identifier adds nothing.
    pub fn insert_from_link(&mut self, link: &str) {
        match Identifier::parse(link) {
            Ok(Identifier::Url(_)) | Err(_) => {}
            Ok(identifier) => self.insert(identifier),
        }
    }

    /// Returns the identifier that comes first in this order: DOI, arXiv, PMC, `PubMed`,
    /// `OpenAlex`, URL.
    #[must_use]
    pub fn strongest(&self) -> Option<Identifier> {
        None.or_else(|| self.doi.clone().map(Identifier::Doi))
            .or_else(|| self.arxiv.clone().map(Identifier::Arxiv))
            .or_else(|| self.pmcid.map(Identifier::Pmcid))
            .or_else(|| self.pmid.map(Identifier::Pmid))
            .or_else(|| self.openalex.map(Identifier::OpenAlex))
            .or_else(|| self.url.clone().map(Identifier::Url))
    }

    /// Tells whether no identifier is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn fill<T>(slot: &mut Option<T>, value: Option<T>) {
    if slot.is_none() {
        *slot = value;
    }
}

/// A work to find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredWork")]
pub struct Work {
    /// The [`Identifier`] that the user wrote. It names the work permanently, whatever is learned
    /// later.
    #[serde(rename = "typed")]
    supplied: Identifier,
    /// All known identifiers.
    pub identifiers: Identifiers,
    /// The title, if known.
    pub title: Option<String>,
    /// The year of publication, if known.
    pub year: Option<i32>,
    /// The first author as the input writes the name, for a work that is searched by its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_author: Option<String>,
    /// The evidence by which a search found the work, for a work that had only a title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched_by: Option<String>,
    /// URLs that no longer exist: the status was 404 or 410, or the host has no address.
    pub failed_urls: Vec<Url>,
    /// Links to records of repositories that may be this work, found by other resolvers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub record_links: Vec<Url>,
}

/// The persisted form of a [`Work`]: all fields but the name may be missing.
#[derive(Deserialize)]
struct StoredWork {
    #[serde(rename = "typed")]
    supplied: Identifier,
    #[serde(default)]
    identifiers: Identifiers,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    year: Option<i32>,
    #[serde(default)]
    first_author: Option<String>,
    #[serde(default)]
    matched_by: Option<String>,
    #[serde(default)]
    failed_urls: Vec<Url>,
    #[serde(default)]
    record_links: Vec<Url>,
}

impl From<StoredWork> for Work {
    fn from(written: StoredWork) -> Self {
        let StoredWork {
            supplied,
            identifiers,
            title,
            year,
            first_author,
            matched_by,
            failed_urls,
            record_links,
        } = written;
        let new = Self::new(supplied);
        let mut work = Self {
            title: title.or_else(|| new.title.clone()),
            year,
            first_author,
            matched_by,
            failed_urls,
            record_links,
            ..new
        };
        work.identifiers.merge(identifiers);
        work
    }
}

/// Tells whether a URL may be persisted unchanged, because it contains no key.
pub(crate) fn is_public(url: &Url) -> bool {
    redact(url) == url.as_str()
}

impl Work {
    /// Tells whether the name and the URL from the user may be persisted.
    pub(crate) fn is_public(&self) -> bool {
        let supplied = if let Identifier::Url(url) = self.supplied() {
            is_public(url)
        } else {
            true
        };
        supplied && self.identifiers.url.as_ref().is_none_or(is_public)
    }

    /// Creates a work from the [`Identifier`] that the user wrote.
    #[must_use]
    pub fn new(supplied: Identifier) -> Self {
        let mut identifiers = Identifiers::default();
        if let Identifier::Url(url) = &supplied {
            // A publisher's URL contains the DOI, which lets all resolvers be queried if the page
            // refuses.
            identifiers.doi =
                Doi::in_url(url).filter(|doi| doi.arxiv().is_none() && !names_another_file(url));
        }
        identifiers.insert(supplied.clone());
        let title = match &supplied {
            Identifier::Title(title) => Some(title.as_str().to_owned()),
            _ => None,
        };
        Self {
            supplied,
            identifiers,
            title,
            year: None,
            first_author: None,
            matched_by: None,
            failed_urls: Vec::new(),
            record_links: Vec::new(),
        }
    }

    /// Creates a work from a row with several identifiers, named by the strongest. Returns `None`
    /// for a row without identifiers.
    #[must_use]
    pub fn from_identifiers(identifiers: Identifiers) -> Option<Self> {
        let mut work = Self::new(identifiers.strongest()?);
        work.identifiers.merge(identifiers);
        Some(work)
    }

    /// Returns the [`Identifier`] that the user wrote.
    #[must_use]
    pub const fn supplied(&self) -> &Identifier {
        &self.supplied
    }

    /// Returns the id under which the work is recorded: the canonical text of [`Work::supplied`].
    #[must_use]
    pub fn work_id(&self) -> String {
        self.supplied.to_string()
    }

    /// Returns [`Work::work_id`] without keys, for messages and files.
    #[must_use]
    pub fn shown_id(&self) -> String {
        match &self.supplied {
            Identifier::Url(url) => redact(url),
            supplied => supplied.to_string(),
        }
    }

    /// Returns the text by which duplicates of the work are found.
    #[must_use]
    pub fn work_key(&self) -> String {
        self.supplied.work_key()
    }

    /// Adds the [`LearnedMetadata`] that a source returned. Present facts are kept.
    pub fn learn(&mut self, learned: &LearnedMetadata) {
        self.identifiers.merge(learned.identifiers.clone());
        fill(&mut self.title, learned.title.clone());
        fill(&mut self.year, learned.year);
        fill(&mut self.matched_by, learned.matched_by.clone());
        for link in &learned.record_links {
            if self.record_links.len() < MAX_RECORD_LINKS && !self.record_links.contains(link) {
                self.record_links.push(link.clone());
            }
        }
    }

    /// Returns the [`WorkMention`]s that may name a record of a repository, the certain ones first.
    pub(crate) fn mentions(&self) -> impl Iterator<Item = WorkMention<'_>> {
        let Identifiers { doi, url, .. } = &self.identifiers;
        doi.iter()
            .map(WorkMention::Doi)
            .chain(url.iter().map(WorkMention::Written))
            .chain(self.record_links.iter().map(WorkMention::Found))
    }
}

/// The metadata of a work in a response, except its locations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LearnedMetadata {
    /// The identifiers of the work.
    pub identifiers: Identifiers,
    /// The title of the work.
    pub title: Option<String>,
    /// The year of publication.
    pub year: Option<i32>,
    /// The evidence that the record is the work, if it was found by its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched_by: Option<String>,
    /// The source reports a retraction of the work.
    pub retracted: bool,
    /// Links to records of repositories among the locations in the response.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub record_links: Vec<Url>,
    /// The bibliographic metadata of the response. They are kept beside the work, not in its state.
    #[serde(skip)]
    pub statement: Option<Box<MetadataStatement>>,
}
