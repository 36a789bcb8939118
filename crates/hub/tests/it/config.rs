use std::time::Duration;

use docstokg_hub::config::flags::Flags;
use docstokg_hub::config::keys;
use docstokg_hub::config::load::{Sources, load, shipped};
use docstokg_hub::config::show::{limit_rows, settings_json};
use docstokg_hub::policy::rate::format_rates;
use docstokg_hub::{Host, Role};

fn host(text: &str) -> Host {
    Host::parse(text).expect("a host")
}

fn environment(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn file(text: &str) -> (tempfile::TempDir, Sources) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("docstokg.yaml");
    std::fs::write(&path, text).expect("a file");
    (
        directory,
        Sources {
            file: Some(path),
            ..Sources::default()
        },
    )
}

/// The problems, without the directory that changes from run to run.
fn problems(sources: &Sources) -> String {
    let directory = sources
        .file
        .as_ref()
        .and_then(|path| path.parent())
        .map(|path| format!("{}/", path.display()))
        .unwrap_or_default();
    load(sources)
        .expect_err("problems")
        .to_string()
        .replace(&directory, "")
}

#[test]
fn what_is_shipped_is_in_order_and_says_what_the_domain_says() {
    let config = shipped().expect("a configuration");
    let rates = |name: &str, role| format_rates(&config.limits.of(&host(name), role).rates.value);
    assert_eq!(rates("api.crossref.org", Role::Metadata), "10/SECOND");
    assert_eq!(rates("export.arxiv.org", Role::Artifact), "1/3SECOND");
    assert_eq!(rates("web.archive.org", Role::Metadata), "24/MINUTE");
    assert_eq!(rates("api.core.ac.uk", Role::Metadata), "5/10SECOND");
    assert_eq!(rates("unheard.of", Role::Artifact), "2/SECOND+500/HOUR");
    assert_eq!(
        config.breakers.of(&host("web.archive.org")).policy.reset,
        Duration::from_secs(3_600)
    );
    assert_eq!(
        config.limits.max_inflight.value.map(std::num::NonZero::get),
        Some(500)
    );
}

#[test]
fn every_problem_is_told_at_once_with_its_place_and_the_nearest_word() {
    let (_directory, sources) = file(
        "version: 1
limits:
  defaults:
    metadata: { rates: [\"10/FORTNIGHT\"], max_dealy_ms: 5 }
  hosts:
    api.crossref.org: { metdata: { rates: [\"1/SECOND\"] } }
    API.Crossref.org.: { metadata: { max_delay_ms: -5 } }
    'not a host': {}
  aimd: { enabled: maybe, min_multiplier: 2 }
  global: { max_inflight: 0 }
breakers:
  defaults: { fail_max: 0, window: { window_s: 10 }, classify: { failure: [42] } }
  cooldown_store: { kind: sqlte }
sites:
  one: { hosts: [a.example] }
  two: { hosts: [a.example] }
retry: { atempts: 3 }
transport: { durability: sometimes, deadline_s: -1 }
identity: { mailto: nobody }
telemetri: {}
",
    );
    insta::assert_snapshot!(problems(&sources));
}

#[test]
fn malformed_yaml_and_duplicate_keys_are_told_with_their_line() {
    let (_directory, sources) = file("limits:\n  defaults: [\n");
    let told = problems(&sources);
    assert!(told.starts_with("docstokg.yaml:"), "{told}");
    let (_directory, sources) =
        file("limits:\n  hosts:\n    a.example: {}\n    a.example: {}\nretry: { atempts: 3 }\n");
    let told = problems(&sources);
    assert!(
        told.contains("docstokg.yaml:4") && told.contains("did you mean 'attempts'"),
        "{told}"
    );
    let sources = Sources {
        file: Some("/nonexistent/docstokg.yaml".into()),
        ..Sources::default()
    };
    assert_eq!(
        load(&sources).expect_err("no file").to_string(),
        "/nonexistent/docstokg.yaml:1: the file cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn later_layers_win_key_by_key() {
    let (_directory, mut sources) = file(
        "limits:
  hosts:
    api.crossref.org: { metadata: { rates: [\"7/SECOND\"], max_delay_ms: 777, max_concurrent: 7 } }
",
    );
    sources.environment = environment(&[(
        "DOCSTOKG_RLIMIT__api.crossref.org__metadata",
        "max_delay_ms:888,count_head:true",
    )]);
    sources.flags = Flags {
        rate: vec!["api.crossref.org:metadata=rates:25/SECOND+10000/HOUR".into()],
        ..Flags::default()
    };
    let (config, _) = load(&sources).expect("a configuration");
    let limits = config.limits.of(&host("api.crossref.org"), Role::Metadata);
    let told = |source: &docstokg_hub::config::Source| source.to_string();
    assert_eq!(
        (
            format_rates(&limits.rates.value).as_str(),
            told(&limits.rates.source).as_str()
        ),
        ("25/SECOND+10000/HOUR", "--rate")
    );
    assert_eq!(
        (
            limits.max_delay.value.as_millis(),
            told(&limits.max_delay.source).as_str()
        ),
        (888, "$DOCSTOKG_RLIMIT__api.crossref.org__metadata")
    );
    assert!(limits.count_head.value);
    assert_eq!(
        limits.max_concurrent.value.map(std::num::NonZero::get),
        Some(7)
    );
    assert!(told(&limits.max_concurrent.source).ends_with("docstokg.yaml:3"));
}

#[test]
fn the_seeds_files_load_as_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let limits = directory.path().join("ratelimits.yaml");
    std::fs::write(
        &limits,
        r#"version: 1
defaults:
  # two windows: per-second smoothing + per-hour politeness
  metadata:
    rates: ["10/SECOND", "5000/HOUR"]
    max_delay_ms: 200
    count_head: false
    max_concurrent: 100        # optional per-host per-role concurrency cap
hosts:
  api.unpaywall.org: {}
  export.arxiv.org:
    metadata: { rates: ["1/3SECOND","1000/DAY"], max_delay_ms: 150 }
backend:
  kind: "memory"
  dsn: ""
aimd:
  enabled: true
  window_s: 30
  high_429_ratio: 0.05
  increase_step_pct: 5
  decrease_step_pct: 20
  min_multiplier: 0.3
  max_multiplier: 1.0
global:
  max_inflight: 250
"#,
    )
    .expect("a file");
    let breakers = directory.path().join("breakers.yaml");
    std::fs::write(
        &breakers,
        "defaults: { fail_max: 4 }\nhosts: { api.crossref.org: { retry_after_cap_s: 900 } }\nresolvers: { landing_page: { fail_max: 2 } }\n",
    )
    .expect("a file");
    let path = |path: &std::path::Path| path.display().to_string();
    let environment = vec![
        ("DOCSTOKG_RLIMITS_YAML".to_owned(), path(&limits)),
        ("DOCSTOKG_BREAKERS_YAML".to_owned(), path(&breakers)),
    ];
    let (config, _) = load(&Sources {
        environment,
        ..Sources::default()
    })
    .expect("a configuration");
    assert_eq!(
        format_rates(
            &config
                .limits
                .of(&host("export.arxiv.org"), Role::Metadata)
                .rates
                .value
        ),
        "1/3SECOND+1000/DAY"
    );
    assert_eq!(
        (
            config
                .limits
                .max_inflight
                .value
                .map_or(0, std::num::NonZero::get),
            config.limits.adaptive.expect("on").window.as_secs()
        ),
        (250, 30)
    );
    assert_eq!(
        config
            .breakers
            .of(&host("unheard.of"))
            .policy
            .fail_max
            .get(),
        4
    );
    assert_eq!(
        config
            .breakers
            .of(&host("api.crossref.org"))
            .policy
            .retry_after_cap
            .as_secs(),
        900
    );
    assert_eq!(
        config
            .breakers
            .of_resolver("landing_page")
            .policy
            .fail_max
            .get(),
        2
    );
}

#[test]
fn variables_that_shells_can_export_are_matched_against_known_hosts() {
    let limits_of = |list: &[(&str, &str)], name: &str| {
        load(&Sources {
            environment: environment(list),
            ..Sources::default()
        })
        .map(|(config, _)| format_rates(&config.limits.of(&host(name), Role::Metadata).rates.value))
    };
    let known = limits_of(
        &[(
            "DOCSTOKG_RLIMIT__api_crossref_org__metadata",
            "rates:30/SECOND+12000/HOUR",
        )],
        "api.crossref.org",
    );
    assert_eq!(known.expect("a configuration"), "30/SECOND+12000/HOUR");
    let hyphens = limits_of(
        &[(
            "DOCSTOKG_RLIMIT__pmc_oa_opendata_s3_amazonaws_com__METADATA",
            "rates:9/SECOND",
        )],
        "pmc-oa-opendata.s3.amazonaws.com",
    );
    assert_eq!(hyphens.expect("a configuration"), "9/SECOND");
    let error = limits_of(
        &[(
            "DOCSTOKG_RLIMIT__api_crosref_org__metadata",
            "rates:9/SECOND",
        )],
        "x.org",
    )
    .expect_err("unknown")
    .to_string();
    assert!(error.contains("did you mean 'api_crossref_org'"), "{error}");
    let error = limits_of(
        &[(
            "DOCSTOKG_RLIMIT__api.crossref.org__metdata",
            "rates:9/SECOND",
        )],
        "x.org",
    )
    .expect_err("no role")
    .to_string();
    assert!(error.contains("did you mean 'metadata'"), "{error}");
    let (_directory, mut sources) =
        file("limits: { hosts: { a-b.example: {}, a.b.example: {} } }\n");
    sources.environment =
        environment(&[("DOCSTOKG_RLIMIT__a_b_example__metadata", "rates:9/SECOND")]);
    assert!(problems(&sources).contains("may mean a-b.example or a.b.example"));
}

#[test]
fn flags_are_read_in_the_seeds_syntax() {
    let flags = Flags {
        rate: vec![
            "127.0.0.1:8080:metadata=rates:2/SECOND,max_delay_ms:5000".into(),
            "[::1]:8080:artifact=rates:3/SECOND".into(),
        ],
        aimd: Some("enabled=true,high_429_ratio:0.08,decrease=25,increase=5".into()),
        breaker: vec!["api.crossref.org=fail_max:5,reset:61,retry_after_cap:900".into()],
        breaker_resolver: vec!["landing_page=fail_max:4,reset:45".into()],
        max_inflight: Some("9".into()),
        deadline: Some("7.5".into()),
        ..Flags::default()
    };
    let (config, _) = load(&Sources {
        flags,
        ..Sources::default()
    })
    .expect("a configuration");
    assert_eq!(
        config
            .limits
            .of(&host("127.0.0.1:8080"), Role::Metadata)
            .max_delay
            .value
            .as_millis(),
        5_000
    );
    assert_eq!(
        format_rates(
            &config
                .limits
                .of(&host("[::1]:8080"), Role::Artifact)
                .rates
                .value
        ),
        "3/SECOND"
    );
    let adaptive = config.limits.adaptive.expect("on");
    assert!((adaptive.high_ratio - 0.08).abs() < 1e-9 && (adaptive.decrease - 0.25).abs() < 1e-9);
    let policy = &config.breakers.of(&host("api.crossref.org")).policy;
    assert_eq!(
        (
            policy.fail_max.get(),
            policy.reset.as_secs(),
            policy.retry_after_cap.as_secs()
        ),
        (5, 61, 900)
    );
    assert_eq!(
        config
            .breakers
            .of_resolver("landing_page")
            .policy
            .reset
            .as_secs(),
        45
    );
    assert_eq!(
        (
            config
                .limits
                .max_inflight
                .value
                .map_or(0, std::num::NonZero::get),
            config.transport.deadline
        ),
        (9, Some(Duration::from_millis(7_500)))
    );
}

#[test]
fn wrong_flags_say_what_is_wrong() {
    let flags = Flags {
        rate: vec![
            "api.crossref.org=rates:1/SECOND".into(),
            "api.crossref.org:metdata=rates:1/SECOND".into(),
            "a.example:metadata=rate:1/SECOND".into(),
            "nonsense".into(),
        ],
        breaker: vec!["a b=fail_max:1".into(), "a.example=fail_max".into()],
        rate_backend: Some("redsi".into()),
        deadline: Some("soon".into()),
        ..Flags::default()
    };
    insta::assert_snapshot!(
        load(&Sources {
            flags,
            ..Sources::default()
        })
        .expect_err("problems")
        .to_string()
    );
}

#[test]
fn the_shown_settings_load_again_and_mean_the_same() {
    let (_, settings) = load(&Sources::default()).expect("a configuration");
    let shown = settings_json(&settings);
    let (_directory, sources) = file(&shown.to_string());
    let (again, _) = load(&sources).expect("what is shown is valid");
    let rows = |config: &docstokg_hub::config::Config| {
        let rows = limit_rows(config, None);
        rows.iter()
            .map(|row| {
                (
                    row.host.clone(),
                    row.role,
                    format_rates(&row.limits.rates.value),
                    row.limits.max_delay.value,
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(&again), rows(&shipped().expect("a configuration")));
}

#[test]
fn a_password_in_a_dsn_is_never_shown() {
    let (_directory, sources) =
        file("limits: { backend: { kind: memory, dsn: 'redis://me:SECRET@host:6379/3' } }\n");
    let (_, settings) = load(&sources).expect("a configuration");
    let shown = settings_json(&settings).to_string();
    assert!(
        !shown.contains("SECRET") && shown.contains("redis://***@host:6379/3"),
        "{shown}"
    );
}

#[test]
fn the_documentation_lists_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let written = std::fs::read_to_string(path).expect("docs/configuration.md");
    assert!(
        written.contains(&keys::markdown()),
        "the table of keys in docs/configuration.md is stale: paste the output of `docstokg config schema --markdown`"
    );
    for (variable, _) in docstokg_hub::config::environment::VARIABLES {
        assert!(
            written.contains(variable),
            "{variable} is not in docs/configuration.md"
        );
    }
}

#[test]
fn the_schema_knows_every_key_of_the_table() {
    let schema = keys::schema();
    for key in keys::all().iter().filter(|key| key.kind != "group") {
        let mut place = &schema;
        for part in key.path.split('.') {
            // A group of keys that may be written as one word.
            if let Some(group) = place.get("oneOf").and_then(|forms| {
                forms
                    .as_array()?
                    .iter()
                    .find(|form| form.get("properties").is_some())
            }) {
                place = group;
            }
            place = match part {
                "HOST" | "NAME" | "KIND" | "SERVICE" => &place["additionalProperties"],
                "ROLE" => &place["properties"]["metadata"],
                part => &place["properties"][part],
            };
        }
        assert!(place.is_object(), "{} is not in the schema", key.path);
    }
}
