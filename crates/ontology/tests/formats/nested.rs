//! Every format nested and chained to 100,000: a report comes back, whatever the stack of the
//! thread that asks.

use std::sync::Arc;

use docstokg_ontology::diff::{DEFAULT_TABLE_BYTES, TermTable};
use docstokg_ontology::format::{ContextLoader, ValidationReport};
use docstokg_ontology::format::{
    DetectedFormat, FormatLimits, OntologyFormat, ReadOptions, ValidationOutcome, detect, validate,
};
use docstokg_origin_sim::hostile::{deep_ontologies, nested, term_chains};

use super::read;

const DEPTH: usize = 100_000;

#[test]
fn chains_of_terms_in_json_ld_are_refused_at_any_length() {
    for length in [1_000, 3_000, DEPTH] {
        for text in term_chains(length) {
            let report = read(&text, OntologyFormat::JsonLd);
            assert_eq!(
                report.outcome,
                ValidationOutcome::Invalid,
                "{}",
                &text[..80]
            );
            let why = &report.errors[0].message;
            let reasons = ["refer to each other in a chain", "a context is larger than"];
            let is_named = reasons.iter().any(|reason| why.contains(reason));
            assert!(is_named, "{why}");
        }
    }
    // A file that is streamed is judged as well, and the longest chain that is read is read.
    let streamed = ReadOptions {
        limits: FormatLimits {
            max_unstreamed_bytes: 100,
            ..FormatLimits::default()
        },
        ..ReadOptions::default()
    };
    let is_chain = |report: &ValidationReport| {
        let mut errors = report.errors.iter();
        errors.any(|error| error.message.contains("in a chain"))
    };
    for text in term_chains(1_000) {
        let report = validate(text.as_bytes(), OntologyFormat::JsonLd, &streamed).unwrap();
        assert!(is_chain(&report), "{report:?}");
    }
    for text in term_chains(30) {
        let report = read(&text, OntologyFormat::JsonLd);
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
    let report = read(
        format!("{{\"@context\":{context}}}"),
        OntologyFormat::JsonLd,
    );
    let is_refused = report
        .errors
        .iter()
        .any(|error| error.message.contains("nested"));
    assert!(!is_refused, "{report:?}");
    let lists = "{\"@context\":{\"T\":{\"@id\":\"http://v/T\",\"@context\":[null";
    let nulls = format!("{lists}{}]}}}},\"@type\":\"T\"}}", ",null".repeat(999));
    assert_eq!(
        read(&nulls, OntologyFormat::JsonLd).outcome,
        ValidationOutcome::Valid
    );
    let nulls = format!("{lists}{}]}}}},\"@type\":\"T\"}}", ",null".repeat(DEPTH));
    assert_eq!(
        read(&nulls, OntologyFormat::JsonLd).outcome,
        ValidationOutcome::Invalid
    );
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
        let options = ReadOptions {
            contexts: Some(Arc::new(Circular(remote))),
            ..ReadOptions::default()
        };
        let text = r#"{"@context": "http://c/", "@id": "http://a", "p": "x"}"#;
        let report = validate(text.as_bytes(), OntologyFormat::JsonLd, &options).unwrap();
        assert_eq!(
            report.outcome,
            ValidationOutcome::NotValidated,
            "{report:?}"
        );
        assert_eq!(report.contexts_not_loaded, ["http://c/"]);
    }
}

fn is_table(text: &[u8], format: OntologyFormat, options: &ReadOptions) -> bool {
    TermTable::read(text, format, options, DEFAULT_TABLE_BYTES).is_ok()
}

/// Reads every deep ontology on a small stack, which stands for that of any thread that calls.
fn read_deep<T: Send + 'static>(
    depth: usize,
    read: impl Fn(&[u8], OntologyFormat) -> T + Send + 'static,
) -> Vec<(String, T)> {
    let read_all = move || {
        let texts = deep_ontologies(depth).into_iter();
        let each = texts.map(|(name, text)| {
            // `.json` is the ending of several formats.
            let format = OntologyFormat::from_file_name(&name).unwrap_or(OntologyFormat::OboGraph);
            let what = read(text.as_bytes(), format);
            (name, what)
        });
        each.collect()
    };
    let reader = std::thread::Builder::new().stack_size(1 << 20);
    reader.spawn(read_all).unwrap().join().unwrap()
}

#[test]
fn every_format_may_be_nested_to_any_depth() {
    let reports = read_deep(DEPTH, |text, format| {
        let _ = detect(text, None);
        read(text, format)
    });
    for (name, report) in reports {
        let is_told = report.outcome != ValidationOutcome::Invalid || !report.errors.is_empty();
        assert!(is_told, "{name}");
    }
}

#[test]
fn deep_ontologies_are_compared_if_they_are_valid() {
    let reports = read_deep(DEPTH / 10, |text, format| {
        let is_table = is_table(text, format, &ReadOptions::default());
        (read(text, format), is_table)
    });
    for (name, (report, is_table)) in reports {
        if report.outcome != ValidationOutcome::NotValidated {
            let is_valid = report.outcome == ValidationOutcome::Valid;
            assert_eq!(is_valid, is_table, "{name}: {:?}", report.errors);
        }
    }
}

/// JSON that other readers of JSON refuse, or read as something else, is judged alike whether it is
/// read at once or streamed, for a report and for a comparison.
#[test]
fn json_ld_at_the_bounds_of_json_is_judged_alike_by_all_readers() {
    let node = |value: &str| format!("{{\"@id\":\"http://a\",\"http://p\":{value}}}");
    let deep = |depth| nested("{\"http://p\":", "}", depth);
    let long = "9".repeat(400);
    let half_a_character = Some("half of a character, without the other half");
    let too_deep = Some("nested more than 127 deep");
    let cases = [
        (deep(127), None),
        (deep(128), too_deep),
        (deep(129), too_deep),
        (deep(256), too_deep),
        (deep(257), too_deep),
        (node(&nested("[", "]", 127)), too_deep),
        (node("1e300"), None),
        (node("-1e-400"), None),
        (node("1e400"), Some("the number 1e400 is too large")),
        (node("[1,-1e400]"), Some("the number -1e400 is too large")),
        (node(&long), Some("the number 999999999999999999999999… is")),
        (node("\"1e400\""), None),
        (node("\"\\ud83d\\ude00\""), None),
        (node("\"\\uD83D\\uDE00\\u00e9\\n\""), None),
        (node("\"\\ud800\""), half_a_character),
        (node("\"\\ud800x\""), half_a_character),
        (node("\"\\ud800\\n\""), half_a_character),
        (node("{\"\\ud800\":1}"), half_a_character),
        (node("\"\\udc00\""), half_a_character),
        (node("\"\\ud800\\u0041\""), half_a_character),
        (
            "{\"@context\":{\"t\":1e400},\"t\":1}".to_owned(),
            Some("the number 1e400 is too large"),
        ),
    ];
    let options = |max_unstreamed_bytes| ReadOptions {
        limits: FormatLimits {
            max_unstreamed_bytes,
            ..FormatLimits::default()
        },
        ..ReadOptions::default()
    };
    for (text, refusal) in cases {
        let bytes = text.as_bytes();
        let reports = [1 << 20, 1].map(|most| {
            let report = validate(bytes, OntologyFormat::JsonLd, &options(most)).unwrap();
            let is_valid = report.outcome == ValidationOutcome::Valid;
            assert_eq!(
                is_table(bytes, OntologyFormat::JsonLd, &options(most)),
                is_valid
            );
            report
        });
        for report in &reports {
            let is_named = match refusal {
                None => report.errors.is_empty(),
                Some(why) => report
                    .errors
                    .iter()
                    .any(|error| error.message.contains(why)),
            };
            assert!(is_named, "{text}: {report:?}");
        }
        let [whole, streamed] = reports;
        assert_eq!(whole.outcome, streamed.outcome, "{text}");
        assert_eq!(whole.content_hash, streamed.content_hash, "{text}");
        if refusal.is_none() {
            assert_eq!(whole.statements, streamed.statements, "{text}");
        }
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
        DetectedFormat::Ontology(OntologyFormat::Obo)
    ));
    let report = read(&text, OntologyFormat::Obo);
    assert_eq!(
        (report.outcome, report.terms),
        (ValidationOutcome::Valid, DEPTH as u64)
    );
}
