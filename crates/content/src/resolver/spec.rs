//! The description of a resolver that is known before a query.
//!
//! A resolver is one file: its [`ResolverSpec`], its requests, and the reading of its responses.
//! The spec determines names, order, presets, endpoints, credentials, the sentences of `explain`,
//! and the tables in `docs/reference/sources.md`. A new resolver consists of its file, its
//! fixtures, and one line in the list of [`specs`](super::specs).

use std::fmt;
use std::sync::Arc;

use docstokg_lookup::catalogue::HasSourceSpec;
use docstokg_lookup::source_spec::SourceSpec;
use url::Url;

use super::order::Preset;
use super::settings::Settings;
use super::{Resolver, ResolverId};
use crate::identifier::{Doi, Identifier};
use crate::work::Work;

/// The description of a resolver.
#[derive(Debug)]
pub struct ResolverSpec {
    /// The [`SourceSpec`] with the name, the services and the credentials of the resolver.
    pub source: SourceSpec,
    /// The name of the resolver as a [`ResolverId`].
    pub id: ResolverId,
    /// The alternative [`IdentifierNeed`]s: the resolver needs any single identifier of the list.
    pub needs: &'static [IdentifierNeed],
    /// The [`ResolverCost`] of a query.
    pub cost: ResolverCost,
    /// The smallest [`Preset`] that contains the resolver.
    pub preset: Preset,
    /// The position among other resolvers, lowest first.
    pub rank: u8,
    /// The position for works of the resolver itself.
    pub early: Option<EarlyPosition>,
    /// The resolver has full texts as XML.
    pub has_xml: bool,
    /// The word of the resolver suffices that a location is the work's file. Otherwise a file that
    /// names another work is refused.
    pub vouches: bool,
    /// Tells whether a [`WorkMention`] is a record of the resolver itself, and so a subject for a
    /// query.
    pub claims: fn(WorkMention<'_>) -> bool,
    /// Creates the [`Resolver`] from shared [`Settings`].
    pub build: fn(&Arc<Settings>) -> Arc<dyn Resolver>,
}

impl HasSourceSpec for ResolverSpec {
    fn source(&self) -> &SourceSpec {
        &self.source
    }
}

/// An identifier of a work that a resolver may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentifierNeed {
    /// The DOI of the work.
    Doi,
    /// The arXiv id of the work.
    ArxivId,
    /// The `PubMed` id of the work.
    PubMedId,
    /// The `PubMed` Central id of the work.
    PmcId,
    /// The `OpenAlex` id of the work.
    OpenAlexId,
    /// A URL of the work.
    Url,
    /// A URL of the work that no longer exists.
    DeadLink,
    /// A record of the resolver itself, known by a DOI or link.
    OwnRecord,
    /// The title of a work without any identifier.
    Title,
}

impl IdentifierNeed {
    /// Returns the name of the identifier, for people.
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
            Self::Title => "title alone",
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
            Self::Title => matches!(work.supplied(), Identifier::Title(_)) && ids.is_empty(),
        }
    }
}

/// A DOI or link that names a [`Work`], from the user or from another resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkMention<'a> {
    /// The DOI of the work.
    Doi(&'a Doi),
    /// The URL that the user wrote.
    Written(&'a Url),
    /// A location that another resolver found.
    Found(&'a Url),
}

impl<'a> WorkMention<'a> {
    /// Returns the link, if the mention is a link.
    #[must_use]
    pub const fn link(self) -> Option<&'a Url> {
        match self {
            Self::Doi(_) => None,
            Self::Written(url) | Self::Found(url) => Some(url),
        }
    }
}

/// The cost of a query to a resolver, the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResolverCost {
    /// A request to an API.
    Api,
    /// Pages made for people, at the publisher's host.
    Page,
    /// An archive that allows only a few requests a minute: the last resort.
    Archive,
}

/// A position before all ranks, for works of the resolver itself.
#[derive(Debug)]
pub struct EarlyPosition {
    /// The position among early resolvers, lowest first.
    pub rank: u8,
    /// Tells whether a work is one of the resolver itself.
    pub when: fn(&Work) -> bool,
    /// The reason for the position, for people.
    pub why: &'static str,
}

/// The decision whether a resolver can be queried about a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applicability {
    /// The resolver can be queried.
    Yes,
    /// The resolver cannot be queried, because the work has no identifier of this list.
    No(&'static [IdentifierNeed]),
}

/// Formats the message that no identifier of a list is known.
pub(super) struct UnmetNeeds(pub(super) &'static [IdentifierNeed]);

impl fmt::Display for UnmetNeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} is known", alternatives(self.0))
    }
}

/// Formats a list of [`IdentifierNeed`]s: `A`, `A or B`, `A, B or C`.
pub(super) fn alternatives(needs: &[IdentifierNeed]) -> String {
    let names: Vec<&str> = needs.iter().map(|need| need.as_str()).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

impl ResolverSpec {
    /// Creates the spec that most resolvers share. It describes an API whose locations are trusted,
    /// that knows works by their DOI and needs no credential.
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

    /// Returns the [`Applicability`] to a work, by its currently known identifiers.
    #[must_use]
    pub fn applies(&self, work: &Work) -> Applicability {
        if self.needs.iter().any(|need| need.is_met(work, self)) {
            Applicability::Yes
        } else {
            Applicability::No(self.needs)
        }
    }
}
