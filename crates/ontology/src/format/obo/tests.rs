use super::*;
use crate::format::{OntologyFormat, ValidationOutcome, ValidationReport, VersionOrigin, validate};

const SMALL: &str = "format-version: 1.2
data-version: releases/2026-07-24
ontology: go
import: http://x/y.obo
property_value: http://purl.org/dc/terms/license http://creativecommons.org/licenses/by/4.0/
property_value: owl:versionInfo \"2026\" xsd:string

[Term]
id: GO:0000001 ! a comment
name: mitochondrion inheritance
def: \"A \\\"text\\\" [x].\" [GOC:mcc]
is_a: GO:0000002 {x=\"y\"} ! parent
unknown_tag: kept

[Term]
id: GO:0000002
is_obsolete: true

[Typedef]
id: part_of
name: part of
";

fn report(text: &[u8]) -> ValidationReport {
    validate(text, OntologyFormat::Obo, &ReadOptions::default()).unwrap()
}

#[test]
fn header_and_stanzas_are_counted() {
    let report = report(SMALL.as_bytes());
    assert_eq!(
        report.outcome,
        ValidationOutcome::Valid,
        "{:?}",
        report.errors
    );
    assert_eq!((report.terms, report.obsolete), (3, 1));
    let counts = report.obo.unwrap();
    assert_eq!((counts.terms, counts.typedefs, counts.instances), (2, 1, 0));
    assert_eq!((counts.ids, counts.names, counts.is_a), (3, 2, 1));
    assert_eq!(
        report.ontology_iri.as_deref(),
        Some("http://purl.obolibrary.org/obo/go.owl")
    );
    assert_eq!(report.versions[0].value, "releases/2026-07-24");
    assert_eq!(report.versions[0].origin, VersionOrigin::DataVersion);
    assert_eq!(report.versions[1].value, "2026");
    assert_eq!(report.imports, ["http://x/y.obo"]);
    assert_eq!(
        report.licences[0].value,
        "http://creativecommons.org/licenses/by/4.0/"
    );
    assert_eq!(report.bytes, SMALL.len() as u64);
}

#[test]
fn the_hash_does_not_depend_on_the_order_of_stanzas() {
    let (head, rest) = SMALL.split_at(SMALL.find("[Term]").unwrap());
    let (first, second) = rest.split_at(rest.find("[Typedef]").unwrap());
    let swapped = format!("{head}{second}\n{first}");
    let hash = |text: &str| report(text.as_bytes()).content_hash.unwrap();
    assert_eq!(hash(SMALL), hash(&swapped));
    assert_eq!(hash(SMALL), hash(&SMALL.replace('\n', "\r\n")));
    assert_ne!(hash(SMALL), hash(&SMALL.replace("part of", "part off")));
}

#[test]
fn obo_errors_have_line_numbers() {
    for (text, expected) in [
        (
            "format-version: 1.2\n[Term]\nname: x\n",
            "line 2: the [Term] has no id",
        ),
        (
            "[Term]\nid: a\nid: b\n",
            "line 3: the [Term] of line 1 has a second id",
        ),
        (
            "[Term]\nid: a\nno clause\n",
            "line 3: the line is no `tag: value`: no clause",
        ),
        (
            "[Term\nid: a\n",
            "line 1: a stanza name has no closing bracket",
        ),
        (
            "[Term]\nid: a\nis_obsolete: tr\n",
            "line 3: is_obsolete: the value is neither true nor false",
        ),
        (
            "[Term]\nid: a\nis_a: ! x\n",
            "line 3: is_a: there is no value",
        ),
        (
            "[Term]\nid: a\ndef: \"x\n",
            "line 3: def: the definition has no quotes, or they do not end",
        ),
        (
            "\n! only a comment\n",
            "the file has neither a header nor stanzas",
        ),
    ] {
        let report = report(text.as_bytes());
        assert_eq!(report.outcome, ValidationOutcome::Invalid, "{text}");
        assert_eq!(report.errors[0].to_string(), expected);
        assert_eq!(report.content_hash, None);
    }
    let invalid = report(b"format-version: 1.2\n[Term]\nid: a\nname: \xff\n");
    assert_eq!(
        invalid.errors[0].to_string(),
        "line 4: the line is not valid UTF-8"
    );
}

#[test]
fn lines_and_errors_are_limited() {
    let long = format!("format-version: 1.2\nremark: {}\n", "x".repeat(9 << 20));
    assert!(
        report(long.as_bytes()).errors[0]
            .message
            .contains("longer than")
    );
    let many = "no clause\n".repeat(100_000);
    assert_eq!(report(many.as_bytes()).errors.len(), 100);
    let stanza = format!("[Term]\nid: a\n{}", "xref: x\n".repeat(1_000_000));
    let stanza = report(stanza.as_bytes());
    assert_eq!(stanza.errors.len(), 1, "{:?}", stanza.errors);
}

#[test]
fn a_file_without_an_end_of_line_is_suspicious() {
    let text = SMALL.trim_end();
    let report = report(text.as_bytes());
    assert!(report.is_valid());
    assert!(report.warnings[0].message.contains("may be cut short"));
}

#[test]
fn lines_may_be_continued() {
    let report = report(b"format-version: 1.2\n[Term]\nid: a\nname: x\\\n y\nbad\n");
    assert_eq!(report.errors[0].line, Some(6));
}
