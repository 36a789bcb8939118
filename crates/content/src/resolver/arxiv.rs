//! arXiv. Where the file is needs no asking: the address follows from the id.
//!
//! The API adds title, year and DOI, and tells ids that do not exist. It is often overloaded, so
//! its failure never costs a work its location.

use std::sync::Arc;

use super::atom::{self, Entry, Feed};
use super::order::Preset;
use super::reply::sort;
use super::settings::Settings;
use super::spec::{Early, Endpoint, Need, ResolverSpec};
use super::{Found, Outcome, Resolver, ResolverId};
use crate::identifier::{ArxivId, Doi, Identifier};
use crate::location::{Location, Offers, joined};
use crate::web::{Ask, BoxFuture, Web};
use crate::work::{Learned, Work};

/// Its name.
pub const ID: ResolverId = ResolverId::new("arxiv");

/// The host that arXiv keeps for robots: API and files.
pub static API: Endpoint = Endpoint {
    key: "arxiv",
    address: "https://export.arxiv.org/",
    about: "The host that arXiv keeps for robots",
};

/// Describes it.
pub static SPEC: ResolverSpec = ResolverSpec {
    endpoints: &[&API],
    needs: &[Need::ArxivId],
    preset: Preset::Fast,
    rank: 30,
    early: Some(Early {
        rank: 30,
        when: |work| work.identifiers.arxiv.is_some(),
        why: WHY,
    }),
    why: WHY,
    ..ResolverSpec::base(ID, "arXiv", |settings| {
        Arc::new(Arxiv::new(Arc::clone(settings)))
    })
};

const WHY: &str = "the arXiv id says where the file is";

/// Most ids of one request.
const BATCH: usize = 50;

/// Knows where arXiv keeps its files.
#[derive(Debug)]
pub struct Arxiv {
    settings: Arc<Settings>,
}

impl Arxiv {
    /// Sets it up.
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    async fn many(&self, works: &[Work], web: &dyn Web) -> Vec<Outcome> {
        // One request in three seconds: nothing is asked that is known already.
        let unknown: Vec<&ArxivId> = works
            .iter()
            .filter(|work| work.title.is_none())
            .filter_map(|work| work.identifiers.arxiv.as_ref())
            .collect();
        let mut feeds = Vec::new();
        for chunk in unknown.chunks(BATCH) {
            feeds.push((chunk, self.feed(chunk, web).await));
        }
        let outcome = |work: &Work| {
            let Some(id) = &work.identifiers.arxiv else {
                return Outcome::not_found("no arXiv id to ask for");
            };
            let feed = feeds
                .iter()
                .find(|(chunk, _)| work.title.is_none() && chunk.contains(&id));
            self.outcome(id, feed.map(|(chunk, feed)| (chunk.len(), feed)))
        };
        works.iter().map(outcome).collect()
    }

    /// Asks the API; whatever goes wrong there is no feed.
    async fn feed(&self, ids: &[&ArxivId], web: &dyn Web) -> Option<Feed> {
        let mut url = joined(self.settings.endpoints.of(&API), "api/query");
        let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
        url.query_pairs_mut()
            .append_pair("id_list", &list.join(","))
            .append_pair("max_results", &ids.len().to_string());
        let answer = web.ask(Ask::metadata(url, ID)).await;
        let answer = match answer {
            // Errors of the API come as a feed with status 400 as well as 200.
            Ok(answer) if answer.status.as_u16() == 400 => Some(answer),
            answer => sort(&self.settings, answer, &[]).ok(),
        };
        atom::parse(&answer?.body)
    }

    fn outcome(&self, id: &ArxivId, asked: Option<(usize, &Option<Feed>)>) -> Outcome {
        let location = Location::new(
            joined(self.settings.endpoints.of(&API), &format!("pdf/{id}")),
            Offers::Pdf,
            ID,
        );
        let found = |learned| {
            Outcome::Found(Found {
                locations: vec![location.clone()],
                learned,
            })
        };
        match asked {
            Some((_, Some(Feed::Entries(entries)))) => {
                match entries.iter().find(|entry| entry.id.base() == id.base()) {
                    Some(entry) => found(learned(entry)),
                    // No entry at all is what an overloaded API gives; some without this one means
                    // that it does not exist.
                    None if entries.is_empty() => found(Learned::default()),
                    None => Outcome::not_found("arXiv does not know it"),
                }
            }
            // Of several ids any may be the one that the API complains about.
            Some((1, Some(Feed::Error(message)))) => {
                Outcome::not_found(format!("arXiv says: {message}"))
            }
            _ => found(Learned::default()),
        }
    }
}

fn learned(entry: &Entry) -> Learned {
    let mut learned = Learned {
        title: entry.title.clone(),
        year: entry.year,
        ..Learned::default()
    };
    learned
        .identifiers
        .insert(Identifier::Arxiv(entry.id.clone()));
    if let Some(doi) = entry.doi.as_deref().and_then(|doi| doi.parse::<Doi>().ok()) {
        learned.identifiers.insert(Identifier::Doi(doi));
    }
    learned
}

impl Resolver for Arxiv {
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
