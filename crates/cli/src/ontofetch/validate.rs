//! `ontofetch validate`: files read to their end, with every fault and its position.

use std::process::ExitCode;
use std::sync::Arc;

use docstokg_ontology::examiner::FormatExaminer;
use docstokg_ontology::format::{ValidationOutcome, ValidationReport};
use docstokg_ontology::library::StoredVersion;
use docstokg_ontology::pull::examine::ExaminedFile;
use serde_json::{Value, json};

use super::arguments::ValidateArguments;
use super::contexts::LazyContexts;
use super::files::{self, FileContent, InspectedFile};
use super::library_directory;
use crate::arguments::GlobalArguments;
use crate::exit::{self, CommandFailure};
use crate::output;

/// Runs the command.
pub(super) fn run(
    global: &GlobalArguments,
    arguments: &ValidateArguments,
) -> Result<ExitCode, CommandFailure> {
    let loaded = global.load()?;
    let library = library_directory::library(global, &arguments.library, &loaded.ontology);
    let contexts = Arc::new(LazyContexts::new(global, &loaded));
    let examiner = FormatExaminer::with_contexts(contexts);
    let mut shown: Vec<Value> = Vec::new();
    let mut has_failed = false;
    for text in &arguments.files {
        let checked = files::find(text, &library, &examiner).and_then(|subject| {
            let damaged = subject.stored.as_ref().map(StoredVersion::damaged_files);
            let damaged = damaged.unwrap_or_default();
            Ok((check(&examiner, &subject)?, damaged, subject))
        });
        match checked {
            Ok((checked, damaged, subject)) => {
                has_failed |= !checked.is_in_order() || !damaged.is_empty();
                if global.json {
                    shown.push(checked.json(&subject, &damaged));
                } else {
                    output::line(&checked.text(&subject, &damaged));
                }
            }
            Err(CommandFailure::Failed(error)) => {
                has_failed = true;
                let message = format!("{error:#}");
                if global.json {
                    shown.push(json!({ "file": text, "error": message }));
                } else {
                    output::line(&message);
                }
            }
            Err(failure) => return Err(failure),
        }
    }
    if global.json {
        output::json(&json!({ "ok": !has_failed, "files": shown }));
    }
    Ok(if has_failed {
        ExitCode::from(exit::EXIT_FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

/// The result of reading a file.
enum CheckedFile {
    Ontology(Box<ValidationReport>),
    Package(Box<ExaminedFile>),
}

impl CheckedFile {
    /// Tells whether the file has no fault, and all that it needs is present.
    fn is_in_order(&self) -> bool {
        match self {
            Self::Ontology(report) => {
                report.outcome != ValidationOutcome::Invalid
                    && report.contexts_not_loaded.is_empty()
            }
            Self::Package(_) => true,
        }
    }

    fn json(&self, subject: &InspectedFile, damaged: &[String]) -> Value {
        let mut shown = match self {
            Self::Ontology(report) => json!({ "file": subject.name, "report": report }),
            Self::Package(package) => {
                json!({ "file": subject.name, "package": package.validation["xbrl"] })
            }
        };
        if subject.stored.is_some() {
            shown["damaged_files"] = json!(damaged);
        }
        shown
    }

    fn text(&self, subject: &InspectedFile, damaged: &[String]) -> String {
        let mut text = match self {
            Self::Ontology(report) => text_of(subject, report),
            Self::Package(package) => format!(
                "{}: XBRL taxonomy package, its records and entry points are in order{}",
                subject.name,
                package
                    .version
                    .as_ref()
                    .map_or_else(String::new, |(version, _)| format!(
                        "\n    version: {version}"
                    ))
            ),
        };
        for file in damaged {
            text += &format!("\n    error: {file} is missing or not as it was stored");
        }
        text
    }
}

fn check(
    examiner: &FormatExaminer,
    subject: &InspectedFile,
) -> Result<CheckedFile, CommandFailure> {
    let (format, packing) = match &subject.content {
        FileContent::Package(package) => return Ok(CheckedFile::Package(package.clone())),
        FileContent::Ontology(format, packing) => (*format, *packing),
    };
    let read = examiner.report(&subject.path, format, packing, &subject.base);
    let failed = |why: String| CommandFailure::Failed(anyhow::anyhow!("{}: {why}", subject.name));
    read.map_err(|error| failed(format!("it cannot be read: {error}")))?
        .map(|report| CheckedFile::Ontology(Box::new(report)))
        .map_err(|damage| failed(format!("the file is damaged: {damage}")))
}

fn text_of(subject: &InspectedFile, report: &ValidationReport) -> String {
    let outcome = match report.outcome {
        ValidationOutcome::Valid => "valid",
        ValidationOutcome::Invalid => "INVALID",
        ValidationOutcome::NotValidated => "not validated",
    };
    let mut lines = vec![format!(
        "{}: {outcome} {}, {} statements, {} terms ({} obsolete)",
        subject.name, report.format, report.statements, report.terms, report.obsolete
    )];
    if let Some(version) = report.version() {
        lines.push(format!("    version: {}", version.value));
    }
    let errors = report
        .errors
        .iter()
        .map(|error| format!("    error: {error}"));
    let warnings = report
        .warnings
        .iter()
        .map(|warning| format!("    warning: {warning}"));
    lines.extend(errors.chain(warnings));
    lines.join("\n")
}
