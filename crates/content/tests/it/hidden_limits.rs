//! A bulk run over twenty hosts with limits of different kinds, one of which is down for a while
//! and one asks for a pause: once with the limits in the configuration, once with a search for
//! them.

use std::time::Duration;

use docstokg_bulk::scheduler::RunEnd;
use docstokg_content::identifier::Identifier;
use docstokg_content::run::inputs::WorkList;
use docstokg_content::work::Work;
use docstokg_hub::clock::BootInstant;
use docstokg_hub::config::LearnSetting;
use docstokg_hub::policy::pacing::Pacing;
use docstokg_origin_sim::{Arrival, OriginScript, ScriptedReply, Simulation, Throttle};
use parking_lot::Mutex;

use crate::run_world::{World, pdf};

/// How long a host needs for its files at its limit, without what else happens to it.
const SECONDS: u32 = 60;
/// How long an answer takes.
const LATENCY: Duration = Duration::from_millis(100);
/// The time during which one host is down, after the start.
const OUTAGE: std::ops::Range<Duration> = Duration::from_secs(20)..Duration::from_secs(30);
/// The pause that one host asks for.
const PAUSE: Duration = Duration::from_secs(10);
/// Which of its requests is answered with the wish for a pause.
const PAUSE_AT: usize = 100;

/// What a host admits.
#[derive(Clone, Copy)]
enum HiddenLimit {
    /// So many in so many seconds.
    Window(u32, u32),
    /// So many at once.
    Cap(u32),
}

/// What else happens at a host.
#[derive(Clone, Copy, PartialEq)]
enum Event {
    Nothing,
    Outage,
    Pause,
}

struct HiddenLimitHost {
    name: String,
    limit: HiddenLimit,
    event: Event,
}

impl HiddenLimitHost {
    fn files(&self) -> u32 {
        // What a host loses to an outage or a pause, it has fewer files.
        let seconds = SECONDS - u32::try_from(self.lost().as_secs()).unwrap();
        match self.limit {
            HiddenLimit::Window(count, of) => count * seconds / of,
            HiddenLimit::Cap(most) => {
                most * seconds * 1_000 / u32::try_from(LATENCY.as_millis()).unwrap()
            }
        }
    }

    fn lost(&self) -> Duration {
        match self.event {
            Event::Nothing => Duration::ZERO,
            Event::Outage => OUTAGE.end.saturating_sub(OUTAGE.start),
            Event::Pause => PAUSE,
        }
    }

    /// Returns the least time that its files take.
    fn minimum(&self) -> Duration {
        let files = self.files();
        let by_limit = match self.limit {
            HiddenLimit::Window(count, seconds) => {
                Duration::from_secs(u64::from((files - 1) / count * seconds)) + LATENCY
            }
            HiddenLimit::Cap(most) => LATENCY * files.div_ceil(most),
        };
        by_limit + self.lost()
    }

    fn origin(&self) -> OriginScript {
        let origin = OriginScript::new(&self.name)
            .latency(LATENCY)
            .throttle(Throttle::Silent);
        let origin = match self.limit {
            HiddenLimit::Window(count, seconds) => {
                origin.limit_under("/f/", &format!("{count}/{seconds}SECOND"))
            }
            HiddenLimit::Cap(_) => origin,
        };
        let origin = match self.event {
            Event::Outage => origin.outage(OUTAGE, ScriptedReply::status(503)),
            Event::Nothing | Event::Pause => origin,
        };
        let (limit, event) = (self.limit, self.event);
        let (in_flight, asked) = (Mutex::new(Vec::<BootInstant>::new()), Mutex::new(0));
        origin.handler(move |arrival, _| {
            if arrival.path == "/robots.txt" {
                return ScriptedReply::status(404);
            }
            *asked.lock() += 1;
            if event == Event::Pause && *asked.lock() == PAUSE_AT {
                let seconds = PAUSE.as_secs().to_string();
                return ScriptedReply::status(429).header("retry-after", &seconds);
            }
            if let HiddenLimit::Cap(most) = limit {
                let mut in_flight = in_flight.lock();
                in_flight.retain(|begun| *begun + LATENCY > arrival.at);
                if in_flight.len() >= most as usize {
                    return ScriptedReply::status(429);
                }
                in_flight.push(arrival.at);
            }
            pdf(&arrival.path)
        })
    }

    /// Returns the entry of the configuration that states its limit.
    fn yaml(&self) -> String {
        let limits = match self.limit {
            HiddenLimit::Window(count, seconds) => {
                format!("rates: [\"{count}/{seconds}SECOND\"], max_concurrent: 10")
            }
            HiddenLimit::Cap(most) => format!("rates: [], max_concurrent: {most}"),
        };
        format!("    {}: {{ artifact: {{ {limits} }} }}\n", self.name)
    }
}

fn hosts() -> Vec<HiddenLimitHost> {
    let limits = [
        HiddenLimit::Window(5, 1),
        HiddenLimit::Window(10, 1),
        HiddenLimit::Window(4, 1),
        HiddenLimit::Window(10, 2),
        HiddenLimit::Window(30, 5),
        HiddenLimit::Window(60, 10),
        HiddenLimit::Cap(1),
        HiddenLimit::Window(3, 1),
        HiddenLimit::Window(15, 3),
        HiddenLimit::Window(8, 1),
    ];
    let event = |n: usize| match n {
        10 => Event::Outage,
        11 => Event::Pause,
        _ => Event::Nothing,
    };
    (0..20)
        .map(|n| HiddenLimitHost {
            name: format!("h{n}.example"),
            limit: limits[n % limits.len()],
            event: event(n),
        })
        .collect()
}

/// What came of a run.
struct Run {
    ratio: f64,
    refused: usize,
    by_host: Vec<(String, usize, f64)>,
}

fn run(simulation: Simulation, yaml: &str) -> Run {
    let hosts = hosts();
    let origins = hosts.iter().map(HiddenLimitHost::origin).collect();
    let mut world = World::within(simulation, origins, yaml, |_| None);
    world.config.limits.pacing = Pacing::Even;
    world.config.limits.learn_unless_set = LearnSetting::Tighten;
    let works: Vec<Work> = hosts
        .iter()
        .flat_map(|host| {
            (0..host.files()).map(|n| {
                let url = format!("http://{}/f/{n}.pdf", host.name);
                Work::new(Identifier::parse(&url).unwrap())
            })
        })
        .collect();
    let count = works.len() as u64;
    let (ended, took, progress) = world.run(Box::new(WorkList::new("list", works)), |_| {});
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    assert_eq!(progress.counters().done, count, "every file comes");
    let minimum = hosts.iter().map(HiddenLimitHost::minimum).max().unwrap();
    let ledger = world.web.ledger();
    let refused = |arrivals: &[Arrival]| {
        let refused = arrivals.iter().filter(|arrival| arrival.status == 429);
        refused.count()
    };
    let mut by_host = Vec::new();
    for host in &hosts {
        ledger.nothing_before_retry_after(&host.name).unwrap();
        let arrivals = ledger.at(&host.name);
        let last = arrivals.last().unwrap().at.since(arrivals[0].at);
        by_host.push((
            host.name.clone(),
            refused(&arrivals),
            last.as_secs_f64() / host.minimum().as_secs_f64(),
        ));
    }
    Run {
        ratio: took.as_secs_f64() / minimum.as_secs_f64(),
        refused: by_host.iter().map(|(_, refused, _)| refused).sum(),
        by_host,
    }
}

impl Run {
    fn line(&self) -> String {
        let by_host: Vec<String> = self
            .by_host
            .iter()
            .map(|(host, refused, ratio)| format!("{host} {ratio:.2} x, {refused} refused"))
            .collect();
        format!(
            "{:.3} x of the minimum, {} refused: {}",
            self.ratio,
            self.refused,
            by_host.join("; ")
        )
    }
}

/// The limits in the configuration.
fn told() -> String {
    let entries: String = hosts().iter().map(HiddenLimitHost::yaml).collect();
    format!("version: 1\nlimits:\n  hosts:\n{entries}")
}

/// No limit in the configuration, but the permission to search.
const NOT_TOLD: &str = "version: 1\nlimits: { learn: { up_to: 50/SECOND }, defaults: { artifact: { max_concurrent: 10 } } }\n";

#[test]
fn a_run_that_knows_the_limits_is_refused_once_and_loses_little() {
    let run = run(Simulation::exact(), &told());
    assert_eq!(run.refused, 1, "the wish for a pause: {}", run.line());
    assert!(run.ratio <= 1.05, "{}", run.line());
}

/// Each sleep ends up to 20 ms late, and is lost where requests are spaced evenly.
#[test]
fn late_wake_ups_cost_time_and_no_refusal() {
    let run = run(Simulation::new(), &told());
    assert_eq!(run.refused, 1, "the wish for a pause: {}", run.line());
    assert!(run.ratio <= 1.17, "{}", run.line());
}

/// Windows of one second and caps are found with two or three refusals, windows of several seconds
/// with more.
#[test]
fn a_run_that_searches_for_the_limits_is_refused_little_and_gets_every_file() {
    let run = run(Simulation::exact(), NOT_TOLD);
    let brief = |host: &&HiddenLimitHost| {
        matches!(host.limit, HiddenLimit::Cap(_) | HiddenLimit::Window(_, 1))
    };
    for host in hosts().iter().filter(brief) {
        let found = run.by_host.iter().find(|(name, ..)| *name == host.name);
        let (_, refused, _) = found.expect("the host");
        assert!(*refused <= 3, "{}: {}", host.name, run.line());
    }
    assert!(run.refused <= 60, "{}", run.line());
    assert!(run.ratio <= 1.10, "{}", run.line());
}

#[test]
fn an_outage_during_the_search_loses_no_file_when_wake_ups_are_late() {
    let run = run(Simulation::new(), NOT_TOLD);
    assert!(run.refused <= 75, "{}", run.line());
    assert!(run.ratio <= 1.17, "{}", run.line());
}
