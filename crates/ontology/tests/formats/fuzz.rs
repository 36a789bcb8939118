//! Files and lists that others wrote, changed at random: each gives a report or a sentence, and the
//! same one however its bytes arrive.

use std::io::{self, Read};

use docstokg_ontology::format::{OntologyFormat, ReadOptions, ValidationReport, validate};
use docstokg_ontology::wanted_ontology::SpecFile;
use docstokg_origin_sim::hostile::mutated;
use proptest::prelude::*;

use super::{JSON_LD, OBO_GRAPH, RDF_XML, TURTLE};

const OBO: &str = "format-version: 1.2\ndata-version: releases/2026-01-01\nimport: x.obo\n\
    property_value: http://purl.org/dc/terms/license \"CC0\" xsd:string\n\n[Term]\nid: X:1\n\
    name: one \\\n two\ndef: \"A \\\"quoted\\\" text.\" [PMID:1]\nis_a: X:0 ! zero\n\
    is_obsolete: true\n\n[Typedef]\nid: part_of\n";

const OWL_XML: &str = "<?xml version=\"1.0\"?>\n<!DOCTYPE Ontology [ <!ENTITY x \"http://x.org/\"> ]>\n\
    <Ontology xmlns=\"http://www.w3.org/2002/07/owl#\" ontologyIRI=\"&x;o\" versionIRI=\"&x;o/1\">\n\
    <Import>http://x.org/i</Import><Declaration><Class IRI=\"&x;A\"/></Declaration>\n\
    <!-- a comment --><![CDATA[text]]></Ontology>\n";

const SOURCES: &str = "defaults:\n  prefer_source: [obo, ols]\n  accept_licenses: CC0-1.0\n\
    ontologies:\n  - hp\n  - id: go\n    resolver: obo\n    target_formats: [owl, obo]\n    \
    extras: { product: go-basic.obo }\n  - { id: x, url: \"https://a.org/x.ttl\", checksum: \
    \"md5:00112233445566778899aabbccddeeff\", version: '1.0' }\n";

/// Gives a few bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.1.min(out.len()).min(self.0.len());
        let (now, rest) = self.0.split_at(length);
        out[..length].copy_from_slice(now);
        self.0 = rest;
        Ok(length)
    }
}

fn report(reader: impl Read + Send, format: OntologyFormat) -> ValidationReport {
    let options = ReadOptions::with_base("http://base.example/");
    validate(reader, format, &options).unwrap()
}

/// Reads a file as a whole and in small pieces.
fn check(
    original: &str,
    format: OntologyFormat,
    seed: u64,
    piece: usize,
) -> Result<(), TestCaseError> {
    let bytes = mutated(seed, original.as_bytes());
    let whole = report(&bytes[..], format);
    prop_assert!(whole.is_valid() || whole.content_hash.is_none());
    prop_assert!(whole.errors.len() as u64 <= whole.error_count);
    let pieces = report(Slow(&bytes, piece), format);
    prop_assert_eq!(&pieces.outcome, &whole.outcome);
    if whole.is_valid() {
        prop_assert_eq!(&pieces, &whole);
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_obo_file_gives_the_same_report_in_any_pieces(seed in any::<u64>(), piece in 1usize..9) {
        check(OBO, OntologyFormat::Obo, seed, piece)?;
    }

    #[test]
    fn any_json_file_gives_the_same_report_in_any_pieces(
        seed in any::<u64>(),
        piece in 1usize..9,
        is_graph in any::<bool>(),
    ) {
        if is_graph {
            check(OBO_GRAPH, OntologyFormat::OboGraph, seed, piece)?;
        } else {
            check(JSON_LD, OntologyFormat::JsonLd, seed, piece)?;
        }
    }

    #[test]
    fn any_xml_file_gives_the_same_report_in_any_pieces(
        seed in any::<u64>(),
        piece in 1usize..9,
        is_owl in any::<bool>(),
    ) {
        if is_owl {
            check(OWL_XML, OntologyFormat::OwlXml, seed, piece)?;
        } else {
            check(RDF_XML, OntologyFormat::RdfXml, seed, piece)?;
        }
    }

    #[test]
    fn any_turtle_file_gives_the_same_report_in_any_pieces(
        seed in any::<u64>(),
        piece in 1usize..9,
    ) {
        check(TURTLE, OntologyFormat::Turtle, seed, piece)?;
    }

    #[test]
    fn any_list_of_ontologies_is_read_or_refused_with_a_sentence(seed in any::<u64>()) {
        let bytes = mutated(seed, SOURCES.as_bytes());
        let text = String::from_utf8_lossy(&bytes);
        match SpecFile::from_text(&text, "sources.yaml") {
            Ok(list) => for wanted in list.ontologies {
                let id = wanted.id.as_str();
                prop_assert!(!id.contains('/') && !id.starts_with('.'), "{}", id);
            },
            Err(problems) => prop_assert!(!problems.to_string().trim().is_empty()),
        }
    }
}
