//! `OpenAlex`: the widest catalogue, and the one that knows most other identifiers of a work.
//!
//! Asking for one work costs nothing, a list costs one credit of a small daily budget, so lists are
//! asked for many works at once, and when the budget is spent works are asked for one by one. Every
//! answer says how much is left; a list that cannot be paid is not asked for, because the refusal
//! would close the whole service until midnight, free questions included. There is no field for
//! arXiv ids: they are read out of DOIs, links and the ids of locations.

use std::sync::Arc;

use http::HeaderName;
use parking_lot::Mutex;
use serde_json::Value;

use super::arxiv;
use super::join::join_all;
use super::order::Preset;
use super::reply::{doi_path, items, location_at, record, text, title, year};
use super::settings::Settings;
use super::spec::{Credential, Endpoint, Need, Recipient, ResolverSpec, SecretHeader, Sent};
use super::{Outcome, RequestFailure, Resolver, ResolverId};
use crate::bounded_json;
use crate::identifier::{Doi, Identifier};
use crate::location::{Location, Offers, best_first, distinct, joined, link};
use crate::web::{Answer, Ask, BoxFuture, Web};
use crate::work::{Learned, Work};

/// Its name.
pub const ID: ResolverId = ResolverId::new("openalex");

/// The API.
pub static API: Endpoint = Endpoint {
    key: "openalex",
    address: "https://api.openalex.org/",
    about: "The API of OpenAlex",
};

/// The files that `OpenAlex` keeps and charges for.
static CONTENT: Endpoint = Endpoint {
    key: "openalex_content",
    address: "https://content.openalex.org/",
    about: "The files that OpenAlex keeps",
};

/// The key, which widens the daily budget.
pub static KEY: Credential = Credential {
    key: "openalex_api_key",
    variable: "OPENALEX_API_KEY",
    about: "The key of OpenAlex",
    default: "none",
    sent: Sent::Header(SecretHeader {
        name: "api_key",
        before: "",
        to: Recipient::Endpoints(&[&API, &CONTENT]),
        beside: None,
    }),
};

/// Describes it.
pub static SPEC: ResolverSpec = ResolverSpec {
    endpoints: &[&API, &CONTENT],
    credentials: &[&KEY],
    needs: &[
        Need::Doi,
        Need::ArxivId,
        Need::PubMedId,
        Need::PmcId,
        Need::OpenAlexId,
    ],
    preset: Preset::Fast,
    rank: 10,
    why: "it knows most works and their other identifiers",
    ..ResolverSpec::base(ID, "OpenAlex", |settings| {
        Arc::new(OpenAlex::new(Arc::clone(settings)))
    })
};

/// The fields we read.
const FIELDS: &str = "id,doi,ids,title,publication_year,open_access,best_oa_location,primary_location,locations,has_content,content_urls,is_retracted";

/// Most values of one list.
const BATCH: usize = 50;

/// Asks `OpenAlex`.
#[derive(Debug)]
pub struct OpenAlex {
    settings: Arc<Settings>,
    purse: Purse,
}

/// What is known of the credits that are left for today.
#[derive(Debug, Default)]
struct Purse(Mutex<Option<Option<u64>>>);

impl Purse {
    /// Takes in what an answer says, or that it says nothing.
    fn learn(&self, answer: &Answer) {
        let mut known = self.0.lock();
        *known = Some(credits_left(answer).or(known.flatten()));
    }

    /// Tells whether nothing was answered yet.
    fn is_unknown(&self) -> bool {
        self.0.lock().is_none()
    }

    /// Tells whether a list can be paid, as far as is known.
    fn pays_a_list(&self) -> bool {
        self.0.lock().flatten().is_none_or(|left| left >= 1)
    }
}

/// Returns the credits that an answer says are left.
pub(crate) fn credits_left(answer: &Answer) -> Option<u64> {
    answer
        .header(&HeaderName::from_static("x-ratelimit-remaining"))?
        .trim()
        .parse()
        .ok()
}

impl OpenAlex {
    /// Sets it up.
    #[must_use]
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            purse: Purse::default(),
        }
    }

    async fn many(&self, works: &[Work], web: &dyn Web) -> Vec<Outcome> {
        let mut listed: Vec<(usize, Doi)> = works
            .iter()
            .enumerate()
            .filter_map(|(at, work)| Some((at, listable(work)?)))
            .collect();
        let mut outcomes: Vec<Option<Outcome>> = vec![None; works.len()];
        if listed.len() > 1 && self.purse.is_unknown() {
            // One by one costs nothing, and the answer tells what is left for lists.
            let (first, _) = listed.remove(0);
            let outcome = self.one(&works[first], web).await;
            if outcome.is_put_off() {
                return vec![outcome; works.len()];
            }
            outcomes[first] = Some(outcome);
        }
        if listed.len() > 1 {
            for chunk in listed.chunks(BATCH) {
                match self.list(chunk, web).await {
                    Listed::Answered(found) => chunk
                        .iter()
                        .zip(found)
                        .for_each(|((at, _), outcome)| outcomes[*at] = Some(outcome)),
                    Listed::Failed(failure) => chunk
                        .iter()
                        .for_each(|(at, _)| outcomes[*at] = Some(Outcome::Failed(failure.clone()))),
                    Listed::BudgetSpent => {}
                }
            }
        }
        let rest = works
            .iter()
            .zip(outcomes)
            .map(|(work, outcome)| -> BoxFuture<'_, Outcome> {
                match outcome {
                    Some(outcome) => Box::pin(std::future::ready(outcome)),
                    None => Box::pin(self.one(work, web)),
                }
            });
        join_all(rest).await
    }

    async fn one(&self, work: &Work, web: &dyn Web) -> Outcome {
        let Some(id) = single_id(work) else {
            return Outcome::not_found("no identifier that OpenAlex knows");
        };
        let mut url = joined(self.settings.endpoints.of(&API), &format!("works/{id}"));
        url.query_pairs_mut().append_pair("select", FIELDS);
        let answer = self.ask(Ask::metadata(url, ID).kind("single"), web).await;
        match record(&self.settings, answer, &[404, 410], "/id") {
            Ok(value) => self.read(&value),
            Err(unanswered) => unanswered.into_outcome("OpenAlex"),
        }
    }

    async fn list(&self, dois: &[(usize, Doi)], web: &dyn Web) -> Listed {
        if !self.purse.pays_a_list() {
            return Listed::BudgetSpent;
        }
        let mut url = joined(self.settings.endpoints.of(&API), "works");
        let filter: Vec<&str> = dois.iter().map(|(_, doi)| doi.as_str()).collect();
        url.query_pairs_mut()
            .append_pair("filter", &format!("doi:{}", filter.join("|")))
            .append_pair("per_page", "100")
            .append_pair("select", FIELDS);
        let answer = self.ask(Ask::metadata(url, ID).kind("list"), web).await;
        if let Ok(answer) = &answer
            && budget_is_spent(answer)
        {
            return Listed::BudgetSpent;
        }
        let value = match record(&self.settings, answer, &[], "/results") {
            Ok(value) => value,
            Err(unanswered) => return Listed::Failed(unanswered.into_failure()),
        };
        let known: Vec<(Doi, &Value)> = items(&value, "/results")
            .iter()
            .filter_map(|work| Some((text(work, "/doi")?.parse().ok()?, work)))
            .collect();
        let outcome = |doi: &Doi| match known.iter().find(|(found, _)| found == doi) {
            Some((_, work)) => self.read(work),
            None => Outcome::not_found("OpenAlex does not know it"),
        };
        Listed::Answered(dois.iter().map(|(_, doi)| outcome(doi)).collect())
    }

    async fn ask(&self, ask: Ask, web: &dyn Web) -> Result<Answer, RequestFailure> {
        let secrets = self.settings.secret_headers(&ask.url);
        let answer = web.ask(ask.secrets(secrets)).await;
        if let Ok(answer) = &answer {
            self.purse.learn(answer);
        }
        answer
    }

    /// Reads one work.
    pub(crate) fn read(&self, work: &Value) -> Outcome {
        let mut learned = learned(work);
        let mut locations = Vec::new();
        let spots = [work.get("best_oa_location"), work.get("primary_location")]
            .into_iter()
            .flatten()
            .chain(items(work, "/locations"));
        for spot in spots.filter(|spot| spot.is_object()) {
            let details = |location: Location| {
                let version = text(spot, "/version").map(str::to_owned);
                location
                    .licence(text(spot, "/license").map(str::to_owned))
                    .version(version)
                    .rewritten(self.settings.endpoints.of(&arxiv::API))
            };
            locations
                .extend(location_at(spot, "/pdf_url", Offers::Pdf, ID, &mut learned).map(details));
            let page = location_at(spot, "/landing_page_url", Offers::Landing, ID, &mut learned)
                .map(details);
            // The page of a closed copy leads to a paywall; the landing resolver tries the DOI
            // anyway.
            locations.extend(page.filter(|page| {
                page.offers == Offers::Pdf
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
                Offers::Landing,
                ID,
                &mut learned,
            )
            .map(|page| page.rewritten(self.settings.endpoints.of(&arxiv::API))),
        );
        let locations = distinct(best_first(locations).into_iter().chain(self.paid(work)));
        Outcome::of(
            locations,
            learned,
            "OpenAlex knows the work, but no location of its files",
        )
    }

    /// Returns the copies that `OpenAlex` sells, last, where the user wants them and has a key.
    fn paid(&self, work: &Value) -> Vec<Location> {
        let wanted = self.settings.paid_content && self.settings.credentials.get(&KEY).is_some();
        let kinds = [
            ("/content_urls/pdf", Offers::Pdf),
            ("/content_urls/grobid_xml", Offers::Xml),
        ];
        kinds
            .iter()
            .filter(|_| wanted)
            .filter_map(|(pointer, offers)| {
                Some(Location::new(link(text(work, pointer)?)?, *offers, ID))
            })
            .collect()
    }
}

enum Listed {
    Answered(Vec<Outcome>),
    Failed(RequestFailure),
    BudgetSpent,
}

/// Tells a spent budget from a burst: the answer says how many credits the request needs and how
/// many are left.
fn budget_is_spent(answer: &Answer) -> bool {
    if answer.status.as_u16() != 429 {
        return false;
    }
    let body = bounded_json::read(&answer.body).unwrap_or_default();
    let credits = |field: &str| body.get(field).and_then(Value::as_f64);
    matches!((credits("creditsRequired"), credits("creditsRemaining")), (Some(required), Some(remaining)) if remaining < required)
}

/// Returns the DOI by which a work can stand in a list. Bars and commas mean something there.
fn listable(work: &Work) -> Option<Doi> {
    let ids = &work.identifiers;
    let doi = ids
        .doi
        .clone()
        .or_else(|| ids.arxiv.as_ref().map(Doi::of_arxiv))?;
    (!doi.as_str().contains(['|', ','])).then_some(doi)
}

/// Returns the path of a single work.
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

fn learned(work: &Value) -> Learned {
    let mut learned = Learned {
        year: year(work, "/publication_year"),
        ..Learned::default()
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
    // These two may stand without their prefix.
    ids.pmid = ids.pmid.or_else(|| text(work, "/ids/pmid")?.parse().ok());
    ids.pmcid = ids.pmcid.or_else(|| text(work, "/ids/pmcid")?.parse().ok());
    learned
}

impl Resolver for OpenAlex {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn batch(&self) -> usize {
        BATCH
    }

    fn resolve<'a>(&'a self, works: &'a [Work], web: &'a dyn Web) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(self.many(works, web))
    }
}
