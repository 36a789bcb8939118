use std::num::NonZero;
use std::time::Duration;

use docstokg_hub::Role;
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::config::{Config, ValueSource};
use docstokg_hub::policy::rate::format_rates;

use super::{environment, file, host, problems};

fn rates(config: &Config, name: &str, role: Role) -> String {
    format_rates(&config.limits.of(&host(name), role).rates.value)
}

fn max_inflight(config: &Config) -> u32 {
    config.limits.max_inflight.value.map_or(0, NonZero::get)
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
    sources.flags = CommandLineFlags {
        rate: vec!["api.crossref.org:metadata=rates:25/SECOND+10000/HOUR".into()],
        ..CommandLineFlags::default()
    };
    let (config, _) = load(&sources).expect("a configuration");
    let limits = config.limits.of(&host("api.crossref.org"), Role::Metadata);
    let shown = |source: &ValueSource| source.to_string();
    assert_eq!(
        (
            format_rates(&limits.rates.value).as_str(),
            shown(&limits.rates.source).as_str()
        ),
        ("25/SECOND+10000/HOUR", "--rate")
    );
    assert_eq!(
        (
            limits.max_delay.value.as_millis(),
            shown(&limits.max_delay.source).as_str()
        ),
        (888, "$DOCSTOKG_RLIMIT__api.crossref.org__metadata")
    );
    assert!(limits.count_head.value);
    assert_eq!(limits.max_concurrent.value.map(NonZero::get), Some(7));
    assert!(shown(&limits.max_concurrent.source).ends_with("docstokg.yaml:3"));
}

#[test]
fn the_rates_of_the_user_replace_those_of_shipped_kinds() {
    let kind_of = |text: &str| {
        let (_directory, sources) = file(text);
        let (config, _) = load(&sources).expect("a configuration");
        let shown = docstokg_hub::config::show::limit_rows(&config, None);
        let mut rows = shown.into_iter();
        let row = rows.find(|row| row.host == "api.crossref.org" && row.role == Role::Metadata);
        let kinds = row.expect("a row").kinds.into_iter();
        kinds
            .map(|(name, kind)| format!("{name} {}", format_rates(&kind.rates.value)))
            .collect::<Vec<_>>()
    };
    let of_host = |limits: &str| format!("limits: {{ hosts: {{ api.crossref.org: {limits} }} }}\n");
    let files = of_host("{ artifact: { rates: [\"50/SECOND\"] } }");
    assert_eq!(kind_of(&files), ["list 3/SECOND"], "other requests");
    let metadata = of_host("{ metadata: { rates: [\"50/SECOND\"] } }");
    assert!(kind_of(&metadata).is_empty(), "{:?}", kind_of(&metadata));
    let own = "metadata: { rates: [\"50/SECOND\"] }, kinds: { list: { rates: [\"20/SECOND\"] } }";
    assert_eq!(
        kind_of(&of_host(&format!("{{ {own} }}"))),
        ["list 20/SECOND"]
    );
}

const RATELIMITS: &str = r#"version: 1
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
"#;

const BREAKERS: &str = "defaults: { fail_max: 4 }
hosts: { api.crossref.org: { retry_after_cap_s: 900 } }
resolvers: { landing_page: { fail_max: 2 } }
";

#[test]
fn the_seeds_files_load_as_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let written = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let sources = ConfigSources {
        environment: environment(&[
            (
                "DOCSTOKG_RLIMITS_YAML",
                &written("ratelimits.yaml", RATELIMITS),
            ),
            (
                "DOCSTOKG_BREAKERS_YAML",
                &written("breakers.yaml", BREAKERS),
            ),
        ]),
        ..ConfigSources::default()
    };
    let (config, _) = load(&sources).expect("a configuration");
    assert_eq!(
        rates(&config, "export.arxiv.org", Role::Metadata),
        "1/3SECOND+1000/DAY"
    );
    assert_eq!(max_inflight(&config), 250);
    let adaptive = config.limits.adaptive_of(None).expect("on");
    assert_eq!(adaptive.window.as_secs(), 30);
    let policy = |name: &str| &config.breakers.of(&host(name)).policy;
    assert_eq!(policy("unheard.of").fail_max.get(), 4);
    assert_eq!(policy("api.crossref.org").retry_after_cap.as_secs(), 900);
    let resolver = config.breakers.of_resolver("landing_page");
    assert_eq!(resolver.policy.fail_max.get(), 2);
}

#[test]
fn variables_that_shells_can_export_are_matched_against_known_hosts() {
    let limits_of = |list: &[(&str, &str)], name: &str| {
        load(&ConfigSources {
            environment: environment(list),
            ..ConfigSources::default()
        })
        .map(|(config, _)| rates(&config, name, Role::Metadata))
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
    let flags = CommandLineFlags {
        rate: vec![
            "127.0.0.1:8080:metadata=rates:2/SECOND,max_delay_ms:5000".into(),
            "[::1]:8080:artifact=rates:3/SECOND".into(),
        ],
        aimd: Some("enabled=true,high_429_ratio:0.08,decrease=25,increase=5".into()),
        breaker: vec!["api.crossref.org=fail_max:5,reset:61,retry_after_cap:900".into()],
        breaker_resolver: vec!["landing_page=fail_max:4,reset:45".into()],
        max_inflight: Some("9".into()),
        deadline: Some("7.5".into()),
        ..CommandLineFlags::default()
    };
    let (config, _) = load(&ConfigSources {
        flags,
        ..ConfigSources::default()
    })
    .expect("a configuration");
    let local = config.limits.of(&host("127.0.0.1:8080"), Role::Metadata);
    assert_eq!(local.max_delay.value.as_millis(), 5_000);
    assert_eq!(rates(&config, "[::1]:8080", Role::Artifact), "3/SECOND");
    let adaptive = config.limits.adaptive_of(None).expect("on");
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
    let resolver = config.breakers.of_resolver("landing_page");
    assert_eq!(resolver.policy.reset.as_secs(), 45);
    assert_eq!(
        (max_inflight(&config), config.transport.deadline),
        (9, Some(Duration::from_millis(7_500)))
    );
}

/// A host and role to which the user gives a rate is the user's: what is shipped beside the shipped
/// rate yields to the user's defaults. Other known hosts keep what their operators published.
#[test]
fn shipped_values_yield_to_defaults_where_the_user_gives_a_host_its_rate() {
    let (_directory, sources) = file(
        "limits:
  defaults:
    metadata: { rates: [\"10/SECOND\"], max_concurrent: 100 }
    artifact: { rates: [\"9/SECOND\"] }
  hosts:
    api.crossref.org: { metadata: { rates: [\"25/SECOND\", \"10000/HOUR\"] } }
    api.openalex.org: { metadata: { max_delay_ms: 99 } }
",
    );
    let (config, _) = load(&sources).expect("a configuration");
    let most = |name: &str, role| {
        let limits = config.limits.of(&host(name), role);
        limits.max_concurrent.value.map(NonZero::get)
    };
    assert_eq!(most("api.crossref.org", Role::Metadata), Some(100));
    assert_eq!(
        rates(&config, "api.crossref.org", Role::Metadata),
        "25/SECOND+10000/HOUR"
    );
    assert_eq!(most("api.openalex.org", Role::Metadata), Some(8));
    assert_eq!(
        rates(&config, "web.archive.org", Role::Artifact),
        "1/SECOND"
    );

    let rows = docstokg_hub::config::show::limit_rows(&config, None);
    let over = |name: &str, role| {
        let row = rows.iter().find(|row| row.host == name && row.role == role);
        row.expect("a row").over_defaults.clone()
    };
    assert!(over("api.crossref.org", Role::Metadata).is_empty());
    assert_eq!(
        over("api.openalex.org", Role::Metadata),
        ["rates", "max_concurrent"]
    );
    assert_eq!(over("web.archive.org", Role::Artifact), ["rates"]);
}

/// Breakers of known hosts follow the user's defaults, except where an operator is known to need
/// more.
#[test]
fn breakers_of_known_hosts_follow_the_users_defaults() {
    let (_directory, sources) = file("breakers: { defaults: { fail_max: 9 } }\n");
    let (config, _) = load(&sources).expect("a configuration");
    let fail_max = |name: &str| config.breakers.of(&host(name)).policy.fail_max.get();
    assert_eq!(fail_max("api.crossref.org"), 9);
    assert_eq!(fail_max("web.archive.org"), 2);
}

#[test]
fn breakers_of_resolvers_come_from_every_place_that_the_seeds_name() {
    let (_directory, mut sources) = file(
        "breakers:
  defaults: { resolver_overrides: { landing_page: { fail_max: 7, reset_timeout_s: 70 }, other: { fail_max: 9 } } }
  hosts: { a.example: { resolver_overrides: { landing_page: { fail_max: 6 } } } }
  resolvers: { late: { fail_max: 3 } }
",
    );
    sources.environment = environment(&[
        ("DOCSTOKG_BREAKER_DEFAULTS", "fail_max:8,reset:44"),
        ("DOCSTOKG_BREAKER_RESOLVER__late", "reset:33"),
        ("DOCSTOKG_COOLDOWN_STORE", "redis"),
        ("DOCSTOKG_COOLDOWN_STORE_DSN", "redis://127.0.0.1:1/0"),
    ]);
    let (config, settings) = load(&sources).expect("a configuration");
    assert!(settings.warnings.0.is_empty(), "every variable is known");
    let resolver = |name: &str| {
        let policy = &config.breakers.of_resolver(name).policy;
        (policy.fail_max.get(), policy.reset.as_secs())
    };
    assert_eq!(resolver("landing_page"), (6, 70));
    assert_eq!(resolver("other"), (9, 44));
    assert_eq!(resolver("late"), (3, 33));
    assert_eq!(resolver("unknown"), (8, 44));
    // One store that is given serves limits, too.
    assert_eq!(config.limits.backend.dsn, "redis://127.0.0.1:1/0");

    let (_directory, sources) = file(
        "breakers:
  hosts:
    a.example: { resolver_overrides: { landing_page: { fail_max: 6 } } }
    b.example: { resolver_overrides: { landing_page: { fail_max: 5 } } }
  resolvers: { late: { resolver_overrides: { later: { fail_max: 5 } } } }
",
    );
    let found = problems(&sources);
    for wanted in ["a resolver has one breaker", "a resolver has no resolvers"] {
        assert!(found.contains(wanted), "{found}");
    }
}
