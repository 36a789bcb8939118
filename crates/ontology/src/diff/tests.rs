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
            label: Some("three".to_owned()),
            replaced_by: None,
        }]
    );
    assert_eq!(
        diff.removed,
        [NamedTerm {
            iri: iri(4),
            label: None,
            replaced_by: None,
        }]
    );
    assert_eq!(diff.obsoleted[0].iri, iri(2));
    assert!(diff.restored.is_empty());
    assert_eq!(
        (
            diff.aspects.labels[0].removed[0].as_str(),
            diff.aspects.labels[0].added[0].as_str()
        ),
        ("one", "first")
    );
    assert_eq!(diff.aspects.definitions[0].added, ["The very first."]);
    assert_eq!(
        (
            &diff.aspects.parents[0].removed,
            &diff.aspects.parents[0].added
        ),
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
            .values(TermAspect::Parent)
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

const RICH_OBO: &str = "format-version: 1.2
data-version: 2026-01-01
ontology: x
import: http://x.org/other.owl

[Term]
id: X:1
name: one

[Term]
id: X:2
name: two
synonym: \"zwei\" EXACT [DE:1]
synonym: \"deux\" RELATED []
xref: Y:9
is_a: X:1
relationship: part_of X:1 ! one
intersection_of: X:1
intersection_of: part_of X:3
disjoint_from: X:3

[Term]
id: X:3
name: three

[Typedef]
id: part_of
name: part of
xref: BFO:0000050
";

const RICH_TURTLE: &str = "@prefix o: <http://purl.obolibrary.org/obo/> .
@prefix i: <http://www.geneontology.org/formats/oboInOwl#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
o:X_1 a owl:Class ; rdfs:label \"one\" .
o:X_2 a owl:Class ; rdfs:label \"two\" ; i:hasExactSynonym \"zwei\" ;
  i:hasRelatedSynonym \"deux\" ; i:hasDbXref \"Y:9\" ; owl:disjointWith o:X_3 ;
  owl:equivalentClass [ a owl:Class ; owl:intersectionOf
    ( [ a owl:Restriction ; owl:onProperty o:BFO_0000050 ; owl:someValuesFrom o:X_3 ] o:X_1 ) ] ;
  rdfs:subClassOf o:X_1, [ a owl:Restriction ;
    owl:someValuesFrom o:X_1 ; owl:onProperty o:BFO_0000050 ] .
[] a owl:Axiom ; owl:annotatedSource o:X_2 ; owl:annotatedProperty i:hasExactSynonym ;
  owl:annotatedTarget \"zwei\" ; i:hasDbXref \"DE:1\" .
o:X_3 a owl:Class ; rdfs:label \"three\" .
o:BFO_0000050 a owl:ObjectProperty ; rdfs:label \"part of\" ; i:hasDbXref \"BFO:0000050\" .
o:x.owl a owl:Ontology ; owl:imports <http://x.org/other.owl> ;
  owl:versionIRI o:x\\/2026-01-01\\/x.owl .
";

#[test]
fn synonyms_xrefs_and_axioms_are_the_same_in_two_formats() {
    let obo = table(RICH_OBO, OntologyFormat::Obo);
    let turtle = table(RICH_TURTLE, OntologyFormat::Turtle);
    let diff = diff(&obo, &turtle);
    assert!(diff.is_empty(), "{diff:#?}");
    let two = turtle.get("http://purl.obolibrary.org/obo/X_2").unwrap();
    let relationships: Vec<_> = two.values(TermAspect::Relationship).iter().collect();
    assert_eq!(
        relationships,
        ["<http://purl.obolibrary.org/obo/BFO_0000050> some <http://purl.obolibrary.org/obo/X_1>"]
    );
    assert_eq!(two.values(TermAspect::Axiom).len(), 2, "{two:?}");
}

#[test]
fn every_aspect_and_the_header_are_compared() {
    let newer = RICH_OBO
        .replace("2026-01-01", "2026-02-01")
        .replace("http://x.org/other.owl", "http://x.org/more.owl")
        .replace("synonym: \"deux\" RELATED []\n", "")
        .replace("xref: Y:9", "xref: Y:10")
        .replace(
            "relationship: part_of X:1 ! one",
            "relationship: part_of X:3",
        )
        .replace("disjoint_from: X:3\n", "");
    let older = table(RICH_OBO, OntologyFormat::Obo);
    let diff = diff(&older, &table(&newer, OntologyFormat::Obo));
    let fields: Vec<_> = diff
        .header
        .iter()
        .map(|change| change.field.as_str())
        .collect();
    assert_eq!(fields, ["imports", "version"]);
    assert_eq!(diff.aspects.synonyms[0].removed, ["related: deux"]);
    assert_eq!(diff.aspects.xrefs[0].added, ["Y:10"]);
    let obo = "http://purl.obolibrary.org/obo/";
    let relationship = &diff.aspects.relationships[0];
    assert_eq!(
        relationship.added,
        [format!("<{obo}BFO_0000050> some <{obo}X_3>")]
    );
    assert_eq!(
        with_labels(&relationship.added[0], &diff.names),
        format!("{obo}BFO_0000050 (part of) some {obo}X_3 (three)")
    );
    assert_eq!(
        diff.aspects.axioms[0].removed,
        [format!("DisjointWith: <{obo}X_3>")]
    );
    assert!(diff.aspects.parents.is_empty());
}

#[test]
fn restrictions_are_read_in_any_order_of_statements() {
    let line = |text: &str| text.replace("o:", "http://purl.obolibrary.org/obo/");
    let lines = [
        line("<o:X_2> <http://www.w3.org/2000/01/rdf-schema#subClassOf> _:b ."),
        line("_:b <http://www.w3.org/2002/07/owl#onProperty> <o:P_1> ."),
        line("_:b <http://www.w3.org/2002/07/owl#someValuesFrom> <o:X_1> ."),
        line("<o:X_3> <http://www.w3.org/2000/01/rdf-schema#subClassOf> _:b ."),
    ];
    let forward = table(&lines.join("\n"), OntologyFormat::NTriples);
    let backward: Vec<&str> = lines.iter().rev().map(String::as_str).collect();
    let backward = table(&backward.join("\n"), OntologyFormat::NTriples);
    assert!(diff(&forward, &backward).is_empty());
    for name in ["X_2", "X_3"] {
        let term = backward.get(&format!("http://purl.obolibrary.org/obo/{name}"));
        assert_eq!(term.unwrap().values(TermAspect::Relationship).len(), 1);
    }
}

#[test]
fn an_expression_that_contains_itself_ends() {
    let text = "@prefix owl: <http://www.w3.org/2002/07/owl#> .
<http://x/a> owl:equivalentClass _:b .
_:b owl:complementOf _:b .
<http://x/c> owl:equivalentClass _:d .
_:d owl:unionOf _:l .
_:l <http://www.w3.org/1999/02/22-rdf-syntax-ns#first> <http://x/a> ;
  <http://www.w3.org/1999/02/22-rdf-syntax-ns#rest> _:l .";
    let table = table(text, OntologyFormat::Turtle);
    assert!(
        table
            .terms()
            .all(|(_, term)| term.values(TermAspect::Axiom).is_empty())
    );
}

#[test]
fn changes_are_written_as_kgcl() {
    let newer = RICH_OBO
        .replace("name: two", "name: it's two")
        .replace("synonym: \"deux\" RELATED []", "synonym: \"dos\" BROAD []")
        .replace("xref: Y:9", "xref: Y:10")
        .replace("is_a: X:1\n", "is_a: X:4\n")
        .replace("relationship: part_of X:1 ! one\n", "")
        .replace(
            "name: three\n",
            "name: three\nis_obsolete: true\nreplaced_by: X:4\n",
        )
        .replace(
            "[Typedef]",
            "[Term]\nid: X:4\nname: four\ndef: \"The fourth.\" []\nis_a: X:1\n\n[Typedef]",
        );
    let older = RICH_OBO.replace("[Typedef]", "[Term]\nid: X:5\n\n[Typedef]");
    let changes = kgcl(&diff(
        &table(&older, OntologyFormat::Obo),
        &table(&newer, OntologyFormat::Obo),
    ));
    let commands = changes
        .commands
        .join("\n")
        .replace("http://purl.obolibrary.org/obo/", "");
    assert_eq!(
        commands,
        "create node <X_4> 'four'
add definition 'The fourth.' to <X_4>
create edge <X_4> rdfs:subClassOf <X_1>
rename <X_2> from 'two' to 'it\\'s two'
remove synonym 'deux' for <X_2>
create broad synonym 'dos' for <X_2>
delete edge <X_2> rdfs:subClassOf <X_1>
create edge <X_2> rdfs:subClassOf <X_4>
delete edge <X_2> <BFO_0000050> <X_1>
obsolete <X_3> with replacement <X_4>
delete <X_5>"
    );
    // The cross-reference is removed and added, and KGCL has no command for it.
    assert_eq!(changes.left_out, 2);
}

#[test]
fn a_blank_node_in_many_expressions_costs_no_more_than_the_file() {
    // Each of 12 levels is a list of 60 times the next level: written out, 60^12 operands.
    let rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
    let owl = "http://www.w3.org/2002/07/owl#";
    let mut text = format!("<http://x/a> <{owl}equivalentClass> _:n0 .\n");
    for level in 0..12 {
        text += &format!("_:n{level} <{owl}intersectionOf> _:l{level}x0 .\n");
        for cell in 0..60 {
            text += &format!("_:l{level}x{cell} <{rdf}first> _:n{} .\n", level + 1);
            let rest = if cell == 59 {
                format!("<{rdf}nil>")
            } else {
                format!("_:l{level}x{}", cell + 1)
            };
            text += &format!("_:l{level}x{cell} <{rdf}rest> {rest} .\n");
        }
    }
    text += &format!("_:n12 <{owl}complementOf> <http://x/b> .\n");
    let table = table(&text, OntologyFormat::NTriples);
    let axioms = table
        .terms()
        .map(|(_, term)| term.values(TermAspect::Axiom));
    assert_eq!(axioms.map(BTreeSet::len).sum::<usize>(), 0);
}
