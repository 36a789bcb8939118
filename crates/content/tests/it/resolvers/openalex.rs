use std::sync::Arc;

use docstokg_content::resolver::settings::Settings;
use docstokg_content::resolver::{
    Applicability, IdentifierNeed, LookupOutcome, OpenAlex, Resolver,
};

use crate::scripted_web::{
    Script, ask, assert_bad_answers_have_reasons, fixture, settings, show, work,
};

const API: &str = "https://api.openalex.org/works";
const SELECT: &str = "id%2Cdoi%2Cids%2Ctitle%2Cpublication_year%2Copen_access%2Cbest_oa_location%2Cprimary_location%2Clocations%2Chas_content%2Ccontent_urls%2Cis_retracted%2Cauthorships%2Cbiblio%2Cpublication_date%2Ctype%2Clanguage%2Cabstract_inverted_index";

#[test]
fn one_work_is_asked_for_without_credits_and_read_to_its_last_location() {
    let web = Script::new().on(API, 200, fixture("openalex/work.json"));
    let outcomes = ask(&OpenAlex::new(settings()), &["10.7717/peerj.4375"], &web);
    assert_eq!(
        web.asked(),
        [format!("{API}/doi:10.7717/peerj.4375?select={SELECT}")]
    );
    assert_eq!(web.kinds(), [Some("single")]);
    insta::assert_snapshot!(show(&outcomes[0]));
}

#[test]
fn every_kind_of_identifier_has_its_path() {
    for (id, path) in [
        ("W12", "W12"),
        ("pmid:5", "pmid:5"),
        ("PMC6.2", "pmcid:6"),
        ("2101.00001v2", "doi:10.48550/arxiv.2101.00001"),
        (
            "10.1002/(SICI)1(1)4:8<6::AID-A>3.0.CO;2-#",
            "doi:10.1002/%28sici%291%281%294%3A8%3C6%3A%3Aaid-a%3E3.0.co%3B2-%23",
        ),
        ("10.1000/../x", "doi:10%2E1000%2F%2E%2E%2Fx"),
    ] {
        let web = Script::new().on(API, 404, "");
        let outcomes = ask(&OpenAlex::new(settings()), &[id], &web);
        assert_eq!(web.asked(), [format!("{API}/{path}?select={SELECT}")]);
        assert_eq!(
            show(&outcomes[0]),
            "not found: OpenAlex does not know it (404)\nlearned "
        );
    }
    assert_eq!(
        OpenAlex::new(settings()).applies(&work("https://example.org/x")),
        Applicability::No(&[
            IdentifierNeed::Doi,
            IdentifierNeed::ArxivId,
            IdentifierNeed::PubMedId,
            IdentifierNeed::PmcId,
            IdentifierNeed::OpenAlexId
        ])
    );
}

#[test]
fn a_merged_work_is_read_under_its_new_id() {
    let web = Script::new().with(
        &format!("{API}/W1"),
        200,
        fixture("openalex/work.json"),
        &[],
        &format!("{API}/W2741809807"),
    );
    let outcomes = ask(&OpenAlex::new(settings()), &["W1"], &web);
    let mut merged = work("W1");
    merged.learn(outcomes[0].learned().unwrap());
    assert_eq!(merged.work_id(), "openalex:W1");
    assert_eq!(
        merged
            .identifiers
            .doi
            .as_ref()
            .map(ToString::to_string)
            .as_deref(),
        Some("10.7717/peerj.4375")
    );
    assert!(matches!(outcomes[0], LookupOutcome::Found(_)));
}

#[test]
fn fields_that_are_null_or_say_so_are_nothing() {
    let web = Script::new().on(API, 200, fixture("openalex/sparse.json"));
    assert_eq!(
        show(&ask(&OpenAlex::new(settings()), &["W9"], &web)[0]),
        "not found: OpenAlex knows the work, but no location of its files\nlearned W9"
    );
}

#[test]
fn several_works_are_one_list_in_any_order_and_the_rest_are_singles() {
    let web = Script::new()
        .on(&format!("{API}?filter"), 200, fixture("openalex/list.json"))
        .on(API, 404, "");
    let outcomes = ask(
        &acquainted(),
        &[
            "10.1000/a",
            "pmid:5",
            "10.1000/b",
            "10.1000/c|d",
            "2101.00001",
            "10.1000/unknown",
        ],
        &web,
    );
    assert_eq!(
        web.asked(),
        [
            format!(
                "{API}?filter=doi%3A10.1000%2Fa%7C10.1000%2Fb%7C10.48550%2Farxiv.2101.00001%7C10.1000%2Funknown&per_page=100&select={SELECT}"
            ),
            format!("{API}/pmid:5?select={SELECT}"),
            format!("{API}/doi:10.1000/c%7Cd?select={SELECT}"),
        ]
    );
    assert_eq!(web.kinds(), [Some("list"), Some("single"), Some("single")]);
    let shown: Vec<String> = outcomes.iter().map(show).collect();
    insta::assert_snapshot!(shown.join("\n--\n"));
}

/// One that has been answered before, without a word about credits.
fn acquainted() -> OpenAlex {
    let resolver = OpenAlex::new(settings());
    ask(&resolver, &["W1"], &Script::new().on(API, 404, ""));
    resolver
}

#[test]
fn a_list_that_cannot_be_paid_is_not_asked_for() {
    for (left, lists) in [("0", 0), ("5", 1)] {
        let web = Script::new()
            .on(&format!("{API}?filter"), 200, fixture("openalex/list.json"))
            .with(
                API,
                200,
                fixture("openalex/work.json"),
                &[("x-ratelimit-remaining", left)],
                API,
            );
        let outcomes = ask(
            &OpenAlex::new(settings()),
            &["10.1000/a", "10.1000/b", "10.1000/c"],
            &web,
        );
        assert_eq!(
            web.kinds()
                .iter()
                .filter(|kind| **kind == Some("list"))
                .count(),
            lists,
            "{left} left"
        );
        assert_eq!(
            web.kinds()[0],
            Some("single"),
            "it is not known yet what can be paid"
        );
        assert!(
            matches!(outcomes[0], LookupOutcome::Found(_)),
            "{outcomes:?}"
        );
    }
}

#[test]
fn a_spent_budget_falls_back_to_singles_and_a_burst_does_not() {
    let spent = Script::new()
        .on(
            &format!("{API}?filter"),
            429,
            fixture("openalex/budget_spent.json"),
        )
        .on(API, 200, fixture("openalex/work.json"));
    let outcomes = ask(&acquainted(), &["10.1000/a", "10.1000/b"], &spent);
    assert_eq!(spent.asked().len(), 3);
    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome, LookupOutcome::Found(_)))
    );
    let burst = Script::new().with(
        API,
        429,
        "{\"error\":\"slow down\"}",
        &[("retry-after", "2")],
        API,
    );
    let outcomes = ask(
        &OpenAlex::new(settings()),
        &["10.1000/a", "10.1000/b"],
        &burst,
    );
    assert_eq!(burst.asked().len(), 1);
    assert!(
        outcomes
            .iter()
            .all(|outcome| show(outcome).starts_with("rate_limited Some(429) Some(2000)"))
    );
}

#[test]
fn a_list_that_is_none_fails_all_its_works() {
    for body in ["{\"error\":\"x\"}", "<html>", "[]"] {
        let web = Script::new().on(API, 200, body);
        let outcomes = ask(
            &OpenAlex::new(settings()),
            &["10.1000/a", "10.1000/b"],
            &web,
        );
        assert!(
            outcomes
                .iter()
                .all(|outcome| show(outcome).starts_with("json_error")),
            "{body}"
        );
    }
}

#[test]
fn files_for_sale_are_last_and_only_with_key_and_consent() {
    let paid = |settings: Settings| {
        let web = Script::new().on(API, 200, fixture("openalex/work.json"));
        show(&ask(&OpenAlex::new(Arc::new(settings)), &["W1"], &web)[0])
            .contains("content.openalex.org")
    };
    assert!(!paid((*settings()).clone()));
    assert!(paid(Settings {
        paid_content: true,
        ..(*settings()).clone()
    }));
    assert!(!paid(Settings {
        paid_content: true,
        ..Settings::default()
    }));
}

#[test]
fn nonsense_has_reasons() {
    assert_bad_answers_have_reasons(&OpenAlex::new(settings()), "W1", API);
}
