use std::fmt::Write;

use docstokg_policy::classify::{AttemptEnding, AttemptMeaning, Classifier, Fault};
use http::StatusCode;

/// Writes runs of statuses of the same class, one a line.
fn table(classifier: &Classifier) -> String {
    let mut lines = String::new();
    let mut run: Option<(u16, u16, String)> = None;
    for status in 100..=599 {
        let class = classifier.classify(AttemptEnding::Status(
            StatusCode::from_u16(status).expect("a status"),
        ));
        let class = format!(
            "{}{}",
            class.outcome.as_str(),
            if class.transient {
                ", worth a retry"
            } else {
                ""
            }
        );
        match &mut run {
            Some((_, last, known)) if *known == class => *last = status,
            _ => {
                if let Some((first, last, known)) = run.replace((status, status, class)) {
                    writeln!(lines, "{first}-{last}: {known}").expect("a string");
                }
            }
        }
    }
    let (first, last, known) = run.expect("a run");
    writeln!(lines, "{first}-{last}: {known}").expect("a string");
    lines
}

#[test]
fn every_status_has_its_class() {
    insta::assert_snapshot!(table(&Classifier::default()));
}

#[test]
fn the_sets_are_configurable() {
    let classifier = Classifier {
        failure: Some(vec![418, 503]),
        neutral: vec![429, 204],
        count_408: true,
        throttled: vec![509],
        slow_call: None,
    };
    let outcome = |status: u16| {
        classifier
            .classify(AttemptEnding::Status(
                StatusCode::from_u16(status).expect("a status"),
            ))
            .outcome
    };
    assert_eq!(outcome(418), AttemptMeaning::Failure);
    assert_eq!(outcome(503), AttemptMeaning::Failure);
    assert_eq!(outcome(500), AttemptMeaning::Neutral);
    assert_eq!(outcome(429), AttemptMeaning::Neutral);
    assert_eq!(outcome(204), AttemptMeaning::Neutral);
    assert_eq!(outcome(408), AttemptMeaning::Failure);
    assert_eq!(outcome(200), AttemptMeaning::Success);
}

#[test]
fn transport_faults_are_failures_and_all_but_tls_may_pass() {
    for fault in [
        Fault::Dns,
        Fault::NoRoute,
        Fault::OpenFiles,
        Fault::Connect,
        Fault::Tls,
        Fault::Write,
        Fault::Read,
        Fault::Timeout,
    ] {
        let class = Classifier::default().classify(AttemptEnding::Fault(fault));
        assert_eq!(class.outcome, AttemptMeaning::Failure);
        assert_eq!(class.transient, fault != Fault::Tls);
        assert_eq!(
            fault.is_ours(),
            matches!(fault, Fault::Dns | Fault::NoRoute | Fault::OpenFiles)
        );
    }
    let class = Classifier::default().classify(AttemptEnding::Fault(Fault::ConnectionClosed));
    assert_eq!(
        (class.outcome, class.transient),
        (AttemptMeaning::Neutral, true),
        "a connection that ends says nothing about the origin"
    );
}
