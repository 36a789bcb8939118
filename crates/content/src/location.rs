//! Where a file of a work may be, and what is known about it before it is fetched.
//!
//! Resolvers answer with lists of these, best first. Several know the same file under different
//! spellings, so lists are joined by the index form of their URLs, and what one of them lacks is
//! filled in from the other.

use std::collections::HashMap;

use docstokg_policy::canonical;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::identifier::Identifier;
use crate::resolver::{ResolverId, spec};

/// What a location promises. Bytes decide in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocationOffer {
    /// A PDF file.
    Pdf,
    /// The full text as XML.
    Xml,
    /// The full text as a page.
    Html,
    /// A page about the work, to be read for links.
    Landing,
    /// An archive with the file in it.
    Archive,
    /// Nothing in particular.
    Unknown,
}

/// A checksum as the source of a location states it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocationChecksum {
    /// MD5, in lower-case hex.
    Md5(String),
    /// SHA-256, in lower-case hex.
    Sha256(String),
}

impl LocationChecksum {
    /// Reads an MD5 in hex; `None` for anything else.
    #[must_use]
    pub fn md5(hex: &str) -> Option<Self> {
        (hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| Self::Md5(hex.to_ascii_lowercase()))
    }

    /// Reads a SHA-256 in hex; `None` for anything else.
    #[must_use]
    pub fn sha256(hex: &str) -> Option<Self> {
        (hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| Self::Sha256(hex.to_ascii_lowercase()))
    }
}

/// A candidate location: a URL at which a file of the work may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateLocation {
    /// Where.
    pub url: Url,
    /// What it promises.
    pub offers: LocationOffer,
    /// The resolver that named it.
    pub resolver: ResolverId,
    /// The licence, as stated.
    pub licence: Option<String>,
    /// Which version of the work, as stated: `publishedVersion`, `acceptedVersion`,
    /// `submittedVersion`.
    pub version: Option<String>,
    /// A checksum to hold the file against.
    pub checksum: Option<LocationChecksum>,
    /// Its size in bytes, as stated.
    pub size: Option<u64>,
    /// The page that led here; publishers want to see it.
    pub referer: Option<Url>,
    /// The page says only in passing that this is the work's file: it is kept only if the file
    /// itself says so.
    #[serde(default)]
    pub needs_evidence: bool,
}

impl CandidateLocation {
    /// Names a location of which nothing else is known.
    #[must_use]
    pub const fn new(url: Url, offers: LocationOffer, resolver: ResolverId) -> Self {
        Self {
            url,
            offers,
            resolver,
            licence: None,
            version: None,
            checksum: None,
            size: None,
            referer: None,
            needs_evidence: false,
        }
    }

    /// Adds the licence, where it is stated.
    #[must_use]
    pub fn licence(mut self, licence: Option<String>) -> Self {
        self.licence = licence;
        self
    }

    /// Adds the version, where it is stated.
    #[must_use]
    pub fn version(mut self, version: Option<String>) -> Self {
        self.version = version;
        self
    }

    /// Adds the page that led here.
    #[must_use]
    pub fn referer(mut self, page: Url) -> Self {
        self.referer = Some(page);
        self
    }

    /// Says that the file itself has to say that it is the work's.
    #[must_use]
    pub const fn needing_evidence(mut self, needs: bool) -> Self {
        self.needs_evidence = needs;
        self
    }

    /// Tells whether this is the work's file by the word of its resolver alone. Of a resolver that
    /// is no longer known the same holds as of a service.
    #[must_use]
    pub fn is_vouched_for(&self) -> bool {
        !self.needs_evidence && spec(self.resolver).is_none_or(|spec| spec.vouches)
    }

    /// Brings known forms into the one that robots should use.
    ///
    /// Any page of an arXiv work becomes its PDF on the host that arXiv keeps for robots; `http`
    /// becomes `https` where the publisher is known to serve it; article pages of PMC are pages,
    /// never the file that they may promise.
    #[must_use]
    pub fn rewritten(mut self, arxiv: &Url) -> Self {
        match Identifier::parse(self.url.as_str()) {
            Ok(Identifier::Arxiv(id))
                if !matches!(
                    self.offers,
                    LocationOffer::Xml | LocationOffer::Html | LocationOffer::Archive
                ) =>
            {
                self.url = joined(arxiv, &format!("pdf/{id}"));
                self.offers = LocationOffer::Pdf;
                // The scheme is as configured: a mirror may have no https.
                return self;
            }
            // They answer with a page that wants work proved; the `pmc` resolver knows where the
            // file is.
            Ok(Identifier::Pmcid(_)) if host_is(&self.url, "ncbi.nlm.nih.gov") => {
                self.offers = LocationOffer::Landing;
            }
            _ => {}
        }
        if self.url.scheme() == "http"
            && SERVE_HTTPS.iter().any(|suffix| host_is(&self.url, suffix))
        {
            // Cannot fail between these two schemes; if it did, the URL would stay as it is.
            let _ = self.url.set_scheme("https");
        }
        self
    }

    /// Takes over what the other states about the same location.
    pub(crate) fn complete(&mut self, other: Self) {
        if matches!(self.offers, LocationOffer::Unknown | LocationOffer::Landing)
            && !matches!(other.offers, LocationOffer::Unknown)
        {
            self.offers = other.offers;
        }
        self.licence = self.licence.take().or(other.licence);
        self.version = self.version.take().or(other.version);
        self.checksum = self.checksum.take().or(other.checksum);
        self.size = self.size.or(other.size);
        self.referer = self.referer.take().or(other.referer);
        self.needs_evidence &= other.needs_evidence;
    }
}

/// Publishers and services that are known to serve `https` wherever they still print `http`.
const SERVE_HTTPS: [&str; 26] = [
    "aclanthology.org",
    "acs.org",
    "arxiv.org",
    "biomedcentral.com",
    "biorxiv.org",
    "cambridge.org",
    "doi.org",
    "elifesciences.org",
    "europepmc.org",
    "frontiersin.org",
    "hal.science",
    "ieee.org",
    "iop.org",
    "jstor.org",
    "mdpi.com",
    "medrxiv.org",
    "nature.com",
    "nih.gov",
    "oup.com",
    "plos.org",
    "pnas.org",
    "sagepub.com",
    "sciencedirect.com",
    "springer.com",
    "tandfonline.com",
    "wiley.com",
];

/// Publishers that usually answer robots with a bot challenge, so that copies elsewhere are tried
/// first.
const CHALLENGES_ROBOTS: [&str; 12] = [
    "academic.oup.com",
    "acs.org",
    "cell.com",
    "ieee.org",
    "mdpi.com",
    "researchgate.net",
    "sagepub.com",
    "science.org",
    "sciencedirect.com",
    "ssrn.com",
    "tandfonline.com",
    "wiley.com",
];

/// Returns whether the host usually answers robots with a bot challenge.
#[must_use]
pub fn challenges_robots(url: &Url) -> bool {
    CHALLENGES_ROBOTS.iter().any(|suffix| host_is(url, suffix))
}

/// Tells whether a URL is at a host or below it.
pub(crate) fn host_is(url: &Url, suffix: &str) -> bool {
    url.host_str().is_some_and(|host| {
        host.strip_suffix(suffix)
            .is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

/// Reads a link out of the answer of a service; `None` unless it is an `http` or `https` one
/// without user name.
#[must_use]
pub fn link(text: &str) -> Option<Url> {
    let text = text.trim();
    let url = if text.starts_with("//") {
        Url::parse(&format!("https:{text}"))
    } else {
        Url::parse(text)
    }
    .ok()?;
    is_link(&url).then_some(url)
}

/// Returns whether a URL is one that is fetched: `http` or `https`, with a host, without user name.
pub(crate) fn is_link(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
}

/// Appends a path, already encoded, to a base that may or may not end with a slash.
pub(crate) fn joined(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

/// Orders locations by what they promise: files, then texts, then what may be anything, then pages;
/// among those that promise the same, hosts that challenge robots come last.
///
/// Locations that are equal in this stay in the order given. Each is kept once, as by [`distinct`].
#[must_use]
pub fn best_first(
    locations: impl IntoIterator<Item = CandidateLocation>,
) -> Vec<CandidateLocation> {
    let rank = |offers: LocationOffer| match offers {
        LocationOffer::Pdf => 0,
        LocationOffer::Xml => 1,
        LocationOffer::Archive | LocationOffer::Html => 2,
        LocationOffer::Unknown => 3,
        LocationOffer::Landing => 4,
    };
    let mut ordered = distinct(locations);
    ordered.sort_by_key(|location| (rank(location.offers), challenges_robots(&location.url)));
    ordered
}

/// Drops later mentions of a location, after taking over what they know. The order stays.
#[must_use]
pub fn distinct(locations: impl IntoIterator<Item = CandidateLocation>) -> Vec<CandidateLocation> {
    let mut positions: HashMap<Url, usize> = HashMap::new();
    let mut kept: Vec<CandidateLocation> = Vec::new();
    for location in locations {
        let next = kept.len();
        match *positions
            .entry(canonical::for_index(&location.url))
            .or_insert(next)
        {
            at if at < next => kept[at].complete(location),
            _ => kept.push(location),
        }
    }
    kept
}
