//! Differences as plain text: the beginning of each list.

use docstokg_ontology::diff::{NamedTerm, OntologyDiff, TermAspect};

use super::{replacement, shown_value, term_lists};
use crate::view::plural;

/// Maximum number of terms of each kind that are listed.
const MAX_LISTED_TERMS: usize = 20;

/// Writes differences as plain text.
pub(super) fn text(difference: &OntologyDiff) -> String {
    if difference.is_empty() {
        let terms = plural(difference.unchanged, "term");
        return format!("no differences in {terms}");
    }
    let mut lines = Vec::new();
    for change in &difference.header {
        lines.push(format!("{} changed", change.field));
        lines.extend(change.removed.iter().map(|value| format!("    - {value}")));
        lines.extend(change.added.iter().map(|value| format!("    + {value}")));
    }
    for (title, terms) in term_lists(difference) {
        list(&mut lines, title, terms, |term: &NamedTerm| {
            let replacement = replacement(difference, term);
            let replacement = replacement.map(|other| format!(", {other}"));
            let name = named(&term.iri, term.label.as_deref());
            vec![name + &replacement.unwrap_or_default()]
        });
    }
    for aspect in TermAspect::ALL {
        let title = format!("{} changed", aspect.plural());
        list(
            &mut lines,
            &title,
            difference.aspects.of(aspect),
            |change| {
                let value = |sign: char, value: &String| {
                    format!("    {sign} {}", shown_value(difference, aspect, value))
                };
                let removed = change.removed.iter().map(|text| value('-', text));
                let added = change.added.iter().map(|text| value('+', text));
                let name = named(&change.iri, change.label.as_deref());
                [name].into_iter().chain(removed).chain(added).collect()
            },
        );
    }
    let verb = if difference.unchanged == 1 {
        "is"
    } else {
        "are"
    };
    let terms = plural(difference.unchanged, "term");
    lines.push(format!("{terms} {verb} the same"));
    lines.join("\n")
}

fn list<T>(lines: &mut Vec<String>, title: &str, items: &[T], show: impl Fn(&T) -> Vec<String>) {
    if items.is_empty() {
        return;
    }
    lines.push(format!("{title}: {}", items.len()));
    let shown = items.iter().take(MAX_LISTED_TERMS).flat_map(show);
    lines.extend(shown.map(|line| format!("    {line}")));
    if items.len() > MAX_LISTED_TERMS {
        lines.push(format!(
            "    and {} more (--format markdown, html or --json lists all)",
            items.len() - MAX_LISTED_TERMS
        ));
    }
}

fn named(iri: &str, label: Option<&str>) -> String {
    label.map_or_else(|| iri.to_owned(), |label| format!("{iri} ({label})"))
}
