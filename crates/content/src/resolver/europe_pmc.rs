//! Europe PMC: full texts of the life sciences, as XML and PDF.

use std::sync::Arc;

use docstokg_lookup::message::LookupRequest;
use docstokg_lookup::source_spec::{SourceEndpoint, SourceSpec};
use serde_json::Value;

use super::arxiv;
use super::reply::{items, learn_link, location_at, record, text, title, year};
use super::settings::Settings;
use super::spec::{EarlyPosition, IdentifierNeed, ResolverSpec};
use super::{
    BatchStep, LookupOutcome, Resolver, ResolverId, Step, WorkLookupStep, each, statements,
};
use crate::identifier::{Doi, Identifier, Pmcid};
use crate::location::{CandidateLocation, LocationOffer, best_first};
use crate::work::{LearnedMetadata, Work};

/// The [`ResolverId`] of Europe PMC.
pub const ID: ResolverId = ResolverId::new("europe_pmc");

static API: SourceEndpoint = SourceEndpoint {
    key: "europe_pmc",
    address: "https://www.ebi.ac.uk/europepmc/webservices/rest/",
    about: "The API of Europe PMC",
};

static ARTICLES: SourceEndpoint = SourceEndpoint {
    key: "europe_pmc_articles",
    address: "https://europepmc.org/articles/",
    about: "The articles of Europe PMC",
};

/// The [`ResolverSpec`] of Europe PMC.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&API, &ARTICLES],
        about: "it may have the full text",
        ..SourceSpec::new(ID.as_str(), "Europe PMC")
    },
    needs: &[
        IdentifierNeed::PmcId,
        IdentifierNeed::PubMedId,
        IdentifierNeed::Doi,
    ],
    rank: 60,
    early: Some(EarlyPosition {
        rank: 20,
        when: |work| work.identifiers.pmcid.is_some(),
        why: "a PMC id is known",
    }),
    has_xml: true,
    ..ResolverSpec::base(ID, |settings| {
        Arc::new(EuropePmc::new(Arc::clone(settings)))
    })
};

/// The [`Resolver`] that queries Europe PMC.
#[derive(Debug)]
pub struct EuropePmc {
    settings: Arc<Settings>,
}

impl EuropePmc {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    fn one<'a>(&'a self, work: &'a Work) -> WorkLookupStep<'a> {
        let Some(query) = query(work) else {
            return Step::Done(LookupOutcome::not_found(
                "no identifier that Europe PMC knows",
            ));
        };
        let mut url = self.settings.url(&API, "search");
        url.query_pairs_mut()
            .append_pair("query", &query)
            .append_pair("format", "json")
            .append_pair("resultType", "core")
            .append_pair("pageSize", "5");
        if let Some(mailto) = self.settings.credentials.mailto() {
            url.query_pairs_mut().append_pair("email", mailto);
        }
        Step::request(LookupRequest::metadata(url, ID.as_str()), move |result| {
            let found = record(&self.settings, result, &[404], "/resultList");
            Step::Done(match found {
                Ok(value) => match items(&value, "/resultList/result")
                    .iter()
                    .find(|result| is_about(result, work))
                {
                    Some(result) => self.read(result),
                    None => LookupOutcome::not_found("Europe PMC does not know it"),
                },
                Err(unanswered) => unanswered.into_outcome("Europe PMC"),
            })
        })
    }

    fn read(&self, result: &Value) -> LookupOutcome {
        let mut learned = learned(result);
        learned.statement = Some(Box::new(statements::of_europe_pmc(result, &learned)));
        let licence = text(result, "/license").map(str::to_owned);
        let mut locations = Vec::new();
        for entry in items(result, "/fullTextUrlList/fullTextUrl") {
            if !matches!(text(entry, "/availabilityCode"), Some("OA" | "F")) {
                continue;
            }
            let pdf = text(entry, "/documentStyle") == Some("pdf");
            let found = location_at(
                entry,
                "/url",
                if pdf {
                    LocationOffer::Pdf
                } else {
                    LocationOffer::Landing
                },
                ID,
                &mut learned,
            );
            let found = found.map(|found| {
                found
                    .licence(licence.clone())
                    .rewritten(&self.settings.endpoints.of(&arxiv::API))
            });
            locations.extend(found);
        }
        if let Some(pmcid) = text(result, "/pmcid").and_then(|id| id.parse::<Pmcid>().ok()) {
            let id = format!("PMC{}", pmcid.number());
            let is = |flag: &str| text(result, flag) == Some("Y");
            if is("/inEPMC") && is("/hasPDF") {
                let mut url = self.settings.url(&ARTICLES, &id);
                url.set_query(Some("pdf=render"));
                locations.push(
                    CandidateLocation::new(url, LocationOffer::Pdf, ID).licence(licence.clone()),
                );
            }
            if is("/isOpenAccess") {
                let url = self.settings.url(&API, &format!("{id}/fullTextXML"));
                locations
                    .push(CandidateLocation::new(url, LocationOffer::Xml, ID).licence(licence));
            }
        }
        LookupOutcome::of(
            best_first(locations),
            learned,
            "Europe PMC knows the work, but has no open full text",
        )
    }
}

/// Returns the query for the strongest identifier that Europe PMC knows. Quotes in a DOI would end
/// the quoted text.
fn query(work: &Work) -> Option<String> {
    let ids = &work.identifiers;
    let central = ids.pmcid.map(|id| format!("PMCID:PMC{}", id.number()));
    let pubmed = || ids.pmid.map(|id| format!("EXT_ID:{id} AND SRC:MED"));
    let doi = || {
        ids.doi.as_ref().map(|doi| {
            format!(
                "DOI:\"{}\"",
                doi.as_str().replace('\\', "\\\\").replace('"', "\\\"")
            )
        })
    };
    central.or_else(pubmed).or_else(doi)
}

/// Tells whether a result is the requested [`Work`], because searches also return other works.
fn is_about(result: &Value, work: &Work) -> bool {
    let ids = &work.identifiers;
    let found = learned(result).identifiers;
    let same = |ours: Option<bool>| ours == Some(true);
    same(ids.pmcid.map(|id| {
        found
            .pmcid
            .is_some_and(|found| found.number() == id.number())
    })) || same(ids.pmid.map(|id| found.pmid == Some(id)))
        || same(ids.doi.as_ref().map(|doi| found.doi.as_ref() == Some(doi)))
}

fn learned(result: &Value) -> LearnedMetadata {
    let mut learned = LearnedMetadata {
        title: text(result, "/title").and_then(title),
        year: year(result, "/pubYear"),
        ..LearnedMetadata::default()
    };
    let ids = &mut learned.identifiers;
    ids.pmid = text(result, "/pmid").and_then(|id| id.parse().ok());
    ids.pmcid = text(result, "/pmcid").and_then(|id| id.parse().ok());
    if let Some(doi) = text(result, "/doi").and_then(|doi| doi.parse::<Doi>().ok()) {
        learn_link(ids, &format!("doi:{doi}"));
        ids.insert(Identifier::Doi(doi));
    }
    learned
}

impl Resolver for EuropePmc {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        each(works, |work| self.one(work))
    }
}
