//! Where the services are. Data, so that a mirror or a simulated web can take their place.

use serde::{Deserialize, Serialize};
use url::Url;

/// The shipped addresses.
const SHIPPED: &str = include_str!("../../data/endpoints.json");

/// The base URL of each service. What is not given is as shipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Endpoints {
    /// The API of `OpenAlex`.
    pub openalex: Url,
    /// The files that `OpenAlex` keeps.
    pub openalex_content: Url,
    /// Unpaywall, with its version.
    pub unpaywall: Url,
    /// Crossref.
    pub crossref: Url,
    /// `DataCite`, where Crossref does not know a DOI.
    pub datacite: Url,
    /// The host that arXiv keeps for robots: API and files.
    pub arxiv: Url,
    /// PMC's converter of identifiers.
    pub pmc_id_converter: Url,
    /// PMC's open-access files.
    pub pmc_bucket: Url,
    /// The API of Europe PMC.
    pub europe_pmc: Url,
    /// The articles of Europe PMC.
    pub europe_pmc_articles: Url,
    /// The resolver of DOIs.
    pub doi: Url,
    /// The Wayback Machine.
    pub wayback: Url,
}

impl Endpoints {
    /// Returns all of them.
    #[must_use]
    pub fn all(&self) -> [&Url; 12] {
        [
            &self.openalex,
            &self.openalex_content,
            &self.unpaywall,
            &self.crossref,
            &self.datacite,
            &self.arxiv,
            &self.pmc_id_converter,
            &self.pmc_bucket,
            &self.europe_pmc,
            &self.europe_pmc_articles,
            &self.doi,
            &self.wayback,
        ]
    }
}

impl Default for Endpoints {
    #[expect(
        clippy::expect_used,
        reason = "the shipped file is part of the program, and a test reads it"
    )]
    fn default() -> Self {
        /// The same fields without defaults, or reading them would ask for the defaults again.
        #[derive(Deserialize)]
        struct Shipped {
            openalex: Url,
            openalex_content: Url,
            unpaywall: Url,
            crossref: Url,
            datacite: Url,
            arxiv: Url,
            pmc_id_converter: Url,
            pmc_bucket: Url,
            europe_pmc: Url,
            europe_pmc_articles: Url,
            doi: Url,
            wayback: Url,
        }
        let shipped: Shipped =
            serde_json::from_str(SHIPPED).expect("the shipped endpoints can be read");
        let Shipped {
            openalex,
            openalex_content,
            unpaywall,
            crossref,
            datacite,
            arxiv,
            pmc_id_converter,
            pmc_bucket,
            ..
        } = shipped;
        let Shipped {
            europe_pmc,
            europe_pmc_articles,
            doi,
            wayback,
            ..
        } = shipped;
        Self {
            openalex,
            openalex_content,
            unpaywall,
            crossref,
            datacite,
            arxiv,
            pmc_id_converter,
            pmc_bucket,
            europe_pmc,
            europe_pmc_articles,
            doi,
            wayback,
        }
    }
}
