//! Differences as a page without outside resources.

use docstokg_ontology::diff::{NamedTerm, OntologyDiff, TermAspect};
use docstokg_telemetry::html::{TableLayout, card, document, table};
use maud::{Markup, html};

use super::{replacement, shown_value, term_lists};

/// Writes differences as a page.
pub(super) fn page(names: (&str, &str), difference: &OntologyDiff) -> String {
    let (older, newer) = names;
    let content = html! {
        header { h1 { "Changes from " (older) " to " (newer) } }
        section.cards {
            @for (title, terms) in term_lists(difference) { (card("", title, terms.len(), "")) }
            @for aspect in TermAspect::ALL {
                (card("", aspect.plural(), difference.aspects.of(aspect).len(), ""))
            }
            (card("", "unchanged", difference.unchanged, ""))
        }
        @if !difference.header.is_empty() {
            section #header { h2 { "Header" } (header(difference)) }
        }
        @for (title, terms) in term_lists(difference) {
            @if !terms.is_empty() {
                section id=(title) { h2 { "Terms " (title) } (terms_table(difference, terms)) }
            }
        }
        @for aspect in TermAspect::ALL {
            @if !difference.aspects.of(aspect).is_empty() {
                section id=(aspect.plural()) {
                    h2 { "Changed " (aspect.plural()) }
                    (changes(difference, aspect))
                }
            }
        }
    };
    document(&format!("Changes from {older} to {newer}"), &content)
}

fn header(difference: &OntologyDiff) -> Markup {
    let rows = html! {
        @for change in &difference.header {
            tr { td { (change.field) } (values(&change.removed)) (values(&change.added)) }
        }
    };
    table(TableLayout::Wide, &["field", "removed", "added"], &rows)
}

fn terms_table(difference: &OntologyDiff, terms: &[NamedTerm]) -> Markup {
    let rows = html! {
        @for term in terms {
            tr {
                td.url { (term.iri) }
                td { (term.label.as_deref().unwrap_or_default()) }
                td { (replacement(difference, term).unwrap_or_default()) }
            }
        }
    };
    table(TableLayout::Wide, &["term", "label", "note"], &rows)
}

fn changes(difference: &OntologyDiff, aspect: TermAspect) -> Markup {
    let shown = |list: &[String]| -> Vec<String> {
        let list = list.iter();
        list.map(|value| shown_value(difference, aspect, value))
            .collect()
    };
    let rows = html! {
        @for change in difference.aspects.of(aspect) {
            tr {
                td.url { (change.iri) }
                td { (change.label.as_deref().unwrap_or_default()) }
                (values(&shown(&change.removed)))
                (values(&shown(&change.added)))
            }
        }
    };
    let columns = ["term", "label", "removed", "added"];
    table(TableLayout::Wide, &columns, &rows)
}

fn values(list: &[String]) -> Markup {
    html! { td.url { @for value in list { div { (value) } } } }
}
