//! Reads the dump of the catalogue: gzipped Turtle with every vocabulary and the files of its
//! versions.

use std::collections::BTreeMap;

use oxrdf::{NamedOrBlankNode, Term};
use url::Url;

use super::SPEC;
use crate::format::unpack::{UnpackLimits, gunzip};
use crate::format::{FormatLimits, FormatProblems, OntologyFormat, ReadOptions, read_statements};
use crate::pull::is_same_version;
use crate::source::{AbsenceReason, LookupStep, OntologyLocation, SourceOutcome};
use crate::wanted_ontology::{TargetFormat, WantedOntology};

const DISTRIBUTION: &str = "http://www.w3.org/ns/dcat#distribution";
const PREFIX: &str = "http://purl.org/vocab/vann/preferredNamespacePrefix";
const NAMESPACE: &str = "http://purl.org/vocab/vann/preferredNamespaceUri";

/// A vocabulary of the dump, as [`read`] finds it.
#[derive(Default)]
struct Vocabulary {
    is_meant: bool,
    /// The files of the versions. Some entries of the dump are a hash and not a URL; these are left
    /// out.
    files: Vec<Url>,
}

/// Finds a vocabulary by its prefix or address. Returns the file of its newest version, or of the
/// requested one. `base` is the address of the dump.
pub(super) fn read<'a>(
    wanted: &WantedOntology,
    name: &str,
    base: &Url,
    body: &[u8],
) -> LookupStep<'a> {
    if !wanted.takes(TargetFormat::Ttl) {
        return SourceOutcome::absent(
            AbsenceReason::Format,
            format!("Linked Open Vocabularies has {name} as ttl only"),
        );
    }
    let vocabularies = match vocabularies(name, base, body) {
        Ok(vocabularies) => vocabularies,
        Err(why) => {
            return SourceOutcome::absent(
                AbsenceReason::Invalid,
                format!("the dump of Linked Open Vocabularies cannot be read: {why}"),
            );
        }
    };
    let mut meant = vocabularies.into_values().filter(|known| known.is_meant);
    let Some(known) = meant.next() else {
        return SourceOutcome::absent(
            AbsenceReason::NotListed,
            format!("Linked Open Vocabularies does not list {name}"),
        );
    };
    let mut dated: Vec<(String, Url)> = known
        .files
        .into_iter()
        .filter_map(|url| Some((date_of(&url)?, url)))
        .collect();
    dated.sort();
    let has_files = !dated.is_empty();
    let is_wanted = |(date, _): &&(String, Url)| {
        let version = wanted.version.as_deref();
        version.is_none_or(|version| is_same_version(version, date))
    };
    match dated.iter().rev().find(is_wanted) {
        Some((date, url)) => LookupStep::Done(SourceOutcome::Found(vec![OntologyLocation {
            format: Some(TargetFormat::Ttl),
            version: Some(date.clone()),
            revision: Some(url.to_string()),
            notes: vec![
                "the API of Linked Open Vocabularies did not answer; its dump was read".to_owned(),
            ],
            ..OntologyLocation::new(SPEC.name, url.clone())
        }])),
        None if has_files => SourceOutcome::absent(
            AbsenceReason::Version,
            format!("Linked Open Vocabularies has no such version of {name}"),
        ),
        None => SourceOutcome::absent(
            AbsenceReason::NoFile,
            format!("Linked Open Vocabularies lists {name} without a file"),
        ),
    }
}

/// Reads the dump. Some of its URLs are relative, and the dump declares no base, so they are
/// relative to the URL of the dump.
fn vocabularies(
    name: &str,
    base: &Url,
    body: &[u8],
) -> Result<BTreeMap<String, Vocabulary>, String> {
    let options = ReadOptions::with_base(base.as_str());
    let limits = FormatLimits::default();
    let mut problems = FormatProblems::new(&limits);
    let mut found: BTreeMap<String, Vocabulary> = BTreeMap::new();
    let same = |text: &str| text.trim_end_matches(['/', '#']) == name.trim_end_matches(['/', '#']);
    let reader = gunzip(body, UnpackLimits::default());
    let read = read_statements(
        reader,
        OntologyFormat::Turtle,
        &options,
        &mut problems,
        &mut |quad| {
            let NamedOrBlankNode::NamedNode(subject) = &quad.subject else {
                return Ok(());
            };
            let entry = || subject.as_str().to_owned();
            match (quad.predicate.as_str(), &quad.object) {
                (DISTRIBUTION, Term::NamedNode(file)) => {
                    let known = found.entry(entry()).or_default();
                    known.is_meant |= same(subject.as_str());
                    known.files.extend(Url::parse(file.as_str()).ok());
                }
                (PREFIX | NAMESPACE, Term::Literal(value)) if same(value.value()) => {
                    found.entry(entry()).or_default().is_meant = true;
                }
                _ => {}
            }
            Ok(())
        },
    );
    read.map_err(|error| error.to_string())?;
    // A fault elsewhere in the dump matters only if the vocabulary was not found.
    let is_found = found.values().any(|known| known.is_meant);
    match problems.errors.first() {
        Some(problem) if !is_found => Err(problem.to_string()),
        _ => Ok(found),
    }
}

/// Returns the date of a version's file: `.../versions/2012-06-14.n3`.
fn date_of(url: &Url) -> Option<String> {
    let name = url.path_segments()?.next_back()?;
    let date = name.strip_suffix(".n3")?;
    let is_date = date.len() == 10 && date.bytes().filter(|byte| *byte == b'-').count() == 2;
    (is_date && matches!(url.scheme(), "http" | "https")).then(|| date.to_owned())
}
