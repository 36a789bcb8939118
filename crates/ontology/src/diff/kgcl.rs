//! Differences as commands of the Knowledge Graph Change Language (KGCL), one per line, in the
//! notation of its reference grammar. IRIs are written in full.
//!
//! KGCL has no command for cross-references, headers and most axioms. Those changes are counted
//! instead.

use super::{NamedTerm, OntologyDiff, TermAspect, TermChange};

/// Differences as KGCL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KgclChanges {
    /// The commands, in an order in which they can be applied.
    pub commands: Vec<String>,
    /// Number of changes that KGCL cannot express.
    pub left_out: u64,
}

/// Writes differences as KGCL.
#[must_use]
pub fn kgcl(diff: &OntologyDiff) -> KgclChanges {
    let mut changes = KgclChanges {
        left_out: diff.header.len() as u64,
        ..KgclChanges::default()
    };
    let commands = &mut changes.commands;
    commands.extend(diff.added.iter().map(create));
    for term in &diff.restored {
        commands.push(format!("unobsolete <{}>", term.iri));
    }
    for (values, is_new) in [(&diff.creations, true), (&diff.aspects, false)] {
        for aspect in TermAspect::ALL {
            for change in values.of(aspect) {
                // The command that creates a term names the first label.
                let written = if is_new && aspect == TermAspect::Label {
                    1
                } else {
                    changes.write(diff, aspect, change)
                };
                let values = change.removed.len() + change.added.len();
                changes.left_out += values.saturating_sub(written) as u64;
            }
        }
    }
    for term in &diff.obsoleted {
        changes.commands.push(match &term.replaced_by {
            Some(other) => format!("obsolete <{}> with replacement <{other}>", term.iri),
            None => format!("obsolete <{}>", term.iri),
        });
    }
    for term in &diff.removed {
        changes.commands.push(format!("delete <{}>", term.iri));
    }
    changes
}

fn create(term: &NamedTerm) -> String {
    match &term.label {
        Some(label) => format!("create node <{}> {}", term.iri, quoted(label)),
        None => format!("create <{}>", term.iri),
    }
}

impl KgclChanges {
    /// Writes the commands of a change, and returns the number of values that they cover.
    fn write(&mut self, diff: &OntologyDiff, aspect: TermAspect, change: &TermChange) -> usize {
        let before = self.commands.len();
        let iri = &change.iri;
        match aspect {
            TermAspect::Label => return self.write_labels(change),
            TermAspect::Definition => return self.write_definitions(change),
            TermAspect::Synonym => {
                for value in &change.removed {
                    let (_, text) = scoped(value);
                    self.push(format!("remove synonym {} for <{iri}>", quoted(text)));
                }
                for value in &change.added {
                    let (scope, text) = scoped(value);
                    self.push(format!(
                        "create {scope}synonym {} for <{iri}>",
                        quoted(text)
                    ));
                }
            }
            TermAspect::Parent => {
                let predicate = if diff.properties.contains(iri) {
                    "rdfs:subPropertyOf"
                } else {
                    "rdfs:subClassOf"
                };
                for parent in &change.removed {
                    self.push(format!("delete edge <{iri}> {predicate} <{parent}>"));
                }
                for parent in &change.added {
                    self.push(format!("create edge <{iri}> {predicate} <{parent}>"));
                }
            }
            TermAspect::Relationship => {
                for (verb, values) in [("delete", &change.removed), ("create", &change.added)] {
                    for (relation, target) in values.iter().filter_map(|value| edge(value)) {
                        self.push(format!("{verb} edge <{iri}> <{relation}> <{target}>"));
                    }
                }
            }
            TermAspect::Xref | TermAspect::Axiom => (),
        }
        self.commands.len() - before
    }

    fn push(&mut self, command: String) {
        self.commands.push(command);
    }

    fn write_labels(&mut self, change: &TermChange) -> usize {
        let (Some(old), Some(new)) = (change.removed.first(), change.added.first()) else {
            return 0;
        };
        let (old, new) = (quoted(old), quoted(new));
        self.push(format!("rename <{}> from {old} to {new}", change.iri));
        2
    }

    fn write_definitions(&mut self, change: &TermChange) -> usize {
        let iri = &change.iri;
        let (command, covered) = match (change.removed.first(), change.added.first()) {
            (Some(old), Some(new)) => {
                let (old, new) = (quoted(old), quoted(new));
                (
                    format!("change definition of <{iri}> from {old} to {new}"),
                    2,
                )
            }
            (Some(_), None) => (format!("remove definition for <{iri}>"), 1),
            (None, Some(new)) => (format!("add definition {} to <{iri}>", quoted(new)), 1),
            (None, None) => return 0,
        };
        self.push(command);
        covered
    }
}

/// Splits `exact: text` into the qualifier of a command and the text.
fn scoped(value: &str) -> (&'static str, &str) {
    match value.split_once(": ") {
        Some(("exact", text)) => ("exact ", text),
        Some(("narrow", text)) => ("narrow ", text),
        Some(("broad", text)) => ("broad ", text),
        Some(("related", text)) => ("related ", text),
        Some((_, text)) => ("", text),
        None => ("", value),
    }
}

/// Reads `<RELATION> some <CLASS>`.
fn edge(value: &str) -> Option<(&str, &str)> {
    let mut iris = super::names::iris(value);
    Some((iris.next()?, iris.next()?))
}

/// Quotes a text. A command is one line, so line ends become spaces.
fn quoted(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ").replace('\\', r"\\").replace('\'', r"\'");
    format!("'{text}'")
}
