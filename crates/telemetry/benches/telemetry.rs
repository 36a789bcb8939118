//! What telemetry costs a request, and whether it keeps up. Exits 1 when a target is missed.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints its results"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::{Hub, Request};
use docstokg_origin_sim::{Listener, OriginScript, ScriptedReply, Security, SimulatedWeb};
use docstokg_telemetry::sink::Sink;
use docstokg_telemetry::sink::metrics::{Metrics, MetricsSink};
use docstokg_telemetry::sink::sqlite::{SqliteSink, open_to_read};
use docstokg_telemetry::summary::{self, RunChoice};
use docstokg_telemetry::{Recorder, RunIdentity};
use parking_lot::Mutex;

fn main() {
    let mut missed = 0;
    let mut check = |what: &str, value: f64, unit: &str, target: f64| {
        let met = value <= target;
        missed += u32::from(!met);
        println!(
            "{} {what}: {value:.3} {unit} (at most {target})",
            if met { "ok    " } else { "MISSED" }
        );
    };
    let (without, with) = cost();
    println!(
        "       GET of 1 KiB on one core: {without:.2} us without telemetry, {with:.2} us with it"
    );
    check("telemetry per request", with - without, "us", 2.0);
    let full = full_rate(Duration::from_secs(10));
    println!(
        "       64 callers for 10 s: {:.0} requests/s, {} recorded",
        full.rate, full.recorded
    );
    check(
        "events lost at the full rate",
        full.lost as f64,
        "events",
        0.0,
    );
    check(
        "requests not recorded",
        full.sent.abs_diff(full.recorded) as f64,
        "requests",
        0.0,
    );
    std::process::exit(i32::from(missed > 0));
}

fn web() -> SimulatedWeb {
    let body = vec![b'x'; 1_024];
    SimulatedWeb::new(
        [OriginScript::new("bench.example").handler(move |_, _| ScriptedReply::ok(body.clone()))],
        SystemClock.boot(),
    )
}

/// A hub for an address, with or without a recorder.
fn hub_for(address: &str, directory: Option<&std::path::Path>) -> (Hub, Option<Recorder>) {
    let rate = vec![format!(
        "{address}:metadata=rates:1000000/SECOND+1000000000/HOUR,max_concurrent:1000"
    )];
    let (config, settings) = load(&ConfigSources {
        flags: CommandLineFlags {
            rate,
            ..CommandLineFlags::default()
        },
        ..ConfigSources::default()
    })
    .expect("a configuration");
    let Some(directory) = directory else {
        return (Hub::builder(config).build().expect("a hub"), None);
    };
    let run = Arc::new(RunIdentity::begin("bench", &settings, &SystemClock));
    let metrics = Arc::new(Mutex::new(Metrics::new(
        Arc::clone(&run),
        &config,
        Arc::new(SystemClock),
    )));
    let database = SqliteSink::open(
        &directory.join("t.sqlite3"),
        Arc::clone(&run),
        None,
        Arc::new(SystemClock),
    )
    .expect("a database");
    let sinks: Vec<Box<dyn Sink>> = vec![
        Box::new(database),
        Box::new(MetricsSink::new(metrics, None)),
    ];
    let recorder = Recorder::start(
        run,
        Arc::new(config.clone()),
        &docstokg_telemetry::config::TelemetryConfig::default(),
        sinks,
        Arc::new(|text: &str| println!("       {text}")),
    )
    .expect("a recorder");
    (
        Hub::builder(config)
            .observer(recorder.observer())
            .build()
            .expect("a hub"),
        Some(recorder),
    )
}

/// Times one GET after another on one core, without and with telemetry, in turns; the median of
/// each.
fn cost() -> (f64, f64) {
    const CALLS: u32 = 3_000;
    let directory = tempfile::tempdir().expect("a directory");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = runtime
        .block_on(Listener::start(&web(), Security::Plain))
        .expect("a port");
    let url: url::Url = format!("http://{}/", listener.address)
        .parse()
        .expect("a URL");
    let address = listener.address.to_string();
    let (plain, _) = hub_for(&address, None);
    let (watched, recorder) = hub_for(&address, Some(directory.path()));
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..15 {
        for (hub, times) in [&plain, &watched].into_iter().zip(&mut times) {
            times.push(runtime.block_on(async {
                let start = Instant::now();
                for _ in 0..CALLS {
                    black_box(
                        hub.fetch(Request::get(url.clone()))
                            .await
                            .expect("an answer")
                            .body,
                    );
                }
                start.elapsed().as_nanos() as f64 / 1_000.0 / f64::from(CALLS)
            }));
        }
    }
    drop(recorder);
    let [mut without, mut with] = times;
    (median(&mut without), median(&mut with))
}

struct Full {
    rate: f64,
    sent: u64,
    recorded: u64,
    lost: u64,
}

/// Sends as fast as it goes, and counts what was recorded.
fn full_rate(length: Duration) -> Full {
    let directory = tempfile::tempdir().expect("a directory");
    let server = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = server
        .block_on(Listener::start(&web(), Security::Plain))
        .expect("a port");
    let url: url::Url = format!("http://{}/", listener.address)
        .parse()
        .expect("a URL");
    let (hub, recorder) = hub_for(&listener.address.to_string(), Some(directory.path()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let start = Instant::now();
    let sent = runtime.block_on(async {
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..64 {
            let (hub, url) = (hub.clone(), url.clone());
            callers.spawn(async move {
                let mut sent = 0;
                while start.elapsed() < length {
                    black_box(
                        hub.fetch(Request::get(url.clone()))
                            .await
                            .expect("an answer")
                            .body,
                    );
                    sent += 1;
                }
                sent
            });
        }
        let mut sent = 0;
        while let Some(done) = callers.join_next().await {
            sent += done.expect("no panic");
        }
        sent
    });
    let elapsed = start.elapsed();
    drop(hub);
    let outcome = recorder.expect("a recorder").close();
    let database = open_to_read(&directory.path().join("t.sqlite3")).expect("a database");
    let in_database = summary::load(&database, &RunChoice::Latest)
        .expect("a summary")
        .totals
        .requests;
    let lost = outcome.dropped + outcome.lost.iter().map(|(_, lost)| lost).sum::<u64>();
    Full {
        rate: sent as f64 / elapsed.as_secs_f64(),
        sent,
        recorded: in_database,
        lost,
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
