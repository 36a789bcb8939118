use super::*;
use crate::format::{OntologyFormat, ReadOptions};

const OBO: &str = "format-version: 1.2
ontology: x
[Term]
id: X:1
name: one
def: \"The first.\" []

[Term]
id: X:2
name: two
is_a: X:1 ! one
";

const TURTLE: &str = "@prefix o: <http://purl.obolibrary.org/obo/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
o:x.owl a owl:Ontology ; rdfs:label \"the ontology\" .
o:X_1 a owl:Class ; rdfs:label \"one\"@en, \"eins\"@de ; o:IAO_0000115 \"The first.\" .
o:X_2 a owl:Class ; rdfs:label \"two\" ; rdfs:subClassOf o:X_1, [ a owl:Restriction ] .
";

const GRAPH: &str = r#"{"graphs": [{"id": "x", "nodes": [
    {"id": "http://purl.obolibrary.org/obo/X_1", "lbl": "one", "type": "CLASS",
     "meta": {"definition": {"val": "The first."}}},
    {"id": "http://purl.obolibrary.org/obo/X_2", "lbl": "two"},
    {"id": "http://purl.obolibrary.org/obo/Y_9"}],
  "edges": [{"sub": "http://purl.obolibrary.org/obo/X_2", "pred": "is_a",
             "obj": "http://purl.obolibrary.org/obo/X_1"}]}]}"#;

fn table(text: &str, format: OntologyFormat) -> TermTable {
    TermTable::read(
        text.as_bytes(),
        format,
        &ReadOptions::default(),
        DEFAULT_TABLE_BYTES,
    )
    .unwrap()
}

#[test]
fn the_same_ontology_in_three_formats_has_no_differences() {
    let tables = [
        table(OBO, OntologyFormat::Obo),
        table(TURTLE, OntologyFormat::Turtle),
        table(GRAPH, OntologyFormat::OboGraph),
    ];
    for older in &tables {
        for newer in &tables {
            let diff = diff(older, newer);
            assert!(diff.is_empty(), "{diff:#?}");
            assert_eq!(diff.unchanged, 2);
        }
    }
}

#[test]
fn changes_are_told_by_kind() {
    let newer = TURTLE
        .replace("\"one\"@en", "\"first\"@en")
        .replace("The first.", "The very first.")
        .replace(
            "rdfs:subClassOf o:X_1,",
            "owl:deprecated true ; rdfs:subClassOf o:X_3,",
        )
        + "o:X_3 a owl:Class ; rdfs:label \"three\" .";
    let older = TURTLE.to_owned() + "o:X_4 a owl:Class .";
    let diff = diff(
        &table(&older, OntologyFormat::Turtle),
        &table(&newer, OntologyFormat::Turtle),
    );
    let iri = |n: u8| format!("http://purl.obolibrary.org/obo/X_{n}");
    assert_eq!(
        diff.added,
        [NamedTerm {
            iri: iri(3),
            label: Some("three".to_owned())
        }]
    );
    assert_eq!(
        diff.removed,
        [NamedTerm {
            iri: iri(4),
            label: None
        }]
    );
    assert_eq!(diff.obsoleted[0].iri, iri(2));
    assert!(diff.restored.is_empty());
    assert_eq!(
        (
            diff.labels[0].removed[0].as_str(),
            diff.labels[0].added[0].as_str()
        ),
        ("one", "first")
    );
    assert_eq!(diff.definitions[0].added, ["The very first."]);
    assert_eq!(
        (&diff.parents[0].removed, &diff.parents[0].added),
        (&vec![iri(1)], &vec![iri(3)])
    );
    assert_eq!(diff.unchanged, 0);
}

#[test]
fn relations_with_short_names_have_the_iri_of_their_reference() {
    let text = "format-version: 1.2\nontology: x\nidspace: Q http://q/\n\
                [Typedef]\nid: part_of\nis_a: overlaps\nxref: BFO:0000050\n\
                [Typedef]\nid: overlaps\nxref: RO:0002131\n[Term]\nid: Q:7\n";
    let table = table(text, OntologyFormat::Obo);
    let part_of = table
        .get("http://purl.obolibrary.org/obo/BFO_0000050")
        .unwrap();
    assert!(
        part_of
            .parents
            .contains("http://purl.obolibrary.org/obo/RO_0002131")
    );
    assert!(table.get("http://q/7").is_some());
}

#[test]
fn files_that_cannot_be_compared_are_errors() {
    let read = |text: &str, format, bytes| {
        TermTable::read(text.as_bytes(), format, &ReadOptions::default(), bytes).unwrap_err()
    };
    assert!(matches!(
        read("x", OntologyFormat::OwlXml, 9),
        TableError::NotParsed(_)
    ));
    assert!(matches!(
        read("x y z", OntologyFormat::Turtle, 999),
        TableError::Invalid(_)
    ));
    let error = read(TURTLE, OntologyFormat::Turtle, 300).to_string();
    assert!(error.contains("more than 300 bytes"), "{error}");
}
