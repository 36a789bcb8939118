//! `OpenAlex`: the largest catalogue, which knows most other identifiers of a work.
//!
//! A request for one work is free, and a list costs one credit of a small daily budget. So a list
//! contains many works. When the budget is used up, works are requested one by one. Every response
//! declares the remaining credits. A list without credits is not requested: the refusal would block
//! the whole service until midnight, including free requests. There is no field for arXiv ids, so
//! they are read from DOIs, links and the ids of locations.

use std::collections::VecDeque;
use std::sync::Arc;

use docstokg_lookup::message::{LookupRequest, LookupResponse};
use docstokg_lookup::source_spec::{
    CredentialCarrier, CredentialRecipient, SecretHeader, SourceCredential, SourceEndpoint,
    SourceSpec,
};
use http::HeaderName;
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use super::arxiv;
use super::order::Preset;
use super::reply::{doi_path, items, location_at, record, text, title, year};
use super::settings::Settings;
use super::spec::{IdentifierNeed, ResolverSpec};
use super::statements;
use super::{
    BatchStep, LookupOutcome, RequestFailure, Resolver, ResolverId, Step, WorkLookupStep, each,
};
use crate::bounded_json;
use crate::identifier::{Doi, Identifier};
use crate::location::{CandidateLocation, LocationOffer, best_first, distinct, link};
use crate::work::{LearnedMetadata, Work};

/// The [`ResolverId`] of `OpenAlex`.
pub const ID: ResolverId = ResolverId::new("openalex");

/// The API of `OpenAlex`.
pub static API: SourceEndpoint = SourceEndpoint {
    key: "openalex",
    address: "https://api.openalex.org/",
    about: "The API of OpenAlex",
};

/// The copies of files that `OpenAlex` sells.
static CONTENT: SourceEndpoint = SourceEndpoint {
    key: "openalex_content",
    address: "https://content.openalex.org/",
    about: "The files that OpenAlex keeps",
};

/// The key, which raises the daily budget.
pub static KEY: SourceCredential = SourceCredential {
    key: "openalex_api_key",
    variable: "OPENALEX_API_KEY",
    about: "The key of OpenAlex",
    default: "none",
    sent: CredentialCarrier::Header(SecretHeader {
        name: "api_key",
        before: "",
        to: CredentialRecipient::Endpoints(&[&API, &CONTENT]),
        beside: None,
    }),
};

/// The [`ResolverSpec`] of `OpenAlex`.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&API, &CONTENT],
        credentials: &[&KEY],
        about: "it knows most works and their other identifiers",
        ..SourceSpec::new(ID.as_str(), "OpenAlex")
    },
    needs: &[
        IdentifierNeed::Doi,
        IdentifierNeed::ArxivId,
        IdentifierNeed::PubMedId,
        IdentifierNeed::PmcId,
        IdentifierNeed::OpenAlexId,
    ],
    preset: Preset::Fast,
    rank: 10,
    ..ResolverSpec::base(ID, |settings| Arc::new(OpenAlex::new(Arc::clone(settings))))
};

/// The fields we read.
const FIELDS: &str = "id,doi,ids,title,publication_year,open_access,best_oa_location,primary_location,locations,has_content,content_urls,is_retracted,authorships,biblio,publication_date,type,language,abstract_inverted_index";

/// Maximum number of values in one list.
const MAX_VALUES_PER_LIST: usize = 50;

/// The [`Resolver`] that queries `OpenAlex`.
#[derive(Debug)]
pub struct OpenAlex {
    settings: Arc<Settings>,
    purse: CreditBalance,
}

/// The remaining credits of today, if a response has declared them.
#[derive(Debug, Default)]
struct CreditBalance(Mutex<Option<Option<u64>>>);

impl CreditBalance {
    /// Learns the remaining credits from a response, or that the response declares none.
    fn learn(&self, response: &LookupResponse) {
        let mut known = self.0.lock();
        *known = Some(credits_left(response).or(known.flatten()));
    }

    /// Tells whether no response has arrived yet.
    fn is_unknown(&self) -> bool {
        self.0.lock().is_none()
    }

    /// Tells whether the credits suffice for a list, as far as they are known.
    fn pays_a_list(&self) -> bool {
        self.0.lock().flatten().is_none_or(|left| left >= 1)
    }
}

/// Returns the remaining credits that a response declares.
pub(crate) fn credits_left(response: &LookupResponse) -> Option<u64> {
    response
        .header(&HeaderName::from_static("x-ratelimit-remaining"))?
        .trim()
        .parse()
        .ok()
}

impl OpenAlex {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            purse: CreditBalance::default(),
        }
    }

    /// Requests lists, then single records of the works in no list.
    fn listed<'a>(
        &'a self,
        works: &'a [Work],
        listed: &[(usize, Doi)],
        outcomes: Vec<Option<LookupOutcome>>,
    ) -> BatchStep<'a> {
        let mut chunks = VecDeque::new();
        if listed.len() > 1 {
            chunks.extend(listed.chunks(MAX_VALUES_PER_LIST).map(<[_]>::to_vec));
        }
        self.lists(chunks, outcomes).then(move |outcomes| {
            let steps = works
                .iter()
                .zip(outcomes)
                .map(|(work, outcome)| match outcome {
                    Some(outcome) => Step::Done(outcome),
                    None => self.one(work),
                });
            Step::Done(steps.collect())
        })
    }

    /// Requests lists, one after the other. Works stay without outcome if the credits do not
    /// suffice for a list.
    fn lists(
        &self,
        mut chunks: VecDeque<Vec<(usize, Doi)>>,
        mut outcomes: Vec<Option<LookupOutcome>>,
    ) -> Step<'_, Vec<Option<LookupOutcome>>> {
        let Some(dois) = chunks.pop_front().filter(|_| self.purse.pays_a_list()) else {
            return Step::Done(outcomes);
        };
        let mut url = self.settings.url(&API, "works");
        let filter: Vec<&str> = dois.iter().map(|(_, doi)| doi.as_str()).collect();
        url.query_pairs_mut()
            .append_pair("filter", &format!("doi:{}", filter.join("|")))
            .append_pair("per_page", "100")
            .append_pair("select", FIELDS);
        self.request(url, "list", move |result| {
            if !matches!(&result, Ok(response) if budget_is_spent(response)) {
                for ((at, _), outcome) in dois.iter().zip(self.read_list(&dois, result)) {
                    outcomes[*at] = Some(outcome);
                }
            }
            self.lists(chunks, outcomes)
        })
    }

    fn read_list(
        &self,
        dois: &[(usize, Doi)],
        result: Result<LookupResponse, RequestFailure>,
    ) -> Vec<LookupOutcome> {
        let value = match record(&self.settings, result, &[], "/results") {
            Ok(value) => value,
            Err(unanswered) => {
                return vec![LookupOutcome::Failed(unanswered.into_failure()); dois.len()];
            }
        };
        let known: Vec<(Doi, &Value)> = items(&value, "/results")
            .iter()
            .filter_map(|work| Some((text(work, "/doi")?.parse().ok()?, work)))
            .collect();
        let outcome = |doi: &Doi| match known.iter().find(|(found, _)| found == doi) {
            Some((_, work)) => self.read(work),
            None => LookupOutcome::not_found("OpenAlex does not know it"),
        };
        dois.iter().map(|(_, doi)| outcome(doi)).collect()
    }

    fn one(&self, work: &Work) -> WorkLookupStep<'_> {
        let Some(id) = single_id(work) else {
            return Step::Done(LookupOutcome::not_found(
                "no identifier that OpenAlex knows",
            ));
        };
        let mut url = self.settings.url(&API, &format!("works/{id}"));
        url.query_pairs_mut().append_pair("select", FIELDS);
        self.request(url, "single", move |result| {
            Step::Done(match record(&self.settings, result, &[404, 410], "/id") {
                Ok(value) => self.read(&value),
                Err(unanswered) => unanswered.into_outcome("OpenAlex"),
            })
        })
    }

    /// Sends a request of a kind, and learns the remaining credits from its response.
    fn request<'a, T: 'a>(
        &'a self,
        url: Url,
        kind: &'static str,
        read: impl FnOnce(Result<LookupResponse, RequestFailure>) -> Step<'a, T> + Send + 'a,
    ) -> Step<'a, T> {
        let secrets = self.settings.secret_headers(&url);
        let request = LookupRequest::metadata(url, ID.as_str()).kind(kind);
        Step::request(request.secrets(secrets), move |result| {
            if let Ok(response) = &result {
                self.purse.learn(response);
            }
            read(result)
        })
    }

    /// Reads the record of a work as a [`LookupOutcome`].
    pub(crate) fn read(&self, work: &Value) -> LookupOutcome {
        let mut learned = learned(work);
        learned.statement = Some(Box::new(statements::of_openalex(work, &learned)));
        let mut locations = Vec::new();
        let spots = [work.get("best_oa_location"), work.get("primary_location")]
            .into_iter()
            .flatten()
            .chain(items(work, "/locations"));
        for spot in spots.filter(|spot| spot.is_object()) {
            let details = |location: CandidateLocation| {
                let version = text(spot, "/version").map(str::to_owned);
                location
                    .licence(text(spot, "/license").map(str::to_owned))
                    .version(version)
                    .rewritten(&self.settings.endpoints.of(&arxiv::API))
            };
            locations.extend(
                location_at(spot, "/pdf_url", LocationOffer::Pdf, ID, &mut learned).map(details),
            );
            let page = location_at(
                spot,
                "/landing_page_url",
                LocationOffer::Landing,
                ID,
                &mut learned,
            )
            .map(details);
            // The page of a closed copy leads to a paywall, and the landing resolver tries the DOI
            // anyway.
            locations.extend(page.filter(|page| {
                page.offers == LocationOffer::Pdf
                    || spot.get("is_oa").and_then(Value::as_bool) == Some(true)
            }));
            if let Some(id) = text(spot, "/id")
                .and_then(|id| id.split_once("oai:arXiv.org:"))
                .and_then(|(_, id)| id.parse().ok())
            {
                learned.identifiers.insert(Identifier::Arxiv(id));
            }
        }
        locations.extend(
            location_at(
                work,
                "/open_access/oa_url",
                LocationOffer::Landing,
                ID,
                &mut learned,
            )
            .map(|page| page.rewritten(&self.settings.endpoints.of(&arxiv::API))),
        );
        let locations = distinct(best_first(locations).into_iter().chain(self.paid(work)));
        LookupOutcome::of(
            locations,
            learned,
            "OpenAlex knows the work, but no location of its files",
        )
    }

    /// Returns the [`CandidateLocation`]s that `OpenAlex` sells, if the user enabled them and has a
    /// key. They come last.
    fn paid(&self, work: &Value) -> Vec<CandidateLocation> {
        let wanted = self.settings.paid_content && self.settings.credentials.get(&KEY).is_some();
        let kinds = [
            ("/content_urls/pdf", LocationOffer::Pdf),
            ("/content_urls/grobid_xml", LocationOffer::Xml),
        ];
        kinds
            .iter()
            .filter(|_| wanted)
            .filter_map(|(pointer, offers)| {
                Some(CandidateLocation::new(
                    link(text(work, pointer)?)?,
                    *offers,
                    ID,
                ))
            })
            .collect()
    }
}

/// Tells whether a refusal means a used-up budget, and not a burst. The response declares the
/// required and the remaining credits.
fn budget_is_spent(response: &LookupResponse) -> bool {
    if response.status.as_u16() != 429 {
        return false;
    }
    let body = bounded_json::read(&response.body).unwrap_or_default();
    let credits = |field: &str| body.get(field).and_then(Value::as_f64);
    matches!((credits("creditsRequired"), credits("creditsRemaining")), (Some(required), Some(remaining)) if remaining < required)
}

/// Returns the [`Doi`] by which a work can be in a list. Bars and commas are separators there, so
/// such a DOI is excluded.
fn listable(work: &Work) -> Option<Doi> {
    let ids = &work.identifiers;
    let doi = ids
        .doi
        .clone()
        .or_else(|| ids.arxiv.as_ref().map(Doi::of_arxiv))?;
    (!doi.as_str().contains(['|', ','])).then_some(doi)
}

/// Returns the path of the record of a single work.
fn single_id(work: &Work) -> Option<String> {
    let ids = &work.identifiers;
    let doi = || {
        ids.doi
            .clone()
            .or_else(|| ids.arxiv.as_ref().map(Doi::of_arxiv))
            .map(|doi| format!("doi:{}", doi_path(&doi)))
    };
    let pubmed = || ids.pmid.map(|id| format!("pmid:{id}"));
    let central = || ids.pmcid.map(|id| format!("pmcid:{}", id.number()));
    ids.openalex
        .map(|id| id.to_string())
        .or_else(doi)
        .or_else(pubmed)
        .or_else(central)
}

fn learned(work: &Value) -> LearnedMetadata {
    let mut learned = LearnedMetadata {
        year: year(work, "/publication_year"),
        ..LearnedMetadata::default()
    };
    learned.title = text(work, "/title")
        .or_else(|| text(work, "/display_name"))
        .and_then(title);
    learned.retracted = work.get("is_retracted").and_then(Value::as_bool) == Some(true);
    let ids = &mut learned.identifiers;
    for pointer in [
        "/id",
        "/ids/openalex",
        "/doi",
        "/ids/doi",
        "/ids/pmid",
        "/ids/pmcid",
    ] {
        ids.insert_from_link(text(work, pointer).unwrap_or_default());
    }
    // These two ids may lack their prefix.
    ids.pmid = ids.pmid.or_else(|| text(work, "/ids/pmid")?.parse().ok());
    ids.pmcid = ids.pmcid.or_else(|| text(work, "/ids/pmcid")?.parse().ok());
    learned
}

impl Resolver for OpenAlex {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn batch(&self) -> usize {
        MAX_VALUES_PER_LIST
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        let mut listed: Vec<(usize, Doi)> = works
            .iter()
            .enumerate()
            .filter_map(|(at, work)| Some((at, listable(work)?)))
            .collect();
        let mut outcomes: Vec<Option<LookupOutcome>> = vec![None; works.len()];
        if listed.len() < 2 || !self.purse.is_unknown() {
            return self.listed(works, &listed, outcomes);
        }
        // A request for a single work is free, and its response declares the credits for lists.
        let (first, _) = listed.remove(0);
        self.one(&works[first]).then(move |outcome| {
            if outcome.is_put_off() {
                return each(works, |_| Step::Done(outcome.clone()));
            }
            outcomes[first] = Some(outcome);
            self.listed(works, &listed, outcomes)
        })
    }
}
