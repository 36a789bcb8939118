//! Candidate locations of the files of a work, with the facts that are known before a fetch.
//!
//! Resolvers return lists of locations, best first. Several resolvers know the same file under
//! different spellings. So [`distinct`] joins locations by the canonical form of their URLs, and
//! fills in missing facts.

use std::collections::HashMap;

use docstokg_policy::canonical;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::identifier::Identifier;
use crate::resolver::{ResolverId, spec};

/// The promised kind of content at a location. The received bytes decide in the end.
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
    /// No particular kind.
    Unknown,
}

/// A checksum that the source of a location declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocationChecksum {
    /// MD5, in lower-case hex.
    Md5(String),
    /// SHA-256, in lower-case hex.
    Sha256(String),
}

impl LocationChecksum {
    /// Reads an MD5 in hex. Returns `None` for any other text.
    #[must_use]
    pub fn md5(hex: &str) -> Option<Self> {
        (hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| Self::Md5(hex.to_ascii_lowercase()))
    }

    /// Reads a SHA-256 in hex. Returns `None` for any other text.
    #[must_use]
    pub fn sha256(hex: &str) -> Option<Self> {
        (hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| Self::Sha256(hex.to_ascii_lowercase()))
    }
}

/// A URL at which a file of the work may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateLocation {
    /// The URL of the location.
    pub url: Url,
    /// The promised kind of content.
    pub offers: LocationOffer,
    /// The [`ResolverId`] of the resolver that found the location.
    pub resolver: ResolverId,
    /// The licence, as the source declares it.
    pub licence: Option<String>,
    /// The version of the work, as the source declares it: `publishedVersion`, `acceptedVersion`,
    /// `submittedVersion`.
    pub version: Option<String>,
    /// The [`LocationChecksum`] that the file must have.
    pub checksum: Option<LocationChecksum>,
    /// The size in bytes, as the source declares it.
    pub size: Option<u64>,
    /// The page with the link to this location, which publishers expect as the referrer.
    pub referer: Option<Url>,
    /// The page mentions the file only in passing: the file is kept only with
    /// [`Evidence`](crate::evidence::Evidence) that it belongs to the work.
    #[serde(default)]
    pub needs_evidence: bool,
}

impl CandidateLocation {
    /// Creates a [`CandidateLocation`] with no further facts.
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

    /// Adds the licence, if declared.
    #[must_use]
    pub fn licence(mut self, licence: Option<String>) -> Self {
        self.licence = licence;
        self
    }

    /// Adds the version, if declared.
    #[must_use]
    pub fn version(mut self, version: Option<String>) -> Self {
        self.version = version;
        self
    }

    /// Adds the page with the link to this location.
    #[must_use]
    pub fn referer(mut self, page: Url) -> Self {
        self.referer = Some(page);
        self
    }

    /// Sets whether the file must contain [`Evidence`](crate::evidence::Evidence) that it belongs
    /// to the work.
    #[must_use]
    pub const fn needing_evidence(mut self, needs: bool) -> Self {
        self.needs_evidence = needs;
        self
    }

    /// Tells whether the word of the resolver suffices that this is the work's file. Retired
    /// resolvers count as trusted services.
    #[must_use]
    pub fn is_vouched_for(&self) -> bool {
        !self.needs_evidence && spec(self.resolver).is_none_or(|spec| spec.vouches)
    }

    /// Returns the location with a URL that suits robots.
    ///
    /// - Any page of an arXiv work becomes its PDF on arXiv's host for robots.
    /// - `http` becomes `https` for the publishers in `SERVE_HTTPS`.
    /// - Article pages of PMC offer a page only, whatever they promise.
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
                // Keep the configured scheme: a mirror may lack `https`.
                return self;
            }
            // These pages demand proof of work; the `pmc` resolver knows the location of the file.
            Ok(Identifier::Pmcid(_)) if host_is(&self.url, "ncbi.nlm.nih.gov") => {
                self.offers = LocationOffer::Landing;
            }
            _ => {}
        }
        if self.url.scheme() == "http"
            && SERVE_HTTPS.iter().any(|suffix| host_is(&self.url, suffix))
        {
            // The call cannot fail between these two schemes. If it failed, the URL would not
            // change.
            let _ = self.url.set_scheme("https");
        }
        self
    }

    /// Fills in missing facts from another mention of the same location.
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

/// Publishers and services that serve `https` even though they still print `http`.
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

/// Publishers that usually respond to robots with a bot challenge. Copies elsewhere are tried
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

/// Tells whether the host usually responds to robots with a bot challenge, see
/// `CHALLENGES_ROBOTS`.
#[must_use]
pub fn challenges_robots(url: &Url) -> bool {
    CHALLENGES_ROBOTS.iter().any(|suffix| host_is(url, suffix))
}

/// Tells whether the host of a URL is a domain or one of its subdomains.
pub(crate) fn host_is(url: &Url, suffix: &str) -> bool {
    url.host_str().is_some_and(|host| {
        host.strip_suffix(suffix)
            .is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

/// Reads a link from the response of a service. Returns `None` unless `is_link` accepts the URL.
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

/// Tells whether a URL may be fetched: `http` or `https`, with a host, without user name.
pub(crate) fn is_link(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
}

/// Appends an encoded path to a base URL with or without a final slash.
pub(crate) fn joined(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

/// Orders locations by their [`LocationOffer`]: files, then texts, then unknown content, then
/// pages. Among equals, hosts that challenge robots come last.
///
/// Otherwise the given order is kept. Each location is returned once, as by [`distinct`].
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

/// Drops repeated locations, after copying their facts to the first mention. The order is kept.
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
