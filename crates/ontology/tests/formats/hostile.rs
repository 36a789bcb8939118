use std::io::{self, Read};

use docstokg_ontology::format::{
    FormatLimits, OntologyFormat, ReadOptions, ValidationOutcome, validate,
};
use proptest::prelude::*;

use super::{JSON_LD, OBO_GRAPH, RDF_XML, TURTLE, normalized, read};

/// Every prefix is invalid, or its statements are whole ones of the file.
fn check_prefixes(text: &str, format: OntologyFormat, may_be_valid: impl Fn(&str) -> bool) {
    let lines = normalized(text, format);
    for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
        let report = read(&text[..end], format);
        if report.is_valid() {
            assert!(
                may_be_valid(&text[..end]),
                "{format}, {end}: {}",
                &text[..end]
            );
            let part = normalized(&text[..end], format);
            let named = |line: &&str| !line.contains("_:");
            for line in part.lines().filter(named) {
                assert!(lines.contains(line), "{line}");
            }
        } else {
            assert!(!report.errors.is_empty());
        }
    }
}

#[test]
fn truncated_files_are_invalid() {
    check_prefixes(RDF_XML, OntologyFormat::RdfXml, |text| {
        text.ends_with("</rdf:RDF>")
    });
    let ends = |text: &str| {
        let text = text.trim_end();
        text.is_empty() || text.ends_with('.')
    };
    check_prefixes(TURTLE, OntologyFormat::Turtle, ends);
    let triples = normalized(TURTLE, OntologyFormat::Turtle);
    check_prefixes(&triples, OntologyFormat::NTriples, ends);
    check_prefixes(&triples, OntologyFormat::NQuads, ends);
    check_prefixes(JSON_LD, OntologyFormat::JsonLd, |_| false);
    for end in 0..OBO_GRAPH.len() {
        assert!(
            !read(&OBO_GRAPH[..end], OntologyFormat::OboGraph).is_valid(),
            "{end}"
        );
    }
}

#[test]
fn invalid_utf8_is_an_error() {
    for (text, format) in [
        (TURTLE, OntologyFormat::Turtle),
        (RDF_XML, OntologyFormat::RdfXml),
        (JSON_LD, OntologyFormat::JsonLd),
        (
            "<http://a> <http://b> \"label 1.0\" .",
            OntologyFormat::NTriples,
        ),
    ] {
        let mut bytes = text.as_bytes().to_vec();
        for (at, _) in text.match_indices("1.0") {
            let original = std::mem::replace(&mut bytes[at], 0xff);
            assert_eq!(
                read(&bytes, format).outcome,
                ValidationOutcome::Invalid,
                "{format}"
            );
            bytes[at] = original;
        }
    }
}

#[test]
fn formats_that_cannot_be_streamed_have_a_limit_that_says_so() {
    let options = ReadOptions {
        limits: FormatLimits {
            max_unstreamed_bytes: 1 << 20,
            ..FormatLimits::default()
        },
        ..ReadOptions::default()
    };
    let nodes = ",{\"@id\": \"a:1\", \"a:p\": \"x\"}".repeat(100_000);
    let graph = format!("\"@graph\": [{}]", &nodes[1..]);
    let context = "\"@context\": {\"a\": \"http://a/\"}";
    let ordered = format!("{{{context}, {graph}}}");
    let report = validate(ordered.as_bytes(), OntologyFormat::JsonLd, &options).unwrap();
    assert_eq!(
        (report.outcome, report.statements),
        (ValidationOutcome::Valid, 100_000),
        "{report:?}"
    );
    assert_eq!(report.bytes, ordered.len() as u64);
    let other = format!("{{{graph}, {context}}}");
    let report = validate(other.as_bytes(), OntologyFormat::JsonLd, &options).unwrap();
    assert_eq!(report.outcome, ValidationOutcome::Invalid);
    assert!(
        report.errors[0]
            .message
            .contains("larger than 1 MiB, so it has to be streamed")
    );
    let cut = validate(
        &ordered.as_bytes()[..ordered.len() - 2],
        OntologyFormat::JsonLd,
        &options,
    )
    .unwrap();
    assert_eq!(cut.outcome, ValidationOutcome::Invalid);
    let deep = format!("{}{}", " ".repeat(2 << 20), "[".repeat(1000));
    let deep = validate(deep.as_bytes(), OntologyFormat::JsonLd, &options).unwrap();
    assert!(deep.errors[0].message.contains("deep"), "{deep:?}");
    let limits = FormatLimits {
        max_bytes: 10,
        ..FormatLimits::default()
    };
    let options = ReadOptions {
        limits,
        ..ReadOptions::default()
    };
    for format in OntologyFormat::ALL
        .into_iter()
        .filter(|format| format.is_parsed())
    {
        let report = validate(" ".repeat(20).as_bytes(), format, &options).unwrap();
        assert!(
            report.errors[0].message.contains("larger than the limit"),
            "{report:?}"
        );
    }
}

#[test]
fn hostile_files_are_refused_in_little_time() {
    let rdf =
        "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:a='http://a#'>";
    let levels: Vec<_> = (1..9)
        .map(|n| format!("<!ENTITY e{n} \"{}\">", format!("&e{};", n - 1).repeat(10)))
        .collect();
    let levels = levels.concat();
    let bomb = format!(
        "<!DOCTYPE r [<!ENTITY e0 \"0123456789\">{levels}]>{rdf}<rdf:Description><a:p>&e8;</a:p>\
         </rdf:Description></rdf:RDF>"
    );
    let outside = format!(
        "<!DOCTYPE r [<!ENTITY e SYSTEM \"file:///etc/hostname\">]>{rdf}<rdf:Description>\
         <a:p>&e;</a:p></rdf:Description></rdf:RDF>"
    );
    let deep_xml = format!("{rdf}{}", "<rdf:Description><a:p>".repeat(100_000));
    let long_prefix = format!(
        "@prefix a: <http://{}> .\n{}",
        "x".repeat(1 << 20),
        "a:b a:b a:b .\n".repeat(100_000)
    );
    let deep_json = "[".repeat(1_000_000);
    for (text, format, expected) in [
        (bomb, OntologyFormat::RdfXml, "expands to more than"),
        (outside, OntologyFormat::RdfXml, "e"),
        (deep_xml, OntologyFormat::RdfXml, "deep"),
        ("[".repeat(1_000_000), OntologyFormat::Turtle, "deep"),
        ("(".repeat(1_000_000), OntologyFormat::TriG, "deep"),
        (
            long_prefix,
            OntologyFormat::Turtle,
            "times larger than the file",
        ),
        (deep_json.clone(), OntologyFormat::JsonLd, "deep"),
        (
            format!("{{\"graphs\": {deep_json}"),
            OntologyFormat::OboGraph,
            "",
        ),
        (
            format!("<http://a> <http://b> \"{}\" .", "x".repeat(12 << 20)),
            OntologyFormat::NTriples,
            "longer",
        ),
        (
            format!("<http://a> <http://b> \"{}\" .", "x".repeat(20 << 20)),
            OntologyFormat::Turtle,
            "",
        ),
        (
            format!("{{\"graphs\": [{{\"id\": \"{}", "x".repeat(12 << 20)),
            OntologyFormat::OboGraph,
            "longer",
        ),
    ] {
        let report = read(&text, format);
        assert_eq!(report.outcome, ValidationOutcome::Invalid, "{format}");
        assert!(
            report.errors[0].message.contains(expected),
            "{format}: {:?}",
            report.errors[0]
        );
        assert!(report.errors[0].message.len() < 600);
    }
}

#[test]
fn a_reader_that_fails_is_no_invalid_file() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::new(
                io::ErrorKind::ConnectionReset,
                "the connection broke",
            ))
        }
    }
    for format in OntologyFormat::ALL
        .into_iter()
        .filter(|format| format.is_parsed())
    {
        let error = validate(Failing, format, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{format}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_give_a_report(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        start in 0usize..4,
    ) {
        let starts = ["", "<rdf:RDF>", "{\"graphs\":[", "@prefix a: <b> . "];
        let mut text = starts[start].as_bytes().to_vec();
        text.extend(bytes);
        for format in OntologyFormat::ALL {
            let report = validate(&text[..], format, &ReadOptions::default()).unwrap();
            prop_assert!(report.is_valid() || report.content_hash.is_none());
        }
    }
}
