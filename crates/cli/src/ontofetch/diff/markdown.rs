//! Differences as Markdown, for release notes and pull requests.

use docstokg_ontology::diff::{OntologyDiff, TermAspect};

use super::{replacement, shown_value, term_lists};
use crate::view::plural;

/// Writes differences as Markdown.
pub(super) fn markdown(names: (&str, &str), difference: &OntologyDiff) -> String {
    let mut out = format!(
        "# Changes from {} to {}\n",
        escaped(names.0),
        escaped(names.1)
    );
    if difference.is_empty() {
        out += "\nNo differences.\n";
    }
    if !difference.header.is_empty() {
        out += "\n## Header\n\n";
    }
    for change in &difference.header {
        let removed = change.removed.iter().map(|value| ("removed", value));
        for (verb, value) in removed.chain(change.added.iter().map(|value| ("added", value))) {
            out += &format!("- {}: {verb} {}\n", change.field, escaped(value));
        }
    }
    for (title, terms) in term_lists(difference) {
        section(&mut out, title, terms.len());
        for term in terms {
            let replacement = replacement(difference, term);
            let replacement = replacement.map(|other| format!(", {}", escaped(&other)));
            out += &format!(
                "- {}{}\n",
                linked(&term.iri, term.label.as_deref()),
                replacement.unwrap_or_default()
            );
        }
    }
    for aspect in TermAspect::ALL {
        let changes = difference.aspects.of(aspect);
        section(
            &mut out,
            &format!("{} changed", aspect.plural()),
            changes.len(),
        );
        for change in changes {
            out += &format!("- {}\n", linked(&change.iri, change.label.as_deref()));
            let removed = change.removed.iter().map(|value| ("removed", value));
            for (verb, value) in removed.chain(change.added.iter().map(|value| ("added", value))) {
                let value = shown_value(difference, aspect, value);
                out += &format!("  - {verb}: {}\n", escaped(&value));
            }
        }
    }
    let terms = plural(difference.unchanged, "term");
    out + &format!("\n{terms} without a difference.")
}

fn section(out: &mut String, title: &str, count: usize) {
    if count > 0 {
        let (first, rest) = title.split_at(1);
        *out += &format!("\n## {}{rest} ({count})\n\n", first.to_uppercase());
    }
}

/// Writes a term as a link with its label.
fn linked(iri: &str, label: Option<&str>) -> String {
    let target: String = iri
        .chars()
        .filter(|letter| !letter.is_whitespace() && !matches!(letter, '<' | '>'))
        .collect();
    match label {
        Some(label) => format!("[{}](<{target}>) `{}`", escaped(label), short(&target)),
        None => format!("<{target}>"),
    }
}

/// Returns the last part of an IRI.
fn short(iri: &str) -> String {
    let part = iri.rsplit(['/', '#']).next().unwrap_or(iri);
    part.replace('`', "")
}

/// Escapes what Markdown and HTML would read as markup, in one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' | '\t' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' => out.extend(['\\', letter]),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_not_markup() {
        assert_eq!(
            escaped("a_b <script>\n[x](y)"),
            "a\\_b &lt;script&gt; \\[x\\](y)"
        );
        assert_eq!(linked("http://x/a>b c", None), "<http://x/abc>");
    }
}
