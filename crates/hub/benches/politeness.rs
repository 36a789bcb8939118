//! What an origin on loopback sees of 64 callers: no window exceeded, and how much of the rate is
//! used.
//!
//! Warm and with new connections delayed by 100 ms, idle and with both cores busy. Exits 1 when a
//! window is exceeded or the median of the runs uses less than 98 % of the rate.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints its results"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::transport::wire::WireOptions;
use docstokg_hub::{Hub, Request};
use docstokg_origin_sim::{Listener, OriginScript, Security, SimulatedWeb};

const CALLERS: usize = 64;
const HOST: &str = "polite.example";
const WINDOW: Duration = Duration::from_secs(1);

struct PolitenessPlan {
    seconds: u64,
    runs: usize,
    limits: Vec<usize>,
}

fn plan() -> PolitenessPlan {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let mut plan = PolitenessPlan {
        seconds: 20,
        runs: 5,
        limits: vec![10, 50, 200],
    };
    for pair in arguments.chunks(2) {
        let value: u64 = pair
            .get(1)
            .and_then(|value| value.parse().ok())
            .expect("a number behind each option");
        match pair[0].as_str() {
            "--seconds" => plan.seconds = value,
            "--runs" => plan.runs = usize::try_from(value).expect("small"),
            "--limit" => plan.limits = vec![usize::try_from(value).expect("small")],
            other => panic!("unknown option {other}"),
        }
    }
    plan
}

fn main() {
    let plan = plan();
    let mut failed = false;
    for limit in &plan.limits {
        for cold in [false, true] {
            for busy in [false, true] {
                let mut used: Vec<f64> = (0..plan.runs)
                    .map(|_| run(*limit, cold, busy, plan.seconds, &mut failed))
                    .collect();
                used.sort_by(f64::total_cmp);
                let median = used[used.len() / 2];
                failed |= median < 0.98;
                let (cold, busy) = (
                    if cold { "cold" } else { "warm" },
                    if busy { "busy" } else { "idle" },
                );
                let all: Vec<String> = used
                    .iter()
                    .map(|used| format!("{:.2}", used * 100.0))
                    .collect();
                println!(
                    "{} {limit:>3}/s {cold} {busy}: {:.2} % of the rate used (runs: {})",
                    if median < 0.98 { "MISSED" } else { "ok    " },
                    median * 100.0,
                    all.join(", ")
                );
            }
        }
    }
    std::process::exit(i32::from(failed));
}

fn run(limit: usize, cold: bool, busy: bool, seconds: u64, failed: &mut bool) -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let burners: Vec<_> = (0..if busy { 2 } else { 0 })
        .map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::black_box((0..10_000u64).sum::<u64>());
                }
            })
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    // The origin has a thread of its own: what it is late by is the machine's doing, not its
    // callers'.
    let origin = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (exceeded, used) = runtime.block_on(traffic(limit, cold, seconds, origin.handle()));
    origin.shutdown_background();
    stop.store(true, Ordering::Relaxed);
    for burner in burners {
        burner.join().expect("no panic");
    }
    if let Err(why) = exceeded {
        println!("EXCEEDED {why}");
        *failed = true;
    }
    used
}

async fn traffic(
    limit: usize,
    cold: bool,
    seconds: u64,
    origin_home: &tokio::runtime::Handle,
) -> (Result<(), String>, f64) {
    let origin = OriginScript::new(HOST).dial_delay(if cold {
        Duration::from_millis(100)
    } else {
        Duration::ZERO
    });
    let web = SimulatedWeb::new([origin], SystemClock.boot());
    // A delay of new connections is the handshake's: the client is not connected before it is over.
    let (tls, certificate) = Security::self_signed(HOST);
    let security = if cold { tls } else { Security::Plain };
    let started = {
        let web = web.clone();
        origin_home.spawn(async move { Listener::start(&web, security).await })
    };
    let listener = started.await.expect("no panic").expect("a port");
    let (scheme, port) = if cold { ("https", 443) } else { ("http", 80) };
    let hub = hub(
        limit,
        &format!("{HOST}:{port}={}", listener.address),
        certificate,
    );
    let url: url::Url = format!("{scheme}://{HOST}/").parse().expect("a URL");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let (hub, url) = (hub.clone(), url.clone());
        callers.spawn(async move {
            while Instant::now() < end {
                hub.fetch(Request::get(url.clone()))
                    .await
                    .expect("an answer");
            }
        });
    }
    while let Some(done) = callers.join_next().await {
        done.expect("no panic");
    }
    (
        web.ledger().no_window_exceeded(HOST, limit, WINDOW),
        web.ledger().rate_used(HOST, limit, WINDOW),
    )
}

/// Returns a hub with this limit that finds the host at the listener.
fn hub(limit: usize, connect_to: &str, certificate: String) -> Hub {
    let flags = CommandLineFlags {
        rate: vec![format!(
            "{HOST}:metadata=rates:{limit}/SECOND,max_delay_ms:600000,max_concurrent:1000"
        )],
        ..CommandLineFlags::default()
    };
    let (config, _) = load(&ConfigSources {
        flags,
        ..ConfigSources::default()
    })
    .expect("a configuration");
    let wire = WireOptions {
        connect_to: vec![connect_to.parse().expect("a mapping")],
        certificates: vec![certificate.into_bytes()],
        ..WireOptions::default()
    };
    Hub::builder(config).wire(wire).build().expect("a hub")
}
