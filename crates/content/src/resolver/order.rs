//! Who is asked about a work, in which order, and why.
//!
//! The order follows from what is known: a work of PMC is looked for there first, an arXiv work at
//! arXiv. What a resolver learns changes what is known, so callers ask for the order again after
//! every answer and skip whom they asked already.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Applies, Resolver};
use crate::work::Work;

/// All names, in the order of [`super::all`].
pub const NAMES: [&str; 8] = [
    "openalex",
    "unpaywall",
    "crossref",
    "arxiv",
    "pmc",
    "europe_pmc",
    "landing_page",
    "wayback",
];

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Choice {
    /// How far to go.
    pub preset: Preset,
    /// Whom to ask first, in this order; the rest of the preset follows.
    pub order: Option<Vec<String>>,
    /// Whom to ask beyond the preset.
    pub enable: Vec<String>,
    /// Whom not to ask.
    pub disable: Vec<String>,
}

/// A name that no resolver has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no resolver '{name}'{}; the resolvers are {}", nearest(name), NAMES.join(", "))]
pub struct UnknownResolver {
    /// The name.
    pub name: String,
}

fn nearest(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let close = NAMES
        .iter()
        .map(|known| (strsim::damerau_levenshtein(known, &name), known))
        .min();
    close
        .filter(|(distance, known)| *distance <= known.len() / 2)
        .map(|(_, known)| format!(" (is '{known}' meant?)"))
        .unwrap_or_default()
}

/// One resolver in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its name.
    pub resolver: &'static str,
    /// Whether it is asked.
    pub plan: Plan,
    /// Why, for people.
    pub why: String,
}

/// Tells whether a resolver is asked, now or later.
#[must_use]
pub fn is_planned(planned: &[Planned], resolver: &str) -> bool {
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

impl Choice {
    /// Checks that all names are names of resolvers. Hyphens are taken for underscores, and case
    /// does not matter.
    ///
    /// # Errors
    /// Names the first that is none, and the nearest that is.
    pub fn check(&self) -> Result<(), UnknownResolver> {
        self.order
            .iter()
            .flatten()
            .chain(&self.enable)
            .chain(&self.disable)
            .try_for_each(|name| known(name).map(|_| ()))
    }
}

fn known(name: &str) -> Result<&'static str, UnknownResolver> {
    let spelt = name.trim().to_ascii_lowercase().replace('-', "_");
    let spelt = if spelt == "landing" {
        "landing_page"
    } else {
        &spelt
    };
    NAMES
        .into_iter()
        .find(|known| *known == spelt)
        .ok_or_else(|| UnknownResolver {
            name: name.to_owned(),
        })
}

/// Returns all resolvers in the order in which they are to be asked about a work, those that are
/// not asked with the reason.
///
/// # Errors
/// The choice names a resolver that does not exist.
pub fn order(
    work: &Work,
    choice: &Choice,
    resolvers: &[Arc<dyn Resolver>],
) -> Result<Vec<Planned>, UnknownResolver> {
    let listed = |names: &[String]| {
        names
            .iter()
            .map(|name| known(name))
            .collect::<Result<Vec<_>, _>>()
    };
    let (first, enabled, disabled) = (
        listed(choice.order.as_deref().unwrap_or_default())?,
        listed(&choice.enable)?,
        listed(&choice.disable)?,
    );
    let mut names: Vec<(&'static str, &'static str)> = Vec::new();
    let wanted = first
        .iter()
        .map(|name| (*name, "it is first in the order given"));
    for (name, why) in wanted.chain(natural(work)) {
        if names.iter().all(|(listed, _)| *listed != name) {
            names.push((name, why));
        }
    }
    let planned = |(name, why): (&'static str, &'static str)| {
        let resolver = resolvers.iter().find(|resolver| resolver.name() == name)?;
        let (plan, why) = if disabled.contains(&name) {
            (Plan::Skip, "it is disabled".to_owned())
        } else if !in_preset(choice.preset, name)
            && !enabled.contains(&name)
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
    Ok(names.into_iter().filter_map(planned).collect())
}

/// Returns the order that the known identifiers suggest, everybody in it, with the reason for each
/// place.
fn natural(work: &Work) -> Vec<(&'static str, &'static str)> {
    let ids = &work.identifiers;
    let mut names = Vec::new();
    if ids.pmcid.is_some() {
        names.push(("pmc", "a PMC id is known, and its files need no page"));
        names.push(("europe_pmc", "a PMC id is known"));
    }
    if ids.arxiv.is_some() {
        names.push(("arxiv", "the arXiv id says where the file is"));
    }
    let only_url = ids.url.is_some()
        && ids.doi.is_none()
        && ids.arxiv.is_none()
        && ids.pmid.is_none()
        && ids.pmcid.is_none()
        && ids.openalex.is_none();
    if only_url {
        names.push(("landing_page", "a URL is all that is known"));
    }
    names.extend([
        (
            "openalex",
            "it knows most works and their other identifiers",
        ),
        ("unpaywall", "it knows open copies by DOI"),
        ("arxiv", "the arXiv id says where the file is"),
        ("pmc", "it may have the article among its open-access files"),
        ("crossref", "it has the links that publishers deposit"),
        ("europe_pmc", "it may have the full text"),
        ("landing_page", "the page of the work may name its file"),
        ("wayback", "what is gone may have been kept; asked last"),
    ]);
    names
}

fn in_preset(preset: Preset, name: &str) -> bool {
    preset == Preset::Broad || !matches!(name, "europe_pmc" | "landing_page" | "wayback")
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
