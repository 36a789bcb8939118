//! Reads a whole file and reports its content and its faults.
//!
//! One thread parses, and others hash what it sends in bounded batches. In formats with one
//! statement per line, the other threads parse as well. The result does not depend on how the work
//! is divided.

use std::io::{self, Read};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, atomic::Ordering};

use super::obo::validate_obo;
use super::obograph::validate_obograph;
use super::owlxml::validate_owl_xml;
use super::report::{ContentHash, FormatProblem, ValidationOutcome, ValidationReport};
use super::statements::{FormatProblems, read_counted};
use super::{OntologyFormat, ReadOptions};

mod workers;

use workers::{Chunks, Findings, StatementBatch, with_workers};

/// The scheme of hashes over RDF statements.
const RDF_SCHEME: &str = "sum-sha256-ntriples-blank-shape-1";

/// Reads a file of a known format to its end.
///
/// Memory stays within [`FormatLimits`](super::FormatLimits) for every input. A file in a format
/// that is recognised but not parsed is not read: its outcome is
/// [`ValidationOutcome::NotValidated`]. Well-formed OWL/XML is read and has the same outcome.
///
/// # Errors
/// The I/O error of `reader` if the file could not be read. Faults of its content are in the
/// report.
pub fn validate(
    reader: impl Read + Send,
    format: OntologyFormat,
    options: &ReadOptions,
) -> io::Result<ValidationReport> {
    let mut report = ValidationReport::empty(format);
    let mut problems = FormatProblems::new(&options.limits);
    match format {
        OntologyFormat::Obo => validate_obo(reader, options, &mut report, &mut problems)?,
        OntologyFormat::OboGraph => validate_obograph(reader, options, &mut report, &mut problems)?,
        OntologyFormat::OwlXml => {
            validate_owl_xml(reader, options, &mut report, &mut problems)?;
            conclude(&mut report, problems);
            if report.outcome == ValidationOutcome::Valid {
                report.outcome = ValidationOutcome::NotValidated;
            }
            return Ok(report);
        }
        _ if format.is_rdf() => validate_rdf(reader, format, options, &mut report, &mut problems)?,
        _ => {
            report.warnings.push(FormatProblem::of_file(format!(
                "{format} is recognised but not parsed here; convert the file to RDF/XML, Turtle or \
                 OBO to have it validated"
            )));
            return Ok(report);
        }
    }
    conclude(&mut report, problems);
    Ok(report)
}

fn conclude(report: &mut ValidationReport, mut problems: FormatProblems) {
    problems
        .errors
        .sort_by_key(|problem| (problem.line, problem.column));
    report.outcome = if problems.error_count > 0 {
        ValidationOutcome::Invalid
    } else if problems.contexts_not_loaded.is_empty() {
        ValidationOutcome::Valid
    } else {
        ValidationOutcome::NotValidated
    };
    if report.outcome != ValidationOutcome::Valid {
        report.content_hash = None;
    }
    report.errors = problems.errors;
    report.error_count = problems.error_count;
    report.warnings.append(&mut problems.warnings);
    report.contexts_not_loaded = problems.contexts_not_loaded;
    report.is_unordered = problems.is_unordered;
}

fn validate_rdf(
    reader: impl Read + Send,
    format: OntologyFormat,
    options: &ReadOptions,
    report: &mut ValidationReport,
    problems: &mut FormatProblems,
) -> io::Result<()> {
    let bytes = Arc::new(AtomicU64::new(0));
    let findings = if matches!(format, OntologyFormat::NTriples | OntologyFormat::NQuads) {
        with_workers(options, &bytes, problems, |queue, problems| {
            Chunks::new(reader, format, options, &bytes).send_all(queue, problems)
        })?
    } else {
        with_workers(options, &bytes, problems, |queue, problems| {
            let mut batch = StatementBatch::default();
            read_counted(reader, format, options, &bytes, problems, &mut |quad| {
                batch.push(quad, queue)
            })?;
            batch.flush(queue);
            Ok(())
        })?
    };
    report.bytes = bytes.load(Ordering::Relaxed);
    fill(report, findings);
    if report.statements == 0 && problems.error_count == 0 {
        report
            .warnings
            .push(FormatProblem::of_file("the file holds no statements"));
    }
    Ok(())
}

fn fill(report: &mut ValidationReport, findings: Findings) {
    let Findings { tally, distinct } = findings;
    report.statements = tally.statements;
    report.statements_with_blank_nodes = tally.with_blank_nodes;
    report.terms = distinct.terms();
    report.obsolete = distinct.obsolete();
    report.terms_exact = distinct.is_exact();
    report.content_hash = Some(ContentHash {
        scheme: RDF_SCHEME.to_owned(),
        hex: tally.hash.to_string(),
    });
    let header = tally.header.resolve();
    report.ontology_iri = header.ontology_iri;
    report.versions = header.versions;
    report.imports = header.imports;
    report.licences = header.licences;
    report.warnings.extend(header.warnings);
}
