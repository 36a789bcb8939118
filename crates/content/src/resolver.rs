//! The sources that know where the files of works are.
//!
//! A [`Resolver`] is a value without I/O: [`Resolver::begin`] returns the first step of a look-up of
//! works, and each response gives the next, until every work has its [`LookupOutcome`]: candidate
//! locations of its file, and what else was learned, so that the next resolver can be asked by an
//! identifier that the user never wrote. A service that does not respond is an outcome too, with a
//! reason and, where the service stated one, the time until which it takes no requests. A resolver
//! is one file with a [`ResolverSpec`]; [`order()`](order::order) plans which are asked, in which
//! order and why.

use docstokg_lookup::driver::{look_up_batch, unreadable};

use crate::location::CandidateLocation;
use crate::reason::Reason;
use crate::request_failure::{LookupSender, RequestFailure};
use crate::work::{LearnedMetadata, Work};

pub mod arxiv;
mod atom;
mod catalogue;
pub mod crossref;
mod datacite;
mod deposit;
pub mod doaj;
pub mod europe_pmc;
pub mod figshare;
pub mod hal;
mod id;
pub mod landing;
pub mod openalex;
pub mod order;
pub mod osf;
pub mod pmc;
mod pmc_bucket;
mod reply;
pub mod settings;
mod spec;
mod statements;
mod text_mining;
pub mod unpaywall;
pub mod wayback;
pub(crate) mod xml;
pub mod zenodo;

pub use arxiv::Arxiv;
pub use crossref::Crossref;
pub use doaj::Doaj;
pub use europe_pmc::EuropePmc;
pub use figshare::Figshare;
pub use hal::Hal;
pub use id::{ResolverId, UnknownResolver};
pub use landing::LandingPage;
pub use openalex::OpenAlex;
pub(crate) use openalex::credits_left;
pub use osf::Osf;
pub use pmc::Pmc;
pub(crate) use reply::doi_path;
pub use unpaywall::Unpaywall;
pub use wayback::Wayback;
pub use zenodo::Zenodo;

pub use arxiv::API as ARXIV_API;
pub use catalogue::{all, credential_table, credentials, endpoints, source_table, spec, specs};
pub use landing::ID as LANDING_PAGE;
pub use openalex::{API as OPENALEX_API, ID as OPENALEX};
pub use spec::{
    Applicability, EarlyPosition, IdentifierNeed, ResolverCost, ResolverSpec, WorkMention,
};

/// All resolvers: a new one is its file, its `mod` line and a line here.
static ALL_RESOLVERS: &[&ResolverSpec] = &[
    &arxiv::SPEC,
    &crossref::SPEC,
    &doaj::SPEC,
    &europe_pmc::SPEC,
    &figshare::SPEC,
    &hal::SPEC,
    &landing::SPEC,
    &openalex::SPEC,
    &osf::SPEC,
    &pmc::SPEC,
    &unpaywall::SPEC,
    &wayback::SPEC,
    &zenodo::SPEC,
];

/// What a look-up needs next, with a result of any type.
pub(crate) type Step<'a, T> = docstokg_lookup::step::LookupStep<'a, T, RequestFailure>;

/// What the look-up of a work needs next.
pub type WorkLookupStep<'a> = docstokg_lookup::step::LookupStep<'a, LookupOutcome, RequestFailure>;

/// What the look-up of several works needs next: at last, one step for each of them.
pub type BatchStep<'a> = docstokg_lookup::step::BatchStep<'a, LookupOutcome, RequestFailure>;

/// Looks up works independently of each other.
fn each<'a>(works: &'a [Work], look_up: impl Fn(&'a Work) -> WorkLookupStep<'a>) -> BatchStep<'a> {
    Step::Done(works.iter().map(look_up).collect())
}

/// One service that knows where files are.
pub trait Resolver: Send + Sync {
    /// Describes it.
    fn spec(&self) -> &'static ResolverSpec;

    /// Returns its name, as in config, on the command line and in manifests.
    fn id(&self) -> ResolverId {
        self.spec().id
    }

    /// Returns why it cannot be asked at all as things are configured; `None` when it can.
    fn unavailable(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether it can be asked about this work, by what is known of it now.
    fn applies(&self, work: &Work) -> Applicability {
        self.spec().applies(work)
    }

    /// Returns how many works one call of [`Resolver::begin`] should have at most.
    fn batch(&self) -> usize {
        1
    }

    /// Begins to look up works, whose outcomes are in their order. Sends nothing.
    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a>;
}

/// Looks up works. Returns one outcome per work, in their order. A work whose response makes the
/// resolver panic has failed here, and its other sources are asked.
pub async fn resolve(
    resolver: &dyn Resolver,
    works: &[Work],
    sender: &LookupSender<'_>,
) -> Vec<LookupOutcome> {
    let outcomes = look_up_batch(works, |works| resolver.begin(works), sender).await;
    let outcomes = outcomes.into_iter();
    outcomes.map(|outcome| read_by(resolver, outcome)).collect()
}

/// Returns the outcome that a resolver read; a failure if reading panicked.
pub(crate) fn read_by(resolver: &dyn Resolver, outcome: Option<LookupOutcome>) -> LookupOutcome {
    outcome.unwrap_or_else(|| {
        let detail = unreadable(resolver.spec().source.title);
        RequestFailure::new(Reason::JsonError, detail, None).into()
    })
}

/// What came of asking about one work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupOutcome {
    /// There are candidate locations.
    Found(FoundLocations),
    /// The service answered, and knows no location.
    NotFound {
        /// What it said.
        detail: String,
        /// What it knows about the work all the same.
        learned: LearnedMetadata,
    },
    /// The service did not answer, or not sensibly.
    Failed(RequestFailure),
}

impl LookupOutcome {
    /// Returns what was learned about the work, whether or not there is a location.
    #[must_use]
    pub const fn learned(&self) -> Option<&LearnedMetadata> {
        match self {
            Self::Found(found) => Some(&found.learned),
            Self::NotFound { learned, .. } => Some(learned),
            Self::Failed(_) => None,
        }
    }

    /// Tells whether the service is only to be asked at another time.
    pub(crate) fn is_put_off(&self) -> bool {
        matches!(self, Self::Failed(failed) if failed.disposition.retry().is_some())
    }

    /// Says that locations were found, or, when there are none, what was said instead.
    fn of(
        locations: Vec<CandidateLocation>,
        mut learned: LearnedMetadata,
        otherwise: &str,
    ) -> Self {
        // The API of a repository knows its files better than its pages do.
        let records = locations
            .iter()
            .map(|location| &location.url)
            .filter(|url| {
                specs()
                    .iter()
                    .any(|spec| (spec.claims)(WorkMention::Found(url)))
            });
        learned.record_links.extend(records.cloned());
        if locations.is_empty() {
            Self::NotFound {
                detail: otherwise.to_owned(),
                learned,
            }
        } else {
            Self::Found(FoundLocations { locations, learned })
        }
    }

    fn not_found(detail: impl Into<String>) -> Self {
        Self::NotFound {
            detail: detail.into(),
            learned: LearnedMetadata::default(),
        }
    }
}

/// Candidate locations, and what was learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLocations {
    /// Locations, best first, each once.
    pub locations: Vec<CandidateLocation>,
    /// What the service knows about the work.
    pub learned: LearnedMetadata,
}

impl From<RequestFailure> for LookupOutcome {
    fn from(failure: RequestFailure) -> Self {
        Self::Failed(failure)
    }
}
