//! The hot paths, each as a ratio to a baseline measured in the same run. Exits 1 when a target is
//! missed.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints its results"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::load::{ConfigSources, load, shipped};
use docstokg_hub::policy::breaker::BreakerPolicy;
use docstokg_hub::policy::rate::Window;
use docstokg_hub::policy::site::{AdmissionRequest, BudgetCost, LanePolicy};
use docstokg_hub::policy::windows::Windows;
use docstokg_hub::stores::cache::{CacheLimits, CacheStore};
use docstokg_hub::stores::memory::MemoryStore;
use docstokg_hub::stores::{BudgetKey, SiteHandle, StateStore, StoreReply};
use docstokg_hub::{Host, Hub, HubBuilder, Request, Role};
use docstokg_origin_sim::{Listener, OriginScript, ScriptedReply, Security, SimulatedWeb};
use http::HeaderValue;
use http::header::{ACCEPT, ACCEPT_ENCODING};

fn main() {
    let mut missed = 0;
    let mut check = |what: &str, value: f64, unit: &str, target: f64, at_most: bool| {
        let met = if at_most {
            value <= target
        } else {
            value >= target
        };
        missed += u32::from(!met);
        let bound = if at_most { "at most" } else { "at least" };
        println!(
            "{} {what}: {value:.3} {unit} ({bound} {target})",
            if met { "ok    " } else { "MISSED" }
        );
    };
    for (what, limit) in [("enter, go", 1_000_000), ("enter, refuse", 1)] {
        let cost = enter(limit, 1);
        println!(
            "       {what}: {:.1} ns; Instant::now(): {:.1} ns; \
             the boot clock under a lock: {:.1} ns",
            cost.call, cost.now, cost.floor
        );
        check(
            &format!("{what} on a handle, breaker closed and two windows"),
            cost.ratio,
            "x Instant::now()",
            2.0,
            true,
        );
    }
    let (few, many) = (enter(1_000_000, 1), enter(1_000_000, 100_000));
    check(
        "enter with 100,000 other hosts",
        many.ratio / few.ratio,
        "x alone",
        1.5,
        true,
    );

    let (bare, hub) = overhead();
    println!("       GET of 1 KiB on one core: bare reqwest {bare:.2} us, hub {hub:.2} us");
    check(
        "overhead of the hub per uncached GET of 1 KiB",
        hub - bare,
        "us",
        5.0,
        true,
    );

    let (bare, hub) = throughput();
    println!("       16 callers, origin of 20 ms: bare reqwest {bare:.0}/s, hub {hub:.0}/s");
    check(
        "throughput of 16 callers",
        hub / bare,
        "x bare reqwest",
        0.99,
        false,
    );

    let cached = cached();
    println!(
        "       with a cache in memory: hit {:.2} us, miss and store {:.2} us, bare reqwest {:.2} us",
        cached.hit, cached.miss, cached.bare
    );
    check("hit of 1 KiB in memory", cached.hit, "us", 2.0, true);
    check(
        "overhead of the hub per GET of 1 KiB that is stored in memory",
        cached.miss - cached.bare,
        "us",
        15.0,
        true,
    );
    std::process::exit(i32::from(missed > 0));
}

/// What `enter` costs, and what it is compared with: medians of rounds in turns, since machines
/// change their speed.
struct Timing {
    call: f64,
    now: f64,
    floor: f64,
    ratio: f64,
}

/// Returns the nanoseconds per call of one round.
fn round(mut call: impl FnMut()) -> f64 {
    const CALLS: u32 = 50_000;
    let start = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Times a call in turns with its baselines.
fn compare(mut call: impl FnMut()) -> Timing {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let state = parking_lot::Mutex::new(0u64);
    let (mut calls, mut nows, mut floors, mut ratios) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..19 {
        let now = round(|| {
            black_box(Instant::now());
        });
        let cost = round(&mut call);
        calls.push(cost);
        nows.push(now);
        ratios.push(cost / now);
        floors.push(round(|| *state.lock() += clock.boot().as_micros()));
    }
    Timing {
        call: median(&mut calls),
        now: median(&mut nows),
        floor: median(&mut floors),
        ratio: median(&mut ratios),
    }
}

/// Times `enter` on one of `hosts` sites.
fn enter(limit: u32, hosts: usize) -> Timing {
    let store = MemoryStore::new(Arc::new(SystemClock));
    let sites: Vec<Arc<dyn SiteHandle>> = (0..hosts)
        .map(|n| {
            let site = store.site(&format!("h{n}.example").into());
            site.budget(&BudgetKey::Role(
                Host::parse(&format!("h{n}.example")).expect("a host"),
                Role::Metadata,
            ));
            site
        })
        .collect();
    let site = &sites[hosts / 2];
    let limit = NonZeroU32::new(limit).expect("not zero");
    let paced = [
        Window::new(
            limit.min(NonZeroU32::new(4_000).expect("not zero")),
            Duration::from_micros(1),
        ),
        Window::new(limit, Duration::from_secs(3_600)),
    ];
    let windows = Arc::new(Windows::new(paced, Duration::ZERO));
    let costs = [BudgetCost {
        budget: 0,
        weight: 1,
        windows,
        slots: None,
    }];
    let ask = AdmissionRequest::at_once(&costs, LanePolicy::new(BreakerPolicy::default()));
    compare(|| {
        let StoreReply::Ready(Ok(entered)) = site.enter(black_box(&ask)) else {
            panic!("memory answers at once")
        };
        black_box(&entered);
    })
}

fn web(latency: Duration) -> SimulatedWeb {
    let body = vec![b'x'; 1_024];
    SimulatedWeb::new(
        [OriginScript::new("bench.example")
            .latency(latency)
            .handler(move |_, _| ScriptedReply::ok(body.clone()))],
        SystemClock.boot(),
    )
}

/// Starts an origin in a runtime of its own.
fn serve(latency: Duration) -> (tokio::runtime::Runtime, Listener) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = runtime
        .block_on(Listener::start(&web(latency), Security::Plain))
        .expect("a port");
    (runtime, listener)
}

fn hub_for(address: &str) -> Hub {
    builder_for(address).build().expect("a hub")
}

fn builder_for(address: &str) -> HubBuilder {
    let rate = vec![format!(
        "{address}:metadata=rates:1000000/SECOND+1000000000/HOUR,max_concurrent:1000"
    )];
    let (config, _) = load(&ConfigSources {
        flags: CommandLineFlags {
            rate,
            ..CommandLineFlags::default()
        },
        ..ConfigSources::default()
    })
    .expect("a configuration");
    Hub::builder(config)
}

fn bare_client() -> reqwest::Client {
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .expect("versions")
    .with_root_certificates(rustls::RootCertStore::empty())
    .with_no_client_auth();
    // The same request as the hub's: the origin shares the core, and reads what it is sent.
    let headers = [
        (
            ACCEPT,
            "application/json, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5",
        ),
        (ACCEPT_ENCODING, "gzip, deflate, br, zstd"),
    ];
    let headers = headers
        .into_iter()
        .map(|(name, value)| (name, HeaderValue::from_static(value)))
        .collect();
    let agent = shipped()
        .expect("a configuration")
        .identity
        .user_agent(Role::Metadata);
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(agent)
        .default_headers(headers)
        .build()
        .expect("a client")
}

/// Times one GET after another on one core: bare and through the hub, in turns; the median of each.
fn overhead() -> (f64, f64) {
    const CALLS: u32 = 3_000;
    // One thread for both sides: what is measured is work, not the waking of another core.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = runtime
        .block_on(Listener::start(&web(Duration::ZERO), Security::Plain))
        .expect("a port");
    let url = format!("http://{}/", listener.address);
    let (client, hub) = (bare_client(), hub_for(&listener.address.to_string()));
    let parsed: url::Url = url.parse().expect("a URL");
    let (mut bare, mut through) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        bare.push(runtime.block_on(async {
            let start = Instant::now();
            for _ in 0..CALLS {
                let answer = client.get(parsed.clone()).send().await.expect("an answer");
                black_box(answer.bytes().await.expect("a body"));
            }
            start.elapsed().as_micros() as f64 / f64::from(CALLS)
        }));
        through.push(runtime.block_on(async {
            let start = Instant::now();
            for _ in 0..CALLS {
                black_box(
                    hub.fetch(Request::get(parsed.clone()))
                        .await
                        .expect("an answer")
                        .body,
                );
            }
            start.elapsed().as_micros() as f64 / f64::from(CALLS)
        }));
    }
    (median(&mut bare), median(&mut through))
}

/// Microseconds per GET of 1 KiB on one core.
struct Cached {
    bare: f64,
    miss: f64,
    hit: f64,
}

/// Times GETs of answers that the cache stores, each URL once, and of one that it has.
fn cached() -> Cached {
    const CALLS: u32 = 3_000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let body = vec![b'x'; 1_024];
    let answer = move |_: &docstokg_origin_sim::Arrival, _| {
        ScriptedReply::ok(body.clone()).header("cache-control", "max-age=3600")
    };
    let origin = OriginScript::new("bench.example").handler(answer);
    let web = SimulatedWeb::new([origin], SystemClock.boot());
    let listener = runtime
        .block_on(Listener::start(&web, Security::Plain))
        .expect("a port");
    let address = listener.address.to_string();
    let store = CacheStore::memory(CacheLimits::of(256 << 20), Arc::new(SystemClock));
    let hub = builder_for(&address).cache(store).build().expect("a hub");
    let client = bare_client();
    let url =
        |number: u32| -> url::Url { format!("http://{address}/{number}").parse().expect("a URL") };
    let (mut bare, mut miss, mut hit) = (Vec::new(), Vec::new(), Vec::new());
    let mut numbers = 0..;
    for _ in 0..9 {
        let mut urls =
            || -> Vec<url::Url> { numbers.by_ref().take(CALLS as usize).map(url).collect() };
        let per_call = |start: Instant| start.elapsed().as_nanos() as f64 / 1e3 / f64::from(CALLS);
        let (cold, plain) = (urls(), urls());
        bare.push(runtime.block_on(async {
            let start = Instant::now();
            for url in plain {
                let answer = client.get(url).send().await.expect("an answer");
                black_box(answer.bytes().await.expect("a body"));
            }
            per_call(start)
        }));
        let warm = cold[0].clone();
        let get = async |url| hub.fetch(Request::get(url)).await.expect("an answer").body;
        miss.push(runtime.block_on(async {
            let start = Instant::now();
            for url in cold {
                black_box(get(url).await);
            }
            per_call(start)
        }));
        hit.push(runtime.block_on(async {
            get(warm.clone()).await;
            let start = Instant::now();
            for _ in 0..CALLS {
                black_box(get(warm.clone()).await);
            }
            per_call(start)
        }));
    }
    Cached {
        bare: median(&mut bare),
        miss: median(&mut miss),
        hit: median(&mut hit),
    }
}

/// Counts what 16 callers get done against an origin that takes 20 ms.
fn throughput() -> (f64, f64) {
    const CALLERS: usize = 16;
    const EACH: usize = 100;
    let (_server, listener) = serve(Duration::from_millis(20));
    let url: url::Url = format!("http://{}/", listener.address)
        .parse()
        .expect("a URL");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (client, hub) = (bare_client(), hub_for(&listener.address.to_string()));
    let (mut bare, mut through) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        for with_hub in [false, true] {
            let rate = runtime.block_on(async {
                let mut callers = tokio::task::JoinSet::new();
                let start = Instant::now();
                for _ in 0..CALLERS {
                    let (client, hub, url) = (client.clone(), hub.clone(), url.clone());
                    callers.spawn(async move {
                        for _ in 0..EACH {
                            if with_hub {
                                black_box(
                                    hub.fetch(Request::get(url.clone()))
                                        .await
                                        .expect("an answer")
                                        .body,
                                );
                            } else {
                                black_box(
                                    client
                                        .get(url.clone())
                                        .send()
                                        .await
                                        .expect("an answer")
                                        .bytes()
                                        .await
                                        .expect("a body"),
                                );
                            }
                        }
                    });
                }
                while let Some(done) = callers.join_next().await {
                    done.expect("no panic");
                }
                (CALLERS * EACH) as f64 / start.elapsed().as_secs_f64()
            });
            if with_hub {
                through.push(rate);
            } else {
                bare.push(rate);
            }
        }
    }
    (median(&mut bare), median(&mut through))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
