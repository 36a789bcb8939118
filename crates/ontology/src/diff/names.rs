//! Labels of the terms that values of a comparison mention.

use std::collections::BTreeMap;

use super::{OntologyDiff, TermAspect, TermTable};

/// Collects the labels of the terms that values mention, those of the newer version first.
pub(super) fn mentioned(
    diff: &OntologyDiff,
    older: &TermTable,
    newer: &TermTable,
) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let mut note = |iri: &str| {
        let known = newer.get(iri).and_then(|term| term.label());
        let known = known.or_else(|| older.get(iri)?.label());
        if let Some(label) = known
            && !names.contains_key(iri)
        {
            names.insert(iri.to_owned(), label.to_owned());
        }
    };
    for term in [&diff.obsoleted, &diff.removed].into_iter().flatten() {
        term.replaced_by.iter().for_each(|iri| note(iri));
    }
    for changes in [&diff.aspects, &diff.creations] {
        let values = |aspect| {
            let changes = changes.of(aspect).iter();
            changes.flat_map(|change| change.removed.iter().chain(&change.added))
        };
        values(TermAspect::Parent).for_each(|iri| note(iri));
        for value in values(TermAspect::Relationship).chain(values(TermAspect::Axiom)) {
            iris(value).for_each(&mut note);
        }
    }
    names
}

/// Returns the IRIs in angle brackets.
pub(super) fn iris(value: &str) -> impl Iterator<Item = &str> {
    let after_brackets = value.split('<').skip(1);
    after_brackets.filter_map(|rest| rest.split_once('>').map(|(iri, _)| iri))
}

/// Writes a value with the label of each term beside the IRI: `<IRI> (label)`.
#[must_use]
pub fn with_labels(value: &str, names: &BTreeMap<String, String>) -> String {
    let mut shown = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('<') {
        let Some((iri, after)) = after.split_once('>') else {
            break;
        };
        shown.push_str(before);
        shown.push_str(iri);
        if let Some(label) = names.get(iri) {
            shown.extend([" (", label, ")"]);
        }
        rest = after;
    }
    shown + rest
}
