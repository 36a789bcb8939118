//! DOAJ: articles of open-access journals, with the links that the journals deposit.
//!
//! Most links lead to the page of the article. Only a link declared as a PDF counts as a link to
//! the file.

use std::sync::Arc;

use docstokg_lookup::message::LookupRequest;
use docstokg_lookup::source_spec::{SourceEndpoint, SourceSpec};
use serde_json::Value;

use super::reply::{doi_path, items, record, text, title, year};
use super::settings::Settings;
use super::spec::ResolverSpec;
use super::{BatchStep, LookupOutcome, Resolver, ResolverId, Step, WorkLookupStep, arxiv, each};
use crate::identifier::Doi;
use crate::location::{CandidateLocation, LocationOffer, best_first, link};
use crate::work::{LearnedMetadata, Work};

/// The [`ResolverId`] of DOAJ.
pub const ID: ResolverId = ResolverId::new("doaj");

static API: SourceEndpoint = SourceEndpoint {
    key: "doaj",
    address: "https://doaj.org/api/v4/",
    about: "The API of DOAJ",
};

/// The [`ResolverSpec`] of DOAJ.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&API],
        about: "it knows the articles of open-access journals",
        ..SourceSpec::new(ID.as_str(), "DOAJ")
    },
    rank: 80,
    ..ResolverSpec::base(ID, |settings| Arc::new(Doaj::new(Arc::clone(settings))))
};

/// The [`Resolver`] that queries DOAJ.
#[derive(Debug)]
pub struct Doaj {
    settings: Arc<Settings>,
}

impl Doaj {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    fn one<'a>(&'a self, work: &'a Work) -> WorkLookupStep<'a> {
        let Some(doi) = &work.identifiers.doi else {
            return Step::Done(LookupOutcome::not_found("no DOI to ask for"));
        };
        // The query is a path segment. Within quotes, only these characters of a DOI are special.
        let quoted = doi_path(doi)
            .replace("%5C", "%5C%5C")
            .replace("%22", "%5C%22");
        let mut url = self
            .settings
            .url(&API, &format!("search/articles/doi:%22{quoted}%22"));
        url.query_pairs_mut()
            .append_pair("page", "1")
            .append_pair("pageSize", "5");
        Step::request(LookupRequest::metadata(url, ID.as_str()), move |result| {
            Step::Done(match record(&self.settings, result, &[404], "/results") {
                Ok(value) => self.read(items(&value, "/results"), doi),
                Err(unanswered) => unanswered.into_outcome("DOAJ"),
            })
        })
    }

    /// Reads the articles of a response that declare the [`Doi`].
    fn read(&self, articles: &[Value], doi: &Doi) -> LookupOutcome {
        let Some(article) = articles.iter().find(|article| states(article, doi)) else {
            return LookupOutcome::not_found("DOAJ does not know it");
        };
        let learned = LearnedMetadata {
            title: text(article, "/bibjson/title").and_then(title),
            year: year(article, "/bibjson/year"),
            ..LearnedMetadata::default()
        };
        let locations = items(article, "/bibjson/link")
            .iter()
            .filter(|entry| text(entry, "/type") == Some("fulltext"))
            .filter_map(|entry| {
                let is_pdf = text(entry, "/content_type")
                    .is_some_and(|kind| kind.to_ascii_lowercase().contains("pdf"));
                let offers = if is_pdf {
                    LocationOffer::Pdf
                } else {
                    LocationOffer::Landing
                };
                Some(CandidateLocation::new(
                    link(text(entry, "/url")?)?,
                    offers,
                    ID,
                ))
            })
            .map(|location| location.rewritten(&self.settings.endpoints.of(&arxiv::API)));
        LookupOutcome::of(
            best_first(locations),
            learned,
            "DOAJ knows the article, but no link to it",
        )
    }
}

/// Tells whether an article declares the [`Doi`] as its own, because searches also return other
/// articles.
fn states(article: &Value, doi: &Doi) -> bool {
    items(article, "/bibjson/identifier").iter().any(|entry| {
        text(entry, "/type").is_some_and(|kind| kind.eq_ignore_ascii_case("doi"))
            && text(entry, "/id")
                .and_then(|id| id.parse::<Doi>().ok())
                .as_ref()
                == Some(doi)
    })
}

impl Resolver for Doaj {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        each(works, |work| self.one(work))
    }
}
