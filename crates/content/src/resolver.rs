//! The sources that know the locations of works' files.
//!
//! A [`Resolver`] is a value without I/O. [`Resolver::begin`] returns the first step of a look-up,
//! and each response gives the next step, until every work has its [`LookupOutcome`]. An outcome
//! contains candidate locations and learned metadata, so that the next resolver can be queried by
//! an identifier that the user never wrote.
//!
//! A service that does not respond also results in an outcome. It has a reason, and the declared
//! time of the next try, if any. A resolver is one file with a [`ResolverSpec`].
//! [`order()`](order::order) plans the queries with their order and reasons.

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
pub mod title_search;
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
pub use title_search::TitleSearch;
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

/// All resolvers. A new resolver is its file, its `mod` line and a line here.
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
    &title_search::SPEC,
    &unpaywall::SPEC,
    &wayback::SPEC,
    &zenodo::SPEC,
];

/// The next step of a look-up, with a result of any type.
pub(crate) type Step<'a, T> = docstokg_lookup::step::LookupStep<'a, T, RequestFailure>;

/// The next step of the look-up of a work, with a [`LookupOutcome`].
pub type WorkLookupStep<'a> = docstokg_lookup::step::LookupStep<'a, LookupOutcome, RequestFailure>;

/// The next step of the look-up of several works. The last step of the batch returns a step for
/// each work.
pub type BatchStep<'a> = docstokg_lookup::step::BatchStep<'a, LookupOutcome, RequestFailure>;

/// Looks up works independently of each other.
fn each<'a>(works: &'a [Work], look_up: impl Fn(&'a Work) -> WorkLookupStep<'a>) -> BatchStep<'a> {
    Step::Done(works.iter().map(look_up).collect())
}

/// A service that knows the locations of files.
pub trait Resolver: Send + Sync {
    /// Returns the [`ResolverSpec`].
    fn spec(&self) -> &'static ResolverSpec;

    /// Returns the name, as in config, on the command line and in manifests.
    fn id(&self) -> ResolverId {
        self.spec().id
    }

    /// Returns the reason why the current configuration prevents queries; `None` if queries are
    /// possible.
    fn unavailable(&self) -> Option<&'static str> {
        None
    }

    /// Returns the [`Applicability`] to a work, by its currently known identifiers.
    fn applies(&self, work: &Work) -> Applicability {
        self.spec().applies(work)
    }

    /// Returns the maximum number of works in one call of [`Resolver::begin`].
    fn batch(&self) -> usize {
        1
    }

    /// Begins to look up works, without sending a request. The outcomes are in the order of the
    /// works.
    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a>;
}

/// Looks up works. Returns one [`LookupOutcome`] per work, in their order. If a response makes the
/// resolver panic, the outcome of that work is a failure, and its other sources are queried.
pub async fn resolve(
    resolver: &dyn Resolver,
    works: &[Work],
    sender: &LookupSender<'_>,
) -> Vec<LookupOutcome> {
    let outcomes = look_up_batch(works, |works| resolver.begin(works), sender).await;
    let outcomes = outcomes.into_iter();
    outcomes.map(|outcome| read_by(resolver, outcome)).collect()
}

/// Returns the [`LookupOutcome`] that a resolver read, or a failure if reading panicked.
pub(crate) fn read_by(resolver: &dyn Resolver, outcome: Option<LookupOutcome>) -> LookupOutcome {
    outcome.unwrap_or_else(|| {
        let detail = unreadable(resolver.spec().source.title);
        RequestFailure::new(Reason::JsonError, detail, None).into()
    })
}

/// The outcome of looking up one work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupOutcome {
    /// The service knows candidate locations.
    Found(FoundLocations),
    /// The service responded, and knows no location.
    NotFound {
        /// The message of the service, for people.
        detail: String,
        /// The metadata that the service nevertheless returned.
        learned: LearnedMetadata,
    },
    /// The service sent no usable response.
    Failed(RequestFailure),
}

impl LookupOutcome {
    /// Returns the [`LearnedMetadata`], with or without a location.
    #[must_use]
    pub const fn learned(&self) -> Option<&LearnedMetadata> {
        match self {
            Self::Found(found) => Some(&found.learned),
            Self::NotFound { learned, .. } => Some(learned),
            Self::Failed(_) => None,
        }
    }

    /// Tells whether the service may be queried only at another time.
    pub(crate) fn is_put_off(&self) -> bool {
        matches!(self, Self::Failed(failed) if failed.disposition.retry().is_some())
    }

    /// Creates [`LookupOutcome::Found`], or [`LookupOutcome::NotFound`] with a message if the list
    /// is empty.
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

/// Candidate locations, and learned metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLocations {
    /// Locations, best first, each once.
    pub locations: Vec<CandidateLocation>,
    /// The metadata that the service returned.
    pub learned: LearnedMetadata,
}

impl From<RequestFailure> for LookupOutcome {
    fn from(failure: RequestFailure) -> Self {
        Self::Failed(failure)
    }
}
