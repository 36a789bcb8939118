//! What is known about a resolver before it is asked.
//!
//! A resolver is one file: its [`ResolverSpec`], the requests it needs and the responses it reads.
//! Names, order, presets, endpoints, credentials, the sentences of `explain` and the tables in
//! `docs/reference/sources.md` all follow from the spec, so that adding a resolver is adding its
//! file, its fixtures and one line in the list of [`specs`](super::specs).

use std::fmt;
use std::sync::Arc;

use docstokg_lookup::catalogue::HasSourceSpec;
use docstokg_lookup::source_spec::SourceSpec;
use url::Url;

use super::order::Preset;
use super::settings::Settings;
use super::{Resolver, ResolverId};
use crate::identifier::Doi;
use crate::work::Work;

/// Describes a resolver.
#[derive(Debug)]
pub struct ResolverSpec {
    /// Its name, its services and its credentials.
    pub source: SourceSpec,
    /// Its name as a type.
    pub id: ResolverId,
    /// What has to be known of a work: any one of these.
    pub needs: &'static [IdentifierNeed],
    /// What asking it costs.
    pub cost: ResolverCost,
    /// The smallest preset that has it.
    pub preset: Preset,
    /// Its position among the others, lowest first.
    pub rank: u8,
    /// Where it stands when a work is one of its own.
    pub early: Option<EarlyPosition>,
    /// Whether it has full texts as XML.
    pub has_xml: bool,
    /// Whether a location of it is the work's file by its word alone; otherwise a file that names
    /// another work is refused.
    pub vouches: bool,
    /// Tells whether a DOI or link is one of its own records, so that it can be asked about it.
    pub claims: fn(WorkMention<'_>) -> bool,
    /// Sets it up.
    pub build: fn(&Arc<Settings>) -> Arc<dyn Resolver>,
}

impl HasSourceSpec for ResolverSpec {
    fn source(&self) -> &SourceSpec {
        &self.source
    }
}

/// Something that may be known of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentifierNeed {
    /// Its DOI.
    Doi,
    /// Its arXiv id.
    ArxivId,
    /// Its `PubMed` id.
    PubMedId,
    /// Its `PubMed` Central id.
    PmcId,
    /// Its `OpenAlex` id.
    OpenAlexId,
    /// A URL of it.
    Url,
    /// A URL of it that is gone.
    DeadLink,
    /// A record of the resolver itself, known by a DOI or link.
    OwnRecord,
}

impl IdentifierNeed {
    /// Names it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Doi => "DOI",
            Self::ArxivId => "arXiv id",
            Self::PubMedId => "PubMed id",
            Self::PmcId => "PMC id",
            Self::OpenAlexId => "OpenAlex id",
            Self::Url => "URL",
            Self::DeadLink => "dead link",
            Self::OwnRecord => "record of its own",
        }
    }

    fn is_met(self, work: &Work, spec: &ResolverSpec) -> bool {
        let ids = &work.identifiers;
        match self {
            Self::Doi => ids.doi.is_some(),
            Self::ArxivId => ids.arxiv.is_some(),
            Self::PubMedId => ids.pmid.is_some(),
            Self::PmcId => ids.pmcid.is_some(),
            Self::OpenAlexId => ids.openalex.is_some(),
            Self::Url => ids.url.is_some(),
            Self::DeadLink => !work.failed_urls.is_empty(),
            Self::OwnRecord => work.mentions().any(spec.claims),
        }
    }
}

/// A DOI or link by which a work is known, from the user or from another resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkMention<'a> {
    /// Its DOI.
    Doi(&'a Doi),
    /// The URL that the user wrote.
    Written(&'a Url),
    /// A location that another resolver found.
    Found(&'a Url),
}

impl<'a> WorkMention<'a> {
    /// Returns the link, if it is one.
    #[must_use]
    pub const fn link(self) -> Option<&'a Url> {
        match self {
            Self::Doi(_) => None,
            Self::Written(url) | Self::Found(url) => Some(url),
        }
    }
}

/// What asking a resolver costs, the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResolverCost {
    /// A request to an API.
    Api,
    /// Pages made for people, at the publisher's host.
    Page,
    /// An archive that answers a few requests a minute: the last resort.
    Archive,
}

/// A position before all ranks, for works that are a resolver's own.
#[derive(Debug)]
pub struct EarlyPosition {
    /// The position among those that stand early, lowest first.
    pub rank: u8,
    /// Tells whether a work is one of its own.
    pub when: fn(&Work) -> bool,
    /// Why it stands there.
    pub why: &'static str,
}

/// Whether a resolver can be asked about a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applicability {
    /// It can.
    Yes,
    /// It cannot: none of these is known.
    No(&'static [IdentifierNeed]),
}

/// Says that none of some needs is met.
pub(super) struct UnmetNeeds(pub(super) &'static [IdentifierNeed]);

impl fmt::Display for UnmetNeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} is known", alternatives(self.0))
    }
}

/// Lists needs: `A`, `A or B`, `A, B or C`.
pub(super) fn alternatives(needs: &[IdentifierNeed]) -> String {
    let names: Vec<&str> = needs.iter().map(|need| need.as_str()).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

impl ResolverSpec {
    /// What most resolvers have in common: APIs whose word is taken, that know works by
    /// identifiers and need no credential.
    #[must_use]
    pub const fn base(id: ResolverId, build: fn(&Arc<Settings>) -> Arc<dyn Resolver>) -> Self {
        Self {
            source: SourceSpec::new(id.as_str(), id.as_str()),
            id,
            needs: &[IdentifierNeed::Doi],
            cost: ResolverCost::Api,
            preset: Preset::Broad,
            rank: u8::MAX,
            early: None,
            has_xml: false,
            vouches: true,
            claims: |_| false,
            build,
        }
    }

    /// Returns whether it can be asked about a work, by what is known of it now.
    #[must_use]
    pub fn applies(&self, work: &Work) -> Applicability {
        if self.needs.iter().any(|need| need.is_met(work, self)) {
            Applicability::Yes
        } else {
            Applicability::No(self.needs)
        }
    }
}
