//! Reads OWL/XML files to their end as XML, and collects the root element's facts and the imports.
//!
//! Axioms are counted but not checked. So a file without a fault is reported as not validated.

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use super::ReadOptions;
use super::guard::xml::XmlGuard;
use super::guard::{CountedReader, SharedWatch, take_failure};
use super::report::{DeclaredVersion, FormatProblem, ValidationReport, VersionOrigin};
use super::statements::{FormatProblems, shorten};

/// Maximum number of imports that are listed.
const MAX_IMPORTS: usize = 10_000;

/// Reads an OWL/XML file to its end, into a [`ValidationReport`].
pub(super) fn validate_owl_xml(
    reader: impl Read,
    options: &ReadOptions,
    report: &mut ValidationReport,
    problems: &mut FormatProblems,
) -> io::Result<()> {
    let count = Arc::new(AtomicU64::new(0));
    let counted = CountedReader::new(reader, Arc::clone(&count), options.limits.max_bytes);
    let too_large = Arc::clone(&counted.exceeded);
    let watch = SharedWatch::default();
    let guard = XmlGuard::new(counted, options.limits.clone(), Arc::clone(&watch));
    let ended = read(
        Reader::from_reader(BufReader::with_capacity(64 << 10, guard)),
        report,
    );
    report.bytes = count.load(Ordering::Relaxed);
    let refused = take_failure(&watch);
    match (refused, ended) {
        (Some(problem), _) => problems.error(problem),
        (None, Ok(())) => problems.warning(FormatProblem::of_file(
            "OWL/XML is read as XML only: its axioms are not checked; convert the file to RDF/XML, \
             Turtle or OBO to have it validated",
        )),
        (None, Err(OwlXmlError::Io(error))) if too_large.load(Ordering::Relaxed) => {
            problems.error(FormatProblem::of_file(error.to_string()));
        }
        (None, Err(OwlXmlError::Io(error))) => return Err(error),
        (None, Err(OwlXmlError::Syntax(message, offset))) => {
            let (line, column) = watch.lock().lines.position(offset);
            problems.error(FormatProblem {
                line: Some(line),
                column: Some(column),
                message: shorten(&message),
            });
        }
    }
    Ok(())
}

enum OwlXmlError {
    Io(io::Error),
    Syntax(String, u64),
}

fn read<R: io::BufRead>(
    mut reader: Reader<R>,
    report: &mut ValidationReport,
) -> Result<(), OwlXmlError> {
    let mut buffer = Vec::new();
    let mut depth = 0_usize;
    let mut is_import = false;
    loop {
        buffer.clear();
        let at = reader.buffer_position();
        let event = reader
            .read_event_into(&mut buffer)
            .map_err(|error| match error {
                quick_xml::Error::Io(error) => {
                    OwlXmlError::Io(io::Error::new(error.kind(), error.to_string()))
                }
                other => OwlXmlError::Syntax(other.to_string(), at),
            })?;
        match &event {
            Event::Start(element) | Event::Empty(element) => {
                if depth == 0 {
                    take_root(element, report);
                } else if depth == 1 {
                    take_axiom(element, report);
                }
                is_import = depth == 1 && element.name().local_name().as_ref() == "Import";
                depth += usize::from(matches!(event, Event::Start(_)));
            }
            Event::End(_) => {
                depth = depth.saturating_sub(1);
                is_import = false;
            }
            Event::Text(text) if is_import => {
                let text = text.xml10_content();
                let import = text.trim();
                if !import.is_empty() && report.imports.len() < MAX_IMPORTS {
                    report.imports.push(import.to_owned());
                }
            }
            Event::Eof if depth == 0 => return Ok(()),
            Event::Eof => {
                return Err(OwlXmlError::Syntax(
                    "the file ends in the middle".to_owned(),
                    at,
                ));
            }
            _ => {}
        }
    }
}

fn take_root(element: &BytesStart<'_>, report: &mut ValidationReport) {
    report.ontology_iri = attribute(element, "ontologyIRI");
    let version = attribute(element, "versionIRI");
    report.versions.extend(version.map(|value| DeclaredVersion {
        value,
        origin: VersionOrigin::VersionIri,
    }));
}

fn take_axiom(element: &BytesStart<'_>, report: &mut ValidationReport) {
    match element.name().local_name().as_ref() {
        "Prefix" | "Import" => {}
        "Declaration" => {
            report.statements += 1;
            report.terms += 1;
        }
        _ => report.statements += 1,
    }
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = element.attributes().flatten();
    let found = attributes.find(|attribute| attribute.key.local_name().as_ref() == name)?;
    let value = found.normalized_value(XmlVersion::Implicit1_0).ok()?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}
