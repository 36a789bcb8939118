//! The seeds' configuration as it is written there, and the library that obeys it.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::load::{ConfigProblems, ConfigSources, load};
use docstokg_hub::config::settings::Settings;
use docstokg_hub::config::{BackendKind, Config};
use docstokg_hub::{Host, Hub, RateWait, Request, Role};
use docstokg_origin_sim::OriginScript;

use crate::support::{HubWorld, config, count, rates};

fn file(yaml: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("c.yaml");
    std::fs::write(&path, yaml).expect("a file");
    (directory, path)
}

/// Reads a file with this text.
pub(crate) fn read(yaml: &str) -> Result<(Config, Settings), ConfigProblems> {
    let (_directory, path) = file(yaml);
    load(&ConfigSources {
        file: Some(path),
        ..ConfigSources::default()
    })
}

fn host(name: &str) -> Host {
    Host::parse(name).expect("a host")
}

#[test]
fn breakers_are_written_as_the_seeds_write_them() {
    let (config, _) = read(
        "breakers:
  defaults:
    reset_timeout_s: 45
    window: { threshold_failures: 3, window_s: 10 }
    roles: { metadata: { trial_calls: 4 } }
  hosts: { a.example: { fail_max: 7, roles: { artifact: { fail_max: 2, trial_calls: 9 } } } }
  resolver_overrides: { landing_page: { fail_max: 4 } }
  cooldown_store: sqlite
",
    )
    .expect("a configuration");
    let window = config.breakers.defaults.policy.window.expect("a window");
    assert_eq!(
        window.cooldown,
        Duration::from_secs(45),
        "without cooldown_s it opens for reset_timeout_s"
    );
    let a = config.breakers.of(&host("a.example"));
    assert_eq!(
        a.policy.trial_calls,
        [4, 1, 9],
        "a role's own number of probes"
    );
    assert!(
        a.roles[Role::Metadata.index()].is_none(),
        "probes alone make no breaker of its own"
    );
    assert_eq!(
        a.roles[Role::Artifact.index()]
            .as_ref()
            .expect("its own")
            .fail_max
            .get(),
        2
    );
    assert_eq!(
        config
            .breakers
            .of_resolver("landing_page")
            .policy
            .fail_max
            .get(),
        4
    );
    assert_eq!(
        config.limits.backend.kind.value,
        BackendKind::Sqlite,
        "one store given serves both"
    );
    assert!(config.breakers.backend.is_none());
}

#[test]
fn breakers_may_lie_in_another_store_than_limits() {
    let yaml = "{ limits: { backend: { kind: memory } }, \
                breakers: { cooldown_store: { kind: sqlite, dsn: DSN } } }";
    let directory = tempfile::tempdir().expect("a directory");
    let (config, _) = read(
        &yaml.replace(
            "DSN",
            &directory
                .path()
                .join("cooldowns.sqlite")
                .display()
                .to_string(),
        ),
    )
    .expect("a configuration");
    assert_eq!(config.limits.backend.kind.value, BackendKind::Memory);
    assert_eq!(
        config
            .breakers
            .backend
            .as_ref()
            .expect("its own")
            .kind
            .value,
        BackendKind::Sqlite
    );
    let open = || Hub::builder(config.clone()).build().expect("a hub");
    let (first, second) = (open(), open());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        first
            .block(&host("a.example"), Duration::from_secs(60), "maintenance")
            .await
            .expect("it answers");
        let error = second
            .fetch(Request::get("http://a.example/".parse().expect("a URL")))
            .await
            .expect_err("paused");
        assert_eq!(
            error.kind.class(),
            "breaker_open",
            "another process pauses this one: {error}"
        );
    });
}

#[test]
fn null_and_zero_are_no_ceiling() {
    for none in ["null", "0", "~"] {
        let yaml = format!(
            "limits: {{ defaults: {{ artifact: {{ max_concurrent: {none} }} }}, \
             global: {{ max_inflight: {none} }} }}"
        );
        let (config, _) = read(&yaml).expect("a configuration");
        assert_eq!(config.limits.max_inflight.value, None, "{none}");
        assert_eq!(
            config
                .limits
                .of(&host("a.example"), Role::Artifact)
                .max_concurrent
                .value,
            None,
            "{none}"
        );
    }
    let flags = CommandLineFlags {
        max_inflight: Some("0".into()),
        ..rates(&["a.example:metadata=rates:1000/SECOND,max_concurrent:0"])
    };
    let world = HubWorld::new([OriginScript::new("a.example")], config(flags));
    let requests = (0..50)
        .map(|n| Request::get(format!("http://a.example/{n}").parse().expect("a URL")))
        .collect();
    assert_eq!(count(&world.fetch_all(requests), "200"), 50);
}

#[test]
fn a_breaker_is_set_from_the_environment_and_by_flags_with_groups_of_keys() {
    let environment = vec![
        (
            "DOCSTOKG_BREAKER__api.crossref.org".to_owned(),
            "fail_max:9,reset:30".to_owned(),
        ),
        (
            "DOCSTOKG_BREAKER__export_arxiv_org".to_owned(),
            "fail_max:8".to_owned(),
        ),
    ];
    let flags = CommandLineFlags {
        breaker: vec![
            "a.example=window.threshold_failures:3,window.window_s:10,\
             trial_calls.metadata:2,roles.artifact.fail_max:6"
                .into(),
        ],
        ..CommandLineFlags::default()
    };
    let (config, _) = load(&ConfigSources {
        environment,
        flags,
        ..ConfigSources::default()
    })
    .expect("a configuration");
    let crossref = &config.breakers.of(&host("api.crossref.org")).policy;
    assert_eq!(
        (crossref.fail_max.get(), crossref.reset),
        (9, Duration::from_secs(30))
    );
    assert_eq!(
        config
            .breakers
            .of(&host("export.arxiv.org"))
            .policy
            .fail_max
            .get(),
        8
    );
    let a = config.breakers.of(&host("a.example"));
    assert_eq!(
        a.policy.window.expect("a window").threshold_failures,
        NonZeroU32::new(3).expect("three")
    );
    assert_eq!(a.policy.trial_calls[0], 2);
    assert_eq!(a.roles[2].as_ref().expect("its own").fail_max.get(), 6);
}

#[test]
fn an_unknown_variable_is_a_warning_with_the_nearest_name() {
    let environment = vec![
        ("DOCSTOKG_RLIMIT_BACKENDS".to_owned(), "redis".to_owned()),
        ("OTHER".to_owned(), "x".to_owned()),
    ];
    let (_, settings) = load(&ConfigSources {
        environment,
        ..ConfigSources::default()
    })
    .expect("a configuration");
    let warnings: Vec<String> = settings.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("DOCSTOKG_RLIMIT_BACKENDS")
            && warnings[0].contains("'DOCSTOKG_RLIMIT_BACKEND'"),
        "{warnings:?}"
    );
}

#[test]
fn a_file_that_holds_one_section_is_recognised_and_says_how_it_was_read() {
    let limits = "version: 1\n\
                  defaults: { metadata: { rates: [\"3/SECOND\"] } }\n\
                  hosts: { a.example: { metadata: { rates: [\"4/SECOND\"] } } }\n";
    let (config, settings) = read(limits).expect("a configuration");
    assert_eq!(
        config
            .limits
            .of(&host("a.example"), Role::Metadata)
            .rates
            .value[0]
            .to_string(),
        "4/SECOND"
    );
    assert!(
        settings.warnings[0]
            .to_string()
            .contains("was read as `limits:`"),
        "{:?}",
        settings.warnings
    );
    let (config, settings) =
        read("hosts: { a.example: { fail_max: 3 } }\n").expect("a configuration");
    assert_eq!(
        config.breakers.of(&host("a.example")).policy.fail_max.get(),
        3
    );
    assert!(
        settings.warnings[0]
            .to_string()
            .contains("was read as `breakers:`")
    );
    let (_, settings) =
        read("limits: { hosts: { a.example: { metadata: { rates: [\"4/SECOND\"] } } } }\n")
            .expect("a configuration");
    assert!(settings.warnings.is_empty());
}

#[test]
fn a_file_of_one_section_is_recognised_by_every_key_that_only_it_has() {
    let read_as = |yaml: &str| {
        let (_, settings) = read(yaml).expect("a configuration");
        let warning = settings.warnings.first()?.to_string();
        let (_, section) = warning.split_once("was read as ")?;
        Some(section.to_owned())
    };
    let (limits, breakers) = (Some("`limits:`".to_owned()), Some("`breakers:`".to_owned()));
    for yaml in [
        "defaults: { early_probes: false }",
        "hosts: { a.example: { throttle_block_s: 5 } }",
        "defaults: { fail_max: 3 }\nresolvers: { landing_page: { fail_max: 2 } }",
    ] {
        assert_eq!(read_as(yaml), breakers, "{yaml}");
    }
    for yaml in [
        "services: {}",
        "learn: off",
        "hosts: { a.example: { learn: off } }",
    ] {
        assert_eq!(read_as(yaml), limits, "{yaml}");
    }
    for yaml in ["resolvers: { preset: fast }", "ontology: {}", "sites: {}"] {
        assert_eq!(read_as(yaml), None, "{yaml}");
    }
    // A whole file with a key at the wrong place.
    let misplaced = "ontology: { library: here }\nhosts: { a.example: { fail_max: 3 } }";
    let error = read(misplaced).expect_err("a problem").to_string();
    assert!(error.contains("c.yaml:2: hosts: unknown key"), "{error}");
}

#[test]
fn the_library_opens_the_store_that_the_configuration_names_or_fails() {
    let unreachable = "limits: { backend: { kind: sqlite, dsn: /proc/nowhere/state.sqlite } }";
    let error = Hub::builder(read(unreachable).expect("a configuration").0)
        .build()
        .err()
        .expect("it cannot be opened");
    assert!(error.to_string().contains("/proc/nowhere"), "{error}");
    let placeless = Hub::builder(
        read("limits: { backend: { kind: multiprocess } }")
            .expect("a configuration")
            .0,
    )
    .build();
    assert!(
        placeless
            .err()
            .expect("no place")
            .to_string()
            .contains("HubBuilder::state_dir")
    );
    let directory = tempfile::tempdir().expect("a directory");
    let (config, _) = read("limits: { backend: { kind: sqlite } }").expect("a configuration");
    let _hub = Hub::builder(config)
        .state_dir(directory.path())
        .build()
        .expect("a hub");
    assert!(directory.path().join("state.sqlite").exists());
}

#[test]
fn a_library_call_waits_until_its_deadline_and_by_policy_as_long_as_that_says() {
    let flags = || rates(&["a.example:metadata=rates:1/SECOND,max_delay_ms:100"]);
    let request = |n: u32| Request::get(format!("http://a.example/{n}").parse().expect("a URL"));
    let world = HubWorld::new([OriginScript::new("a.example")], config(flags()));
    assert_eq!(
        count(&world.fetch_all((0..4).map(request).collect()), "200"),
        4,
        "all wait"
    );
    let world = HubWorld::new([OriginScript::new("a.example")], config(flags()));
    let outcomes = world.fetch_all(
        (0..4)
            .map(|n| request(n).rate_wait(RateWait::Policy))
            .collect(),
    );
    assert_eq!(
        (count(&outcomes, "200"), count(&outcomes, "rate_limited")),
        (1, 3)
    );
}

#[test]
fn a_service_charges_its_own_budget_beside_the_hosts() {
    let yaml = "limits:
  hosts: { a.example: { metadata: { rates: [\"100/SECOND\"] } } }
  services: { ols: { rates: [\"2/SECOND\"] } }
";
    let (config, _) = read(yaml).expect("a configuration");
    let world = HubWorld::new([OriginScript::new("a.example")], config);
    let request = |n: u32| {
        Request::get(format!("http://a.example/{n}").parse().expect("a URL"))
            .rate_wait(RateWait::None)
    };
    let outcomes = world.fetch_all(
        (0..10)
            .map(|n| {
                if n < 5 {
                    request(n).service("ols")
                } else {
                    request(n)
                }
            })
            .collect(),
    );
    assert_eq!(
        (count(&outcomes, "200"), count(&outcomes, "rate_limited")),
        (7, 3),
        "two of the service, and all without one"
    );
}
