use std::collections::BTreeMap;

use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::{Patience, Repeatable, Request, Role};
use docstokg_origin_sim::{Ledger, OriginScript, Outage, ScriptedReply, Throttle};
use docstokg_telemetry::sink::sqlite::open_to_read;
use docstokg_telemetry::summary::{self, BreakerSummary, HostSummary, RunChoice, RunSummary};

use crate::support::{World, get, ms};

/// Five hosts: one calm, one that throttles with and one without saying when, one with an outage,
/// one that cuts bodies.
fn busy_run() -> crate::support::Ended {
    let _ = Outage {
        during: ms(0)..ms(1),
        reply: ScriptedReply::status(503),
    };
    let origins = [
        OriginScript::new("calm.example").latency(ms(20)),
        OriginScript::new("strict.example")
            .latency(ms(20))
            .limit("5/SECOND")
            .throttle(Throttle::Seconds),
        OriginScript::new("silent.example")
            .latency(ms(20))
            .limit("5/SECOND")
            .throttle(Throttle::Silent),
        OriginScript::new("down.example")
            .latency(ms(20))
            .outage(ms(2_000)..ms(20_000), ScriptedReply::status(503)),
        OriginScript::new("cut.example").latency(ms(20)).route(
            "/0",
            [
                ScriptedReply::ok("short").claiming(500),
                ScriptedReply::ok("whole"),
            ],
        ),
    ];
    let flags = CommandLineFlags {
        rate: ["calm", "strict", "silent", "down", "cut"]
            .iter()
            .map(|host| format!("{host}.example:metadata=rates:10/SECOND,max_delay_ms:60000"))
            .collect(),
        breaker: vec!["down.example=fail_max:2,reset:5,early_probes:false".into()],
        ..CommandLineFlags::default()
    };
    let world = World::new(origins, flags);
    let mut requests: Vec<Request> = Vec::new();
    for number in 0..60 {
        for host in ["calm", "strict", "silent", "down"] {
            let request = get(&format!("http://{host}.example/{number}"));
            // Of a host that is down, every other request waits for its return.
            let waits = host == "down" && number % 2 == 0;
            requests.push(request.patience(if waits {
                Patience::Wait
            } else {
                Patience::Refuse
            }));
        }
    }
    requests.extend((0..3).map(|number| get(&format!("http://cut.example/{number}"))));
    requests.push(Request::head(
        "http://calm.example/head".parse().expect("a URL"),
    ));
    requests.push(get("http://calm.example/pdf").role(Role::Artifact));
    world.fetch_all(requests);
    world.end()
}

#[test]
fn the_figures_agree_with_the_origins_own_ledger() {
    let ended = busy_run();
    assert_eq!(
        ended.recorded,
        docstokg_telemetry::recorder::RecordingLoss::default()
    );
    let (summary, ledger) = (ended.summary(), ended.web.ledger());
    assert_attempts_agree(&summary, ledger);
    assert_statuses_agree(&summary, ledger);
    assert_waits_agree(&summary, ledger);
    assert_makespan_agrees(&summary, ledger);
    assert_the_breaker_agrees(&summary);
    // The first answer of the host that cuts bodies is wasted.
    assert!(row(&summary, "cut.example").wasted_bytes >= 5);
}

#[test]
fn the_adaptive_rate_is_in_the_text_and_on_the_page() {
    let flags = CommandLineFlags {
        aimd: Some("enabled=true,window_s=1,decrease=50".into()),
        breaker: vec!["a.example=fail_max:1000".into()],
        ..CommandLineFlags::default()
    };
    let busy = OriginScript::new("a.example").handler(|_, _| ScriptedReply::status(429));
    let world = World::new([busy], flags);
    for _ in 0..5 {
        world.fetch(get("http://a.example/").repeatable(Repeatable::No));
        world.simulation.run_for(ms(600));
    }
    let ended = world.end();
    let summary = ended.summary();
    let share = row(&summary, "a.example").multiplier.expect("it moved");
    assert!(share <= 0.5, "{share}");
    let percent = format!("{:.1} %", share * 100.0);
    let text = summary::text(&summary, &[]);
    let line = format!("adaptive rate at the end: a.example:metadata {percent}\n");
    assert!(text.contains(&line), "{text}");
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let page = docstokg_telemetry::report::page(&database, &summary).expect("a page");
    assert!(page.contains(&format!("<td>{percent}</td></tr>")), "{page}");
}

fn row<'a>(summary: &'a RunSummary, host: &str) -> &'a HostSummary {
    summary
        .hosts
        .iter()
        .find(|row| row.host == host && row.role == "metadata")
        .expect("a row")
}

fn assert_attempts_agree(summary: &RunSummary, ledger: &Ledger) {
    let mut sent: BTreeMap<String, u64> = BTreeMap::new();
    for host in &summary.hosts {
        *sent.entry(host.host.clone()).or_default() += host.requests;
    }
    for (host, count) in &sent {
        assert_eq!(*count, ledger.at(host).len() as u64, "attempts at {host}");
    }
    assert_eq!(summary.totals.attempts, ledger.arrivals().len() as u64);
    assert_eq!(summary.totals.requests, 60 * 4 + 5);
    let calm = row(summary, "calm.example");
    assert_eq!(calm.head_skipped, 1);
    // Each GET spends a token; HEAD and the other role do not spend from this budget.
    assert_eq!(calm.acquired, 60);
    assert_eq!(calm.requests, 61);
}

fn assert_statuses_agree(summary: &RunSummary, ledger: &Ledger) {
    let with_status = |host: &str, status: u16| {
        let arrivals = ledger.at(host);
        let with_status = arrivals.iter().filter(|arrival| arrival.status == status);
        with_status.count() as u64
    };
    let (strict, silent, down) = (
        with_status("strict.example", 429),
        with_status("silent.example", 429),
        with_status("down.example", 503),
    );
    assert!(strict > 0 && silent > 0 && down > 0);
    let found = row(summary, "strict.example").status_429;
    assert_eq!(
        (found.with_retry_after, found.without_retry_after),
        (strict, 0)
    );
    assert_eq!(
        row(summary, "silent.example")
            .status_429
            .without_retry_after,
        silent
    );
    assert_eq!(
        row(summary, "down.example").status_503.without_retry_after,
        down
    );
}

/// The wait for the rate, recomputed: the windows of the calm host determine all its arrivals.
fn assert_waits_agree(summary: &RunSummary, ledger: &Ledger) {
    let arrivals = ledger.at("calm.example");
    let first = arrivals[0].at;
    let mut waits: Vec<f64> = arrivals
        .iter()
        .filter(|arrival| arrival.method == "GET")
        .map(|arrival| arrival.at.since(first).as_secs_f64() * 1e3)
        .collect();
    waits.sort_by(f64::total_cmp);
    let p95 = waits[(waits.len() * 95).div_ceil(100) - 2];
    let calm = row(summary, "calm.example");
    assert!(
        (calm.delay.p95_ms - p95).abs() < 150.0,
        "{} against {p95}",
        calm.delay.p95_ms
    );
    // The store takes up to two milliseconds to record that a request leaves.
    assert!(
        (20.0..=22.0).contains(&calm.latency.p50_ms),
        "{}",
        calm.latency.p50_ms
    );
}

/// Sixty requests at ten a second cannot take less than five seconds.
fn assert_makespan_agrees(summary: &RunSummary, ledger: &Ledger) {
    assert!(summary.makespan.minimum_s >= 5.0, "{:?}", summary.makespan);
    assert!(summary.makespan.ratio.expect("a ratio") >= 1.0);
    let arrivals = ledger.arrivals();
    let ends = arrivals
        .iter()
        .map(|arrival| arrival.ended.unwrap_or(arrival.at));
    let last = ends.max().expect("arrivals");
    let first = arrivals.iter().map(|arrival| arrival.at).min();
    let length = last.since(first.expect("arrivals")).as_secs_f64();
    assert!((summary.makespan.seconds - length).abs() < 0.1);
}

/// The breaker of the host with an outage.
fn assert_the_breaker_agrees(summary: &RunSummary) {
    let breaker = breaker(summary, "down.example");
    assert!(
        breaker.opens >= 2
            && breaker.reasons.contains_key("consecutive")
            && breaker.reasons.contains_key("probe-failed"),
        "{breaker:?}"
    );
    assert!(breaker.probes >= 2 && breaker.probe_successes >= 1);
    let avoided = summary.breakers.iter().map(|row| row.requests_avoided);
    assert_eq!(summary.totals.breaker_denials, avoided.sum::<u64>());
    // Five seconds, four times.
    assert!((breaker.open_s - 20.0).abs() < 0.5, "{breaker:?}");
    // So the target for opens that last no longer than the reset is met.
    assert!(breaker.block_p95_over_reset.expect("opens") <= 1.0);
}

fn breaker<'a>(summary: &'a RunSummary, key: &str) -> &'a BreakerSummary {
    summary
        .breakers
        .iter()
        .find(|breaker| breaker.key == key)
        .expect("a breaker")
}

/// Queries of views, the figures that they have to return, and how exactly.
fn expected_of_views(summary: &RunSummary) -> [(&'static str, f64, f64); 9] {
    let totals = &summary.totals;
    let down = breaker(summary, "down.example");
    let calm = row(summary, "calm.example");
    [
        (
            "SELECT sum(opens) FROM opens_per_hour WHERE key = 'down.example'",
            down.opens as f64,
            0.5,
        ),
        (
            "SELECT open_s FROM time_open WHERE key = 'down.example'",
            down.open_s,
            0.1,
        ),
        (
            "SELECT coalesce(sum(avoided), 0) FROM requests_avoided",
            totals.breaker_denials as f64,
            0.5,
        ),
        (
            "SELECT probes FROM success_after_open WHERE host = 'down.example'",
            down.probes as f64,
            0.5,
        ),
        (
            "SELECT sum(opens) FROM open_reasons",
            totals.opens as f64,
            0.5,
        ),
        (
            "SELECT sum(acquired) FROM tokens",
            totals.tokens_acquired as f64,
            0.5,
        ),
        (
            "SELECT p95_ms FROM rate_delays WHERE host = 'calm.example' AND role = 'metadata'",
            calm.delay.p95_ms,
            120.0,
        ),
        (
            "SELECT sum(with_retry_after + without_retry_after) FROM throttled WHERE status = 429",
            totals.status_429 as f64,
            0.5,
        ),
        (
            "SELECT http_429_ratio FROM run_summary",
            totals.http_429_ratio,
            1e-9,
        ),
    ]
}

#[test]
fn database_views_equal_the_summary() {
    let ended = busy_run();
    let summary = ended.summary();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let one = |sql: &str| {
        database
            .query_row(sql, [], |row| row.get::<_, f64>(0))
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    };
    for (sql, expected, tolerance) in expected_of_views(&summary) {
        let found = one(sql);
        assert!((found - expected).abs() < tolerance, "{sql}: {found}");
    }
    for view in ["failure_reasons", "cache_hits", "slowest_hosts"] {
        assert!(one(&format!("SELECT count(*) FROM {view}")) > 0.0, "{view}");
    }
}

#[test]
fn runs_are_found_by_a_prefix_of_their_ids_and_compared() {
    let ended = busy_run();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let named = |text: &str| summary::load(&database, &RunChoice::parse(Some(text)));
    assert_eq!(
        named(&ended.run.id[..10]).expect("found").run.run_id,
        ended.run.id
    );
    assert_eq!(
        named("all").expect("found").totals.attempts,
        ended.summary().totals.attempts
    );
    let error = named("nonsense").expect_err("unknown").to_string();
    assert!(
        error.contains("nonsense") && error.contains(&ended.run.id),
        "{error}"
    );
    let same = summary::compare(&ended.summary(), &ended.summary());
    assert!(
        same.iter()
            .all(|figure| figure.change.is_none_or(|change| change == 0.0))
    );
    let text = summary::text(&ended.summary(), &[]);
    assert!(
        text.contains("strict.example") && text.contains("probe-failed"),
        "{text}"
    );
}

#[test]
fn the_page_is_complete_and_loads_nothing_from_the_network() {
    let ended = busy_run();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let page = docstokg_telemetry::report::page(&database, &ended.summary()).expect("a page");
    for part in [
        "<!DOCTYPE html>",
        "viewport",
        "prefers-color-scheme:dark",
        "down.example",
        "id=\"search\"",
        "class=\"open\"",
        "</html>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for outside in [
        "http://www",
        "https://cdn",
        "src=\"http",
        "href=\"http",
        "@import",
        "url(",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    if let Ok(path) = std::env::var("KEEP_PAGE") {
        std::fs::write(path, page).expect("a file");
    }
}
