//! Which resolvers are asked about a work, in which order, and why.
//!
//! The order follows from what is known: a work of PMC is looked for there first, an arXiv work at
//! arXiv. What a resolver learns changes what is known, so callers ask for the order again after
//! every answer and skip those that they asked already.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::catalogue::{spec, specs};
use super::spec::{Applicability, ResolverSpec, UnmetNeeds};
use super::{Resolver, ResolverId};
use crate::work::Work;

/// How far to go for a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// APIs that answer quickly with locations of files; no pages of publishers.
    Fast,
    /// All resolvers.
    #[default]
    Broad,
}

/// What the user chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolverChoice {
    /// How far to go.
    pub preset: Preset,
    /// Resolvers to ask first, in this order; the rest of the preset follows.
    pub order: Option<Vec<ResolverId>>,
    /// Resolvers to ask beyond the preset.
    pub enable: Vec<ResolverId>,
    /// Resolvers not to ask.
    pub disable: Vec<ResolverId>,
}

impl ResolverChoice {
    /// Tells whether a resolver is in the preset or asked for beyond it.
    fn includes(&self, spec: &ResolverSpec) -> bool {
        self.preset == Preset::Broad
            || spec.preset == Preset::Fast
            || self.enable.contains(&spec.id)
            || self.order.iter().flatten().any(|first| *first == spec.id)
    }
}

/// One resolver in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedResolver {
    /// Its name.
    pub resolver: ResolverId,
    /// Whether it is asked.
    pub plan: ResolverPlan,
    /// Why, for people.
    pub why: String,
}

/// Tells whether a resolver is asked, now or later.
#[must_use]
pub fn is_planned(planned: &[PlannedResolver], resolver: ResolverId) -> bool {
    planned
        .iter()
        .any(|planned| planned.resolver == resolver && planned.plan != ResolverPlan::Skip)
}

/// Whether a resolver is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolverPlan {
    /// It is.
    Ask,
    /// It is not: it is switched off, or lacks a key or an address.
    Skip,
    /// Not now: what it needs to know is not known. An answer of another may change that.
    Later,
}

/// Returns all resolvers in the order in which they are to be asked about a work, those that are
/// not asked with the reason.
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

/// Returns the order that the known identifiers suggest, all resolvers in it, with the reason for
/// each position.
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

/// Where a resolver stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ResolverPosition {
    Early(u8),
    Ranked(u8),
}
