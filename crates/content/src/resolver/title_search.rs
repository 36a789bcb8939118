//! The search for a work by its title, at Crossref and then at `OpenAlex`.
//!
//! A title is not an identifier: a record is accepted only with `MatchEvidence`, and the evidence
//! is recorded. Crossref comes first, because a search there is free. At `OpenAlex` a search costs
//! ten credits of a small daily budget, and is not sent once the budget is known to be used up.

use std::sync::Arc;

use docstokg_lookup::message::{LookupRequest, LookupResponse};
use docstokg_lookup::source_spec::SourceSpec;
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

use super::order::Preset;
use super::reply::{items, record, scalar, text, title, year};
use super::settings::Settings;
use super::spec::{IdentifierNeed, ResolverSpec};
use super::{
    BatchStep, FoundLocations, LookupOutcome, RequestFailure, Resolver, ResolverId, Step,
    WorkLookupStep, credits_left, crossref, each, openalex,
};
use crate::identifier::Identifier;
use crate::titles::{self, Description, MatchEvidence};
use crate::work::{Identifiers, LearnedMetadata, Work};

/// The [`ResolverId`] of the search.
pub const ID: ResolverId = ResolverId::new("title_search");

/// The [`ResolverSpec`] of the search.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&crossref::API, &openalex::API],
        about: "it finds works that have only a title",
        ..SourceSpec::new(ID.as_str(), "Title search (Crossref, OpenAlex)")
    },
    needs: &[IdentifierNeed::Title],
    preset: Preset::Fast,
    rank: 95,
    ..ResolverSpec::base(ID, |settings| {
        Arc::new(TitleSearch::new(Arc::clone(settings)))
    })
};

/// The number of records that are compared.
const MAX_RECORDS: &str = "5";
/// The cost of a search at `OpenAlex`, in credits.
const SEARCH_CREDITS: u64 = 10;
/// The fields that are read from Crossref.
const CROSSREF_FIELDS: &str = "DOI,title,subtitle,author,issued";
/// The fields that are read from `OpenAlex`.
const OPENALEX_FIELDS: &str = "id,doi,ids,title,publication_year,authorships";

/// The [`Resolver`] that searches for titles.
#[derive(Debug)]
pub struct TitleSearch {
    settings: Arc<Settings>,
    /// The credits that `OpenAlex` declared last.
    credits: Mutex<Option<u64>>,
}

/// A record that a search returned.
struct FoundRecord {
    identifiers: Identifiers,
    title: String,
    year: Option<i32>,
    first_author: Option<String>,
}

impl FoundRecord {
    fn of_crossref(item: &Value) -> Option<Self> {
        let main = text(item, "/title/0").and_then(title)?;
        let subtitle = text(item, "/subtitle/0").and_then(title);
        let subtitle = subtitle.filter(|subtitle| !main.ends_with(subtitle.as_str()));
        let mut identifiers = Identifiers::default();
        identifiers.insert_from_link(text(item, "/DOI")?);
        Some(Self {
            identifiers,
            title: subtitle.map_or_else(|| main.clone(), |subtitle| format!("{main}: {subtitle}")),
            year: scalar(item, "/issued/date-parts/0/0").and_then(|year| year.parse().ok()),
            first_author: text(item, "/author/0/family").map(str::to_owned),
        })
    }

    fn of_openalex(work: &Value) -> Option<Self> {
        let mut identifiers = Identifiers::default();
        for pointer in ["/doi", "/ids/pmid", "/ids/pmcid", "/id"] {
            identifiers.insert_from_link(text(work, pointer).unwrap_or_default());
        }
        let author = text(work, "/authorships/0/author/display_name");
        Some(Self {
            identifiers,
            title: text(work, "/title").and_then(title)?,
            year: year(work, "/publication_year"),
            // The family name is the last word, or what a comma follows.
            first_author: author
                .and_then(|name| match name.split_once(',') {
                    Some((family, _)) => Some(family),
                    None => name.split_whitespace().next_back(),
                })
                .map(str::to_owned),
        })
    }

    fn description(&self) -> Description<'_> {
        Description {
            title: &self.title,
            year: self.year,
            first_author: self.first_author.as_deref(),
        }
    }
}

/// Returns the description of the wanted work.
fn wanted(work: &Work) -> Option<Description<'_>> {
    Some(Description {
        title: work.title.as_deref()?,
        year: work.year,
        first_author: work.first_author.as_deref(),
    })
}

/// The best of the records with sufficient evidence, or the reason for its absence.
fn best(work: &Work, records: &[FoundRecord], service: &str) -> Result<LearnedMetadata, String> {
    let nothing = || format!("{service} knows no work with this title");
    let wanted = wanted(work).ok_or_else(nothing)?;
    let matches = records
        .iter()
        .filter(|record| !record.identifiers.is_empty());
    let matches = matches.filter_map(|record| {
        MatchEvidence::of(wanted, record.description()).map(|evidence| (evidence, record))
    });
    let mut matches: Vec<(MatchEvidence, &FoundRecord)> = matches.collect();
    // The service lists the best match first, so the order of equals is kept.
    matches.sort_by_key(|(evidence, _)| std::cmp::Reverse(*evidence));
    let (evidence, found) = matches.first().ok_or_else(nothing)?;
    let is_other_author = |other: &FoundRecord| {
        let [one, other] = [&found.first_author, &other.first_author]
            .map(|name| name.as_deref().map(titles::words));
        one.is_some() && other.is_some() && one != other
    };
    if work.first_author.is_none()
        && matches
            .iter()
            .any(|(other, record)| other == evidence && is_other_author(record))
    {
        return Err(format!(
            "{service} knows several works with this title, by different authors"
        ));
    }
    let name = found.identifiers.strongest().ok_or_else(nothing)?;
    Ok(LearnedMetadata {
        identifiers: found.identifiers.clone(),
        title: Some(found.title.clone()),
        year: found.year,
        matched_by: Some(format!(
            "found by its title at {service} as {name}: {}",
            evidence.sentence()
        )),
        ..LearnedMetadata::default()
    })
}

impl TitleSearch {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            credits: Mutex::new(None),
        }
    }

    fn one<'a>(&'a self, work: &'a Work) -> WorkLookupStep<'a> {
        let Identifier::Title(name) = work.supplied() else {
            return Step::Done(LookupOutcome::not_found("no title to search for"));
        };
        let words = titles::words(name.as_str()).join(" ");
        let mut url = self.settings.url(&crossref::API, "works");
        let author = work.first_author.as_deref().map(titles::words);
        let author = author.map(|words| words.join(" ")).unwrap_or_default();
        let year = work.year.map(|year| year.to_string()).unwrap_or_default();
        let query = [words.as_str(), &author, &year].join(" ");
        url.query_pairs_mut()
            .append_pair("query.bibliographic", query.trim())
            .append_pair("rows", MAX_RECORDS)
            .append_pair("select", CROSSREF_FIELDS);
        if let Some(mailto) = self.settings.credentials.mailto() {
            url.query_pairs_mut().append_pair("mailto", mailto);
        }
        self.search(url, move |result| {
            let reply = record(&self.settings, result, &[], "/message/items");
            let records = reply.map(|value| {
                let items = items(&value, "/message/items").iter();
                items
                    .filter_map(FoundRecord::of_crossref)
                    .collect::<Vec<_>>()
            });
            let records = match records {
                Ok(records) => records,
                Err(failure) => return Step::Done(failure.into_outcome("Crossref")),
            };
            match best(work, &records, "Crossref") {
                Ok(learned) => Step::Done(found(learned)),
                Err(reason) => self.at_openalex(work, &words, reason),
            }
        })
    }

    /// Searches at `OpenAlex`, after Crossref had no match for this reason.
    fn at_openalex<'a>(
        &'a self,
        work: &'a Work,
        words: &str,
        reason: String,
    ) -> WorkLookupStep<'a> {
        if self
            .credits
            .lock()
            .is_some_and(|left| left < SEARCH_CREDITS)
        {
            let detail = format!("{reason}; the credits of OpenAlex for today are used up");
            return Step::Done(LookupOutcome::not_found(detail));
        }
        let mut url = self.settings.url(&openalex::API, "works");
        url.query_pairs_mut()
            .append_pair("search", words)
            .append_pair("per_page", MAX_RECORDS)
            .append_pair("select", OPENALEX_FIELDS);
        self.search(url, move |result| {
            if let Ok(response) = &result {
                let mut credits = self.credits.lock();
                *credits = credits_left(response).or(*credits);
            }
            let reply = record(&self.settings, result, &[], "/results");
            let records = reply.map(|value| {
                let items = items(&value, "/results").iter();
                items
                    .filter_map(FoundRecord::of_openalex)
                    .collect::<Vec<_>>()
            });
            Step::Done(match records {
                Err(failure) => failure.into_outcome("OpenAlex"),
                Ok(records) => match best(work, &records, "OpenAlex") {
                    Ok(learned) => found(learned),
                    Err(other) => LookupOutcome::not_found(format!("{reason}; {other}")),
                },
            })
        })
    }

    fn search<'a>(
        &'a self,
        url: Url,
        read: impl FnOnce(Result<LookupResponse, RequestFailure>) -> WorkLookupStep<'a> + Send + 'a,
    ) -> WorkLookupStep<'a> {
        let secrets = self.settings.secret_headers(&url);
        // The limits for lists apply to searches.
        let request = LookupRequest::metadata(url, ID.as_str()).kind("list");
        Step::request(request.secrets(secrets), read)
    }
}

fn found(learned: LearnedMetadata) -> LookupOutcome {
    LookupOutcome::Found(FoundLocations {
        locations: Vec::new(),
        learned,
    })
}

impl Resolver for TitleSearch {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        each(works, |work| self.one(work))
    }
}
