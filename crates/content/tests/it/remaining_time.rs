//! The remaining time that a run shows, against its real end, in simulated time.

use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::scheduler::RunEnd;
use docstokg_content::run::RunOptions;
use docstokg_content::run::inputs::WorkList;
use docstokg_content::work::Work;
use docstokg_hub::clock::Clock;
use docstokg_hub::policy::pacing::Pacing;
use docstokg_hub::stores::StoreError;
use docstokg_hub::stores::conformance::wrapper::{HookedStore, Treatment};
use docstokg_hub::stores::fallback::Fallback;
use docstokg_hub::{RateWait, Request, Role};
use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};

use crate::run_world::{World, pdf, urls};

/// The rates that unknown hosts have by default.
const DEFAULT: &str = "2/SECOND+500/HOUR";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn origin(host: &str, latency: Duration) -> OriginScript {
    OriginScript::new(host)
        .latency(latency)
        .handler(|arrival, _| pdf(&arrival.path))
}

/// A host that asks for a pause when a path is requested for the first time.
fn pausing(path: &'static str) -> OriginScript {
    OriginScript::new("h0.example").handler(move |arrival, earlier| {
        if arrival.path == path && earlier == 0 {
            return ScriptedReply::status(429).header("retry-after", "1200");
        }
        pdf(&arrival.path)
    })
}

/// A world whose hosts have these rates.
fn world(simulation: Simulation, rates: &str, origins: Vec<OriginScript>) -> World {
    let mut yaml = String::from("version: 1\nlimits:\n  hosts:\n");
    for host in ["h0.example", "h1.example"] {
        yaml.push_str(&format!(
            "    {host}: {{ artifact: {{ rates: [\"{rates}\"], max_concurrent: 10 }}, landing: {{ rates: [] }} }}\n"
        ));
    }
    let mut world = World::within(simulation, origins, &yaml, |_| None);
    // As in the program.
    world.config.limits.pacing = Pacing::Even;
    world
}

/// Runs to the end; checks each noted remaining time against the real one. Returns how long the run
/// took.
fn check(
    world: &mut World,
    works: Vec<Work>,
    at: &[u64],
    change: impl FnOnce(&mut RunOptions),
) -> Duration {
    check_except(world, works, at, &[], change)
}

/// The same for a run that shows no remaining time after these seconds.
fn check_except(
    world: &mut World,
    works: Vec<Work>,
    at: &[u64],
    unknown: &[u64],
    change: impl FnOnce(&mut RunOptions),
) -> Duration {
    world.noted_at = at.iter().copied().map(seconds).collect();
    world.noted.lock().clear();
    let (_, took, _) = world.run(Box::new(WorkList::new("list", works)), change);
    for (after, left) in world.noted.lock().iter() {
        let real = took.saturating_sub(*after).as_secs_f64();
        if unknown.contains(&after.as_secs()) {
            assert_eq!(*left, None, "after {after:?} of {took:?}");
            continue;
        }
        let left = left.map_or(0.0, |left| left.as_secs_f64());
        assert!(
            (left - real).abs() <= 0.2 * real + 2.0,
            "after {after:?} of {took:?}: {left:.0} s shown, {real:.0} s were left"
        );
    }
    assert_eq!(
        world.noted.lock().len(),
        at.len(),
        "it ended too early: {took:?}"
    );
    took
}

#[test]
fn an_hourly_window_counts_from_the_beginning() {
    let mut world = world(
        Simulation::new(),
        DEFAULT,
        vec![origin("h0.example", seconds(0))],
    );
    let at = [30, 60, 200, 400, 2_000, 3_590, 3_700, 3_720];
    let took = check(&mut world, urls(1, 1_000), &at, |_| {});
    assert!(took < seconds(65 * 60), "{took:?}");
}

#[test]
fn what_an_earlier_run_used_counts_when_it_is_resumed() {
    let simulation = Simulation::new();
    let mut world = world(
        simulation.clone(),
        DEFAULT,
        vec![origin("h0.example", seconds(0))],
    );
    world.store = Some(simulation.store());
    let first: Vec<Work> = urls(1, 700).into_iter().take(364).collect();
    let (ended, _, _) = world.run(Box::new(WorkList::new("list", first)), |_| {});
    assert!(matches!(ended, RunEnd::Complete));
    // The same directory, with more works: 336 are left, and 136 of the hour.
    check(
        &mut world,
        urls(1, 700),
        &[30, 60, 100, 1_000, 3_400],
        |_| {},
    );
}

#[test]
fn a_host_that_answers_slowly_sets_the_pace() {
    let mut world = world(
        Simulation::new(),
        "10/SECOND",
        vec![origin("h0.example", seconds(5))],
    );
    check(&mut world, urls(1, 400), &[30, 60, 120, 180], |_| {});
}

#[test]
fn requests_of_another_run_on_a_shared_store_count() {
    let simulation = Simulation::new();
    let mut world = world(
        simulation.clone(),
        "2/SECOND",
        vec![origin("h0.example", seconds(0))],
    );
    let store = simulation.shared_store();
    world.store = Some(Arc::clone(&store));
    // Another machine that sends to the same host, and has as much to do.
    let other = world.hub();
    for number in 0..150 {
        let hub = other.clone();
        let url = format!("http://h0.example/f/other-{number}.pdf");
        simulation.start(async move {
            let request = Request::get(url.parse().unwrap()).role(Role::Artifact);
            let patient = request
                .rate_wait(RateWait::Deadline)
                .deadline(seconds(10_000));
            let _ = hub.fetch(patient).await;
        });
    }
    check(&mut world, urls(1, 150), &[30, 60, 100, 140], |_| {});
}

/// A world whose shared store is lost after 40 s: the run goes on with a quarter of the limits.
fn losing_its_store(rates: &str) -> World {
    let simulation = Simulation::new();
    let origin = vec![origin("h0.example", seconds(0))];
    let mut world = world(simulation.clone(), rates, origin);
    let time = simulation.clone();
    let losing = HookedStore::new(simulation.shared_store(), move |_| {
        if time.elapsed() < seconds(40) {
            return Treatment::Forward;
        }
        Treatment::Fail(StoreError::Unavailable {
            store: "the store".to_owned(),
            why: "a test".to_owned(),
        })
    });
    let clock: Arc<dyn Clock> = Arc::new(simulation);
    let fallback = Fallback::new(
        Arc::new(losing.with_peers(4)),
        clock,
        Arc::new(|_: &str| ()),
        4,
    );
    world.store = Some(Arc::new(fallback));
    world
}

#[test]
fn the_share_of_a_run_whose_store_is_lost_counts() {
    let mut world = losing_its_store("2/SECOND");
    check(&mut world, urls(1, 150), &[50, 65], |_| {});
    let mut world = losing_its_store(DEFAULT);
    let took = check(
        &mut world,
        urls(1, 300),
        &[50, 100, 200, 1_000, 3_500],
        |_| {},
    );
    assert!(took > seconds(3_600), "{took:?}");
}

#[test]
fn a_stated_pause_counts_as_far_as_the_run_waits_for_it() {
    // It waits an hour at most, so it waits for the pause and fetches what is left.
    let pause = vec![pausing("/f/199.pdf")];
    let mut patient = world(Simulation::new(), "5/SECOND", pause);
    check(&mut patient, urls(1, 400), &[60, 600, 1_100], |_| {});
    // It waits 20 s at most, so it ends when nothing is left at the other host.
    let hosts = vec![pausing("/f/0.pdf"), origin("h1.example", seconds(0))];
    let mut hasty = world(Simulation::new(), "5/SECOND", hosts);
    let took = check(&mut hasty, urls(2, 400), &[30, 60], |options| {
        options.max_wait = seconds(20);
    });
    assert!(took < seconds(100), "{took:?}");
}

#[test]
fn the_limits_of_a_paused_host_count_from_the_end_of_its_pause() {
    let pause = vec![pausing("/f/20.pdf")];
    let mut world = world(Simulation::new(), DEFAULT, pause);
    // 480 of the hour are left after the pause, and the last 200 follow when the first ones leave.
    let at = [30, 600, 1_100, 1_300, 3_000];
    let took = check(&mut world, urls(1, 700), &at, |_| {});
    assert!(took > seconds(3_600), "{took:?}");
}

#[test]
fn nothing_is_said_while_a_host_is_down_that_may_delay_the_end() {
    let is_down = |now: Duration| (20..90).contains(&now.as_secs());
    let simulation = Simulation::new();
    let time = simulation.clone();
    let failing = OriginScript::new("h0.example").handler(move |arrival, _| {
        if is_down(time.elapsed()) {
            return ScriptedReply::status(503);
        }
        pdf(&arrival.path)
    });
    let mut world = world(simulation, "5/SECOND", vec![failing]);
    let at = [40, 60, 80, 110, 130, 150];
    check_except(&mut world, urls(1, 400), &at, &[40, 60, 80], |_| {});
}

#[test]
fn a_host_that_is_down_for_longer_than_the_run_waits_delays_nothing() {
    let hosts = vec![
        OriginScript::new("h0.example").handler(|_, _| ScriptedReply::status(503)),
        origin("h1.example", seconds(0)),
    ];
    let mut world = world(Simulation::new(), "5/SECOND", hosts);
    let at = [30, 45, 60, 75];
    let took = check(&mut world, urls(2, 400), &at, |options| {
        options.max_wait = seconds(20);
    });
    assert!(took < seconds(100), "{took:?}");
}

#[test]
fn many_hosts_take_as_long_as_the_run_has_places_for_their_files() {
    let hosts = (0..400).map(|host| origin(&format!("h{host}.example"), seconds(8)));
    let yaml = "version: 1\nlimits: { global: { max_inflight: 20 } }\n";
    let mut world = World::within(Simulation::new(), hosts.collect(), yaml, |_| None);
    // Twenty requests of eight seconds at a time, those for robots.txt first.
    let at = [250, 300, 400, 500];
    let took = check(&mut world, urls(400, 3), &at, |_| {});
    assert!(took > seconds(600), "{took:?}");
}

#[test]
fn the_crawl_delay_of_a_host_sets_the_pace() {
    for delay in [5, 30, 120] {
        let host = OriginScript::new("h0.example").handler(move |arrival, _| {
            match arrival.path.as_str() {
                "/robots.txt" => {
                    ScriptedReply::ok(format!("User-agent: *\nCrawl-delay: {delay}\n"))
                        .header("content-type", "text/plain")
                }
                path => pdf(path),
            }
        });
        let mut world = world(Simulation::new(), "2/SECOND", vec![host]);
        let at = [delay + 5, 5 * delay + 5, 12 * delay + 5];
        let took = check(&mut world, urls(1, 20), &at, |options| {
            options.ignore_robots = false;
        });
        assert!(took >= seconds(19 * delay), "{took:?}");
    }
}
