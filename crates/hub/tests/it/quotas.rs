//! Rate headers: what a host states is used, and not exceeded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, Clock, Random};
use docstokg_hub::{Host, Hub, Patience, RateWait};
use docstokg_origin_sim::{
    Arrival, OriginScript, ScriptedReply, SimTransport, SimulatedWeb, Simulation,
};
use parking_lot::Mutex;

use crate::support::{HubWorld, config, get, ms, rates, seconds};

/// How an origin counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counting {
    /// In windows that begin at multiples of their length.
    Aligned,
    /// In any interval of that length.
    Sliding,
}

/// How an origin states what it counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Style {
    /// `RateLimit` and `RateLimit-Policy` of the RFC draft.
    Draft,
    /// `RateLimit: limit=, remaining=, reset=`.
    Single,
    /// `RateLimit-Limit`, `-Remaining` and `-Reset`.
    Fields,
    /// `X-RateLimit-*` with a reset since 1970, and `Date`, as GitHub.
    Epoch,
    /// `X-Rate-Limit-Limit` and `-Interval`, as Crossref.
    Interval,
    /// `X-RateLimit-*` with the seconds left, rounded down.
    RoundedDown,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    style: Style,
    counting: Counting,
    limit: usize,
    window: u64,
}

const SECOND: u64 = 1_000_000;

impl Case {
    /// Counts a request at an instant; returns whether it is served, what is left, and the
    /// microseconds to the reset.
    fn count(&self, log: &mut VecDeque<u64>, now: u64) -> (bool, usize, u64) {
        let window = self.window * SECOND;
        let from = match self.counting {
            Counting::Aligned => now / window * window,
            Counting::Sliding => (now + 1).saturating_sub(window),
        };
        while log.front().is_some_and(|at| *at < from) {
            log.pop_front();
        }
        let is_served = log.len() < self.limit;
        if is_served {
            log.push_back(now);
        }
        let begun = match self.counting {
            Counting::Aligned => from,
            Counting::Sliding => log.front().copied().unwrap_or(now),
        };
        (is_served, self.limit - log.len(), begun + window - now)
    }

    fn reply(
        &self,
        is_served: bool,
        left: usize,
        resets_in: u64,
        now: BootInstant,
    ) -> ScriptedReply {
        let (limit, window) = (self.limit, self.window);
        let reset = resets_in.div_ceil(SECOND);
        let reply = ScriptedReply::status(if is_served { 200 } else { 429 });
        match self.style {
            Style::Draft => reply
                .header("ratelimit-policy", &format!("\"all\";q={limit};w={window}"))
                .header("ratelimit", &format!("\"all\";r={left};t={reset}")),
            Style::Single => reply
                .header("ratelimit-policy", &format!("{limit};w={window}"))
                .header(
                    "ratelimit",
                    &format!("limit={limit}, remaining={left}, reset={reset}"),
                ),
            Style::Fields => reply
                .header("ratelimit-limit", &limit.to_string())
                .header("ratelimit-remaining", &left.to_string())
                .header("ratelimit-reset", &reset.to_string()),
            Style::Epoch => {
                // The clock of the origin is wrong by an hour.
                let since_1970 = 1_700_003_600 + now.as_micros() / SECOND;
                let at = 1_700_003_600 + (now.as_micros() + resets_in) / SECOND;
                let date = httpdate::fmt_http_date(
                    std::time::UNIX_EPOCH + Duration::from_secs(since_1970),
                );
                reply
                    .header("date", &date)
                    .header("x-ratelimit-limit", &limit.to_string())
                    .header("x-ratelimit-remaining", &left.to_string())
                    .header("x-ratelimit-reset", &at.to_string())
                    .header("x-ratelimit-resource", "core")
            }
            Style::Interval => reply
                .header("x-rate-limit-limit", &limit.to_string())
                .header("x-rate-limit-interval", &format!("{window}s")),
            Style::RoundedDown => reply
                .header("x-ratelimit-limit", &limit.to_string())
                .header("x-ratelimit-remaining", &left.to_string())
                .header("x-ratelimit-reset", &(resets_in / SECOND).to_string()),
        }
    }

    fn origin(self) -> OriginScript {
        let log = Mutex::new(VecDeque::new());
        OriginScript::new("a.example")
            .latency(ms(30))
            .handler(move |arrival: &Arrival, _| {
                let (is_served, left, resets_in) =
                    self.count(&mut log.lock(), arrival.at.as_micros());
                self.reply(is_served, left, resets_in, arrival.at)
            })
    }
}

/// What came of a load: served and refused after the first answer, and the share of the capacity.
#[derive(Debug)]
struct Load {
    refused: usize,
    share: f64,
}

/// Lets processes send as much as they may, for so many windows after a first answer.
fn load(case: Case, processes: usize, windows: u64, seed: u64) -> Load {
    let simulation = Simulation::seeded(seed);
    let web = SimulatedWeb::new([case.origin()], simulation.boot());
    let store = simulation.shared_store();
    // The first request of the first process begins a window.
    let length = seconds(windows * case.window);
    for number in 0..processes {
        let process = simulation.process();
        let limits = "a.example:metadata=rates:100000/SECOND,max_concurrent:16";
        let hub = Hub::builder(config(rates(&[limits])))
            .runtime(process.runtime())
            .store(Arc::clone(&store))
            .random(Random::seeded(seed + number as u64))
            .transport(SimTransport::new(&simulation, &web))
            .build()
            .expect("a hub");
        let (world, caller) = (simulation.clone(), process.runtime());
        process.run(async move {
            if number > 0 {
                world.sleep(ms(500)).await;
            }
            fetch(&hub).await;
            for _ in 0..16 {
                let (hub, world) = (hub.clone(), world.clone());
                caller.spawn(Box::pin(async move {
                    while world.elapsed() < length {
                        fetch(&hub).await;
                    }
                }));
            }
        });
    }
    simulation.run_for(length);
    let arrivals = web.ledger().at("a.example");
    let refused = arrivals.iter().filter(|arrival| arrival.status == 429);
    let refused = refused.count();
    let capacity = case.limit * usize::try_from(windows).expect("few");
    Load {
        refused,
        share: (arrivals.len() - refused) as f64 / capacity as f64,
    }
}

async fn fetch(hub: &Hub) {
    let request = get("http://a.example/")
        .patience(Patience::Wait)
        .rate_wait(RateWait::Deadline)
        .deadline(seconds(7_200));
    let _ = hub.fetch(request).await;
}

fn cases() -> Vec<Case> {
    let case = |style, counting, limit, window| Case {
        style,
        counting,
        limit,
        window,
    };
    vec![
        case(Style::Draft, Counting::Aligned, 10, 1),
        case(Style::Draft, Counting::Sliding, 100, 10),
        case(Style::Single, Counting::Sliding, 60, 60),
        case(Style::Single, Counting::Aligned, 200, 10),
        case(Style::Fields, Counting::Aligned, 300, 60),
        case(Style::Epoch, Counting::Aligned, 5_000, 3_600),
        case(Style::Epoch, Counting::Aligned, 60, 60),
        case(Style::Interval, Counting::Sliding, 50, 1),
    ]
}

#[test]
fn a_host_that_states_its_quota_is_used_to_the_full_and_refuses_nothing() {
    let mut missed = Vec::new();
    for case in cases() {
        for processes in [1, 2] {
            let windows = (3_600 / case.window).clamp(3, 40);
            let load = load(case, processes, windows, 5);
            // Half a second late now and then is much in a window of one second.
            let least = if case.window == 1 { 0.97 } else { 0.98 };
            if load.refused > 0 || load.share < least {
                missed.push(format!("{case:?}, {processes} processes: {load:?}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_reset_that_is_rounded_down_costs_one_refusal() {
    let case = Case {
        style: Style::RoundedDown,
        counting: Counting::Aligned,
        limit: 120,
        window: 60,
    };
    let load = load(case, 1, 60, 3);
    assert!(load.refused <= 1 && load.share >= 0.97, "{load:?}");
}

/// A host that fails counts nothing, and states what was left long ago.
#[test]
fn what_a_failing_host_states_is_not_believed() {
    let stated = |status, left: &str| {
        ScriptedReply::status(status)
            .header("ratelimit-policy", "\"all\";q=100;w=60")
            .header("ratelimit", left)
    };
    let replies = [
        stated(200, "\"all\";r=99;t=60"),
        stated(503, "\"all\";r=0;t=60"),
    ];
    let origin = OriginScript::new("a.example").route("/", replies);
    let world = HubWorld::exact(
        [origin],
        config(rates(&["a.example:metadata=rates:10/SECOND"])),
    );
    let left = world.run(|hub| async move {
        for _ in 0..2 {
            let _ = hub.fetch(get("http://a.example/")).await;
        }
        let found = hub
            .diagnose(&Host::parse("a.example").expect("a host"))
            .await
            .expect("memory answers");
        found[0].stated[0].1.quotas[0].remaining
    });
    assert!(left > Some(90), "{left:?}");
}

#[test]
fn an_exhausted_quota_refuses_a_bounded_caller_until_its_reset() {
    let origin = OriginScript::new("a.example").handler(|_, _| {
        ScriptedReply::ok("")
            .header("x-ratelimit-limit", "100")
            .header("x-ratelimit-remaining", "0")
            .header("x-ratelimit-reset", "7200")
    });
    let world = HubWorld::exact(
        [origin],
        config(rates(&["a.example:metadata=rates:10/SECOND"])),
    );
    let error = world.run(|hub| async move {
        hub.fetch(get("http://a.example/1")).await.expect("served");
        let found = hub
            .diagnose(&Host::parse("a.example").expect("a host"))
            .await
            .expect("memory answers");
        let (lane, reading) = &found[0].stated[0];
        assert_eq!(lane, "a.example metadata");
        assert_eq!(reading.quotas[0].remaining, Some(0));
        assert_eq!(found[0].eligible_in, seconds(7_200));
        hub.fetch(get("http://a.example/2"))
            .await
            .expect_err("late")
    });
    assert_eq!(error.kind.class(), "rate_limited", "{error}");
    assert_eq!(world.ledger().len(), 1);
}

#[test]
fn a_stated_number_of_requests_at_once_holds_for_all_processes() {
    let origin = OriginScript::new("a.example")
        .latency(ms(200))
        .handler(|_, _| ScriptedReply::ok("").header("x-concurrency-limit", "3"));
    let simulation = Simulation::seeded(11);
    let web = SimulatedWeb::new([origin], simulation.boot());
    let store = simulation.shared_store();
    for number in 0..4 {
        let process = simulation.process();
        let hub = Hub::builder(config(rates(&["a.example:metadata=rates:1000/SECOND"])))
            .runtime(process.runtime())
            .store(Arc::clone(&store))
            .random(Random::seeded(number))
            .transport(SimTransport::new(&simulation, &web))
            .build()
            .expect("a hub");
        let (world, caller) = (simulation.clone(), process.runtime());
        process.run(async move {
            // Each process hears of it with its first answer, one after the other.
            world.sleep(seconds(number)).await;
            fetch(&hub).await;
            world.sleep(seconds(10 - number)).await;
            for _ in 0..6 {
                let hub = hub.clone();
                caller.spawn(Box::pin(async move {
                    for _ in 0..5 {
                        fetch(&hub).await;
                    }
                }));
            }
        });
    }
    simulation.run_for(seconds(60));
    let arrivals = web.ledger().at("a.example");
    assert_eq!(arrivals.len(), 4 + 4 * 6 * 5, "everything gets through");
    for arrival in &arrivals {
        let is_there = |other: &&Arrival| {
            other.at <= arrival.at && other.ended.is_none_or(|ended| ended > arrival.at)
        };
        let at_once = arrivals.iter().filter(is_there).count();
        assert!(at_once <= 3, "{at_once} at once");
    }
}

#[test]
fn a_spent_quota_of_one_kind_leaves_the_host_to_the_others() {
    let origin = OriginScript::new("a.example").handler(|arrival, _| {
        if arrival.path.starts_with("/search") {
            ScriptedReply::status(429)
                .header("x-ratelimit-limit", "100")
                .header("x-ratelimit-remaining", "0")
                .header("x-ratelimit-reset", "7200")
                .header("retry-after", "7200")
        } else {
            ScriptedReply::ok("found")
        }
    });
    let world = HubWorld::exact(
        [origin],
        config(rates(&["a.example:metadata=rates:10/SECOND"])),
    );
    world.run(|hub| async move {
        let search = || get("http://a.example/search").kind("search");
        let refused = hub.fetch(search()).await.expect("an answer");
        assert_eq!(refused.head.status, 429);
        for number in 0..5 {
            let found = hub.fetch(get(&format!("http://a.example/{number}"))).await;
            assert_eq!(found.expect("not held back").head.status, 200);
        }
        let again = hub.fetch(search()).await.expect_err("two hours");
        assert_eq!(again.kind.class(), "rate_limited", "{again}");
    });
    let arrivals = world.ledger().arrivals();
    let searches = arrivals.iter().filter(|arrival| arrival.path == "/search");
    assert_eq!(searches.count(), 1);
}

#[test]
fn retry_after_counts_for_every_status_that_means_throttling() {
    let origin = OriginScript::new("a.example").route(
        "/",
        [
            ScriptedReply::status(509).header("retry-after", "30"),
            ScriptedReply::ok("fine"),
        ],
    );
    let yaml =
        "version: 1\nbreakers: { hosts: { a.example: { classify: { throttled: [509] } } } }\n";
    let world = HubWorld::exact(
        [origin],
        crate::seed_configuration::read(yaml)
            .expect("a configuration")
            .0,
    );
    world.run(|hub| async move {
        let _ = hub
            .fetch(get("http://a.example/").deadline(seconds(5)))
            .await;
        let second = hub
            .fetch(get("http://a.example/").patience(Patience::Refuse))
            .await;
        assert_eq!(second.expect_err("a block").kind.class(), "breaker_open");
        let third = get("http://a.example/")
            .patience(Patience::Wait)
            .deadline(seconds(60));
        assert_eq!(hub.fetch(third).await.expect("an answer").body, "fine");
    });
    world
        .ledger()
        .nothing_before_retry_after("a.example")
        .expect("the stated time");
}

#[test]
fn slow_answers_open_the_breaker_where_that_is_configured() {
    let origin = || {
        let latency = ms(3_000);
        OriginScript::new("a.example")
            .latency(latency)
            .route("/", [ScriptedReply::ok("slow")])
    };
    for (yaml, class) in [
        ("version: 1\n", None),
        (
            "version: 1\nbreakers: { defaults: { classify: { slow_call_ms: 2000 } } }\n",
            Some("breaker_open"),
        ),
    ] {
        let world = HubWorld::exact(
            [origin()],
            crate::seed_configuration::read(yaml)
                .expect("a configuration")
                .0,
        );
        let last = world.run(|hub| async move {
            for _ in 0..5 {
                let answer = hub
                    .fetch(get("http://a.example/"))
                    .await
                    .expect("an answer");
                assert_eq!(answer.body, "slow", "slow answers are used");
            }
            hub.fetch(get("http://a.example/").patience(Patience::Refuse))
                .await
        });
        let refused = last.err().map(|error| error.kind.class());
        assert_eq!(refused, class, "{yaml}");
    }
}

/// A host that counts credits without a word: the configuration says what a search costs.
#[test]
fn a_configured_cost_is_taken_from_what_is_left() {
    let left = Mutex::new(35_u32);
    let origin = OriginScript::new("a.example").handler(move |arrival, _| {
        let cost = if arrival.path.starts_with("/search") {
            10
        } else {
            1
        };
        let mut left = left.lock();
        if *left < cost {
            return ScriptedReply::status(429);
        }
        *left -= cost;
        ScriptedReply::ok("found")
            .header("x-ratelimit-limit", "1000")
            .header("x-ratelimit-remaining", &left.to_string())
            .header("x-ratelimit-reset", "7200")
    });
    let yaml = "
version: 1
limits:
  hosts:
    a.example:
      metadata: { rates: [] }
      kinds: { search: { credits: 10 } }
";
    let world = HubWorld::exact(
        [origin],
        crate::seed_configuration::read(yaml)
            .expect("a configuration")
            .0,
    );
    world.run(|hub| async move {
        let search = || get("http://a.example/search").kind("search");
        for _ in 0..3 {
            let found = hub.fetch(search()).await.expect("enough is left");
            assert_eq!(found.head.status, 200);
        }
        let refused = hub.fetch(search()).await.expect_err("five are left");
        assert_eq!(refused.kind.class(), "rate_limited", "{refused}");
        for _ in 0..5 {
            let found = hub.fetch(get("http://a.example/1")).await;
            assert_eq!(found.expect("one each").head.status, 200);
        }
    });
    assert!(
        world
            .ledger()
            .arrivals()
            .iter()
            .all(|arrival| arrival.status == 200)
    );
}

/// Requests that were queued before anything was stated obey it as well.
#[test]
fn queued_requests_obey_what_is_stated_meanwhile() {
    let origin = OriginScript::new("a.example")
        .latency(ms(30))
        .handler(|_, _| {
            ScriptedReply::ok("")
                .header("ratelimit-policy", "\"all\";q=2;w=10")
                .header("ratelimit", "\"all\";r=0;t=10")
        });
    let limits = "a.example:metadata=rates:2/SECOND,max_concurrent:16";
    let world = HubWorld::exact([origin], config(rates(&[limits])));
    for _ in 0..8 {
        let hub = world.hub.clone();
        world.simulation.start(async move { fetch(&hub).await });
    }
    world.simulation.run();
    let ledger = world.ledger();
    assert_eq!(ledger.len(), 8, "each gets through");
    ledger
        .no_window_exceeded("a.example", 2, seconds(10))
        .expect("the stated window");
}
