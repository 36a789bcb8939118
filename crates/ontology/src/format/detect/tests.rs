use super::*;

const RDF: &str = "xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"";

fn detected(text: &str) -> Detected {
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
        (rdf_root.as_str(), Format::RdfXml),
        (entities.as_str(), Format::RdfXml),
        (node_root.as_str(), Format::RdfXml),
        ("\u{feff}<rdf:RDF xmlns:rdf='x'>", Format::RdfXml),
        (
            "<Ontology xmlns=\"http://www.w3.org/2002/07/owl#\">",
            Format::OwlXml,
        ),
        ("@prefix a: <http://b/> .\na:x a a:y .", Format::Turtle),
        ("# c\nPREFIX a: <http://b/>\na:x a a:y .", Format::Turtle),
        ("<http://a/b> a <http://c/d> .", Format::Turtle),
        ("[] a <http://c/d> .", Format::Turtle),
        ("<http://a/b> <http://a/c> \"x\" .\n", Format::NTriples),
        ("_:a <http://a/c> \"x\"@en .\n# c\n", Format::NTriples),
        ("<urn:a> <urn:b> <urn:c> .", Format::NTriples),
        (
            "<http://a/b> <http://a/c> \"x\" <http://g> .\n",
            Format::NQuads,
        ),
        (
            "@prefix a: <http://b/> .\na:g { a:x a a:y . }",
            Format::TriG,
        ),
        ("GRAPH <http://g> { <http://a> a <http://b> }", Format::TriG),
        ("{\"@context\": {}, \"@id\": \"x\"}", Format::JsonLd),
        ("[ {\"@id\": \"x\"} ]", Format::JsonLd),
        ("{\"graphs\": [{\"nodes\": []}]}", Format::OboGraph),
        ("{\"meta\": {\"@x\": 1}, \"graphs\": []}", Format::OboGraph),
        ("format-version: 1.2\n", Format::Obo),
        ("! c\n\n[Term]\nid: A:1\n", Format::Obo),
        ("ontology: go\n", Format::Obo),
        ("Prefix(:=<http://x>)\nOntology(<x>", Format::OwlFunctional),
        ("Prefix: : <http://x>\nOntology: <x>", Format::OwlManchester),
    ] {
        assert_eq!(detected(text), Detected::Ontology(format), "{text}");
    }
}

#[test]
fn other_files_are_refused_by_name() {
    let lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n";
    let denied = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>";
    for (text, refusal) in [
        ("", Refusal::Empty),
        (" \n", Refusal::Empty),
        ("<!DOCTYPE html><html>", Refusal::Html),
        ("<!-- c --><HTML>", Refusal::Html),
        (
            "<?xml version='1.0'?><!DOCTYPE html PUBLIC 'x' 'y'><html xmlns='z'>",
            Refusal::Html,
        ),
        ("%PDF-1.4", Refusal::Pdf),
        (lfs, Refusal::GitLfsPointer),
        (denied, Refusal::StorageError("AccessDenied".to_owned())),
        (
            "<?xml version='1.0'?><catalog a='b'>",
            Refusal::OtherXml("catalog".to_owned()),
        ),
        (
            "{\"errors\": [\"x\"], \"status\": 404}",
            Refusal::OtherJson("errors, status".to_owned()),
        ),
        ("\u{1}\u{2}\u{3}\u{4}", Refusal::Binary),
        ("a\0b", Refusal::Binary),
        ("Not found", Refusal::Text),
        ("404: Not Found", Refusal::Text),
        ("To be, or not to be.", Refusal::Text),
    ] {
        assert_eq!(detected(text), Detected::Refused(refusal), "{text}");
    }
    assert_eq!(
        detect(b"\xff\xfe<\0", None),
        Detected::Refused(Refusal::OtherEncoding)
    );
    assert_eq!(
        detect(b"\x1f\x8b\x08", None),
        Detected::Packed(Packing::Gzip)
    );
    assert_eq!(detect(b"PK\x03\x04", None), Detected::Packed(Packing::Zip));
}

#[test]
fn hints_decide_what_bytes_leave_open() {
    let triples = b"<http://a/b> <http://a/c> \"x\" .\n";
    for hint in [
        Format::Turtle,
        Format::NTriples,
        Format::NQuads,
        Format::TriG,
    ] {
        assert_eq!(detect(triples, Some(hint)), Detected::Ontology(hint));
    }
    let broken = b"ex:a ex:b ex:c .\n";
    assert_eq!(
        detect(broken, Some(Format::Turtle)),
        Detected::Ontology(Format::Turtle)
    );
    assert_eq!(detect(broken, None), Detected::Refused(Refusal::Text));
    // A hint never makes an ontology of a page.
    assert_eq!(
        detect(b"<html>", Some(Format::Turtle)),
        Detected::Refused(Refusal::Html)
    );
    assert_eq!(
        detect(b"Not found", Some(Format::Obo)),
        Detected::Refused(Refusal::Text)
    );
}

#[test]
fn keys_within_strings_and_inner_objects_do_not_count() {
    let text = "{\"a\\\"graphs\": \"graphs\", \"b\": {\"graphs\": 1, \"@id\": 2}}";
    assert!(matches!(
        detected(text),
        Detected::Refused(Refusal::OtherJson(_))
    ));
    assert_eq!(json_depth(b"[[{\"]\": \"[[[\"}]]"), 3);
    assert_eq!(json_depth(b"\"\\"), 0);
}

proptest::proptest! {
    #[test]
    fn any_bytes_give_an_answer(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        let _ = detect(&bytes, None);
        let mut text = b"<!DOCTYPE x [".to_vec();
        text.extend_from_slice(&bytes);
        let _ = detect(&text, Some(Format::RdfXml));
    }

    #[test]
    fn any_punctuation_gives_an_answer(text in "[\\[\\]{}<>\"'\\\\@:.!?= a-c\\n-]{0,80}") {
        let _ = detect(text.as_bytes(), Some(Format::TriG));
        let _ = json_depth(text.as_bytes());
    }
}
