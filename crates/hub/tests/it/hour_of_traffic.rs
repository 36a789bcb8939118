//! An hour of traffic in a second of real time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::{Patience, RateWait};
use docstokg_origin_sim::{OriginScript, Piece, ScriptedReply, Throttle};
use parking_lot::Mutex;

use crate::support::{HubWorld, config, get, ms, seconds};

const HOSTS: u64 = 50;
const CALLERS: u64 = 200;
const HOUR: Duration = Duration::from_secs(3_600);

fn name(n: u64) -> String {
    format!("h{n}.example")
}

/// The limit that the hub is configured with, by host: how many, in how many seconds. A tenth of
/// the hosts allow less than that.
fn configured(n: u64) -> (u32, u64) {
    [(1, 2), (2, 1), (5, 1), (10, 1), (24, 60)][usize::try_from(n % 5).expect("small")]
}

fn hides_a_limit(n: u64) -> bool {
    n % 10 == 3
}

fn origin(n: u64) -> OriginScript {
    let (limit, per) = configured(n);
    let limit = if hides_a_limit(n) { limit - 2 } else { limit };
    let throttle = [
        Throttle::Seconds,
        Throttle::Date,
        Throttle::Silent,
        Throttle::Fixed(20),
    ][usize::try_from(n % 4).expect("small")];
    let outage = seconds(600 + 40 * n)..seconds(600 + 40 * n + 90);
    let origin = OriginScript::new(&name(n))
        .limit(&format!("{limit}/{per}SECOND"))
        .throttle(throttle)
        .latency(ms(20 + 7 * n))
        .dial_delay(ms(30));
    let origin = match n % 6 {
        0 => origin.outage(
            outage,
            ScriptedReply::status(503).header("retry-after", "30"),
        ),
        1 => origin.outage(outage, ScriptedReply::status(503)),
        2 => origin.outage(outage, ScriptedReply::dead(Piece::Reset)),
        _ => origin,
    };
    origin.handler(|_, nth| match nth % 7 {
        3 => ScriptedReply::status(404),
        5 if nth % 2 == 1 => ScriptedReply::ok("")
            .pieces([Piece::Bytes("half".into()), Piece::Cut])
            .claiming(8),
        _ => ScriptedReply::ok("complete"),
    })
}

/// What a caller went through.
#[derive(Clone, Debug)]
struct Done {
    caller: u64,
    took: Duration,
    outcome: String,
}

/// What all callers have done so far.
#[derive(Default)]
struct Record {
    done: Mutex<Vec<Done>>,
    started: Mutex<u64>,
}

struct Hour {
    world: HubWorld,
    done: Vec<Done>,
    started: u64,
    events: u64,
}

fn limits() -> CommandLineFlags {
    let rates = (0..HOSTS).map(|n| {
        let ((limit, per), host) = (configured(n), name(n));
        format!("{host}:metadata=rates:{limit}/{per}SECOND,max_concurrent:8")
    });
    CommandLineFlags {
        rate: rates.collect(),
        ..CommandLineFlags::default()
    }
}

/// Requests one page after the other, of hosts in an order that a seed decides, for an hour.
async fn call(caller: u64, seed: u64, world: HubWorld, record: Arc<Record>) {
    let mut random = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(caller);
    while world.simulation.elapsed() < HOUR {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let host = (random >> 33) % HOSTS;
        let request = get(&format!("http://{}/{}", name(host), (random >> 20) % 50))
            .patience(Patience::Wait)
            .rate_wait(RateWait::Deadline)
            .deadline(seconds(1_800));
        *record.started.lock() += 1;
        let before = world.simulation.elapsed();
        let outcome = match world.hub.fetch(request).await {
            Ok(answer) => answer.head.status.as_str().to_owned(),
            Err(error) => error.kind.class().to_owned(),
        };
        record.done.lock().push(Done {
            caller,
            took: world.simulation.elapsed().saturating_sub(before),
            outcome,
        });
    }
}

fn run(seed: u64) -> Hour {
    let world = HubWorld::seeded((0..HOSTS).map(origin), config(limits()), seed);
    let record = Arc::new(Record::default());
    for caller in 0..CALLERS {
        let work = call(caller, seed, world.clone(), Arc::clone(&record));
        world.simulation.start(work);
    }
    world.simulation.run();
    let mut hasher = DefaultHasher::new();
    for event in world.events.0.lock().iter() {
        format!("{event:?}").hash(&mut hasher);
    }
    let (done, started) = (record.done.lock().clone(), *record.started.lock());
    Hour {
        world,
        done,
        started,
        events: hasher.finish(),
    }
}

#[test]
fn an_hour_of_fifty_hosts_and_two_hundred_callers_is_polite_and_loses_nothing() {
    for seed in [1, 2, 3] {
        let hour = run(seed);
        let ledger = hour.world.ledger();
        let mut avoidable = 0;
        for n in 0..HOSTS {
            let (limit, per) = configured(n);
            ledger
                .no_window_exceeded(&name(n), limit as usize, seconds(per))
                .expect("the configured limit holds");
            ledger
                .nothing_before_retry_after(&name(n))
                .expect("no request came early");
            ledger
                .at_most_in_flight(&name(n), 8)
                .expect("eight at once");
            if !hides_a_limit(n) {
                avoidable += ledger
                    .at(&name(n))
                    .iter()
                    .filter(|arrival| arrival.status == 429)
                    .count();
            }
        }
        assert_eq!(avoidable, 0, "a 429 from a host whose limit was known");
        assert!(ledger.len() > 50_000, "there was traffic: {}", ledger.len());
        assert_eq!(hour.done.len() as u64, hour.started, "no request was lost");
        let bad: Vec<&Done> = hour
            .done
            .iter()
            .filter(|done| {
                !matches!(
                    done.outcome.as_str(),
                    "200" | "404" | "503" | "429" | "read"
                )
            })
            .collect();
        assert!(bad.is_empty(), "{:?}", bad.first());
        let slowest = hour.done.iter().map(|done| done.took).max().expect("some");
        assert!(slowest < seconds(900), "no request starves: {slowest:?}");
        for caller in 0..CALLERS {
            let finished = hour
                .done
                .iter()
                .filter(|done| done.caller == caller)
                .count();
            assert!(finished > 30, "caller {caller} got only {finished} answers");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_events() {
    let (first, again, other) = (run(11), run(11), run(12));
    assert_eq!(first.events, again.events);
    assert_ne!(
        first.events, other.events,
        "another seed gives others, or the check is worth nothing"
    );
}
