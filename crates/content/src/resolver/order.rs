//! The order in which resolvers are queried about a work, with reasons.
//!
//! The order follows from the known identifiers: a work of PMC is looked up there first, an arXiv
//! work at arXiv. Resolvers learn further identifiers. So callers compute the order again after
//! every response, and skip the resolvers already queried.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::catalogue::{spec, specs};
use super::spec::{Applicability, ResolverSpec, UnmetNeeds};
use super::{Resolver, ResolverId};
use crate::work::Work;

/// The set of resolvers that are queried by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// APIs that quickly return locations of files; no pages of publishers.
    Fast,
    /// All resolvers.
    #[default]
    Broad,
}

/// The resolvers that the user chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolverChoice {
    /// The [`Preset`] that the choice begins with.
    pub preset: Preset,
    /// Resolvers to query first, in this order; the rest of the preset follows.
    pub order: Option<Vec<ResolverId>>,
    /// Resolvers to query beyond the preset.
    pub enable: Vec<ResolverId>,
    /// Resolvers that are not queried.
    pub disable: Vec<ResolverId>,
}

impl ResolverChoice {
    /// Tells whether a resolver is in the preset, or enabled beyond it.
    fn includes(&self, spec: &ResolverSpec) -> bool {
        self.preset == Preset::Broad
            || spec.preset == Preset::Fast
            || self.enable.contains(&spec.id)
            || self.order.iter().flatten().any(|first| *first == spec.id)
    }
}

/// A resolver with its plan for a work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedResolver {
    /// The name of the resolver.
    pub resolver: ResolverId,
    /// The [`ResolverPlan`] as the decision about the query.
    pub plan: ResolverPlan,
    /// The reason of the decision, for people.
    pub why: String,
}

/// Tells whether a resolver is queried, now or later.
#[must_use]
pub fn is_planned(planned: &[PlannedResolver], resolver: ResolverId) -> bool {
    planned
        .iter()
        .any(|planned| planned.resolver == resolver && planned.plan != ResolverPlan::Skip)
}

/// The decision whether a resolver is queried about a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolverPlan {
    /// The resolver is queried.
    Ask,
    /// The resolver is not queried: it is disabled, or lacks a key or an address.
    Skip,
    /// The resolver needs an identifier that is not yet known. The response of another may provide
    /// it.
    Later,
}

/// Returns all resolvers as [`PlannedResolver`]s, in the order of their queries about a work.
/// Resolvers that are not queried have a reason.
#[must_use]
pub fn order(
    work: &Work,
    choice: &ResolverChoice,
    resolvers: &[Arc<dyn Resolver>],
) -> Vec<PlannedResolver> {
    let first = choice.order.as_deref().unwrap_or_default();
    let wanted = first
        .iter()
        .filter_map(|id| Some((spec(*id)?, "it is first in the order given")));
    let mut specs: Vec<(&'static ResolverSpec, &'static str)> = Vec::new();
    for (spec, why) in wanted.chain(natural(work)) {
        if specs.iter().all(|(listed, _)| listed.id != spec.id) {
            specs.push((spec, why));
        }
    }
    let planned = |(spec, why): (&'static ResolverSpec, &'static str)| {
        let resolver = resolvers.iter().find(|resolver| resolver.id() == spec.id)?;
        let (plan, why) = if choice.disable.contains(&spec.id) {
            (ResolverPlan::Skip, "it is disabled".to_owned())
        } else if !choice.includes(spec) {
            (
                ResolverPlan::Skip,
                "the preset 'fast' leaves it out".to_owned(),
            )
        } else if let Some(reason) = resolver.unavailable() {
            (ResolverPlan::Skip, reason.to_owned())
        } else {
            match spec.applies(work) {
                Applicability::Yes => (ResolverPlan::Ask, why.to_owned()),
                Applicability::No(needs) => (ResolverPlan::Later, UnmetNeeds(needs).to_string()),
            }
        };
        Some(PlannedResolver {
            resolver: spec.id,
            plan,
            why,
        })
    };
    specs.into_iter().filter_map(planned).collect()
}

/// Returns all resolvers in the order that the known identifiers suggest, with the reason for each
/// position.
fn natural(work: &Work) -> Vec<(&'static ResolverSpec, &'static str)> {
    let mut ranked: Vec<_> = specs()
        .iter()
        .map(|spec| match &spec.early {
            Some(early) if (early.when)(work) => {
                (ResolverPosition::Early(early.rank), *spec, early.why)
            }
            _ => (
                ResolverPosition::Ranked(spec.rank),
                *spec,
                spec.source.about,
            ),
        })
        .collect();
    ranked.sort_by_key(|(position, ..)| *position);
    ranked
        .into_iter()
        .map(|(_, spec, why)| (spec, why))
        .collect()
}

/// The position of a resolver in the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ResolverPosition {
    Early(u8),
    Ranked(u8),
}
