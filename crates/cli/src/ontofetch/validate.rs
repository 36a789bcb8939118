//! `ontofetch validate`: files read to their end, with what is wrong and where.

use std::process::ExitCode;

use docstokg_ontology::examiner::FormatExaminer;
use docstokg_ontology::format::{Outcome, Report};
use serde_json::{Value, json};

use super::arguments::Validate;
use super::files::{self, Subject};
use super::selection;
use crate::arguments::Global;
use crate::exit::{self, Failure};
use crate::output;

/// Runs the command.
pub(super) fn run(global: &Global, arguments: &Validate) -> Result<ExitCode, Failure> {
    let loaded = global.load()?;
    let library = selection::library(&arguments.library, &loaded.ontology);
    let examiner = FormatExaminer::default();
    let mut shown: Vec<Value> = Vec::new();
    let mut has_failed = false;
    for text in &arguments.files {
        let checked = files::find(text, &library, &examiner)
            .and_then(|subject| report(&examiner, &subject).map(|report| (subject, report)));
        match checked {
            Ok((subject, report)) => {
                has_failed |= report.outcome == Outcome::Invalid;
                if global.json {
                    shown.push(json!({ "file": subject.name, "report": report }));
                } else {
                    output::line(&text_of(&subject, &report));
                }
            }
            Err(Failure::Failed(error)) => {
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
        ExitCode::from(exit::FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

fn report(examiner: &FormatExaminer, subject: &Subject) -> Result<Report, Failure> {
    let read = examiner.report(
        &subject.path,
        subject.format,
        subject.packing,
        &subject.base,
    );
    let failed = |why: String| Failure::Failed(anyhow::anyhow!("{}: {why}", subject.name));
    read.map_err(|error| failed(format!("it cannot be read: {error}")))?
        .map_err(|damage| failed(format!("the file is damaged: {damage}")))
}

fn text_of(subject: &Subject, report: &Report) -> String {
    let outcome = match report.outcome {
        Outcome::Valid => "valid",
        Outcome::Invalid => "INVALID",
        Outcome::NotValidated => "not validated",
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
