use super::*;

const RDF: &str = "xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"";

fn detected(text: &str) -> DetectedFormat {
    detect(text.as_bytes(), None)
}

#[test]
fn formats_are_known_by_their_bytes() {
    let rdf_root = format!("<?xml version='1.0'?>\n<!-- c -->\n<rdf:RDF {RDF}>");
    let entities = format!(
        "<!DOCTYPE rdf:RDF [\n<!ENTITY owl '>]' >\n<!-- ]> -->]>\n<rdf:RDF {RDF}></rdf:RDF>"
    );
    let node_root = format!("<owl:Ontology rdf:about='x' {RDF} xmlns:owl='http://x#'/>");
    for (text, format) in [
        (rdf_root.as_str(), OntologyFormat::RdfXml),
        (entities.as_str(), OntologyFormat::RdfXml),
        (node_root.as_str(), OntologyFormat::RdfXml),
        ("\u{feff}<rdf:RDF xmlns:rdf='x'>", OntologyFormat::RdfXml),
        (
            "<Ontology xmlns=\"http://www.w3.org/2002/07/owl#\">",
            OntologyFormat::OwlXml,
        ),
        (
            "@prefix a: <http://b/> .\na:x a a:y .",
            OntologyFormat::Turtle,
        ),
        (
            "# c\nPREFIX a: <http://b/>\na:x a a:y .",
            OntologyFormat::Turtle,
        ),
        ("<http://a/b> a <http://c/d> .", OntologyFormat::Turtle),
        ("[] a <http://c/d> .", OntologyFormat::Turtle),
        (
            "<http://a/b> <http://a/c> \"x\" .\n",
            OntologyFormat::NTriples,
        ),
        (
            "_:a <http://a/c> \"x\"@en .\n# c\n",
            OntologyFormat::NTriples,
        ),
        ("<urn:a> <urn:b> <urn:c> .", OntologyFormat::NTriples),
        (
            "<http://a/b> <http://a/c> \"x\" <http://g> .\n",
            OntologyFormat::NQuads,
        ),
        (
            "@prefix a: <http://b/> .\na:g { a:x a a:y . }",
            OntologyFormat::TriG,
        ),
        (
            "GRAPH <http://g> { <http://a> a <http://b> }",
            OntologyFormat::TriG,
        ),
        ("{\"@context\": {}, \"@id\": \"x\"}", OntologyFormat::JsonLd),
        ("[ {\"@id\": \"x\"} ]", OntologyFormat::JsonLd),
        ("{\"graphs\": [{\"nodes\": []}]}", OntologyFormat::OboGraph),
        (
            "{\"meta\": {\"@x\": 1}, \"graphs\": []}",
            OntologyFormat::OboGraph,
        ),
        ("format-version: 1.2\n", OntologyFormat::Obo),
        ("! c\n\n[Term]\nid: A:1\n", OntologyFormat::Obo),
        ("ontology: go\n", OntologyFormat::Obo),
        (
            "Prefix(:=<http://x>)\nOntology(<x>",
            OntologyFormat::OwlFunctional,
        ),
        (
            "Prefix: : <http://x>\nOntology: <x>",
            OntologyFormat::OwlManchester,
        ),
    ] {
        assert_eq!(detected(text), DetectedFormat::Ontology(format), "{text}");
    }
}

#[test]
fn other_files_are_refused_by_name() {
    let lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n";
    let denied = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>";
    for (text, refusal) in [
        ("", ContentRefusal::Empty),
        (" \n", ContentRefusal::Empty),
        ("<!DOCTYPE html><html>", ContentRefusal::Html),
        ("<!-- c --><HTML>", ContentRefusal::Html),
        (
            "<?xml version='1.0'?><!DOCTYPE html PUBLIC 'x' 'y'><html xmlns='z'>",
            ContentRefusal::Html,
        ),
        ("%PDF-1.4", ContentRefusal::Pdf),
        (lfs, ContentRefusal::GitLfsPointer),
        (
            denied,
            ContentRefusal::StorageError("AccessDenied".to_owned()),
        ),
        (
            "<?xml version='1.0'?><catalog a='b'>",
            ContentRefusal::OtherXml("catalog".to_owned()),
        ),
        (
            "{\"errors\": [\"x\"], \"status\": 404}",
            ContentRefusal::OtherJson("errors, status".to_owned()),
        ),
        ("\u{1}\u{2}\u{3}\u{4}", ContentRefusal::Binary),
        ("a\0b", ContentRefusal::Binary),
        ("Not found", ContentRefusal::Text),
        ("404: Not Found", ContentRefusal::Text),
        ("To be, or not to be.", ContentRefusal::Text),
    ] {
        assert_eq!(detected(text), DetectedFormat::Refused(refusal), "{text}");
    }
    assert_eq!(
        detect(b"\xff\xfe<\0", None),
        DetectedFormat::Refused(ContentRefusal::OtherEncoding)
    );
    assert_eq!(
        detect(b"\x1f\x8b\x08", None),
        DetectedFormat::Packed(Packing::Gzip)
    );
    assert_eq!(
        detect(b"PK\x03\x04", None),
        DetectedFormat::Packed(Packing::Zip)
    );
}

#[test]
fn hints_decide_what_bytes_leave_open() {
    let triples = b"<http://a/b> <http://a/c> \"x\" .\n";
    for hint in [
        OntologyFormat::Turtle,
        OntologyFormat::NTriples,
        OntologyFormat::NQuads,
        OntologyFormat::TriG,
    ] {
        assert_eq!(detect(triples, Some(hint)), DetectedFormat::Ontology(hint));
    }
    let broken = b"ex:a ex:b ex:c .\n";
    assert_eq!(
        detect(broken, Some(OntologyFormat::Turtle)),
        DetectedFormat::Ontology(OntologyFormat::Turtle)
    );
    assert_eq!(
        detect(broken, None),
        DetectedFormat::Refused(ContentRefusal::Text)
    );
    // A hint never makes a page an ontology.
    assert_eq!(
        detect(b"<html>", Some(OntologyFormat::Turtle)),
        DetectedFormat::Refused(ContentRefusal::Html)
    );
    assert_eq!(
        detect(b"Not found", Some(OntologyFormat::Obo)),
        DetectedFormat::Refused(ContentRefusal::Text)
    );
}

#[test]
fn keys_within_strings_and_inner_objects_do_not_count() {
    let text = "{\"a\\\"graphs\": \"graphs\", \"b\": {\"graphs\": 1, \"@id\": 2}}";
    assert!(matches!(
        detected(text),
        DetectedFormat::Refused(ContentRefusal::OtherJson(_))
    ));
    assert_eq!(json_depth(b"[[{\"]\": \"[[[\"}]]"), 3);
    assert_eq!(json_depth(b"\"\\"), 0);
}

proptest::proptest! {
    #[test]
    fn detect_classifies_any_bytes_without_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        let _ = detect(&bytes, None);
        let mut text = b"<!DOCTYPE x [".to_vec();
        text.extend_from_slice(&bytes);
        let _ = detect(&text, Some(OntologyFormat::RdfXml));
    }

    #[test]
    fn detect_classifies_any_punctuation_without_a_panic(text in "[\\[\\]{}<>\"'\\\\@:.!?= a-c\\n-]{0,80}") {
        let _ = detect(text.as_bytes(), Some(OntologyFormat::TriG));
        let _ = json_depth(text.as_bytes());
    }
}
