use std::collections::BTreeSet;
use std::fmt::Debug;

use docstokg_content::resolver::{credential_table, credentials, endpoints, source_table, specs};
use url::Url;

fn assert_distinct<T: Ord + Debug>(what: &str, values: impl Iterator<Item = T>) {
    let mut seen = BTreeSet::new();
    for value in values {
        let shown = format!("{value:?}");
        assert!(seen.insert(value), "{what} {shown} is there twice");
    }
}

#[test]
fn specs_are_complete_and_distinct() {
    assert_distinct("the name", specs().iter().map(|spec| spec.id));
    assert_distinct("the rank", specs().iter().map(|spec| spec.rank));
    assert_distinct("the endpoint", endpoints().map(|endpoint| endpoint.key));
    assert_distinct(
        "the credential",
        credentials().map(|credential| credential.key),
    );
    for spec in specs() {
        assert!(
            !spec.source.about.is_empty() && !spec.source.title.is_empty(),
            "{}",
            spec.id
        );
        assert!(
            !spec.needs.is_empty() && !spec.source.endpoints.is_empty(),
            "{}",
            spec.id
        );
    }
    for endpoint in endpoints() {
        let url = Url::parse(endpoint.address).unwrap();
        assert_eq!(url.scheme(), "https", "{}", endpoint.key);
    }
}

#[test]
fn the_documented_tables_of_sources_are_those_of_the_specs() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/sources.md"
    );
    let written = std::fs::read_to_string(path).unwrap();
    for table in [source_table(), credential_table()] {
        assert!(
            written.contains(&table),
            "a table in docs/reference/sources.md is stale: paste this\n{table}"
        );
    }
}
