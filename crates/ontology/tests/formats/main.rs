//! Validation, normalisation and hostile files, through the public interface.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use docstokg_ontology::format::{
    ContextLoader, DetectedFormat, OntologyFormat, ReadOptions, ValidationOutcome,
    ValidationReport, VersionOrigin, detect, normalize, validate,
};
use proptest::prelude::*;

/// Files that are changed at random.
mod fuzz;
/// Files that are cut, broken or mean harm.
mod hostile;
/// Formats nested and chained far deeper than any stack.
mod nested;

const TURTLE: &str = r#"@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix dct: <http://purl.org/dc/terms/> .
@base <http://example.org/> .
<a> a owl:Class ; rdfs:label "A \"label\""@en ; owl:versionInfo "not the ontology's" .
<b> a owl:Class ; rdfs:subClassOf <a>, [ a owl:Restriction ; owl:onProperty <p> ] ;
    owl:deprecated true .
<p> a owl:ObjectProperty .
<o> dct:license <http://creativecommons.org/licenses/by/4.0/> ; owl:versionInfo "1.0" ;
    owl:imports <http://example.org/other> ; owl:versionIRI <http://example.org/o/1> ;
    a owl:Ontology .
"#;

const RDF_XML: &str = r#"<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [
  <!ENTITY owl "http://www.w3.org/2002/07/owl#">
  <!ENTITY rdfs 'http://www.w3.org/2000/01/rdf-schema#'>
]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xml:base="http://example.org/"
    xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:dct="http://purl.org/dc/terms/"
    xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">
  <owl:Class rdf:about="a"><rdfs:label xml:lang="en">A "label"</rdfs:label>
    <owl:versionInfo>not the ontology's</owl:versionInfo></owl:Class>
  <rdf:Description rdf:about="b"><rdf:type rdf:resource="&owl;Class"/>
    <rdfs:subClassOf rdf:resource="a"/>
    <rdfs:subClassOf><owl:Restriction><owl:onProperty rdf:resource="p"/></owl:Restriction></rdfs:subClassOf>
    <owl:deprecated rdf:datatype="http://www.w3.org/2001/XMLSchema#boolean">true</owl:deprecated>
  </rdf:Description>
  <owl:ObjectProperty rdf:about="p"/>
  <owl:Ontology rdf:about="o"><owl:versionInfo>1.0</owl:versionInfo>
    <dct:license rdf:resource="http://creativecommons.org/licenses/by/4.0/"/>
    <owl:imports rdf:resource="http://example.org/other"/>
    <owl:versionIRI rdf:resource="http://example.org/o/1"/>
  </owl:Ontology>
</rdf:RDF>
"#;

const JSON_LD: &str = r#"{"@context": {"owl": "http://www.w3.org/2002/07/owl#"},
 "@id": "http://example.org/o", "@type": "owl:Ontology", "owl:versionInfo": "1.0"}"#;

const OBO_GRAPH: &str = r#"{"graphs": [{"nodes": [{"id": "http://a/1", "lbl": "x",
  "meta": {"deprecated": true, "synonyms": [{"val": "y"}]}}, {"id": "http://a/2"}],
  "edges": [{"sub": "http://a/1", "pred": "is_a", "obj": "http://a/2"}], "id": "http://a/o",
  "meta": {"version": "http://a/o/1", "basicPropertyValues":
    [{"pred": "http://purl.org/dc/terms/license", "val": "CC0"}]}}]}"#;

fn read(text: impl AsRef<[u8]>, format: OntologyFormat) -> ValidationReport {
    validate(text.as_ref(), format, &ReadOptions::default()).unwrap()
}

fn normalized(text: &str, format: OntologyFormat) -> String {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("normalized.nt");
    let result = normalize(text.as_bytes(), format, &ReadOptions::default(), &target).unwrap();
    let out = std::fs::read_to_string(&target).unwrap();
    assert_eq!(result.statements, out.lines().count() as u64);
    assert_eq!(result.bytes, out.len() as u64);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    out
}

#[test]
fn the_header_is_that_of_the_ontology() {
    for (text, format) in [
        (TURTLE, OntologyFormat::Turtle),
        (RDF_XML, OntologyFormat::RdfXml),
    ] {
        assert_eq!(
            detect(text.as_bytes(), None),
            DetectedFormat::Ontology(format)
        );
        let report = read(text, format);
        assert_eq!(
            report.outcome,
            ValidationOutcome::Valid,
            "{:?}",
            report.errors
        );
        assert_eq!(
            (report.statements, report.statements_with_blank_nodes),
            (15, 3)
        );
        assert_eq!(
            (report.terms, report.obsolete, report.terms_exact),
            (3, 1, true)
        );
        assert_eq!(report.ontology_iri.as_deref(), Some("http://example.org/o"));
        assert_eq!(report.version().unwrap().value, "http://example.org/o/1");
        assert_eq!(report.version().unwrap().origin, VersionOrigin::VersionIri);
        assert_eq!(report.versions[1].value, "1.0");
        assert_eq!(report.imports, ["http://example.org/other"]);
        assert_eq!(
            report.licences[0].value,
            "http://creativecommons.org/licenses/by/4.0/"
        );
        assert_eq!(report.bytes, text.len() as u64);
    }
    let graph = read(OBO_GRAPH, OntologyFormat::OboGraph);
    assert!(graph.is_valid(), "{:?}", graph.errors);
    assert_eq!((graph.terms, graph.obsolete, graph.statements), (2, 1, 3));
    assert_eq!(graph.version().unwrap().value, "http://a/o/1");
    assert_eq!(graph.licences[0].value, "CC0");
}

#[test]
fn the_hash_is_that_of_the_statements() {
    let turtle = read(TURTLE, OntologyFormat::Turtle).content_hash.unwrap();
    assert_eq!(
        read(RDF_XML, OntologyFormat::RdfXml).content_hash.unwrap(),
        turtle
    );
    let lines = normalized(TURTLE, OntologyFormat::Turtle);
    assert_eq!(
        read(&lines, OntologyFormat::NTriples).content_hash.unwrap(),
        turtle
    );
    let mut reversed: Vec<_> = lines.lines().collect();
    reversed.reverse();
    let reversed = reversed.join("\n");
    assert_eq!(
        read(&reversed, OntologyFormat::NQuads)
            .content_hash
            .unwrap(),
        turtle
    );
    assert_eq!(
        normalized(&reversed, OntologyFormat::Turtle)
            .lines()
            .count(),
        lines.lines().count()
    );
    let other = TURTLE.replace("1.0", "1.1");
    assert_ne!(
        read(other, OntologyFormat::Turtle).content_hash.unwrap(),
        turtle
    );
}

#[test]
fn normalised_files_are_sorted_and_stable() {
    let once = normalized(RDF_XML, OntologyFormat::RdfXml);
    assert_eq!(once, normalized(RDF_XML, OntologyFormat::RdfXml));
    assert!(once.lines().is_sorted());
    assert_eq!(once, normalized(&once, OntologyFormat::NTriples));
    let twice = format!(
        "{TURTLE}\n{}",
        TURTLE.replace("[ a owl:Restriction ; owl:onProperty <p> ]", "<p>")
    );
    assert_eq!(
        normalized(&twice, OntologyFormat::Turtle).lines().count(),
        16
    );
}

/// Two orders of the same OBO file; the relation is used before the stanza with its IRI.
const OBO_ORDERS: [&str; 2] = [
    "format-version: 1.2\ndata-version: 2026-01-01\nontology: x\n\n\
     [Term]\nid: X:1\nname: one\n\n\
     [Term]\nid: X:2\nname: two \\\"b\\\"\nsynonym: \"zwei\" EXACT [DE:1]\nis_a: X:1 ! one\n\
     relationship: part_of X:1 ! one\nxref: Y:9 \"nine\"\nmy_tag: kept\n\n\
     [Typedef]\nid: part_of\nxref: BFO:0000050\nis_transitive: true\n",
    "format-version: 1.2\ndata-version: 2026-01-01\nontology: x\n\n\
     [Typedef]\nid: part_of\nxref: BFO:0000050\nis_transitive: true\n\n\
     [Term]\nid: X:2\nmy_tag: kept\nname: two \\\"b\\\"\nxref: Y:9 \"nine\"\n\
     relationship: part_of X:1\nsynonym: \"zwei\" EXACT [DE:1]\nis_a: X:1\n\n\
     [Term]\nid: X:1\nname: one\n",
];

#[test]
fn an_obo_file_is_normalised_by_its_mapping_in_any_order() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("out.nt");
    let options = ReadOptions::default();
    let forms = OBO_ORDERS.map(|text| {
        normalize(text.as_bytes(), OntologyFormat::Obo, &options, &target).unwrap();
        std::fs::read_to_string(&target).unwrap()
    });
    assert_eq!(forms[0], forms[1]);
    let obo = "http://purl.obolibrary.org/obo/";
    for line in [
        format!("<{obo}X_2> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <{obo}X_1> ."),
        format!("<{obo}X_2> <http://www.geneontology.org/formats/oboInOwl#my_tag> \"kept\" ."),
        format!(
            "<{obo}x.owl> <http://www.w3.org/2002/07/owl#versionIRI> <{obo}x/2026-01-01/x.owl> ."
        ),
        "<http://www.w3.org/2002/07/owl#TransitiveProperty> .".to_owned(),
        format!("<http://www.w3.org/2002/07/owl#onProperty> <{obo}BFO_0000050> ."),
        "#label> \"two \\\"b\\\"\" .".to_owned(),
    ] {
        assert!(forms[0].contains(&line), "{line}\n{}", forms[0]);
    }
    assert!(!forms[0].contains("x#part_of"), "{}", forms[0]);
    // What is written is N-Triples in its own normal form, apart from the labels of blank nodes.
    let report = read(&forms[0], OntologyFormat::NTriples);
    assert_eq!(report.outcome, ValidationOutcome::Valid, "{report:?}");
    assert!(forms[0].lines().is_sorted());
}

#[test]
fn a_file_that_cannot_be_normalised_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("out.nt");
    let options = ReadOptions::default();
    for (text, format) in [
        ("<a> <b>", OntologyFormat::Turtle),
        ("[Term]\nname: x\n", OntologyFormat::Obo),
        ("{}", OntologyFormat::OboGraph),
    ] {
        assert!(normalize(text.as_bytes(), format, &options, &target).is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn errors_have_positions() {
    for (text, format, line) in [
        (
            "@prefix a: <http://b/> .\na:x a a:y .\na:x b:y a:z .\n",
            OntologyFormat::Turtle,
            3,
        ),
        (
            "<http://a> <http://b> \"c\" .\n<http://a> <http://b>\n",
            OntologyFormat::NTriples,
            2,
        ),
        (
            "<http://a> <http://b> \"c\" .\n\n<http://a> \u{1} .\n",
            OntologyFormat::NQuads,
            3,
        ),
        ("{\n\"@id\": }", OntologyFormat::JsonLd, 2),
        (
            "{\"graphs\": [\n{\"nodes\": [\n{\"id\": 5}]}]}",
            OntologyFormat::OboGraph,
            3,
        ),
    ] {
        let report = read(text, format);
        assert_eq!(report.outcome, ValidationOutcome::Invalid);
        assert_eq!(
            report.errors[0].line,
            Some(line),
            "{format}: {:?}",
            report.errors
        );
    }
    for (from, to) in [
        ("rdf:about=\"b\"", "rdf:about=\"b c\""),
        ("&owl;Class", "&nope;Class"),
    ] {
        let report = read(RDF_XML.replace(from, to), OntologyFormat::RdfXml);
        assert_eq!(report.errors[0].line, Some(11), "{:?}", report.errors);
    }
    let report = read(
        RDF_XML.replace("</owl:Class>", "</owl:Klass>"),
        OntologyFormat::RdfXml,
    );
    assert_eq!(report.errors[0].line, Some(10), "{:?}", report.errors);
}

#[test]
fn byte_order_marks_and_line_ends_do_not_matter() {
    let triples = normalized(TURTLE, OntologyFormat::Turtle);
    for (text, format) in [
        (TURTLE, OntologyFormat::Turtle),
        (RDF_XML, OntologyFormat::RdfXml),
        (&triples, OntologyFormat::NTriples),
        (&triples, OntologyFormat::NQuads),
        (JSON_LD, OntologyFormat::JsonLd),
        (OBO_GRAPH, OntologyFormat::OboGraph),
    ] {
        let plain = read(text, format);
        let marked = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(
            detect(marked.as_bytes(), Some(format)),
            DetectedFormat::Ontology(format)
        );
        let other = read(marked, format);
        assert!(other.is_valid(), "{format}: {:?}", other.errors);
        assert_eq!(other.content_hash, plain.content_hash, "{format}");
    }
}

#[test]
fn formats_without_a_parser_are_not_validated() {
    for format in [OntologyFormat::OwlFunctional, OntologyFormat::OwlManchester] {
        let report = read("anything", format);
        assert_eq!(report.outcome, ValidationOutcome::NotValidated);
        assert!(report.warnings[0].message.contains("not parsed"));
    }
    // OWL/XML is at least XML.
    assert_eq!(
        read("anything", OntologyFormat::OwlXml).outcome,
        ValidationOutcome::Invalid
    );
    let xml = read(
        "<Ontology><Import>x</Import></Ontology>",
        OntologyFormat::OwlXml,
    );
    assert_eq!(xml.outcome, ValidationOutcome::NotValidated);
    assert!(xml.warnings[0].message.contains("not checked"));
}

struct OneContext;

impl ContextLoader for OneContext {
    fn load(&self, url: &str) -> Result<Vec<u8>, String> {
        match url {
            "http://c/known" => Ok(br#"{"@context": {"p": "http://p/"}}"#.to_vec()),
            _ => Err("there is no such document".to_owned()),
        }
    }
}

#[test]
fn remote_contexts_come_from_the_loader_or_are_reported() {
    let text = r#"{"@context": "http://c/known", "@id": "http://a", "p": "x"}"#;
    let report = read(text, OntologyFormat::JsonLd);
    assert_eq!(
        report.outcome,
        ValidationOutcome::NotValidated,
        "{:?}",
        report.errors
    );
    assert_eq!(report.contexts_not_loaded, ["http://c/known"]);
    assert_eq!(report.content_hash, None);
    let options = ReadOptions {
        contexts: Some(Arc::new(OneContext)),
        ..ReadOptions::default()
    };
    let report = validate(text.as_bytes(), OntologyFormat::JsonLd, &options).unwrap();
    assert_eq!(
        (report.outcome, report.statements),
        (ValidationOutcome::Valid, 1),
        "{:?}",
        report.errors
    );
    let other = text.replace("known", "other");
    let report = validate(other.as_bytes(), OntologyFormat::JsonLd, &options).unwrap();
    assert_eq!(report.outcome, ValidationOutcome::NotValidated);
}

/// Statements with many shapes of terms.
fn statement() -> impl Strategy<Value = String> {
    let iri =
        "http://[a-z]{1,8}/[a-zA-Z0-9é_-]{0,12}(#[a-z]{0,3}|)".prop_map(|iri| format!("<{iri}>"));
    let iri = iri.boxed();
    let blank = "_:[a-z]{1,3}".boxed();
    let literal = "\"[^\"\\\\\n\r\\p{C}]{0,20}\"(@[a-z]{2}|)".boxed();
    let subject = prop_oneof![4 => iri.clone(), 1 => blank.clone()];
    let object = prop_oneof![2 => iri.clone(), 1 => blank, 3 => literal];
    (subject, iri, object).prop_map(|(s, p, o)| format!("{s} {p} {o} ."))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn order_format_and_threads_do_not_change_the_hash(
        mut lines in proptest::collection::vec(statement(), 1..60),
        threads in 1usize..4,
    ) {
        let options = ReadOptions { threads, ..ReadOptions::default() };
        let report = |text: &str, format| validate(text.as_bytes(), format, &options).unwrap();
        let forward = report(&lines.join("\n"), OntologyFormat::NTriples);
        prop_assert_eq!(forward.outcome, ValidationOutcome::Valid, "{:?}", forward.errors);
        prop_assert_eq!(forward.statements, lines.len() as u64);
        lines.reverse();
        let text = lines.join("\n");
        for format in [OntologyFormat::NTriples, OntologyFormat::NQuads, OntologyFormat::Turtle, OntologyFormat::TriG] {
            let backward = report(&text, format);
            prop_assert_eq!(&backward.content_hash, &forward.content_hash);
            prop_assert_eq!(backward.statements, forward.statements);
        }
    }
}
