//! Europe PMC: full texts of the life sciences, as XML and PDF.

use std::sync::Arc;

use docstokg_lookup::message::LookupRequest;
use docstokg_lookup::source_spec::{Endpoint, SourceSpec};
use serde_json::Value;

use super::arxiv;
use super::reply::{items, learn_link, location_at, record, text, title, year};
use super::settings::Settings;
use super::spec::{Early, Need, ResolverSpec};
use super::{BatchStep, Outcome, Resolver, ResolverId, Step, WorkStep, each};
use crate::identifier::{Doi, Identifier, Pmcid};
use crate::location::{Location, Offers, best_first};
use crate::work::{Learned, Work};

/// Its name.
pub const ID: ResolverId = ResolverId::new("europe_pmc");

static API: Endpoint = Endpoint {
    key: "europe_pmc",
    address: "https://www.ebi.ac.uk/europepmc/webservices/rest/",
    about: "The API of Europe PMC",
};

static ARTICLES: Endpoint = Endpoint {
    key: "europe_pmc_articles",
    address: "https://europepmc.org/articles/",
    about: "The articles of Europe PMC",
};

/// Describes it.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&API, &ARTICLES],
        about: "it may have the full text",
        ..SourceSpec::new(ID.as_str(), "Europe PMC")
    },
    needs: &[Need::PmcId, Need::PubMedId, Need::Doi],
    rank: 60,
    early: Some(Early {
        rank: 20,
        when: |work| work.identifiers.pmcid.is_some(),
        why: "a PMC id is known",
    }),
    has_xml: true,
    ..ResolverSpec::base(ID, |settings| {
        Arc::new(EuropePmc::new(Arc::clone(settings)))
    })
};

/// Asks Europe PMC.
#[derive(Debug)]
pub struct EuropePmc {
    settings: Arc<Settings>,
}

impl EuropePmc {
    /// Sets it up.
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    fn one<'a>(&'a self, work: &'a Work) -> WorkStep<'a> {
        let Some(query) = query(work) else {
            return Step::Done(Outcome::not_found("no identifier that Europe PMC knows"));
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
                    None => Outcome::not_found("Europe PMC does not know it"),
                },
                Err(unanswered) => unanswered.into_outcome("Europe PMC"),
            })
        })
    }

    fn read(&self, result: &Value) -> Outcome {
        let mut learned = learned(result);
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
                if pdf { Offers::Pdf } else { Offers::Landing },
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
                locations.push(Location::new(url, Offers::Pdf, ID).licence(licence.clone()));
            }
            if is("/isOpenAccess") {
                let url = self.settings.url(&API, &format!("{id}/fullTextXML"));
                locations.push(Location::new(url, Offers::Xml, ID).licence(licence));
            }
        }
        Outcome::of(
            best_first(locations),
            learned,
            "Europe PMC knows the work, but has no open full text",
        )
    }
}

/// Writes the query for the strongest identifier that Europe PMC knows. Quotes in a DOI would end
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

/// Returns whether a result is the work asked for: searches are generous.
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

fn learned(result: &Value) -> Learned {
    let mut learned = Learned {
        title: text(result, "/title").and_then(title),
        year: year(result, "/pubYear"),
        ..Learned::default()
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
