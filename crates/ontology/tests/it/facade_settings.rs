//! The facade's settings: both spellings, and what is wrong with others.

use docstokg_ontology::facade::RateLimits;
use docstokg_ontology::facade::rate::short;

use crate::facade::limits;

fn texts(windows: Option<&[docstokg_policy::rate::Window]>) -> Option<Vec<String>> {
    windows.map(|windows| windows.iter().map(short).collect())
}

#[test]
fn settings_are_read_in_both_spellings() {
    for text in [
        "per_service: ols:4/second;bioportal:2/second",
        "per_service: { ols: 4/second, BioPortal: 2/SECOND }\nengine: pyrate",
        r#"{"per_service": {"ols": "4/second", "bioportal": "2/second"}}"#,
    ] {
        let limits = limits(text);
        assert_eq!(texts(limits.windows("ols")).unwrap(), ["4/s", "300/min"]);
        assert_eq!(
            texts(limits.windows("bioportal")).unwrap(),
            ["2/s", "300/min"]
        );
        assert_eq!(
            texts(limits.windows("lov")).unwrap(),
            ["8/s", "300/min"],
            "{text}"
        );
    }
    let unlimited = limits("default: null\nper_service: ols:4/second");
    assert_eq!(unlimited.windows("lov"), None);
    assert_eq!(texts(unlimited.windows("ols")).unwrap(), ["4/s", "300/min"]);
    let own_minute = limits("default: 8/second+12/minute");
    assert_eq!(texts(own_minute.windows("_")).unwrap(), ["8/s", "12/min"]);
}

#[test]
fn invalid_rate_setting_names_the_valid_form() {
    for (text, wanted) in [
        (
            "default: fast",
            "'fast' is not a rate: there is no '/' in it",
        ),
        ("default: 0/second", "the count is zero"),
        (
            "default: [8/second]",
            "expected a rate such as 8/second, found a list",
        ),
        ("default: 8/fortnight", "the unit is not one of SECOND"),
        (
            "per_service: ols",
            "'ols' has no ':' between service and rate",
        ),
        (
            "per_service: { ols: 4 }",
            "ols: expected a rate such as 8/second, found 4",
        ),
        (
            "per_service: ols:1/second;OLS:2/second",
            "the service ols is there twice",
        ),
        ("per_service: 'o ls:1/second'", "not the name of a service"),
        ("engine: redis", "there is one limiter"),
        ("defautl: 8/second", "did you mean 'default'"),
        ("shared_dir: ''", "name a directory"),
    ] {
        let error = RateLimits::from_text(text, "settings.yaml")
            .unwrap_err()
            .to_string();
        assert!(error.contains(wanted), "{text}: {error}");
        assert!(error.starts_with("settings.yaml:1: "), "{error}");
    }
}
