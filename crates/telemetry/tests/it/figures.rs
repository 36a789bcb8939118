use std::collections::BTreeMap;

use docstokg_hub::config::flags::Flags;
use docstokg_hub::{Request, Role};
use docstokg_origin_sim::{Origin, Outage, Reply, Throttle};
use docstokg_telemetry::sink::sqlite::open_to_read;
use docstokg_telemetry::summary::{self, RunChoice};

use crate::support::{World, get, ms};

/// Five hosts: one calm, one that throttles with and one without saying when, one with an outage,
/// one that cuts bodies.
fn busy_run() -> crate::support::Ended {
    let _ = Outage {
        during: ms(0)..ms(1),
        reply: Reply::status(503),
    };
    let origins = [
        Origin::new("calm.example").latency(ms(20)),
        Origin::new("strict.example")
            .latency(ms(20))
            .limit("5/SECOND")
            .throttle(Throttle::Seconds),
        Origin::new("silent.example")
            .latency(ms(20))
            .limit("5/SECOND")
            .throttle(Throttle::Silent),
        Origin::new("down.example")
            .latency(ms(20))
            .outage(ms(2_000)..ms(20_000), Reply::status(503)),
        Origin::new("cut.example")
            .latency(ms(20))
            .route("/0", [Reply::ok("short").claiming(500), Reply::ok("whole")]),
    ];
    let flags = Flags {
        rate: ["calm", "strict", "silent", "down", "cut"]
            .iter()
            .map(|host| format!("{host}.example:metadata=rates:10/SECOND,max_delay_ms:60000"))
            .collect(),
        breaker: vec!["down.example=fail_max:2,reset:5".into()],
        ..Flags::default()
    };
    let world = World::new(origins, flags);
    let mut requests: Vec<Request> = Vec::new();
    for number in 0..60 {
        for host in ["calm", "strict", "silent", "down"] {
            requests.push(get(&format!("http://{host}.example/{number}")));
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
        docstokg_telemetry::recorder::Recorded::default()
    );
    let summary = ended.summary();
    let ledger = ended.web.ledger();

    let mut sent: BTreeMap<String, u64> = BTreeMap::new();
    for host in &summary.hosts {
        *sent.entry(host.host.clone()).or_default() += host.requests;
    }
    for (host, count) in &sent {
        assert_eq!(*count, ledger.at(host).len() as u64, "attempts at {host}");
    }
    assert_eq!(summary.totals.attempts, ledger.arrivals().len() as u64);
    assert_eq!(summary.totals.requests, 60 * 4 + 5);

    let with_status = |host: &str, status: u16| {
        ledger
            .at(host)
            .iter()
            .filter(|arrival| arrival.status == status)
            .count() as u64
    };
    let of = |host: &str| {
        summary
            .hosts
            .iter()
            .find(|row| row.host == host && row.role == "metadata")
            .expect("a row")
    };
    assert!(
        with_status("strict.example", 429) > 0
            && with_status("silent.example", 429) > 0
            && with_status("down.example", 503) > 0
    );
    assert_eq!(
        of("strict.example").status_429.with_retry_after,
        with_status("strict.example", 429)
    );
    assert_eq!(of("strict.example").status_429.without_retry_after, 0);
    assert_eq!(
        of("silent.example").status_429.without_retry_after,
        with_status("silent.example", 429)
    );
    assert_eq!(
        of("down.example").status_503.without_retry_after,
        with_status("down.example", 503)
    );
    assert_eq!(of("calm.example").head_skipped, 1);
    // Each GET spends a token; HEAD and the other role do not spend from this budget.
    assert_eq!(of("calm.example").acquired, 60);
    assert_eq!(of("calm.example").requests, 61);

    // The wait for the rate, recomputed: arrivals at the calm host are all due to its own windows.
    let arrivals = ledger.at("calm.example");
    let first = arrivals[0].at;
    let mut waits: Vec<f64> = arrivals
        .iter()
        .filter(|arrival| arrival.method == "GET")
        .map(|arrival| arrival.at.since(first).as_secs_f64() * 1e3)
        .collect();
    waits.sort_by(f64::total_cmp);
    let p95 = waits[(waits.len() * 95).div_ceil(100) - 2];
    assert!(
        (of("calm.example").delay.p95_ms - p95).abs() < 150.0,
        "{} against {p95}",
        of("calm.example").delay.p95_ms
    );
    // The store takes up to two milliseconds to note that a request leaves.
    assert!(
        (20.0..=22.0).contains(&of("calm.example").latency.p50_ms),
        "{}",
        of("calm.example").latency.p50_ms
    );

    // Makespan: sixty requests at ten a second cannot take less than five seconds.
    assert!(summary.makespan.minimum_s >= 5.0, "{:?}", summary.makespan);
    assert!(summary.makespan.ratio.expect("a ratio") >= 1.0);
    let last = ledger
        .arrivals()
        .iter()
        .map(|arrival| arrival.ended.unwrap_or(arrival.at))
        .max()
        .expect("arrivals");
    let begin = ledger
        .arrivals()
        .iter()
        .map(|arrival| arrival.at)
        .min()
        .expect("arrivals");
    assert!((summary.makespan.seconds - last.since(begin).as_secs_f64()).abs() < 0.1);

    // The breaker of the host that was down.
    let breaker = summary
        .breakers
        .iter()
        .find(|breaker| breaker.key == "down.example")
        .expect("a breaker");
    assert!(
        breaker.opens >= 2
            && breaker.reasons.contains_key("consecutive")
            && breaker.reasons.contains_key("probe-failed"),
        "{breaker:?}"
    );
    assert!(breaker.probes >= 2 && breaker.probe_successes >= 1);
    assert_eq!(
        summary.totals.breaker_denials,
        summary
            .breakers
            .iter()
            .map(|breaker| breaker.requests_avoided)
            .sum::<u64>()
    );
    // Five seconds, then ten, then twenty.
    assert!((breaker.open_s - 35.0).abs() < 0.5, "{breaker:?}");

    // What was cut was wasted, and only that host's first answer and the throttled ones are.
    assert!(
        summary
            .hosts
            .iter()
            .find(|row| row.host == "cut.example")
            .expect("a row")
            .wasted_bytes
            >= 5
    );
}

#[test]
fn the_views_answer_the_same() {
    let ended = busy_run();
    let summary = ended.summary();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let one = |sql: &str| {
        database
            .query_row(sql, [], |row| row.get::<_, f64>(0))
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    };
    let breaker = summary
        .breakers
        .iter()
        .find(|breaker| breaker.key == "down.example")
        .expect("a breaker");
    assert!(
        (one("SELECT sum(opens) FROM opens_per_hour WHERE key = 'down.example'")
            - breaker.opens as f64)
            .abs()
            < 0.5
    );
    assert!(
        (one("SELECT open_s FROM time_open WHERE key = 'down.example'") - breaker.open_s).abs()
            < 0.1
    );
    assert!(
        (one("SELECT coalesce(sum(avoided), 0) FROM requests_avoided")
            - summary.totals.breaker_denials as f64)
            .abs()
            < 0.5
    );
    assert!(
        (one("SELECT probes FROM success_after_open WHERE host = 'down.example'")
            - breaker.probes as f64)
            .abs()
            < 0.5
    );
    assert!((one("SELECT sum(opens) FROM open_reasons") - summary.totals.opens as f64).abs() < 0.5);
    assert!(
        (one("SELECT sum(acquired) FROM tokens") - summary.totals.tokens_acquired as f64).abs()
            < 0.5
    );
    let calm = summary
        .hosts
        .iter()
        .find(|row| row.host == "calm.example" && row.role == "metadata")
        .expect("a row");
    assert!(
        (one("SELECT p95_ms FROM rate_delays WHERE host = 'calm.example' AND role = 'metadata'")
            - calm.delay.p95_ms)
            .abs()
            < 120.0
    );
    assert!(
        (one(
            "SELECT sum(with_retry_after + without_retry_after) FROM throttled WHERE status = 429"
        ) - summary.totals.status_429 as f64)
            .abs()
            < 0.5
    );
    for view in ["failure_reasons", "cache_hits", "slowest_hosts"] {
        assert!(one(&format!("SELECT count(*) FROM {view}")) > 0.0, "{view}");
    }
    let ratio: f64 = one("SELECT http_429_ratio FROM run_summary");
    assert!((ratio - summary.totals.http_429_ratio).abs() < 1e-9);
}

#[test]
fn runs_are_found_by_the_beginning_of_their_names_and_compared() {
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
fn the_page_is_whole_and_reaches_for_nothing() {
    let ended = busy_run();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let page = docstokg_telemetry::report::page(&database, &ended.summary()).expect("a page");
    for part in [
        "<!doctype html>",
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
