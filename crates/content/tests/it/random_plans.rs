//! Bulk runs over twenty hosts with limits drawn by chance that nobody told the client, under
//! virtual time: no work is lost, nothing comes before a declared time, and little is lost of the time
//! and the patience of the hosts.

use std::collections::VecDeque;
use std::io::Write;
use std::ops::Range;
use std::time::Duration;

use docstokg_bulk::scheduler::RunEnd;
use docstokg_content::identifier::Identifier;
use docstokg_content::run::inputs::WorkList;
use docstokg_content::work::Work;
use docstokg_hub::clock::BootInstant;
use docstokg_hub::config::LearnSetting;
use docstokg_hub::policy::pacing::Pacing;
use docstokg_origin_sim::{Arrival, OriginScript, ScriptedReply, Simulation};
use parking_lot::Mutex;

use crate::run_world::{World, pdf};

/// What a host admits.
#[derive(Clone, Copy, Debug)]
enum RandomLimit {
    /// So many in any so many seconds.
    Window(u32, u32),
    /// So many at once.
    Cap(u32),
}

/// How a host states when to come back.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Advice {
    None,
    Seconds,
}

/// How a host states its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stated {
    None,
    /// `RateLimit-Policy` and `RateLimit`.
    Structured,
    /// `RateLimit-Limit` with a window.
    Triple,
    /// `X-RateLimit-*`, with a reset in whole seconds and no window.
    Bare,
}

#[derive(Clone, Debug)]
struct RandomHost {
    name: String,
    latency: Duration,
    limit: RandomLimit,
    advice: Advice,
    declared: Stated,
    outage: Option<Range<Duration>>,
    files: u32,
}

impl RandomHost {
    /// Draws a host.
    fn draw(random: &mut fastrand::Rng, number: u32) -> Self {
        let latency: u32 = pick(random, &[5, 10, 20, 50, 100, 200, 300]);
        let latency_s = f64::from(latency) / 1_000.0;
        let (limit, files) = if random.f64() < 0.15 {
            let cap = pick(random, &[1, 2, 3, 5, 8]);
            let most = f64::from(cap) / latency_s * between(random, 8.0, 40.0);
            (RandomLimit::Cap(cap), most.min(300.0))
        } else {
            let (count, per) = loop {
                let counts = [1, 2, 3, 4, 5, 7, 9, 10, 12, 15, 20, 25, 40, 60, 100];
                let count = pick(random, &counts);
                let per = pick(random, &[1, 1, 1, 2, 5, 7, 10, 12, 20, 45]);
                if (0.4..=60.0).contains(&(f64::from(count) / f64::from(per))) {
                    break (count, per);
                }
            };
            let rate = f64::from(count) / f64::from(per);
            let files = (rate * between(random, 10.0, 50.0)).clamp(5.0, 400.0);
            (RandomLimit::Window(count, per), files)
        };
        let is_window = matches!(limit, RandomLimit::Window(..));
        let declared = if random.f64() < 0.2 && is_window {
            pick(random, &[Stated::Structured, Stated::Triple, Stated::Bare])
        } else {
            Stated::None
        };
        let outage = (random.f64() < 0.05 && is_window).then(|| {
            let from = Duration::from_secs(random.u64(5..=20));
            from..from + Duration::from_secs(random.u64(3..=15))
        });
        Self {
            name: format!("h{number:02}.example"),
            latency: Duration::from_millis(u64::from(latency)),
            limit,
            advice: pick(random, &[Advice::None, Advice::Seconds, Advice::Seconds]),
            declared,
            outage,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 1 and 400"
            )]
            files: (files as u32).max(1),
        }
    }

    /// Returns the least time that its files take a client that knows everything.
    fn minimum(&self) -> Duration {
        let (count, per) = match self.limit {
            RandomLimit::Cap(cap) => return self.latency * self.files.div_ceil(cap),
            RandomLimit::Window(count, per) => {
                (count as usize, Duration::from_secs(u64::from(per)))
            }
        };
        let (mut sent, mut now) = (Vec::new(), Duration::ZERO);
        while sent.len() < self.files as usize {
            if sent.len() >= count {
                now = now.max(sent[sent.len() - count] + per);
            }
            if let Some(outage) = self.outage.as_ref().filter(|outage| outage.contains(&now)) {
                now = outage.end;
            }
            sent.push(now);
        }
        now + self.latency
    }

    fn origin(&self) -> OriginScript {
        let host = self.clone();
        let state = Mutex::new(State::default());
        OriginScript::new(&self.name).handler(move |arrival, _| {
            if arrival.path == "/robots.txt" {
                return ScriptedReply::status(404);
            }
            state.lock().answer(&host, arrival)
        })
    }
}

/// What a host knows of its clients.
#[derive(Default)]
struct State {
    begun: Option<BootInstant>,
    admitted: VecDeque<BootInstant>,
    in_flight: Vec<BootInstant>,
}

impl State {
    fn answer(&mut self, host: &RandomHost, arrival: &Arrival) -> ScriptedReply {
        let now = arrival.at;
        let elapsed = now.since(*self.begun.get_or_insert(now));
        let advise = |reply: ScriptedReply, wait: Duration| match host.advice {
            Advice::None => reply,
            Advice::Seconds => {
                let seconds = wait.as_secs_f64().ceil().max(1.0);
                reply.header("retry-after", &format!("{seconds}"))
            }
        };
        if let Some(outage) = host
            .outage
            .as_ref()
            .filter(|outage| outage.contains(&elapsed))
        {
            return advise(
                ScriptedReply::status(503),
                outage.end.saturating_sub(elapsed),
            );
        }
        match host.limit {
            RandomLimit::Cap(cap) => {
                self.in_flight.retain(|begun| *begun + host.latency > now);
                if self.in_flight.len() >= cap as usize {
                    return advise(ScriptedReply::status(429), host.latency);
                }
                self.in_flight.push(now);
                pdf(&arrival.path).after(host.latency)
            }
            RandomLimit::Window(count, per) => {
                let per = Duration::from_secs(u64::from(per));
                while self.admitted.front().is_some_and(|at| *at + per <= now) {
                    self.admitted.pop_front();
                }
                let free = self.admitted.front().map(|at| (*at + per).since(now));
                if self.admitted.len() >= count as usize {
                    let wait = free.unwrap_or_default();
                    let reply = self.state(host, ScriptedReply::status(429), now);
                    return advise(reply, wait);
                }
                self.admitted.push_back(now);
                self.state(host, pdf(&arrival.path).after(host.latency), now)
            }
        }
    }

    /// Adds what the host states about its limit.
    fn state(&self, host: &RandomHost, reply: ScriptedReply, now: BootInstant) -> ScriptedReply {
        let RandomLimit::Window(count, per) = host.limit else {
            return reply;
        };
        let left = count as usize - self.admitted.len();
        let first = self.admitted.front();
        let free = first.map(|at| (*at + Duration::from_secs(u64::from(per))).since(now));
        let reset = free.unwrap_or_default().as_secs_f64().ceil();
        match host.declared {
            Stated::None => reply,
            Stated::Structured => reply
                .header(
                    "ratelimit-policy",
                    &format!("\"default\";q={count};w={per}"),
                )
                .header("ratelimit", &format!("\"default\";r={left};t={reset}")),
            Stated::Triple => reply
                .header("ratelimit-limit", &format!("{count}, {count};w={per}"))
                .header("ratelimit-remaining", &left.to_string())
                .header("ratelimit-reset", &reset.to_string()),
            Stated::Bare => reply
                .header("x-ratelimit-limit", &count.to_string())
                .header("x-ratelimit-remaining", &left.to_string())
                .header("x-ratelimit-reset", &reset.to_string()),
        }
    }
}

fn pick<T: Copy>(random: &mut fastrand::Rng, of: &[T]) -> T {
    of[random.usize(..of.len())]
}

fn between(random: &mut fastrand::Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * random.f64()
}

/// What came of a run over a plan.
struct Outcome {
    ratio: f64,
    refused: usize,
    lines: Vec<String>,
}

/// Runs a plan; the limits are not told.
fn run(seed: u64) -> Outcome {
    let mut random = fastrand::Rng::with_seed(seed);
    let hosts: Vec<RandomHost> = (0..20).map(|n| RandomHost::draw(&mut random, n)).collect();
    run_hosts(&hosts, seed)
}

fn run_hosts(hosts: &[RandomHost], seed: u64) -> Outcome {
    let yaml = "version: 1\nlimits: { learn: { up_to: 50/SECOND } }\n";
    let origins = hosts.iter().map(RandomHost::origin).collect();
    let mut world = World::within(Simulation::seeded(seed), origins, yaml, |_| None);
    world.config.limits.pacing = Pacing::Even;
    world.config.limits.learn_unless_set = LearnSetting::Tighten;
    let mut urls: Vec<String> = hosts
        .iter()
        .flat_map(|host| (0..host.files).map(|n| format!("http://{}/f/{n}.pdf", host.name)))
        .collect();
    fastrand::Rng::with_seed(7).shuffle(&mut urls);
    let works: Vec<Work> = urls
        .iter()
        .map(|url| Work::new(Identifier::parse(url).unwrap()))
        .collect();
    let count = works.len() as u64;
    let (ended, _, progress) = world.run(Box::new(WorkList::new("list", works)), |_| {});
    assert!(matches!(ended, RunEnd::Complete), "plan {seed}: {ended:?}");
    assert_eq!(
        progress.counters().done,
        count,
        "plan {seed}: every file comes"
    );
    let ledger = world.web.ledger();
    let begun = hosts
        .iter()
        .flat_map(|host| ledger.at(&host.name))
        .map(|arrival| arrival.at);
    let begun = begun.min().unwrap();
    let (mut took, mut minimum, mut refused) = (Duration::ZERO, Duration::ZERO, 0);
    let mut lines = Vec::new();
    for host in hosts {
        ledger.nothing_before_retry_after(&host.name).unwrap();
        let arrivals = ledger.at(&host.name);
        let last = arrivals.last().unwrap().at.since(begun) + host.latency;
        let own = arrivals
            .iter()
            .filter(|arrival| arrival.status == 429)
            .count();
        lines.push(format!(
            "{} {:.1} of {:.1} s ({:.2}), {own} refused: {:?} {:?} {:?} {:?} {:?}, {} files",
            host.name,
            last.as_secs_f64(),
            host.minimum().as_secs_f64(),
            last.as_secs_f64() / host.minimum().as_secs_f64(),
            host.limit,
            host.latency,
            host.advice,
            host.declared,
            host.outage,
            host.files,
        ));
        took = took.max(last);
        minimum = minimum.max(host.minimum());
        refused += own;
    }
    Outcome {
        ratio: took.as_secs_f64() / minimum.as_secs_f64(),
        refused,
        lines,
    }
}

/// Runs over plans, a few on every landing; `DOCSTOKG_TEST_PLANS=1..41` runs more.
#[test]
fn runs_over_hidden_limits_lose_no_work_and_little_time() {
    let chosen = std::env::var("DOCSTOKG_TEST_PLANS");
    let plans = chosen.as_deref().unwrap_or("1..3");
    let (first, last) = plans.split_once("..").expect("a range");
    for seed in first.parse::<u64>().unwrap()..last.parse().unwrap() {
        let outcome = run(seed);
        let shown = format!(
            "plan {seed}: {:.3} x, {} refused\n  {}",
            outcome.ratio,
            outcome.refused,
            outcome.lines.join("\n  ")
        );
        if chosen.is_ok() {
            writeln!(std::io::stderr(), "{shown}").expect("the terminal is there");
        }
        assert!(outcome.ratio <= 1.3 && outcome.refused <= 60, "{shown}");
    }
}
