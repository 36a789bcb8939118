//! Crossref: the publishers' metadata of DOIs, including links for text mining.
//!
//! A request lists many DOIs. A DOI that Crossref does not know may belong to `DataCite`, which is
//! queried next.

use std::collections::VecDeque;
use std::sync::Arc;

use docstokg_lookup::message::{LookupRequest, LookupResponse};
use docstokg_lookup::source_spec::{
    CredentialCarrier, CredentialRecipient, SecretHeader, SourceCredential, SourceEndpoint,
    SourceSpec,
};
use serde_json::Value;
use url::Url;

use super::datacite;
use super::order::Preset;
use super::reply::{
    ReplyFailure, doi_path, items, learn_link, location_at, record, scalar, text, title,
};
use super::settings::Settings;
use super::spec::ResolverSpec;
use super::statements;
use super::text_mining;
use super::{
    BatchStep, LookupOutcome, RequestFailure, Resolver, ResolverId, Step, WorkLookupStep, each,
};
use crate::identifier::Doi;
use crate::location::{CandidateLocation, LocationOffer, distinct, link};
use crate::work::{LearnedMetadata, Work};

/// The [`ResolverId`] of Crossref.
pub const ID: ResolverId = ResolverId::new("crossref");

pub(super) static API: SourceEndpoint = SourceEndpoint {
    key: "crossref",
    address: "https://api.crossref.org/",
    about: "Crossref",
};

/// The token of Crossref Plus.
pub static PLUS_TOKEN: SourceCredential = SourceCredential {
    key: "crossref_plus_token",
    variable: "CROSSREF_PLUS_TOKEN",
    about: "The token of Crossref Plus",
    default: "none",
    sent: CredentialCarrier::Header(SecretHeader {
        name: "crossref-plus-api-token",
        before: "Bearer ",
        to: CredentialRecipient::Endpoints(&[&API]),
        beside: None,
    }),
};

/// The [`ResolverSpec`] of Crossref.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&API, &datacite::API],
        credentials: &[
            &PLUS_TOKEN,
            &text_mining::ELSEVIER_KEY,
            &text_mining::ELSEVIER_INSTTOKEN,
            &text_mining::WILEY_TOKEN,
        ],
        about: "it has the links that publishers deposit",
        ..SourceSpec::new(ID.as_str(), "Crossref")
    },
    preset: Preset::Fast,
    rank: 50,
    ..ResolverSpec::base(ID, |settings| Arc::new(Crossref::new(Arc::clone(settings))))
};

/// Maximum number of DOIs in one list.
const MAX_DOIS_PER_LIST: usize = 50;

/// The fields we read of a list.
const FIELDS: &str = "DOI,title,issued,link,license,resource,relation,author,container-title,publisher,volume,issue,page,article-number,ISSN,type,abstract,published";

/// The [`Resolver`] that queries Crossref, and `DataCite` for the DOIs that Crossref does not know.
#[derive(Debug)]
pub struct Crossref {
    settings: Arc<Settings>,
}

/// The [`Doi`]s of the lists that are not yet requested.
type DoiChunks<'a> = VecDeque<Vec<&'a Doi>>;

/// The works of a list by their DOIs, or the [`RequestFailure`].
type ListedWorks = Result<Vec<(Doi, Value)>, RequestFailure>;

/// The [`ListedWorks`] so far, each with the DOIs of its request.
type Lists<'a> = Vec<(Vec<&'a Doi>, ListedWorks)>;

impl Crossref {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    /// Requests lists of works, one after the other, then single records of the DOIs in no list.
    fn lists<'a>(&'a self, mut chunks: DoiChunks<'a>, mut lists: Lists<'a>) -> Step<'a, Lists<'a>> {
        let Some(dois) = chunks.pop_front() else {
            return Step::Done(lists);
        };
        Step::request(self.list_request(&dois), move |result| {
            let list = self.read_list(result);
            lists.push((dois, list));
            self.lists(chunks, lists)
        })
    }

    /// Looks up a work in the lists, or by a request of its own if no list contains the work.
    fn one<'a>(&'a self, work: &'a Work, lists: &Lists<'_>) -> WorkLookupStep<'a> {
        let Some(doi) = &work.identifiers.doi else {
            return Step::Done(LookupOutcome::not_found("no DOI to ask for"));
        };
        let list = lists.iter().find(|(dois, _)| dois.contains(&doi));
        match list {
            None => self.single(doi),
            Some((_, Err(failure))) => Step::Done(LookupOutcome::Failed(failure.clone())),
            Some((_, Ok(known))) => match known.iter().find(|(found, _)| found == doi) {
                Some((_, work)) => Step::Done(read(&self.settings, work)),
                None => datacite::resolve_doi(&self.settings, doi),
            },
        }
    }

    fn single<'a>(&'a self, doi: &'a Doi) -> WorkLookupStep<'a> {
        let mut url = self.settings.url(&API, &format!("works/{}", doi_path(doi)));
        self.add_mailto(&mut url);
        let secrets = self.settings.secret_headers(&url);
        let request = LookupRequest::metadata(url, ID.as_str()).secrets(secrets);
        Step::request(request, move |result| {
            match record(&self.settings, result, &[404], "/message/DOI") {
                Ok(value) => {
                    let work = value.get("message").unwrap_or(&Value::Null);
                    Step::Done(read(&self.settings, work))
                }
                Err(ReplyFailure::Missing(_)) => datacite::resolve_doi(&self.settings, doi),
                Err(unanswered) => Step::Done(unanswered.into_outcome("Crossref")),
            }
        })
    }

    fn list_request(&self, dois: &[&Doi]) -> LookupRequest {
        let mut url = self.settings.url(&API, "works");
        let filter: Vec<String> = dois.iter().map(|doi| format!("doi:{doi}")).collect();
        url.query_pairs_mut()
            .append_pair("filter", &filter.join(","))
            .append_pair("rows", &dois.len().to_string())
            .append_pair("select", FIELDS);
        self.add_mailto(&mut url);
        let secrets = self.settings.secret_headers(&url);
        LookupRequest::metadata(url, ID.as_str())
            .kind("list")
            .secrets(secrets)
    }

    fn read_list(&self, result: Result<LookupResponse, RequestFailure>) -> ListedWorks {
        let value = record(&self.settings, result, &[], "/message/items")
            .map_err(ReplyFailure::into_failure)?;
        let works = items(&value, "/message/items");
        Ok(works
            .iter()
            .filter_map(|work| Some((text(work, "/DOI")?.parse().ok()?, work.clone())))
            .collect())
    }

    fn add_mailto(&self, url: &mut Url) {
        if let Some(mailto) = self.settings.credentials.mailto() {
            url.query_pairs_mut().append_pair("mailto", mailto);
        }
    }
}

/// Reads the record of a work as a [`LookupOutcome`].
fn read(settings: &Settings, work: &Value) -> LookupOutcome {
    let mut learned = LearnedMetadata {
        title: text(work, "/title/0")
            .or_else(|| text(work, "/title"))
            .and_then(title),
        ..LearnedMetadata::default()
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
    learned.statement = Some(Box::new(statements::of_crossref(work, &learned)));
    let mut ranked: Vec<(u8, CandidateLocation)> = items(work, "/link")
        .iter()
        .filter_map(|link| mining_link(settings, work, link))
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let page = location_at(
        work,
        "/resource/primary/URL",
        LocationOffer::Landing,
        ID,
        &mut learned,
    );
    let locations = distinct(ranked.into_iter().map(|(_, location)| location).chain(page));
    LookupOutcome::of(
        locations,
        learned,
        "Crossref knows the work, but no link to its files",
    )
}

/// Reads a link with its rank: full text for text mining comes first. Links for plagiarism checkers
/// are skipped, because they serve only those crawlers.
fn mining_link(
    settings: &Settings,
    work: &Value,
    entry: &Value,
) -> Option<(u8, CandidateLocation)> {
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
        "application/pdf" => LocationOffer::Pdf,
        "text/xml" | "application/xml" => LocationOffer::Xml,
        "text/html" => LocationOffer::Html,
        _ if url.path().to_ascii_lowercase().ends_with(".pdf") => LocationOffer::Pdf,
        _ => LocationOffer::Unknown,
    };
    let version = text(entry, "/content-version").unwrap_or("unspecified");
    let rank = match offers {
        LocationOffer::Pdf => 0,
        LocationOffer::Xml => 2,
        LocationOffer::Unknown => 4,
        _ => 6,
    } + u8::from(application != "text-mining" || version != "vor");
    Some((
        rank,
        CandidateLocation::new(url, offers, ID)
            .licence(licence(work, version))
            .version(standard_version(version)),
    ))
}

/// Returns the licence of a version, or else the first licence.
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
        MAX_DOIS_PER_LIST
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        // A comma separates filters, so a DOI with a comma is requested alone.
        let listed: Vec<&Doi> = works
            .iter()
            .filter_map(|work| work.identifiers.doi.as_ref())
            .filter(|doi| !doi.as_str().contains(','))
            .collect();
        let mut chunks = DoiChunks::new();
        if listed.len() > 1 {
            chunks.extend(listed.chunks(MAX_DOIS_PER_LIST).map(<[_]>::to_vec));
        }
        self.lists(chunks, Lists::new())
            .then(move |lists| each(works, |work| self.one(work, &lists)))
    }
}
