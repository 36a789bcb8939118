//! `ontofetch diff A B`: the changes between two versions, term by term.

mod html;
mod markdown;
mod text;

use std::fs::File;
use std::io::{BufReader, Read};
use std::process::ExitCode;
use std::sync::Arc;

use docstokg_ontology::diff::{
    DEFAULT_TABLE_BYTES, NamedTerm, OntologyDiff, TermAspect, TermTable, diff, kgcl, with_labels,
};
use docstokg_ontology::examiner::FormatExaminer;
use docstokg_ontology::format::unpack::gunzip;
use docstokg_ontology::format::{Packing, ReadOptions};
use serde_json::json;

use super::arguments::{DiffArguments, DiffFormat};
use super::contexts::LazyContexts;
use super::files::{self, FileContent, InspectedFile};
use super::library_directory;
use crate::arguments::GlobalArguments;
use crate::exit::{self, CommandFailure};
use crate::output;

/// Runs the command.
pub(super) fn run(
    global: &GlobalArguments,
    arguments: &DiffArguments,
) -> Result<ExitCode, CommandFailure> {
    let is_different = match show(global, arguments) {
        // Scripts tell a difference from a file that cannot be read.
        Err(CommandFailure::Failed(error)) if arguments.exit_code => {
            return Err(CommandFailure::Usage(format!("{error:#}")));
        }
        shown => shown?,
    };
    Ok(if arguments.exit_code && is_different {
        ExitCode::from(exit::EXIT_FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

/// Compares two versions, and prints the differences. Returns true if there are some.
fn show(global: &GlobalArguments, arguments: &DiffArguments) -> Result<bool, CommandFailure> {
    let loaded = global.load()?;
    let library = library_directory::library(global, &arguments.library, &loaded.ontology);
    let contexts = Arc::new(LazyContexts::new(global, &loaded));
    let examiner = FormatExaminer::with_contexts(contexts);
    let older = files::find(&arguments.older, &library, &examiner)?;
    let newer = files::find(&arguments.newer, &library, &examiner)?;
    let difference = diff(&table(&examiner, &older)?, &table(&examiner, &newer)?);
    let names = (older.name.as_str(), newer.name.as_str());
    match arguments.format {
        _ if global.json => output::json(&json!({
            "older": older.path.display().to_string(),
            "newer": newer.path.display().to_string(),
            "is_same": difference.is_empty(),
            "diff": difference,
        })),
        DiffFormat::Text => output::line(&text::text(&difference)),
        DiffFormat::Markdown => output::line(&markdown::markdown(names, &difference)),
        DiffFormat::Html => output::line(&html::page(names, &difference)),
        DiffFormat::Kgcl => show_kgcl(global, &difference),
    }
    Ok(!difference.is_empty())
}

/// Prints the commands, and warns about changes without a command.
fn show_kgcl(global: &GlobalArguments, difference: &OntologyDiff) {
    let changes = kgcl(difference);
    if !changes.commands.is_empty() {
        output::line(&changes.commands.join("\n"));
    }
    if changes.left_out > 0 && !global.quiet {
        output::print_note(&format!(
            "KGCL has no command for {} (xrefs, axioms, header); the other formats show them",
            crate::view::plural(changes.left_out, "change")
        ));
    }
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

/// Returns the lists of terms, each with its title.
fn term_lists(difference: &OntologyDiff) -> [(&'static str, &Vec<NamedTerm>); 4] {
    [
        ("added", &difference.added),
        ("removed", &difference.removed),
        ("obsoleted", &difference.obsoleted),
        ("restored", &difference.restored),
    ]
}

/// Writes a value with labels beside IRIs.
fn shown_value(difference: &OntologyDiff, aspect: TermAspect, value: &str) -> String {
    match aspect {
        TermAspect::Parent => with_labels(&format!("<{value}>"), &difference.names),
        TermAspect::Relationship | TermAspect::Axiom => with_labels(value, &difference.names),
        _ => value.to_owned(),
    }
}

/// Writes the term that replaces an obsolete one.
fn replacement(difference: &OntologyDiff, term: &NamedTerm) -> Option<String> {
    let other = term.replaced_by.as_deref()?;
    let other = shown_value(difference, TermAspect::Parent, other);
    Some(format!("replaced by {other}"))
}
