//! arXiv. The address of the file follows from the id, without a query.
//!
//! The API adds title, year and DOI, and detects ids that do not exist. The API is often
//! overloaded, so its failure never costs a work its location.

use std::collections::VecDeque;
use std::sync::Arc;

use docstokg_lookup::message::LookupRequest;
use docstokg_lookup::source_spec::{SourceEndpoint, SourceSpec};

use super::atom::{self, AtomEntry, AtomFeed};
use super::order::Preset;
use super::reply::sort;
use super::settings::Settings;
use super::spec::{EarlyPosition, IdentifierNeed, ResolverSpec};
use super::statements;
use super::{BatchStep, FoundLocations, LookupOutcome, Resolver, ResolverId, Step, each};
use crate::identifier::{ArxivId, Doi, Identifier};
use crate::location::{CandidateLocation, LocationOffer};
use crate::work::{LearnedMetadata, Work};

/// The [`ResolverId`] of arXiv.
pub const ID: ResolverId = ResolverId::new("arxiv");

/// The host that arXiv provides for robots: API and files.
pub static API: SourceEndpoint = SourceEndpoint {
    key: "arxiv",
    address: "https://export.arxiv.org/",
    about: "The host that arXiv keeps for robots",
};

/// The [`ResolverSpec`] of arXiv.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&API],
        about: ORDER_REASON,
        ..SourceSpec::new(ID.as_str(), "arXiv")
    },
    needs: &[IdentifierNeed::ArxivId],
    preset: Preset::Fast,
    rank: 30,
    early: Some(EarlyPosition {
        rank: 30,
        when: |work| work.identifiers.arxiv.is_some(),
        why: ORDER_REASON,
    }),
    ..ResolverSpec::base(ID, |settings| Arc::new(Arxiv::new(Arc::clone(settings))))
};

const ORDER_REASON: &str = "the arXiv id says where the file is";

/// Maximum number of ids in one request.
const MAX_IDS_PER_REQUEST: usize = 50;

/// The [`Resolver`] that finds arXiv's files by their ids.
#[derive(Debug)]
pub struct Arxiv {
    settings: Arc<Settings>,
}

/// The [`ArxivId`]s of the feeds that are not yet requested.
type ArxivIdChunks<'a> = VecDeque<Vec<&'a ArxivId>>;

/// The [`AtomFeed`]s so far, each with the ids of its request.
type Feeds<'a> = Vec<(Vec<&'a ArxivId>, Option<AtomFeed>)>;

impl Arxiv {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    /// Requests feeds, one after the other. A request that fails results in an absent feed.
    fn feeds<'a>(
        &'a self,
        mut chunks: ArxivIdChunks<'a>,
        mut feeds: Feeds<'a>,
    ) -> Step<'a, Feeds<'a>> {
        let Some(ids) = chunks.pop_front() else {
            return Step::Done(feeds);
        };
        let mut url = self.settings.url(&API, "api/query");
        let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
        url.query_pairs_mut()
            .append_pair("id_list", &list.join(","))
            .append_pair("max_results", &ids.len().to_string());
        Step::request(LookupRequest::metadata(url, ID.as_str()), move |result| {
            let response = match result {
                // Errors of the API are feeds with status 400 or 200.
                Ok(response) if response.status.as_u16() == 400 => Some(response),
                result => sort(&self.settings, result, &[]).ok(),
            };
            let feed = response.and_then(|response| atom::parse(&response.body));
            feeds.push((ids, feed));
            self.feeds(chunks, feeds)
        })
    }

    fn one(&self, work: &Work, feeds: &Feeds<'_>) -> LookupOutcome {
        let Some(id) = &work.identifiers.arxiv else {
            return LookupOutcome::not_found("no arXiv id to ask for");
        };
        let feed = feeds
            .iter()
            .find(|(ids, _)| work.title.is_none() && ids.contains(&id));
        self.outcome(id, feed.map(|(ids, feed)| (ids.len(), feed)))
    }

    fn outcome(&self, id: &ArxivId, asked: Option<(usize, &Option<AtomFeed>)>) -> LookupOutcome {
        let location = CandidateLocation::new(
            self.settings.url(&API, &format!("pdf/{id}")),
            LocationOffer::Pdf,
            ID,
        );
        let found = |learned| {
            LookupOutcome::Found(FoundLocations {
                locations: vec![location.clone()],
                learned,
            })
        };
        match asked {
            Some((_, Some(AtomFeed::Entries(entries)))) => {
                match entries.iter().find(|entry| entry.id.base() == id.base()) {
                    Some(entry) => found(learned(entry)),
                    // An overloaded API returns a feed without entries. A feed with other entries
                    // shows that this id does not exist.
                    None if entries.is_empty() => found(LearnedMetadata::default()),
                    None => LookupOutcome::not_found("arXiv does not know it"),
                }
            }
            // Of several ids, the API may complain about any.
            Some((1, Some(AtomFeed::Error(message)))) => {
                LookupOutcome::not_found(format!("arXiv says: {message}"))
            }
            _ => found(LearnedMetadata::default()),
        }
    }
}

fn learned(entry: &AtomEntry) -> LearnedMetadata {
    let mut learned = LearnedMetadata {
        title: entry.title.clone(),
        year: entry.year,
        ..LearnedMetadata::default()
    };
    learned
        .identifiers
        .insert(Identifier::Arxiv(entry.id.clone()));
    if let Some(doi) = entry.doi.as_deref().and_then(|doi| doi.parse::<Doi>().ok()) {
        learned.identifiers.insert(Identifier::Doi(doi));
    }
    learned.statement = Some(Box::new(statements::of_arxiv(entry, &learned)));
    learned
}

impl Resolver for Arxiv {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn batch(&self) -> usize {
        MAX_IDS_PER_REQUEST
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        // arXiv allows one request in three seconds, so only unknown ids are requested.
        let unknown: Vec<&ArxivId> = works
            .iter()
            .filter(|work| work.title.is_none())
            .filter_map(|work| work.identifiers.arxiv.as_ref())
            .collect();
        let chunks = unknown
            .chunks(MAX_IDS_PER_REQUEST)
            .map(<[_]>::to_vec)
            .collect();
        self.feeds(chunks, Feeds::new())
            .then(move |feeds| each(works, |work| Step::Done(self.one(work, &feeds))))
    }
}
