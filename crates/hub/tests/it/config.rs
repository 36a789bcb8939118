// File, environment and flags, one over the other, in the syntax of the seeds.
mod layers;

use std::time::Duration;

use docstokg_config::document;
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::load::{ConfigSources, load, shipped};
use docstokg_hub::config::settings::Settings;
use docstokg_hub::config::show::limit_rows;
use docstokg_hub::config::{Config, LearnSetting};
use docstokg_hub::policy::adaptive::AdaptivePolicy;
use docstokg_hub::policy::breaker::BreakerPolicy;
use docstokg_hub::policy::classify::Classifier;
use docstokg_hub::policy::rate::format_rates;
use docstokg_hub::policy::retry::RetryPolicy;
use docstokg_hub::{Host, Role};

fn host(text: &str) -> Host {
    Host::parse(text).expect("a host")
}

fn environment(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn file(text: &str) -> (tempfile::TempDir, ConfigSources) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("docstokg.yaml");
    std::fs::write(&path, text).expect("a file");
    (
        directory,
        ConfigSources {
            file: Some(path),
            ..ConfigSources::default()
        },
    )
}

/// The problems, without the directory that changes from run to run.
fn problems(sources: &ConfigSources) -> String {
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
fn shipped_configuration_is_valid_and_has_the_documented_limits() {
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

/// Writes what applies to hosts without an entry.
fn effective_defaults(config: &Config) -> String {
    let (limits, cache) = (&config.limits, &config.cache);
    let hosts = host("unheard.of");
    format!(
        "{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}",
        Role::ALL.map(|role| limits.of(&hosts, role).clone()),
        limits.backend,
        (&limits.adaptive, limits.adapts, limits.max_inflight.value),
        (limits.guard, limits.slowest_learned, &limits.headers),
        config.breakers.of(&hosts).policy,
        config.breakers.of(&hosts).classifier,
        config.retry,
        config.transport,
        config.identity,
        (
            cache.enabled,
            cache.max_bytes,
            cache.memory_bytes,
            cache.background
        ),
    )
}

#[test]
fn effective_defaults_are_those_of_this_list() {
    let config = shipped().expect("a configuration");
    insta::assert_snapshot!(effective_defaults(&config));
}

#[test]
fn settings_without_a_value_resolve_to_the_same_defaults() {
    let config = Settings::default().resolve().expect("a configuration");
    let shipped = shipped().expect("a configuration");
    assert_eq!(effective_defaults(&config), effective_defaults(&shipped));
}

#[test]
fn policies_made_without_a_configuration_have_the_same_defaults() {
    let config = shipped().expect("a configuration");
    let breakers = &config.breakers.defaults;
    let configured = (
        &config.retry,
        &config.limits.adaptive,
        &*breakers.policy,
        &*breakers.classifier,
    );
    let policies = (
        &RetryPolicy::default(),
        &AdaptivePolicy::default(),
        &BreakerPolicy::default(),
        &Classifier::default(),
    );
    assert_eq!(format!("{configured:#?}"), format!("{policies:#?}"));
}

#[test]
fn every_problem_is_reported_at_once_with_its_position_and_the_nearest_word() {
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
fn a_multiplier_that_would_stop_requests_is_refused() {
    for (written, is_refused) in [
        ("0", true),
        ("0.001", true),
        ("0.01", false),
        ("0.3", false),
    ] {
        let (_directory, sources) = file(&format!(
            "limits: {{ aimd: {{ min_multiplier: {written} }} }}\n"
        ));
        match load(&sources) {
            Ok(_) => assert!(!is_refused, "{written}"),
            Err(_) => assert!(
                is_refused && problems(&sources).contains("the lowest share of a rate is 0.01"),
                "{written}"
            ),
        }
    }
}

#[test]
fn malformed_yaml_and_duplicate_keys_are_reported_with_their_line() {
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
    let sources = ConfigSources {
        file: Some("/nonexistent/docstokg.yaml".into()),
        ..ConfigSources::default()
    };
    assert_eq!(
        load(&sources).expect_err("no file").to_string(),
        "/nonexistent/docstokg.yaml:1: the file cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn wrong_flags_say_what_is_wrong() {
    let flags = CommandLineFlags {
        rate: vec![
            "api.crossref.org=rates:1/SECOND".into(),
            "api.crossref.org:metdata=rates:1/SECOND".into(),
            "a.example:metadata=rate:1/SECOND".into(),
            "nonsense".into(),
        ],
        breaker: vec!["a b=fail_max:1".into(), "a.example=fail_max".into()],
        rate_backend: Some("redsi".into()),
        deadline: Some("soon".into()),
        ..CommandLineFlags::default()
    };
    insta::assert_snapshot!(
        load(&ConfigSources {
            flags,
            ..ConfigSources::default()
        })
        .expect_err("problems")
        .to_string()
    );
}

#[test]
fn the_shown_settings_load_again_and_mean_the_same() {
    let (_, settings) = load(&ConfigSources::default()).expect("a configuration");
    let shown = document::show(&settings);
    let (_directory, sources) = file(&shown.to_string());
    let (again, _) = load(&sources).expect("what is shown is valid");
    let rows = |config: &Config| {
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
    let shown = document::show(&settings).to_string();
    assert!(
        !shown.contains("SECRET") && shown.contains("redis://***@host:6379/3"),
        "{shown}"
    );
}

#[test]
fn the_schema_knows_every_key_of_the_table() {
    let schema = document::schema::<Settings>("the hub");
    for key in document::keys::<Settings>()
        .iter()
        .filter(|key| key.kind != "group")
    {
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

#[test]
fn sections_of_other_crates_are_left_unread() {
    let (_directory, sources) = file(
        "telemetry: { keep_days: soon }\nresolvers: { preset: fst }\nretry: { attempts: 2 }\n",
    );
    let (config, _) = load(&sources).expect("a configuration");
    assert_eq!(config.retry.attempts.get(), 2);
}

#[test]
fn stores_and_timeouts_that_could_not_work_are_problems() {
    let (_directory, sources) = file(
        "limits:
  backend: { kind: sqlite, dsn: 'redis://me:SECRET@host/' }
breakers:
  cooldown_store: { kind: redis, dsn: 'http://me:SECRET@host' }
transport:
  idle_timeout_s: 0
  deadline_s: 0
",
    );
    let found = problems(&sources);
    assert_eq!(
        found.lines().collect::<Vec<_>>(),
        [
            "docstokg.yaml:2: limits.backend.dsn: this is a redis server, and the store is sqlite; set limits.backend.kind to redis",
            "docstokg.yaml:4: breakers.cooldown_store.dsn: this is not redis://[USER:PASSWORD@]HOST[:PORT][/DB] or rediss://",
            "docstokg.yaml:6: transport.idle_timeout_s: 0 is too small; expected more than 0",
        ]
    );
}

/// A rate is either adaptive or learned: where both are asked for, the configuration is wrong.
#[test]
fn learned_limits_exclude_adaptive_ones() {
    let adaptive = "
limits:
  learn: tighten
  aimd: { enabled: true }
  hosts:
    a.example: { learn: { up_to: 20/SECOND } }
    b.example: { learn: off }
";
    let (_directory, sources) = file(adaptive);
    let found = problems(&sources);
    for path in ["limits.learn", "limits.hosts.a.example.learn"] {
        assert!(
            found.contains(&format!("{path}: limits are either learned or adaptive")),
            "{found}"
        );
    }
    assert!(!found.contains("b.example"), "{found}");

    // What is not asked for is off there.
    let (_directory, sources) = file("limits: { aimd: { enabled: true } }");
    let (mut config, _) = load(&sources).expect("a configuration");
    config.limits.learn_unless_set = LearnSetting::Tighten;
    assert_eq!(
        config.limits.learn_of(&host("a.example")),
        LearnSetting::Off
    );
}

/// Which of the two holds can be said for each host.
#[test]
fn a_host_is_adaptive_or_learned_by_its_own_entry() {
    let (_directory, sources) = file(
        "
limits:
  learn: tighten
  hosts:
    a.example: { aimd: true }
    b.example: { learn: { up_to: 20/SECOND } }
",
    );
    let (config, _) = load(&sources).expect("a configuration");
    let of = |name: &str| {
        let host = host(name);
        let adapts = config.limits.adaptive_of(Some(&host)).is_some();
        (adapts, config.limits.learn_of(&host))
    };
    assert_eq!(of("a.example"), (true, LearnSetting::Off));
    assert!(matches!(of("b.example"), (false, LearnSetting::UpTo(_))));
    assert_eq!(of("c.example"), (false, LearnSetting::Tighten));

    let (_directory, sources) = file(
        "
limits:
  aimd: { enabled: true }
  hosts:
    a.example: { aimd: false, learn: tighten }
    b.example: { aimd: true, learn: tighten }
",
    );
    let found = problems(&sources);
    assert!(found.contains("limits.hosts.b.example.learn"), "{found}");
    assert!(!found.contains("a.example"), "{found}");
}

#[test]
fn limits_are_learned_and_rate_headers_obeyed_with_a_redis_store() {
    let redis = "
limits:
  backend: { kind: redis, dsn: \"redis://127.0.0.1:6379/0\" }
  hosts:
    a.example: { learn: { up_to: 20/SECOND } }
";
    let (_directory, sources) = file(redis);
    let (mut config, _) = load(&sources).expect("a configuration");
    config.limits.learn_unless_set = LearnSetting::Tighten;
    let learn_of = |name: &str| config.limits.learn_of(&host(name));
    assert!(matches!(learn_of("a.example"), LearnSetting::UpTo(_)));
    assert_eq!(learn_of("b.example"), LearnSetting::Tighten);
    assert!(config.limits.headers_of(&host("b.example")).is_some());
}

#[test]
fn values_that_would_do_nothing_or_block_a_host_are_problems() {
    let (_directory, sources) = file(
        "limits:
  hosts:
    '*': { artifact: { rates: [\"1/MINUTE\"] } }
    '*.example': { artifact: { rates: [\"1/MINUTE\"] } }
breakers:
  defaults:
    trial_calls: { metadata: 0 }
    jitter_ms: 5000
    roles: { landing: { trial_calls: 0 } }
    classify: { failure: [429, 500], neutral: [404, 429] }
  hosts: { '*': { fail_max: 1 } }
sites:
  one: { hosts: [\"*.example\"] }
",
    );
    let found = problems(&sources);
    assert_eq!(
        found.lines().collect::<Vec<_>>(),
        [
            "docstokg.yaml:3: limits.hosts.*: '*' is not a host; what applies to all other hosts stands in `defaults`",
            "docstokg.yaml:4: limits.hosts.*.example: '*.example' is not a host, and wildcards are not supported; name each host, or join hosts of one operator in `sites`",
            "docstokg.yaml:7: breakers.defaults.trial_calls.metadata: 0 is too small; expected 1 or more",
            "docstokg.yaml:8: breakers.defaults.jitter_ms: 5000 is more than 1000; it only keeps probes of several processes apart, and reset_timeout_s says how long a host is left alone",
            "docstokg.yaml:9: breakers.defaults.roles.landing.trial_calls: 0 is too small; expected 1 or more",
            "docstokg.yaml:10: breakers.defaults.classify.neutral: 429 is in classify.failure, too (docstokg.yaml:10); remove it from one",
            "docstokg.yaml:11: breakers.hosts.*: '*' is not a host; what applies to all other hosts stands in `defaults`",
            "docstokg.yaml:13: sites.one.hosts: '*.example' is not a host, and wildcards are not supported; name each host, or join hosts of one operator in `sites`",
        ]
    );
    let flags = CommandLineFlags {
        rate: vec!["*:artifact=rates:1/MINUTE".into()],
        breaker: vec!["*=fail_max:1".into()],
        ..CommandLineFlags::default()
    };
    let sources = ConfigSources {
        flags,
        ..ConfigSources::default()
    };
    assert_eq!(problems(&sources).matches("'*' is not a host").count(), 2);
    let schema = document::schema::<Settings>("the hub");
    let hosts = &schema["properties"]["limits"]["properties"]["hosts"];
    assert_eq!(hosts["propertyNames"]["pattern"], "^[^*/@\\s]+$");
}

/// A status that the user lists as a failure is one, although it is neutral by default.
#[test]
fn a_failure_status_leaves_the_default_list_of_neutral_ones() {
    let (_directory, sources) = file("breakers: { defaults: { classify: { failure: [403] } } }\n");
    let (config, _) = load(&sources).expect("a configuration");
    let classifier = &config.breakers.defaults.classifier;
    assert_eq!(classifier.neutral, [401, 404, 410, 451]);
    assert_eq!(classifier.failure.as_deref(), Some(&[403][..]));
}
