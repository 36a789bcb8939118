//! Crossref: what publishers say about their DOIs, among it links for text mining.
//!
//! Many DOIs are asked for in one list. A DOI that Crossref does not know may be one of `DataCite`,
//! which is asked next.

use std::sync::Arc;

use serde_json::Value;

use super::datacite;
use super::join::join_all;
use super::order::Preset;
use super::reply::{
    Unanswered, doi_path, items, learn_link, location_at, record, scalar, text, title,
};
use super::settings::Settings;
use super::spec::{Credential, Endpoint, Recipient, ResolverSpec, SecretHeader, Sent};
use super::text_mining;
use super::{Outcome, RequestFailure, Resolver, ResolverId};
use crate::identifier::Doi;
use crate::location::{Location, Offers, distinct, joined, link};
use crate::web::{Ask, BoxFuture, Web};
use crate::work::{Learned, Work};

/// Its name.
pub const ID: ResolverId = ResolverId::new("crossref");

static API: Endpoint = Endpoint {
    key: "crossref",
    address: "https://api.crossref.org/",
    about: "Crossref",
};

/// The token of Crossref Plus.
pub static PLUS_TOKEN: Credential = Credential {
    key: "crossref_plus_token",
    variable: "CROSSREF_PLUS_TOKEN",
    about: "The token of Crossref Plus",
    default: "none",
    sent: Sent::Header(SecretHeader {
        name: "crossref-plus-api-token",
        before: "Bearer ",
        to: Recipient::Endpoints(&[&API]),
        beside: None,
    }),
};

/// Describes it.
pub static SPEC: ResolverSpec = ResolverSpec {
    endpoints: &[&API, &datacite::API],
    credentials: &[
        &PLUS_TOKEN,
        &text_mining::ELSEVIER_KEY,
        &text_mining::ELSEVIER_INSTTOKEN,
        &text_mining::WILEY_TOKEN,
    ],
    preset: Preset::Fast,
    rank: 50,
    why: "it has the links that publishers deposit",
    ..ResolverSpec::base(ID, "Crossref", |settings| {
        Arc::new(Crossref::new(Arc::clone(settings)))
    })
};

/// Most DOIs of one list.
const BATCH: usize = 50;

/// The fields we read of a list.
const FIELDS: &str = "DOI,title,issued,link,license,resource,relation";

/// Asks Crossref, and `DataCite` where Crossref does not know a DOI.
#[derive(Debug)]
pub struct Crossref {
    settings: Arc<Settings>,
}

impl Crossref {
    /// Sets it up.
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    async fn many(&self, works: &[Work], web: &dyn Web) -> Vec<Outcome> {
        // A comma separates filters, so a DOI with one is asked for alone.
        let listed: Vec<&Doi> = works
            .iter()
            .filter_map(|work| work.identifiers.doi.as_ref())
            .filter(|doi| !doi.as_str().contains(','))
            .collect();
        let mut lists = Vec::new();
        if listed.len() > 1 {
            for chunk in listed.chunks(BATCH) {
                lists.push((chunk, self.list(chunk, web).await));
            }
        }
        let outcomes = works.iter().map(|work| -> BoxFuture<'_, Outcome> {
            let doi = work.identifiers.doi.as_ref();
            let list = lists
                .iter()
                .find(|(chunk, _)| chunk.iter().any(|listed| Some(*listed) == doi));
            match (doi, list) {
                (None, _) => Box::pin(std::future::ready(Outcome::not_found("no DOI to ask for"))),
                (Some(doi), None) => Box::pin(self.one(doi, web)),
                (Some(_), Some((_, Err(failure)))) => {
                    Box::pin(std::future::ready(Outcome::Failed(failure.clone())))
                }
                (Some(doi), Some((_, Ok(known)))) => {
                    match known.iter().find(|(found, _)| found == doi) {
                        Some((_, work)) => Box::pin(std::future::ready(read(&self.settings, work))),
                        None => Box::pin(datacite::one(&self.settings, doi, web)),
                    }
                }
            }
        });
        join_all(outcomes).await
    }

    async fn one(&self, doi: &Doi, web: &dyn Web) -> Outcome {
        let mut url = joined(
            self.settings.endpoints.of(&API),
            &format!("works/{}", doi_path(doi)),
        );
        if let Some(mailto) = self.settings.credentials.mailto() {
            url.query_pairs_mut().append_pair("mailto", mailto);
        }
        let secrets = self.settings.secret_headers(&url);
        let answer = web.ask(Ask::metadata(url, ID).secrets(secrets)).await;
        match record(&self.settings, answer, &[404], "/message/DOI") {
            Ok(value) => read(&self.settings, value.get("message").unwrap_or(&Value::Null)),
            Err(Unanswered::Missing(_)) => datacite::one(&self.settings, doi, web).await,
            Err(unanswered) => unanswered.into_outcome("Crossref"),
        }
    }

    async fn list(
        &self,
        dois: &[&Doi],
        web: &dyn Web,
    ) -> Result<Vec<(Doi, Value)>, RequestFailure> {
        let mut url = joined(self.settings.endpoints.of(&API), "works");
        let filter: Vec<String> = dois.iter().map(|doi| format!("doi:{doi}")).collect();
        url.query_pairs_mut()
            .append_pair("filter", &filter.join(","))
            .append_pair("rows", &dois.len().to_string())
            .append_pair("select", FIELDS);
        if let Some(mailto) = self.settings.credentials.mailto() {
            url.query_pairs_mut().append_pair("mailto", mailto);
        }
        let secrets = self.settings.secret_headers(&url);
        let answer = web
            .ask(Ask::metadata(url, ID).kind("list").secrets(secrets))
            .await;
        let value = record(&self.settings, answer, &[], "/message/items")
            .map_err(Unanswered::into_failure)?;
        let works = items(&value, "/message/items");
        Ok(works
            .iter()
            .filter_map(|work| Some((text(work, "/DOI")?.parse().ok()?, work.clone())))
            .collect())
    }
}

/// Reads one work.
fn read(settings: &Settings, work: &Value) -> Outcome {
    let mut learned = Learned {
        title: text(work, "/title/0")
            .or_else(|| text(work, "/title"))
            .and_then(title),
        ..Learned::default()
    };
    learned.year = ["/issued/date-parts/0/0", "/published/date-parts/0/0"]
        .iter()
        .find_map(|pointer| scalar(work, pointer)?.parse().ok());
    if let Some(doi) = text(work, "/DOI").and_then(|doi| doi.parse().ok()) {
        learned.identifiers.doi = Some(doi);
    }
    for preprint in items(work, "/relation/has-preprint") {
        match (text(preprint, "/id-type"), text(preprint, "/id")) {
            (Some("arxiv"), Some(id)) => {
                learn_link(&mut learned.identifiers, &format!("arxiv:{id}"));
            }
            (Some("doi"), Some(id)) => learn_link(&mut learned.identifiers, &format!("doi:{id}")),
            _ => {}
        }
    }
    let mut ranked: Vec<(u8, Location)> = items(work, "/link")
        .iter()
        .filter_map(|link| mining_link(settings, work, link))
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let page = location_at(
        work,
        "/resource/primary/URL",
        Offers::Landing,
        ID,
        &mut learned,
    );
    let locations = distinct(ranked.into_iter().map(|(_, location)| location).chain(page));
    Outcome::of(
        locations,
        learned,
        "Crossref knows the work, but no link to its files",
    )
}

/// Reads a link with its rank: full text for miners first. Links for plagiarism checkers are for
/// their crawlers alone.
fn mining_link(settings: &Settings, work: &Value, entry: &Value) -> Option<(u8, Location)> {
    let application = text(entry, "/intended-application").unwrap_or("unspecified");
    let mut url = link(text(entry, "/URL")?)?;
    if application == "similarity-checking" || settings.lacks_credential(&url) {
        return None;
    }
    let mut stated = text(entry, "/content-type")
        .unwrap_or("unspecified")
        .to_ascii_lowercase();
    if text_mining::choose_pdf(&mut url) {
        "application/pdf".clone_into(&mut stated);
    }
    let offers = match stated.as_str() {
        "application/pdf" => Offers::Pdf,
        "text/xml" | "application/xml" => Offers::Xml,
        "text/html" => Offers::Html,
        _ if url.path().to_ascii_lowercase().ends_with(".pdf") => Offers::Pdf,
        _ => Offers::Unknown,
    };
    let version = text(entry, "/content-version").unwrap_or("unspecified");
    let rank = match offers {
        Offers::Pdf => 0,
        Offers::Xml => 2,
        Offers::Unknown => 4,
        _ => 6,
    } + u8::from(application != "text-mining" || version != "vor");
    Some((
        rank,
        Location::new(url, offers, ID)
            .licence(licence(work, version))
            .version(standard_version(version)),
    ))
}

/// Returns the licence of a version, else the first there is.
fn licence(work: &Value, version: &str) -> Option<String> {
    let licences = items(work, "/license");
    let of_version = licences
        .iter()
        .find(|licence| text(licence, "/content-version") == Some(version))
        .or_else(|| licences.first())?;
    text(of_version, "/URL").map(str::to_owned)
}

fn standard_version(version: &str) -> Option<String> {
    match version {
        "vor" => Some("publishedVersion".to_owned()),
        "am" => Some("acceptedVersion".to_owned()),
        _ => None,
    }
}

impl Resolver for Crossref {
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
