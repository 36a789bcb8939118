//! `docstokg config`: every section is checked, shown and described.

use std::path::Path;

use serde_json::Value;

use crate::support::{program, run};

/// Checks a file, and returns the exit code and the problems without the path of the file.
fn check(text: &str) -> (i32, Vec<String>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("c.yaml");
    std::fs::write(
        &path,
        text.replace("DIR", &directory.path().display().to_string()),
    )
    .expect("a file");
    let ran = run(&["config", "check", path.to_str().expect("text")]);
    let prefix = format!("docstokg: {}:", path.display());
    let problems = ran
        .err
        .lines()
        .filter_map(|line| line.strip_prefix(&prefix))
        .map(|line| line.replace(&directory.path().display().to_string(), "DIR"))
        .collect();
    (ran.code, problems)
}

const RESOLVERS: &str = "the resolvers are openalex, unpaywall, arxiv, pmc, crossref, europe_pmc, \
                         zenodo, figshare, osf, hal, doaj, landing_page, title_search, wayback";

#[test]
fn a_preset_that_does_not_exist_is_a_problem() {
    let (code, problems) = check("resolvers:\n  preset: fst\n");
    assert_eq!(code, 2);
    assert_eq!(
        problems,
        ["2: resolvers.preset: 'fst' is not fast or broad; did you mean 'fast'?"]
    );
}

#[test]
fn unknown_resolvers_are_problems_in_every_list() {
    let (code, problems) =
        check("resolvers:\n  order: openalex,unpaywal\n  enable: [zzzzzzzz]\n  disable: waybak\n");
    assert_eq!(code, 2);
    assert_eq!(
        problems,
        [
            format!(
                "2: resolvers.order: there is no resolver 'unpaywal'; {RESOLVERS}; \
                 did you mean 'unpaywall'?"
            ),
            format!("3: resolvers.enable: there is no resolver 'zzzzzzzz'; {RESOLVERS}"),
            format!(
                "4: resolvers.disable: there is no resolver 'waybak'; {RESOLVERS}; \
                 did you mean 'wayback'?"
            ),
        ]
    );
}

#[test]
fn an_endpoint_that_is_no_http_url_is_a_problem() {
    let (code, problems) = check(
        "resolvers:
  endpoints:
    openalex: nonsense
    doi: ftp://doi.example/
    crossref: https://me:SECRET@crossref.example/
    wayback: http://127.0.0.1:8080
    arxiv: https://arxiv.example/#pdf
",
    );
    assert_eq!(code, 2);
    assert_eq!(
        problems,
        [
            "3: resolvers.endpoints.openalex: 'nonsense' is not an http or https URL",
            "4: resolvers.endpoints.doi: 'ftp://doi.example/' is not an http or https URL",
            "5: resolvers.endpoints.crossref: a URL with a user name or password is not supported here",
            "7: resolvers.endpoints.arxiv: 'https://arxiv.example/#pdf' has a fragment, which is never sent",
        ]
    );
}

#[test]
fn credentials_that_could_not_be_sent_are_problems_and_are_not_repeated() {
    let (code, problems) = check(
        "resolvers:
  openalex_api_key: ''
  wiley_tdm_token: \"SECRET\\u0007\"
  unpaywall_email: SECRET
  elsevier_insttoken: SECRET
  enable: wayback
  disable: [Wayback]
",
    );
    assert_eq!(code, 2);
    assert_eq!(
        problems,
        [
            "2: resolvers.openalex_api_key: it is empty; give a value, or remove the key",
            "3: resolvers.wiley_tdm_token: it has characters that no header can carry",
            "4: resolvers.unpaywall_email: it is not an e-mail address",
            "5: resolvers.elsevier_insttoken: it is of no use alone: set resolvers.elsevier_api_key or ELSEVIER_API_KEY",
            "6: resolvers.enable: wayback is in resolvers.disable, too; remove it from one",
        ]
    );
    let (_, problems) = check("resolvers:\n  paid_content: true\n");
    assert_eq!(
        problems,
        [
            "2: resolvers.paid_content: it needs a key: set resolvers.openalex_api_key or OPENALEX_API_KEY"
        ]
    );
}

#[test]
fn credentials_in_the_environment_are_a_layer_and_are_checked() {
    let ran = |name: &str, value: &str, command: &str| -> crate::support::Ran {
        let mut program = program();
        program.args(["config", command]).env(name, value);
        program.output().expect("the program").into()
    };
    let wrong = ran("UNPAYWALL_EMAIL", "SECRET", "check");
    assert_eq!(
        (wrong.code, wrong.err.as_str()),
        (
            2,
            "docstokg: $UNPAYWALL_EMAIL: resolvers.unpaywall_email: it is not an e-mail address\n"
        )
    );
    let shown: Value =
        serde_json::from_str(&ran("OPENALEX_API_KEY", "SECRET", "show").out).expect("JSON");
    assert_eq!(shown["resolvers"]["openalex_api_key"], "***");
    assert_eq!(ran("WILEY_TDM_TOKEN", " ", "check").code, 0);
}

#[test]
fn telemetry_that_could_not_be_written_or_judged_is_a_problem() {
    let (code, problems) = check(
        "telemetry:
  sqlite: DIR
  jsonl: DIR/c.yaml/events.jsonl
  prometheus_textfile: ''
  jsonl_keep: 4000000000
  jsonl_rotate_mb: 0
  keep_days: -1
  slo:
    http_429_ratio_max: 5
    success_after_open_min: 50
    opens_per_hour_max: 4
",
    );
    assert_eq!(code, 2);
    assert_eq!(
        problems,
        [
            "2: telemetry.sqlite: 'DIR' is a directory; name a file in it",
            "3: telemetry.jsonl: 'DIR/c.yaml/events.jsonl' cannot be made: DIR/c.yaml is not a directory",
            "4: telemetry.prometheus_textfile: '' is not the name of a file; write off for none",
            "5: telemetry.jsonl_keep: 4000000000 is more than 1000",
            "6: telemetry.jsonl_rotate_mb: 0 is too small; expected 1 or more",
            "7: telemetry.keep_days: -1 is negative; expected a whole number of zero or more",
            "9: telemetry.slo.http_429_ratio_max: 5 is more than 1; write a share, such as 0.05",
            "10: telemetry.slo.success_after_open_min: 50 is more than 1; write a share, such as 0.05",
        ]
    );
    let (_, problems) = check("telemetry:\n  jsonl: ~/e.jsonl\n  prometheus_textfile: ~/e.jsonl\n");
    assert_eq!(
        problems,
        [
            "2: telemetry.jsonl: '~/e.jsonl' begins with '~', which only shells expand; write the whole path",
            "3: telemetry.prometheus_textfile: '~/e.jsonl' is the same file as telemetry.jsonl",
        ]
    );
}

#[test]
fn config_check_accepts_valid_values_of_every_section() {
    let (code, problems) = check(
        "resolvers:
  preset: FAST
  order: arxiv, Europe-PMC
  enable: [landing]
  disable: wayback
  openalex_api_key: key
  paid_content: true
  endpoints: { doi: \"http://127.0.0.1:9/base?x=1\" }
telemetry: { sqlite: off, jsonl: DIR/new/events.jsonl, prometheus_textfile: Off }
",
    );
    assert_eq!((code, problems), (0, Vec::new()));
}

#[test]
fn an_unknown_key_gets_the_nearest_of_all_sections() {
    let (code, problems) = check("telemetri: {}\nresolver: {}\nretri: {}\n");
    assert_eq!(code, 2);
    assert_eq!(
        problems,
        [
            "1: telemetri: unknown key; did you mean 'telemetry'?",
            "2: resolver: unknown key; did you mean 'resolvers'?",
            "3: retri: unknown key; did you mean 'retry'?",
        ]
    );
}

#[test]
fn the_documentation_lists_every_key() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let written = std::fs::read_to_string(path).expect("docs/reference/configuration.md");
    assert!(
        written.contains(&run(&["config", "schema", "--markdown"]).out),
        "the list of keys in docs/reference/configuration.md is stale: paste the output of `docstokg config schema --markdown`"
    );
    let variables = docstokg_hub::config::environment::VARIABLES
        .into_iter()
        .chain(docstokg_content::config::variables())
        .map(|(variable, _)| variable)
        .chain(docstokg_ontology::config::variables().map(|(variable, _)| variable))
        .chain(docstokg_ontology::facade::settings::VARIABLES.map(|(variable, _)| variable));
    for variable in variables {
        assert!(
            written.contains(variable),
            "{variable} is not in docs/reference/configuration.md"
        );
    }
}

/// Lists the values of a JSON document with their paths; `hosts` and `sites` are left out.
fn list_values(path: &str, value: &Value, lines: &mut Vec<String>) {
    let Some(map) = value.as_object() else {
        lines.push(format!("{path} {value}"));
        return;
    };
    for (key, value) in map {
        if !matches!(key.as_str(), "hosts" | "sites") {
            let dot = if path.is_empty() { "" } else { "." };
            list_values(&format!("{path}{dot}{key}"), value, lines);
        }
    }
}

#[test]
fn defaults_are_those_of_this_list() {
    let mut program = program();
    program
        .args(["config", "show"])
        .env_remove("DOCSTOKG_RLIMIT_BACKEND");
    let shown = program.output().expect("the program").stdout;
    let shown = serde_json::from_slice(&shown).expect("JSON");
    let mut lines = Vec::new();
    list_values("", &shown, &mut lines);
    let wanted = include_str!("defaults.txt");
    assert_eq!(lines, wanted.lines().collect::<Vec<_>>());
}
