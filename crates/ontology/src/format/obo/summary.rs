//! Fills the [`ValidationReport`] of an OBO file.

use std::io::{self, Read};

use super::{Clause, OboEvent, identifier, quoted_text, read_obo, unescape};
use crate::format::ReadOptions;
use crate::format::canonical::StatementHash;
use crate::format::report::{
    ContentHash, DeclaredLicence, DeclaredVersion, FormatProblem, OboCounts, ValidationReport,
    VersionOrigin,
};
use crate::format::statements::FormatProblems;
use crate::format::tally::{DistinctTerms, SeenTerms, term_key};
use crate::format::vocabulary::states_licence;

/// The scheme of hashes over OBO clauses. Hashed are the kind and id of the stanza, the tag and the
/// value.
const OBO_SCHEME: &str = "sum-sha256-obo-clauses-1";

pub(crate) fn validate_obo(
    reader: impl Read,
    options: &ReadOptions,
    report: &mut ValidationReport,
    problems: &mut FormatProblems,
) -> io::Result<()> {
    let mut summary = OboSummary::new(options);
    let bytes = read_obo(reader, options, problems, &mut |event, problems| {
        summary.add(&event, report, problems);
    })?;
    summary.distinct.add(&mut summary.seen);
    report.bytes = bytes;
    report.statements = summary.clauses;
    report.terms = summary.distinct.terms();
    report.obsolete = summary.distinct.obsolete();
    report.terms_exact = summary.distinct.is_exact();
    report.obo = Some(summary.counts);
    report.content_hash = Some(ContentHash {
        scheme: OBO_SCHEME.to_owned(),
        hex: summary.hash.to_string(),
    });
    Ok(())
}

struct OboSummary {
    counts: OboCounts,
    clauses: u64,
    hash: StatementHash,
    seen: SeenTerms,
    distinct: DistinctTerms,
    line: Vec<u8>,
}

impl OboSummary {
    fn new(options: &ReadOptions) -> Self {
        Self {
            counts: OboCounts::default(),
            clauses: 0,
            hash: StatementHash::default(),
            seen: SeenTerms::default(),
            distinct: DistinctTerms::new(&options.limits),
            line: Vec::new(),
        }
    }

    fn add(
        &mut self,
        event: &OboEvent<'_>,
        report: &mut ValidationReport,
        problems: &mut FormatProblems,
    ) {
        match *event {
            OboEvent::Header(clauses) => {
                self.hash_clauses("", "", clauses);
                read_header(clauses, report, problems);
            }
            OboEvent::Stanza { kind, id, clauses } => {
                self.hash_clauses(kind, id, clauses);
                match kind {
                    "Term" => self.counts.terms += 1,
                    "Typedef" => self.counts.typedefs += 1,
                    "Instance" => self.counts.instances += 1,
                    _ => self.counts.other_stanzas += 1,
                }
                let key = term_key(id);
                self.seen.terms.push(key);
                for clause in clauses {
                    match clause.tag.as_str() {
                        "id" => self.counts.ids += 1,
                        "name" => self.counts.names += 1,
                        "is_a" => self.counts.is_a += 1,
                        "is_obsolete" if identifier(&clause.value) == "true" => {
                            self.seen.obsolete.push(key);
                        }
                        _ => (),
                    }
                }
                if self.seen.terms.len() > 4096 {
                    self.distinct.add(&mut self.seen);
                }
            }
        }
    }

    fn hash_clauses(&mut self, kind: &str, id: &str, clauses: &[Clause]) {
        for clause in clauses {
            self.clauses += 1;
            self.line.clear();
            for part in [kind, id, &clause.tag, &clause.value] {
                self.line.extend_from_slice(part.as_bytes());
                self.line.push(b'\n');
            }
            self.hash.add_line(&self.line);
        }
    }
}

fn read_header(clauses: &[Clause], report: &mut ValidationReport, problems: &mut FormatProblems) {
    for clause in clauses {
        let value = clause.value.as_str();
        match clause.tag.as_str() {
            "ontology" if !value.is_empty() => {
                report
                    .ontology_iri
                    .get_or_insert_with(|| ontology_iri(value));
            }
            "data-version" if !value.is_empty() => {
                let origin = VersionOrigin::DataVersion;
                report.versions.push(DeclaredVersion {
                    value: value.to_owned(),
                    origin,
                });
            }
            "import" if !value.is_empty() => report.imports.push(identifier(value).to_owned()),
            "property_value" => read_property(value, report),
            "remark" if report.licences.is_empty() && value.to_lowercase().contains("license") => {
                let message = "a remark of the header speaks of a licence; it is not evaluated";
                problems.warning(FormatProblem::at_line(clause.line, message));
            }
            _ => (),
        }
    }
    if clauses.iter().all(|clause| clause.tag != "format-version") {
        problems.warning(FormatProblem::of_file("the header has no format-version"));
    }
}

/// Returns the IRI of an OBO ontology name.
fn ontology_iri(name: &str) -> String {
    if name.contains("://") {
        return name.to_owned();
    }
    format!("http://purl.obolibrary.org/obo/{name}.owl")
}

/// Reads `property_value: PROPERTY VALUE [DATATYPE]`, with the value as identifier or in quotes.
fn read_property(value: &str, report: &mut ValidationReport) {
    let Some((property, rest)) = value.split_once(char::is_whitespace) else {
        return;
    };
    let rest = rest.trim();
    let text = match quoted_text(rest) {
        Some((text, _)) => unescape(text),
        None => rest
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned(),
    };
    let property = expand(property);
    if property == crate::format::vocabulary::OWL_VERSION_INFO {
        report.versions.push(DeclaredVersion {
            value: text,
            origin: VersionOrigin::VersionInfo,
        });
    } else if states_licence(&property) {
        report.licences.push(DeclaredLicence {
            property,
            value: text,
        });
    }
}

/// Returns the IRI of a property that is usually abbreviated.
fn expand(property: &str) -> String {
    const PREFIXES: [(&str, &str); 6] = [
        ("dcterms:", "http://purl.org/dc/terms/"),
        ("terms:", "http://purl.org/dc/terms/"),
        ("dc:", "http://purl.org/dc/elements/1.1/"),
        ("dce:", "http://purl.org/dc/elements/1.1/"),
        ("cc:", "http://creativecommons.org/ns#"),
        ("owl:", "http://www.w3.org/2002/07/owl#"),
    ];
    let property = property.replace("\\:", ":");
    for (prefix, namespace) in PREFIXES {
        if let Some(local) = property.strip_prefix(prefix) {
            return format!("{namespace}{local}");
        }
    }
    property
}
