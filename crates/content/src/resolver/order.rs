//! Who is asked about a work, in which order, and why.
//!
//! The order follows from what is known: a work of PMC is looked for there first, an arXiv work at
//! arXiv. What a resolver learns changes what is known, so callers ask for the order again after
//! every answer and skip whom they asked already.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Applies, Resolver, ResolverId, arxiv, crossref, europe_pmc, landing, openalex, pmc, unpaywall,
    wayback,
};
use crate::work::Work;

/// How far to go for a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Services that answer quickly with places of files; no pages of publishers.
    Fast,
    /// Everybody.
    #[default]
    Broad,
}

/// What the user chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// How far to go.
    pub preset: Preset,
    /// Whom to ask first, in this order; the rest of the preset follows.
    pub order: Option<Vec<ResolverId>>,
    /// Whom to ask beyond the preset.
    pub enable: Vec<ResolverId>,
    /// Whom not to ask.
    pub disable: Vec<ResolverId>,
}

/// One resolver in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its name.
    pub resolver: ResolverId,
    /// Whether it is asked.
    pub plan: Plan,
    /// Why, for people.
    pub why: String,
}

/// Tells whether a resolver is asked, now or later.
#[must_use]
pub fn is_planned(planned: &[Planned], resolver: ResolverId) -> bool {
    planned
        .iter()
        .any(|planned| planned.resolver == resolver && planned.plan != Plan::Skip)
}

/// Whether a resolver is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
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
pub fn order(work: &Work, choice: &Choice, resolvers: &[Arc<dyn Resolver>]) -> Vec<Planned> {
    let first = choice.order.as_deref().unwrap_or_default();
    let mut names: Vec<(ResolverId, &'static str)> = Vec::new();
    let wanted = first
        .iter()
        .map(|name| (*name, "it is first in the order given"));
    for (name, why) in wanted.chain(natural(work)) {
        if names.iter().all(|(listed, _)| *listed != name) {
            names.push((name, why));
        }
    }
    let planned = |(name, why): (ResolverId, &'static str)| {
        let resolver = resolvers.iter().find(|resolver| resolver.id() == name)?;
        let (plan, why) = if choice.disable.contains(&name) {
            (Plan::Skip, "it is disabled".to_owned())
        } else if !in_preset(choice.preset, name)
            && !choice.enable.contains(&name)
            && !first.contains(&name)
        {
            (Plan::Skip, "the preset 'fast' leaves it out".to_owned())
        } else if let Some(reason) = resolver.unavailable() {
            (Plan::Skip, reason.to_owned())
        } else {
            match resolver.applies(work) {
                Applies::Yes => (Plan::Ask, why.to_owned()),
                Applies::No(reason) => (Plan::Later, missing(reason).to_owned()),
            }
        };
        Some(Planned {
            resolver: name,
            plan,
            why,
        })
    };
    names.into_iter().filter_map(planned).collect()
}

/// Returns the order that the known identifiers suggest, everybody in it, with the reason for each
/// place.
fn natural(work: &Work) -> Vec<(ResolverId, &'static str)> {
    let ids = &work.identifiers;
    let mut names = Vec::new();
    if ids.pmcid.is_some() {
        names.push((pmc::ID, "a PMC id is known, and its files need no page"));
        names.push((europe_pmc::ID, "a PMC id is known"));
    }
    if ids.arxiv.is_some() {
        names.push((arxiv::ID, "the arXiv id says where the file is"));
    }
    let only_url = ids.url.is_some()
        && ids.doi.is_none()
        && ids.arxiv.is_none()
        && ids.pmid.is_none()
        && ids.pmcid.is_none()
        && ids.openalex.is_none();
    if only_url {
        names.push((landing::ID, "a URL is all that is known"));
    }
    names.extend([
        (
            openalex::ID,
            "it knows most works and their other identifiers",
        ),
        (unpaywall::ID, "it knows open copies by DOI"),
        (arxiv::ID, "the arXiv id says where the file is"),
        (
            pmc::ID,
            "it may have the article among its open-access files",
        ),
        (crossref::ID, "it has the links that publishers deposit"),
        (europe_pmc::ID, "it may have the full text"),
        (landing::ID, "the page of the work may name its file"),
        (wayback::ID, "what is gone may have been kept; asked last"),
    ]);
    names
}

fn in_preset(preset: Preset, name: ResolverId) -> bool {
    preset == Preset::Broad || !matches!(name, europe_pmc::ID | landing::ID | wayback::ID)
}

/// Says in words what a resolver lacks.
fn missing(reason: &'static str) -> &'static str {
    match reason {
        "no-doi" => "no DOI is known",
        "no-arxiv-id" => "no arXiv id is known",
        "no-pmcid" => "no PMC id is known, nor a DOI or PubMed id to find it by",
        "no-failed-urls" => "no URL of it is known to be gone",
        "no-identifier" => "no identifier that it understands is known",
        other => other,
    }
}
