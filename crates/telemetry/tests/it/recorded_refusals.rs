//! What is recorded is what happened: whose breaker refused, how long a refusal waited, who opened
//! a breaker.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use docstokg_hub::clock::SystemClock;
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::policy::breaker::{BreakerState, OpenReason};
use docstokg_hub::policy::site::SiteOperation;
use docstokg_hub::stores::conformance::wrapper::{HookedStore, Treatment};
use docstokg_hub::stores::fallback::Fallback;
use docstokg_hub::stores::memory::MemoryStore;
use docstokg_hub::stores::{StateStore, StoreError};
use docstokg_hub::{Host, Repeatable, Role};
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use docstokg_telemetry::sink::sqlite::open_to_read;
use docstokg_telemetry::summary::{RunChoice, load};

use crate::support::{World, get, ms};

fn text(database: &rusqlite::Connection, query: &str) -> Vec<String> {
    let mut statement = database.prepare(query).expect("a query");
    statement
        .query_map([], |row| row.get::<_, String>(0))
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("text")
}

#[test]
fn a_refusal_by_a_resolvers_breaker_leaves_its_host_healthy() {
    let flags = CommandLineFlags {
        breaker_resolver: vec!["finder=fail_max:1,reset:60".into()],
        ..CommandLineFlags::default()
    };
    let world = World::new(
        [OriginScript::new("a.example").route("/bad", [ScriptedReply::status(500)])],
        flags,
    );
    world.fetch(
        get("http://a.example/bad")
            .resolver("finder")
            .repeatable(Repeatable::No),
    );
    world.fetch(get("http://a.example/ok").resolver("finder"));
    world.fetch(get("http://a.example/ok"));
    let ended = world.end();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let states = "SELECT breaker_host_state || ' ' || coalesce(breaker_resolver_state, '-')
                         || ' ' || sent
                  FROM http_events ORDER BY rowid";
    assert_eq!(
        text(&database, states),
        ["closed closed 1", "closed open 0", "closed - 1"]
    );
    let lines = std::fs::read_to_string(ended.path("events.jsonl")).expect("events");
    let refusal = "\"breaker_host_state\":\"closed\",\"breaker_host_cooldown_ms\":null,\
                   \"breaker_resolver_state\":\"open\"";
    assert!(lines.contains(refusal), "{lines}");
}

#[test]
fn an_outage_is_one_open_however_many_early_probes_fail() {
    let flags = CommandLineFlags {
        breaker: vec!["a.example=fail_max:1".into(), "b.example=fail_max:1".into()],
        ..CommandLineFlags::default()
    };
    let down = std::iter::repeat_n(ScriptedReply::status(503), 4);
    let lasting = OriginScript::new("b.example").route("/", [ScriptedReply::status(503)]);
    let world = World::new(
        [
            OriginScript::new("a.example").route("/", down.chain([ScriptedReply::ok("up")])),
            lasting,
        ],
        flags,
    );
    for _ in 0..5 {
        for url in ["http://a.example/", "http://b.example/"] {
            world.fetch(get(url).repeatable(Repeatable::No));
        }
        world.simulation.run_for(ms(2_000));
    }
    let ended = world.end();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let summary = load(&database, &RunChoice::All).expect("a summary");
    let figures: Vec<_> = summary
        .breakers
        .iter()
        .map(|row| {
            (
                row.opens,
                row.probes,
                row.probed_opens,
                row.success_after_open,
            )
        })
        .collect();
    assert_eq!(figures, [(1, 4, 1, Some(1.0)), (1, 4, 1, Some(0.0))]);
    for (view, expected) in [
        (
            "SELECT '' || ratio FROM success_after_open ORDER BY host",
            ["1.0", "0.0"],
        ),
        (
            "SELECT '' || opens FROM opens_per_hour ORDER BY key",
            ["1", "1"],
        ),
        (
            "SELECT reason FROM open_reasons ORDER BY key",
            ["consecutive", "consecutive"],
        ),
    ] {
        assert_eq!(text(&database, view), expected, "{view}");
    }
    let metrics = ended.metrics.lock().text();
    assert!(
        metrics.contains(
            "breaker_opens_total{host=\"a.example\",reason=\"consecutive\",by=\"this_run\"} 1"
        ),
        "{metrics}"
    );
}

/// Five more processes meet the open of one, and one that an operator caused is met by two.
#[test]
fn an_open_counts_once_however_many_processes_meet_it() {
    let flags = CommandLineFlags {
        breaker: vec!["a.example=fail_max:1,reset:60,early_probes:false".into()],
        ..CommandLineFlags::default()
    };
    let bad = OriginScript::new("a.example").route("/", [ScriptedReply::status(500)]);
    let world = World::new([bad], flags);
    world.fetch(get("http://a.example/").repeatable(Repeatable::No));
    let ended = world.end();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let met = |run: u32, key: &str, after: u32, left: u32, reason: &str| {
        let sql = format!(
            "INSERT OR IGNORE INTO run_summary
                 (run_id, command, config_hash, version, pid, started_at, updated_at)
             SELECT 'met-{run}', 'fetch', '', '', 1, started_at + {after}, updated_at + {after}
             FROM run_summary LIMIT 1;
             INSERT INTO breaker_transitions
             SELECT 'met-{run}', max(ts) + {after}, 'host', '{key}', '{key}', 'closed', 'open', 0,
                    {left}, '{reason}', 1
             FROM breaker_transitions WHERE elsewhere = 0"
        );
        database.execute_batch(&sql).expect("rows");
    };
    for run in 1..=5 {
        met(run, "a.example", run, 60 - run, "consecutive");
    }
    for run in 6..=7 {
        met(run, "b.example", run, 900 - run, "cli-open:lunch");
    }
    let opens = |choice: &str| {
        let choice = RunChoice::parse(Some(choice));
        load(&database, &choice).expect("a summary").totals.opens
    };
    assert_eq!(opens("all"), 2);
    assert_eq!(
        ["met-1", "met-5", "met-6", "met-7"].map(opens),
        [0, 0, 1, 0]
    );
    for (query, expected) in [
        ("SELECT '' || sum(opens) FROM opens_per_hour", "2"),
        ("SELECT '' || sum(opens) FROM open_reasons", "2"),
        ("SELECT '' || min(percent) FROM open_reasons", "100.0"),
        (
            "SELECT '' || sum(open_s) FROM time_open WHERE key = 'a.example'",
            "60.0",
        ),
        (
            "SELECT '' || breaker_open_events FROM run_summary WHERE run_id NOT LIKE 'met-%'",
            "1",
        ),
    ] {
        assert_eq!(text(&database, query), [expected], "{query}");
    }
    let summary = load(&database, &RunChoice::All).expect("a summary");
    assert_eq!(summary.totals.opens_per_hour, None, "not extrapolated");
    let shown = docstokg_telemetry::summary::text(&summary, &[]);
    assert!(
        shown.contains("all opens: cli-open:lunch 1 (50 %), consecutive 1 (50 %)"),
        "{shown}"
    );
    // An older program left views that counted every row.
    let older = "DROP VIEW breaker_changes; DROP VIEW opens_per_hour;
                 CREATE VIEW opens_per_hour AS SELECT count(*) AS opens FROM breaker_transitions";
    database.execute_batch(older).expect("the older views");
    drop(database);
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let query = "SELECT '' || sum(opens) FROM opens_per_hour";
    assert_eq!(text(&database, query), ["2"]);
}

#[test]
fn a_role_that_is_open_alone_is_named() {
    let flags = CommandLineFlags {
        breaker: vec!["a.example=roles.artifact.fail_max:1,early_probes:false".into()],
        ..CommandLineFlags::default()
    };
    let bad = OriginScript::new("a.example").route(
        "/file",
        [ScriptedReply::status(500), ScriptedReply::ok("fine")],
    );
    let world = World::new([bad], flags);
    let file = || {
        get("http://a.example/file")
            .role(Role::Artifact)
            .repeatable(Repeatable::No)
    };
    world.fetch(file());
    world.fetch(get("http://a.example/"));
    world.simulation.run_for(ms(61_000));
    world.fetch(file());
    let ended = world.end();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let changes = "SELECT scope || ' ' || key || ' ' || to_state FROM breaker_transitions
                   ORDER BY rowid";
    let role = |state: &str| format!("role a.example:artifact {state}");
    assert_eq!(
        text(&database, changes),
        ["open", "half_open", "closed"].map(role)
    );
    let metrics = ended.metrics.lock().text();
    for line in [
        "breaker_host_state{host=\"a.example\",role=\"artifact\"} 0",
        "breaker_opens_total{host=\"a.example\",role=\"artifact\",reason=\"consecutive\",by=\"this_run\"} 1",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
}

#[test]
fn a_host_that_only_this_process_cannot_reach_is_recorded_as_healthy() {
    let flags = CommandLineFlags {
        breaker: vec!["gone.example=fail_max:1,reset:60".into()],
        ..CommandLineFlags::default()
    };
    let world = World::sharing([OriginScript::new("a.example")], flags);
    for _ in 0..2 {
        world.fetch(get("http://gone.example/").repeatable(Repeatable::No));
    }
    let ended = world.end();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let refused = "SELECT error || ' ' || breaker_host_state || ' '
                          || coalesce(breaker_host_cooldown_ms, '-')
                   FROM http_events WHERE sent = 0";
    assert_eq!(text(&database, refused), ["network_breaker_open closed -"]);
    let summary = load(&database, &RunChoice::All).expect("a summary");
    let avoided: Vec<_> = summary
        .breakers
        .iter()
        .filter(|row| row.requests_avoided > 0)
        .map(|row| row.key.as_str())
        .collect();
    assert_eq!(avoided, ["network:gone.example"]);
    let text = ended.metrics.lock().text();
    assert!(
        text.contains("breaker_network_state{host=\"gone.example\"} 2"),
        "{text}"
    );
    assert!(
        !text.contains("breaker_host_state{host=\"gone.example\"} 2"),
        "{text}"
    );
    assert!(
        text.contains("breaker_opens_total{network=\"gone.example\""),
        "{text}"
    );
}

#[test]
fn a_refusal_records_the_time_it_waited_and_the_estimate_apart() {
    let flags = CommandLineFlags {
        rate: vec!["a.example:metadata=rates:1/10SECOND,max_delay_ms:100".into()],
        ..CommandLineFlags::default()
    };
    let world = World::new([OriginScript::new("a.example")], flags);
    world.fetch(get("http://a.example/1"));
    world.fetch(get("http://a.example/2").rate_wait(docstokg_hub::RateWait::Policy));
    let ended = world.end();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let (waited, estimate): (f64, f64) = database
        .query_row(
            "SELECT delay_ms, estimate_ms FROM rate_events WHERE action = 'block'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("a row");
    assert!(
        waited < 10.0 && estimate > 9_000.0,
        "waited {waited} ms, would have waited {estimate} ms"
    );
}

#[test]
fn an_open_by_an_operator_shows_in_state_and_counts() {
    let world = World::new(
        [OriginScript::new("a.example")],
        CommandLineFlags::default(),
    );
    let host = Host::parse("a.example").expect("a host");
    let hub = world.hub.clone();
    world.simulation.block_on(async move {
        hub.block(&host, ms(900_000), "maintenance")
            .await
            .expect("it answers");
    });
    world.fetch(get("http://a.example/"));
    let ended = world.end();
    let text = ended.metrics.lock().text();
    assert!(
        text.contains("breaker_host_state{host=\"a.example\"} 2"),
        "{text}"
    );
    assert!(
        text.contains(
            "breaker_opens_total{host=\"a.example\",reason=\"cli-open\",by=\"elsewhere\"} 1"
        ),
        "{text}"
    );
    assert_eq!(
        OpenReason::Operator("maintenance".into()).to_string(),
        "cli-open:maintenance"
    );
    assert_eq!(BreakerState::Open.as_str(), "open");
}

#[test]
fn a_store_that_is_unavailable_has_a_metric() {
    let world = World::new(
        [OriginScript::new("a.example")],
        CommandLineFlags::default(),
    );
    let unavailable = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&unavailable);
    let hook = move |_: Option<&SiteOperation<'_>>| {
        let error = StoreError::Unavailable {
            store: "the store".to_owned(),
            why: "it is off".to_owned(),
        };
        if flag.load(Ordering::SeqCst) {
            Treatment::Fail(error)
        } else {
            Treatment::Forward
        }
    };
    let shared = HookedStore::new(Arc::new(MemoryStore::new(Arc::new(SystemClock))), hook);
    let store: Arc<dyn StateStore> = Arc::new(Fallback::new(
        Arc::new(shared),
        Arc::new(SystemClock),
        Arc::new(|_: &str| ()),
        4,
    ));
    world.metrics.lock().watch_store(Arc::clone(&store));
    assert!(
        world
            .metrics
            .lock()
            .text()
            .contains("limits_store_unavailable 0\n")
    );
    unavailable.store(true, Ordering::SeqCst);
    let hub =
        docstokg_hub::Hub::builder(docstokg_hub::config::load::shipped().expect("a configuration"))
            .runtime(world.simulation.runtime())
            .store(Arc::clone(&store))
            .transport(docstokg_origin_sim::SimTransport::new(
                &world.simulation,
                &world.web,
            ))
            .build()
            .expect("a hub");
    let _ = world
        .simulation
        .block_on(async move { hub.fetch(get("http://a.example/")).await });
    let text = world.metrics.lock().text();
    assert!(
        text.contains("limits_store_unavailable 1\n")
            && text.contains("limits_store_outages_total 1\n"),
        "{text}"
    );
}

/// The database under `tests/data` was written by the first version: fetches with answers, a 429,
/// failures and a refusal.
#[test]
fn a_database_of_the_first_version_is_migrated_and_its_runs_stay_readable() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("telemetry.sqlite3");
    std::fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/telemetry-first.sqlite3"),
        &path,
    )
    .expect("a copy");
    let before: i64 = rusqlite::Connection::open(&path)
        .expect("it")
        .query_row("SELECT count(*) FROM http_events", [], |row| row.get(0))
        .expect("a count");
    for _ in 0..2 {
        let database = open_to_read(&path).expect("it is read");
        let after: i64 = database
            .query_row(
                "SELECT count(*) FROM http_events WHERE breaker_host_state <> ''",
                [],
                |row| row.get(0),
            )
            .expect("a count");
        assert_eq!(after, before);
        let summary = load(&database, &RunChoice::All).expect("a summary");
        assert!(
            summary
                .hosts
                .iter()
                .any(|row| row.host == "history.example"),
            "its runs are readable"
        );
    }
}
