use std::sync::Arc;

use docstokg_content::resolver::order::{Preset, ResolverChoice, order};
use docstokg_content::resolver::settings::Settings;
use docstokg_content::resolver::{ResolverId, all};

use crate::scripted_web::{settings, work};

fn explain(id: &str, choice: &ResolverChoice, settings: &Arc<Settings>) -> String {
    let planned = order(&work(id), choice, &all(settings));
    planned
        .iter()
        .map(|planned| {
            format!(
                "{:<12} {:<5} {}",
                planned.resolver,
                format!("{:?}", planned.plan),
                planned.why
            )
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_order_follows_from_what_is_known() {
    let ids = ["10.1000/a", "2101.00001", "PMC7", "https://pub.example/a"];
    let shown: Vec<String> = ids
        .iter()
        .map(|id| {
            format!(
                "{id}\n{}",
                explain(id, &ResolverChoice::default(), &settings())
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn choices_move_add_and_remove() {
    let choice = ResolverChoice {
        preset: Preset::Fast,
        order: Some(vec![
            "Crossref".parse().unwrap(),
            "europe-pmc".parse().unwrap(),
        ]),
        enable: vec!["landing".parse().unwrap()],
        disable: vec!["openalex".parse().unwrap()],
    };
    insta::assert_snapshot!(explain(
        "10.1000/a",
        &choice,
        &Arc::new(Settings::default())
    ));
}

#[test]
fn an_unknown_name_is_told_the_nearest() {
    let message = |name: &str| name.parse::<ResolverId>().unwrap_err().to_string();
    assert!(message("unpaywal").starts_with(
        "there is no resolver 'unpaywal' (is 'unpaywall' meant?); the resolvers are openalex, "
    ));
    assert!(
        message("zzzzzzzzzz").starts_with("there is no resolver 'zzzzzzzzzz'; the resolvers are")
    );
    assert!("Landing-Page".parse::<ResolverId>().is_ok());
}
