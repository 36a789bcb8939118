//! A work: what it is called, and everything learned about it on the way.
//!
//! A work enters with one identifier, or several from one row, and resolvers add what they learn.
//! What came first stays: a resolver never replaces what the user wrote, and the id under which a
//! work is recorded never changes.

use docstokg_hub::redact;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::identifier::{ArxivId, Doi, Identifier, OpenAlexId, Pmcid, Pmid};
use crate::landing_page::names_another_file;
use crate::metadata::MetadataStatement;
use crate::resolver::WorkMention;

/// Most links to records that are kept of one work.
const MAX_RECORD_LINKS: usize = 8;

/// The names of one work, at most one of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identifiers {
    /// Its DOI.
    pub doi: Option<Doi>,
    /// Its arXiv identifier.
    pub arxiv: Option<ArxivId>,
    /// Its `PubMed` number.
    pub pmid: Option<Pmid>,
    /// Its `PubMed` Central identifier.
    pub pmcid: Option<Pmcid>,
    /// Its place in `OpenAlex`.
    pub openalex: Option<OpenAlexId>,
    /// A page or file of it.
    pub url: Option<Url>,
}

impl Identifiers {
    /// Adds an identifier, unless one of its kind is there already.
    pub fn insert(&mut self, identifier: Identifier) {
        match identifier {
            Identifier::Doi(id) => fill(&mut self.doi, Some(id)),
            Identifier::Arxiv(id) => fill(&mut self.arxiv, Some(id)),
            Identifier::Pmid(id) => fill(&mut self.pmid, Some(id)),
            Identifier::Pmcid(id) => fill(&mut self.pmcid, Some(id)),
            Identifier::OpenAlex(id) => fill(&mut self.openalex, Some(id)),
            Identifier::Url(url) => fill(&mut self.url, Some(url)),
        }
    }

    /// Adds what the other has and this one lacks; nothing is overwritten.
    pub fn merge(&mut self, other: Self) {
        fill(&mut self.doi, other.doi);
        fill(&mut self.arxiv, other.arxiv);
        fill(&mut self.pmid, other.pmid);
        fill(&mut self.pmcid, other.pmcid);
        fill(&mut self.openalex, other.openalex);
        fill(&mut self.url, other.url);
    }

    /// Adds the identifier that a link carries, such as the arXiv id of an abstract page; a link
    /// that is only a link adds nothing.
    pub fn insert_from_link(&mut self, link: &str) {
        match Identifier::parse(link) {
            Ok(Identifier::Url(_)) | Err(_) => {}
            Ok(identifier) => self.insert(identifier),
        }
    }

    /// Returns the one that says most: DOI, arXiv, PMC, `PubMed`, `OpenAlex`, URL, in this order.
    #[must_use]
    pub fn strongest(&self) -> Option<Identifier> {
        None.or_else(|| self.doi.clone().map(Identifier::Doi))
            .or_else(|| self.arxiv.clone().map(Identifier::Arxiv))
            .or_else(|| self.pmcid.map(Identifier::Pmcid))
            .or_else(|| self.pmid.map(Identifier::Pmid))
            .or_else(|| self.openalex.map(Identifier::OpenAlex))
            .or_else(|| self.url.clone().map(Identifier::Url))
    }

    /// Returns whether there is none.
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

/// One work to be found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredWork")]
pub struct Work {
    /// What the user called it. It names the work for ever, whatever is learned later.
    #[serde(rename = "typed")]
    supplied: Identifier,
    /// All names known by now.
    pub identifiers: Identifiers,
    /// Its title, where known.
    pub title: Option<String>,
    /// Its year of publication, where known.
    pub year: Option<i32>,
    /// URLs that are gone: they answered 404 or 410, or their host no longer exists.
    pub failed_urls: Vec<Url>,
    /// Links to records of repositories that may be this work, as other resolvers found them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub record_links: Vec<Url>,
}

/// A work as it is written down: all but its name may be missing.
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
            failed_urls,
            record_links,
        } = written;
        let mut work = Self {
            title,
            year,
            failed_urls,
            record_links,
            ..Self::new(supplied)
        };
        work.identifiers.merge(identifiers);
        work
    }
}

/// Tells whether a URL may be written down as it is: it carries no key.
pub(crate) fn is_public(url: &Url) -> bool {
    redact(url) == url.as_str()
}

impl Work {
    /// Tells whether what it is called, and where the user says that it is, may be written down.
    pub(crate) fn is_public(&self) -> bool {
        let supplied = if let Identifier::Url(url) = self.supplied() {
            is_public(url)
        } else {
            true
        };
        supplied && self.identifiers.url.as_ref().is_none_or(is_public)
    }

    /// Starts a work from the identifier that the user wrote.
    #[must_use]
    pub fn new(supplied: Identifier) -> Self {
        let mut identifiers = Identifiers::default();
        if let Identifier::Url(url) = &supplied {
            // A publisher's URL names its DOI: with it all resolvers can be asked when the page
            // refuses.
            identifiers.doi =
                Doi::in_url(url).filter(|doi| doi.arxiv().is_none() && !names_another_file(url));
        }
        identifiers.insert(supplied.clone());
        Self {
            supplied,
            identifiers,
            title: None,
            year: None,
            failed_urls: Vec::new(),
            record_links: Vec::new(),
        }
    }

    /// Starts a work from a row with several identifiers, named by the strongest; `None` when there
    /// is none.
    #[must_use]
    pub fn from_identifiers(identifiers: Identifiers) -> Option<Self> {
        let mut work = Self::new(identifiers.strongest()?);
        work.identifiers.merge(identifiers);
        Some(work)
    }

    /// Returns what the user called it.
    #[must_use]
    pub const fn supplied(&self) -> &Identifier {
        &self.supplied
    }

    /// Returns the id under which the work is recorded: the canonical text of what the user called
    /// it.
    #[must_use]
    pub fn work_id(&self) -> String {
        self.supplied.to_string()
    }

    /// Returns the same as it may be shown and written down: without keys.
    #[must_use]
    pub fn shown_id(&self) -> String {
        match &self.supplied {
            Identifier::Url(url) => redact(url),
            supplied => supplied.to_string(),
        }
    }

    /// Returns the text under which duplicates are found.
    #[must_use]
    pub fn work_key(&self) -> String {
        self.supplied.work_key()
    }

    /// Adds what a source knows about the work; nothing is overwritten.
    pub fn learn(&mut self, learned: &LearnedMetadata) {
        self.identifiers.merge(learned.identifiers.clone());
        fill(&mut self.title, learned.title.clone());
        fill(&mut self.year, learned.year);
        for link in &learned.record_links {
            if self.record_links.len() < MAX_RECORD_LINKS && !self.record_links.contains(link) {
                self.record_links.push(link.clone());
            }
        }
    }

    /// Returns what may name a record of a repository: what is certain first.
    pub(crate) fn mentions(&self) -> impl Iterator<Item = WorkMention<'_>> {
        let Identifiers { doi, url, .. } = &self.identifiers;
        doi.iter()
            .map(WorkMention::Doi)
            .chain(url.iter().map(WorkMention::Written))
            .chain(self.record_links.iter().map(WorkMention::Found))
    }
}

/// What an answer says about a work, beside where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LearnedMetadata {
    /// Names of it.
    pub identifiers: Identifiers,
    /// Its title.
    pub title: Option<String>,
    /// Its year of publication.
    pub year: Option<i32>,
    /// Whether it was retracted, where a source says so.
    pub retracted: bool,
    /// Links to records of repositories among the locations of the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub record_links: Vec<Url>,
    /// The bibliographic metadata of the answer. They are kept beside the work, not in its state.
    #[serde(skip)]
    pub statement: Option<Box<MetadataStatement>>,
}
