//! `ontofetch diff A B`: the changes between two versions, term by term.

use std::fs::File;
use std::io::{BufReader, Read};
use std::process::ExitCode;
use std::sync::Arc;

use docstokg_ontology::diff::{
    DEFAULT_TABLE_BYTES, NamedTerm, OntologyDiff, TermChange, TermTable, diff,
};
use docstokg_ontology::examiner::FormatExaminer;
use docstokg_ontology::format::unpack::gunzip;
use docstokg_ontology::format::{Packing, ReadOptions};
use serde_json::json;

use super::arguments::DiffArguments;
use super::contexts::LazyContexts;
use super::files::{self, FileContent, InspectedFile};
use super::selection;
use crate::arguments::GlobalArguments;
use crate::exit::CommandFailure;
use crate::output;
use crate::view::plural;

/// Maximum number of terms of each kind that are listed.
const MAX_LISTED_TERMS: usize = 20;

/// Runs the command.
pub(super) fn run(
    global: &GlobalArguments,
    arguments: &DiffArguments,
) -> Result<ExitCode, CommandFailure> {
    let loaded = global.load()?;
    let library = selection::library(&arguments.library, &loaded.ontology);
    let contexts = Arc::new(LazyContexts::new(global, &loaded));
    let examiner = FormatExaminer::with_contexts(contexts);
    let older = files::find(&arguments.older, &library, &examiner)?;
    let newer = files::find(&arguments.newer, &library, &examiner)?;
    let difference = diff(&table(&examiner, &older)?, &table(&examiner, &newer)?);
    if global.json {
        output::json(&json!({
            "older": older.path.display().to_string(),
            "newer": newer.path.display().to_string(),
            "is_same": difference.is_empty(),
            "diff": difference,
        }));
    } else {
        output::line(&text(&difference));
    }
    Ok(ExitCode::SUCCESS)
}

fn table(examiner: &FormatExaminer, subject: &InspectedFile) -> Result<TermTable, CommandFailure> {
    let failed = |error: &dyn std::fmt::Display| {
        CommandFailure::Failed(anyhow::anyhow!("{}: {error}", subject.name))
    };
    let FileContent::Ontology(format, packing) = subject.content else {
        return Err(failed(&"a taxonomy package has no terms to compare"));
    };
    let file = BufReader::new(File::open(&subject.path).map_err(|error| failed(&error))?);
    let reader: Box<dyn Read + Send> = match packing {
        Some(Packing::Gzip) => Box::new(gunzip(file, examiner.unpack)),
        Some(Packing::Zip) | None => Box::new(file),
    };
    let options = ReadOptions {
        limits: examiner.limits.clone(),
        contexts: examiner.contexts.clone(),
        ..ReadOptions::with_base(subject.base.clone())
    };
    TermTable::read(reader, format, &options, DEFAULT_TABLE_BYTES).map_err(|error| failed(&error))
}

fn text(difference: &OntologyDiff) -> String {
    if difference.is_empty() {
        return format!("no differences in {} terms", difference.unchanged);
    }
    let mut lines = Vec::new();
    for (what, terms) in [
        ("added", &difference.added),
        ("removed", &difference.removed),
        ("obsoleted", &difference.obsoleted),
        ("restored", &difference.restored),
    ] {
        list(&mut lines, what, terms, |term: &NamedTerm| {
            named(&term.iri, term.label.as_deref())
        });
    }
    for (what, changes) in [
        ("labels changed", &difference.labels),
        ("definitions changed", &difference.definitions),
        ("parents changed", &difference.parents),
    ] {
        list(&mut lines, what, changes, changed);
    }
    let unchanged = difference.unchanged;
    let verb = if unchanged == 1 { "is" } else { "are" };
    lines.push(format!("{} {verb} the same", plural(unchanged, "term")));
    lines.join("\n")
}

fn list<T>(lines: &mut Vec<String>, what: &str, items: &[T], show: impl Fn(&T) -> String) {
    if items.is_empty() {
        return;
    }
    lines.push(format!("{what}: {}", items.len()));
    lines.extend(
        items
            .iter()
            .take(MAX_LISTED_TERMS)
            .map(|item| format!("    {}", show(item))),
    );
    if items.len() > MAX_LISTED_TERMS {
        lines.push(format!(
            "    and {} more (--json lists all)",
            items.len() - MAX_LISTED_TERMS
        ));
    }
}

fn named(iri: &str, label: Option<&str>) -> String {
    label.map_or_else(|| iri.to_owned(), |label| format!("{iri} ({label})"))
}

fn changed(change: &TermChange) -> String {
    format!(
        "{}: {} -> {}",
        named(&change.iri, change.label.as_deref()),
        change.removed.join("; "),
        change.added.join("; ")
    )
}
