//! The Wayback Machine: copies of URLs that no longer exist. It is queried last, and only about
//! such URLs.

use std::sync::Arc;

use docstokg_lookup::message::{LookupRequest, LookupResponse};
use docstokg_lookup::source_spec::{SourceEndpoint, SourceSpec};
use serde_json::Value;
use url::Url;

use super::reply::{ReplyFailure, json, sort};
use super::settings::Settings;
use super::spec::{IdentifierNeed, ResolverCost, ResolverSpec};
use super::{
    BatchStep, LookupOutcome, RequestFailure, Resolver, ResolverId, Step, WorkLookupStep, each,
};
use crate::location::{CandidateLocation, LocationOffer, distinct};
use crate::work::{LearnedMetadata, Work};

/// The [`ResolverId`] of the Wayback Machine.
pub const ID: ResolverId = ResolverId::new("wayback");

static ARCHIVE: SourceEndpoint = SourceEndpoint {
    key: "wayback",
    address: "https://web.archive.org/",
    about: "The Wayback Machine",
};

/// The [`ResolverSpec`] of the Wayback Machine.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&ARCHIVE],
        about: "what is gone may have been kept; queried last",
        ..SourceSpec::new(ID.as_str(), "the Wayback Machine")
    },
    needs: &[IdentifierNeed::DeadLink],
    cost: ResolverCost::Archive,
    rank: 100,
    vouches: false,
    ..ResolverSpec::base(ID, |settings| Arc::new(Wayback::new(Arc::clone(settings))))
};

/// Maximum number of copies of one URL that are tried; the copies differ in content.
const MAX_COPIES_PER_URL: usize = 3;

/// Maximum number of URLs of one work that are queried: the service allows 24 requests a minute.
const MAX_URLS_PER_WORK: usize = 5;

/// The [`Resolver`] that queries the Wayback Machine.
#[derive(Debug)]
pub struct Wayback {
    settings: Arc<Settings>,
}

impl Wayback {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    /// Queries the URLs one after the other: the service accepts one request at a time, and blocks
    /// clients that send more.
    fn one<'a>(&'a self, gone: &'a [Url], mut found: Vec<CandidateLocation>) -> WorkLookupStep<'a> {
        let Some((first, rest)) = gone.split_first() else {
            return Step::Done(outcome(found));
        };
        let mut url = self.settings.url(&ARCHIVE, "cdx/search/cdx");
        url.query_pairs_mut()
            .append_pair("url", first.as_str())
            .append_pair("output", "json")
            .append_pair("fl", "timestamp,original,mimetype,statuscode,digest,length")
            .append_pair("filter", "statuscode:200")
            .append_pair("filter", "mimetype:application/pdf")
            .append_pair("collapse", "digest")
            .append_pair("limit", "-8");
        Step::request(
            LookupRequest::metadata(url, ID.as_str()),
            move |result| match self.copies(result) {
                Ok(copies) => {
                    found.extend(copies);
                    self.one(rest, found)
                }
                Err(failure) if found.is_empty() => Step::Done(LookupOutcome::Failed(failure)),
                Err(_) => Step::Done(outcome(found)),
            },
        )
    }

    /// Reads the copies of one URL.
    fn copies(
        &self,
        result: Result<LookupResponse, RequestFailure>,
    ) -> Result<Vec<CandidateLocation>, RequestFailure> {
        let response = match sort(&self.settings, result, &[404]) {
            Ok(response) => response,
            Err(ReplyFailure::Missing(_)) => return Ok(Vec::new()),
            Err(ReplyFailure::Failed(failure)) => return Err(failure),
        };
        if response.body.trim_ascii().is_empty() {
            return Ok(Vec::new());
        }
        let rows = json(&self.settings, &response)?;
        Ok(self.read(&rows))
    }

    /// Reads the rows below their header as [`CandidateLocation`]s, newest first. The columns are
    /// found by name.
    fn read(&self, rows: &Value) -> Vec<CandidateLocation> {
        let Some((header, rows)) = rows.as_array().and_then(|rows| rows.split_first()) else {
            return Vec::new();
        };
        let column = |name: &str| {
            header
                .as_array()?
                .iter()
                .position(|column| column.as_str() == Some(name))
        };
        let (Some(timestamp), Some(original), Some(status)) = (
            column("timestamp"),
            column("original"),
            column("statuscode"),
        ) else {
            return Vec::new();
        };
        let mut copies: Vec<(&str, &str)> = rows
            .iter()
            .filter(|row| row.get(status).and_then(Value::as_str) == Some("200"))
            .filter_map(|row| Some((row.get(timestamp)?.as_str()?, row.get(original)?.as_str()?)))
            .filter(|(timestamp, _)| {
                timestamp.len() == 14 && timestamp.bytes().all(|byte| byte.is_ascii_digit())
            })
            .collect();
        copies.sort_by(|a, b| b.0.cmp(a.0));
        copies.truncate(MAX_COPIES_PER_URL);
        // `id_` selects the original bytes, without the archive's banner and links.
        let copy = |(timestamp, original): (&str, &str)| {
            let raw = format!(
                "{}/web/{timestamp}id_/{original}",
                self.settings
                    .endpoints
                    .of(&ARCHIVE)
                    .as_str()
                    .trim_end_matches('/')
            );
            Url::parse(&raw)
                .ok()
                .map(|url| CandidateLocation::new(url, LocationOffer::Pdf, ID))
        };
        copies.into_iter().filter_map(copy).collect()
    }
}

fn outcome(found: Vec<CandidateLocation>) -> LookupOutcome {
    LookupOutcome::of(
        distinct(found),
        LearnedMetadata::default(),
        "no copy was kept",
    )
}

impl Resolver for Wayback {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        each(works, |work| {
            let gone = &work.failed_urls;
            self.one(&gone[..gone.len().min(MAX_URLS_PER_WORK)], Vec::new())
        })
    }
}
