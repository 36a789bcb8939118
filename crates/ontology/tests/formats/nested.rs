//! Every format nested and chained to 100,000: a report comes back, whatever the stack of the
//! thread that asks.

use docstokg_ontology::format::{ContextLoader, Report};
use docstokg_ontology::format::{Detected, Format, Limits, Options, Outcome, detect, validate};
use std::sync::Arc;

use super::read;

const DEPTH: usize = 100_000;

/// A context of as many terms, each with what `definition` makes of the number of the next.
fn chain(length: usize, definition: impl Fn(usize) -> String) -> String {
    let terms: Vec<_> = (0..length)
        .map(|n| format!("\"t{n}\":{}", definition(n + 1)))
        .collect();
    format!(
        "{{\"@context\":{{\"@vocab\":\"http://v/\",{}}},\"@id\":\"http://a\",\"t0:x\":1}}",
        terms.join(",")
    )
}

fn chains(length: usize) -> Vec<String> {
    let definitions: [fn(usize) -> String; 6] = [
        |n| format!("\"t{n}\""),
        |n| format!("\"t{n}:x\""),
        |n| format!("{{\"@id\":\"t{n}:x\"}}"),
        |n| format!("{{\"@id\":\"http://v/\",\"@type\":\"t{n}\"}}"),
        |n| format!("{{\"@reverse\":\"t{n}\"}}"),
        |n| format!("{{\"@id\":\"http://v/\",\"@container\":\"@index\",\"@index\":\"t{n}\"}}"),
    ];
    definitions
        .map(|definition| chain(length, definition))
        .into()
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}1{}", open.repeat(depth), close.repeat(depth))
}

#[test]
fn chains_of_terms_in_json_ld_are_refused_at_any_length() {
    for length in [1_000, 3_000, DEPTH] {
        for text in chains(length) {
            let report = read(&text, Format::JsonLd);
            assert_eq!(report.outcome, Outcome::Invalid, "{}", &text[..80]);
            let why = &report.errors[0].message;
            let reasons = ["refer to each other in a chain", "a context is larger than"];
            let is_named = reasons.iter().any(|reason| why.contains(reason));
            assert!(is_named, "{why}");
        }
    }
    // A file that is streamed is judged as well, and the longest chain that is read is read.
    let streamed = Options {
        limits: Limits {
            max_unstreamed_bytes: 100,
            ..Limits::default()
        },
        ..Options::default()
    };
    let is_chain = |report: &Report| {
        let mut errors = report.errors.iter();
        errors.any(|error| error.message.contains("in a chain"))
    };
    for text in chains(1_000) {
        let report = validate(text.as_bytes(), Format::JsonLd, &streamed).unwrap();
        assert!(is_chain(&report), "{report:?}");
    }
    for text in chains(30) {
        let report = read(&text, Format::JsonLd);
        assert!(!is_chain(&report), "{report:?}");
    }
}

/// The deepest contexts that are let through fit the stack of the parser.
#[test]
fn contexts_at_their_bounds_are_read() {
    let mut context = "null".to_owned();
    for _ in 0..8 {
        let terms: Vec<_> = (0..30)
            .map(|n| {
                format!(
                    "\"t{n}\":{{\"@id\":\"t{}:x\",\"@type\":\"t{}\"}}",
                    n + 1,
                    n + 1
                )
            })
            .collect();
        context = format!(
            "{{{},\"t30\":{{\"@id\":\"http://v/\",\"@context\":{context}}}}}",
            terms.join(",")
        );
    }
    let report = read(format!("{{\"@context\":{context}}}"), Format::JsonLd);
    let is_refused = report
        .errors
        .iter()
        .any(|error| error.message.contains("nested"));
    assert!(!is_refused, "{report:?}");
    let lists = "{\"@context\":{\"T\":{\"@id\":\"http://v/T\",\"@context\":[null";
    let nulls = format!("{lists}{}]}}}},\"@type\":\"T\"}}", ",null".repeat(999));
    assert_eq!(read(&nulls, Format::JsonLd).outcome, Outcome::Valid);
    let nulls = format!("{lists}{}]}}}},\"@type\":\"T\"}}", ",null".repeat(DEPTH));
    assert_eq!(read(&nulls, Format::JsonLd).outcome, Outcome::Invalid);
}

/// Gives every address a context that leads back to itself.
struct Circular(&'static str);

impl ContextLoader for Circular {
    fn load(&self, _: &str) -> Result<Vec<u8>, String> {
        Ok(self.0.as_bytes().to_vec())
    }
}

#[test]
fn remote_contexts_that_lead_to_themselves_are_not_loaded() {
    for remote in [
        r#"{"@context": {"a": {"@id": "b:x"}, "b": {"@id": "http://b/", "@context": "http://c/"}}}"#,
        r#"{"@context": {"a": "b:x", "b": {"@id": "http://b/", "@context": {"@import": "http://c/"}}}}"#,
        r#"{"@context": ["http://c/", "http://c/", "http://c/", "http://c/"]}"#,
    ] {
        let options = Options {
            contexts: Some(Arc::new(Circular(remote))),
            ..Options::default()
        };
        let text = r#"{"@context": "http://c/", "@id": "http://a", "p": "x"}"#;
        let report = validate(text.as_bytes(), Format::JsonLd, &options).unwrap();
        assert_eq!(report.outcome, Outcome::NotValidated, "{report:?}");
        assert_eq!(report.contexts_not_loaded, ["http://c/"]);
    }
}

fn in_rdf(body: &str) -> String {
    format!(
        "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:a='http://a#'>\
         {body}</rdf:RDF>"
    )
}

/// Texts that are as deep or as long a chain as it gets, with the formats that they are read as.
fn deep_texts() -> Vec<(Format, String)> {
    let node = |open: &str, close: &str| in_rdf(&nested(open, close, DEPTH));
    let line = "<http://a> <http://b> ".to_owned();
    vec![
        (Format::JsonLd, nested("[", "]", DEPTH)),
        (Format::JsonLd, nested("{\"@graph\":", "}", DEPTH)),
        (Format::JsonLd, nested("{\"@context\":", "}", DEPTH)),
        (
            Format::JsonLd,
            nested("{\"@context\":{},\"http://a/\":", "}", DEPTH),
        ),
        (
            Format::JsonLd,
            nested(
                "{\"@context\":{\"t\":{\"@id\":\"http://a\",\"@context\":",
                "}}}",
                DEPTH,
            ),
        ),
        (Format::OboGraph, nested("[", "]", DEPTH)),
        (
            Format::OboGraph,
            format!(
                "{{\"graphs\":[{{\"meta\":{}}}]}}",
                nested("{\"a\":", "}", DEPTH)
            ),
        ),
        (
            Format::RdfXml,
            node("<rdf:Description><a:p>", "</a:p></rdf:Description>"),
        ),
        (
            Format::RdfXml,
            node("<a:b rdf:parseType='Literal'>", "</a:b>"),
        ),
        (Format::RdfXml, node("<a:b xml:base='x/'>", "</a:b>")),
        (Format::OwlXml, nested("<Ontology>", "</Ontology>", DEPTH)),
        (
            Format::Turtle,
            format!("{line}{} .", nested("[ <http://p> ", "]", DEPTH)),
        ),
        (
            Format::Turtle,
            format!("{line}{} .", nested("(", ")", DEPTH)),
        ),
        (Format::Turtle, "@base <x/> .\n".repeat(DEPTH)),
        (
            Format::TriG,
            format!("<http://g> {}", nested("{", "}", DEPTH)),
        ),
        (
            Format::NTriples,
            format!("{} {line}", nested("<< ", ">>", DEPTH)),
        ),
        (
            Format::NQuads,
            format!("{} {line}", nested("<<(", ")>>", DEPTH)),
        ),
        (
            Format::Obo,
            format!(
                "format-version: 1.2\n\n[Term]\nid: A:1\nname: {}\n",
                nested("{", "}", DEPTH)
            ),
        ),
        (
            Format::Obo,
            format!(
                "format-version: 1.2\n\n[Term]\nid: A:1\ndef: {}\n",
                nested("\"[", "]", DEPTH)
            ),
        ),
    ]
}

#[test]
fn every_format_may_be_nested_to_any_depth() {
    let texts = deep_texts();
    // A small stack stands for that of any thread that calls.
    let reader = std::thread::Builder::new().stack_size(1 << 20);
    let read_all = move || -> Vec<(Format, Report)> {
        texts
            .iter()
            .map(|(format, text)| {
                let _ = detect(text.as_bytes(), None);
                (*format, read(text, *format))
            })
            .collect()
    };
    let reports = reader.spawn(read_all).unwrap().join().unwrap();
    for (format, report) in reports {
        let is_told = report.outcome != Outcome::Invalid || !report.errors.is_empty();
        assert!(is_told, "{format}");
    }
}

#[test]
fn a_chain_of_stanzas_is_an_ontology_like_any_other() {
    let stanzas: Vec<_> = (0..DEPTH)
        .map(|n| format!("[Term]\nid: A:{n}\nis_a: A:{}\n\n", n + 1))
        .collect();
    let text = format!("format-version: 1.2\nontology: a\n\n{}", stanzas.concat());
    assert!(matches!(
        detect(text.as_bytes(), None),
        Detected::Ontology(Format::Obo)
    ));
    let report = read(&text, Format::Obo);
    assert_eq!(
        (report.outcome, report.terms),
        (Outcome::Valid, DEPTH as u64)
    );
}
