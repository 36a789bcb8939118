//! Runs of a minute, in which finding a limit costs most.

use crate::classes::Class;
use crate::server::{LimitedServer, Rule};
use crate::table::{FIRST, Learning, mean};
use crate::world::{Client, LearningRun, Outcome, run_for, run_until};

/// How long a run lasts, in seconds.
const LENGTH: f64 = 60.0;
/// The servers of each rule: they differ in the length of the way to them.
const SERVERS: u8 = 10;
/// The files of a run that ends with its last one.
const FILES: f64 = 100.0;

/// A server that answers after 100 ms, and does not count the first request: a limit may not apply
/// to robots.txt.
fn server(rule: &Rule, number: u8) -> LimitedServer {
    let mut server = Class::Log.server(FIRST);
    server.rules = vec![rule.clone()];
    server.think = 0.1;
    server.one_way = 0.002 * f64::from(number);
    server.jitter = 0.1 * server.one_way;
    server.free = 1;
    server
}

fn found(rule: &Rule) -> LearningRun {
    mean((0..SERVERS).map(|number| {
        let seed = u64::from(number);
        run_for(server(rule, number), &mut Learning::new(seed), seed, LENGTH)
    }))
}

#[test]
fn a_window_is_found_with_few_refusals_within_a_minute() {
    for (n, seconds, most) in [
        (5.0, 1.0, 3.0),
        (10.0, 1.0, 3.0),
        (3.0, 1.0, 3.0),
        (10.0, 2.0, 3.0),
        (15.0, 3.0, 3.5),
        (30.0, 5.0, 5.0),
        (60.0, 10.0, 7.0),
    ] {
        let run = found(&Rule::log(n, seconds));
        assert!(run.throttled <= most, "{n} per {seconds} s: {run:?}");
        assert!(run.share >= 0.9, "{n} per {seconds} s: {run:?}");
    }
}

#[test]
fn a_cap_is_found_with_few_refusals_within_a_minute() {
    let run = found(&Rule::cap(1.0));
    assert!(run.throttled <= 3.0, "{run:?}");
    assert!(run.share >= 0.9, "{run:?}");
}

/// A host that bans after a refusal looks like one with a long window until it admits more than that.
#[test]
fn a_ban_is_told_from_a_long_window() {
    let mut server = server(&Rule::log(8.0, 1.0), 0);
    server.ban = Some(10.0);
    let run = run_for(server, &mut Learning::new(1), 1, 5.0 * LENGTH);
    assert!(run.share >= 0.6, "{run:?}");
    assert!(run.throttled <= 14.0, "{run:?}");
}

/// How a server that is near refuses: after a millisecond, or after 60 ms.
fn near(rule: &Rule, latency: f64) -> LimitedServer {
    let mut server = Class::Log.server(FIRST);
    server.rules = vec![rule.clone()];
    server.counts_refusals = matches!(rule, Rule::Interpolated { .. });
    server.think = 0.001 + 2.0 * latency;
    server.one_way = 0.0003 + 0.5 * latency;
    server.jitter = 0.0004 + 0.1 * latency;
    server.free = 0;
    server
}

/// How long a hundred files take, as a multiple of the time that the rate of the server needs, and
/// how often it refuses: the mean of twenty runs.
fn hundred_files(rule: &Rule, latency: f64, answers_503: bool) -> (f64, f64) {
    let (mut time, mut refusals) = (0.0, 0.0);
    for number in 0..20 {
        let server = near(rule, latency);
        let ideal = FILES / server.rate();
        let mut client = Learning::new(number);
        client.answers_503 = answers_503;
        let run = run_until(server, &mut client, number, FILES);
        time += run.0 / ideal / 20.0;
        refusals += run.1 / 20.0;
    }
    (time, refusals)
}

/// The way up to a limit is most of a short run. A bucket without a burst is nginx `limit_req`, an
/// interpolated window a stick table of `HAProxy`.
#[test]
fn a_limit_of_ten_per_second_is_found_within_a_hundred_files() {
    for rule in [
        Rule::bucket(10.0, 1.0),
        Rule::bucket(10.0, 2.0),
        Rule::bucket(10.0, 6.0),
        Rule::interpolated(10.0, 1.0),
        Rule::aligned(10.0, 1.0, 0.3),
        Rule::log(10.0, 1.0),
    ] {
        for latency in [0.0, 0.02] {
            for answers_503 in [false, true] {
                let (time, refusals) = hundred_files(&rule, latency, answers_503);
                let what = format!("{rule:?}, {latency} s, 503: {answers_503}");
                assert!(time <= 1.3, "{what}: {time:.2} times the shortest time");
                assert!(refusals <= 6.0, "{what}: {refusals:.1} refusals");
            }
        }
    }
}

/// Where the host counts no window but the distance of two requests, a refusal or two show it.
#[test]
fn a_bucket_without_a_burst_refuses_twice_at_most() {
    for rate in [5.0, 8.0, 10.0, 13.0] {
        let (_, refusals) = hundred_files(&Rule::bucket(rate, 1.0), 0.0, false);
        assert!(refusals <= 2.01, "{rate} per s: {refusals:.1} refusals");
    }
}

/// A 503 that nothing is served after for a while was an outage, and teaches nothing.
#[test]
fn an_outage_by_503_is_not_taken_for_a_limit() {
    let mut server = near(&Rule::log(1_000.0, 1.0), 0.02);
    server.outage = Some((10.0, 20.0));
    server.demand = Some(8.0);
    let mut client = Learning::new(1);
    client.answers_503 = true;
    let run = run_for(server, &mut client, 1, LENGTH);
    assert!(client.learner.knows_nothing(), "{:?}", client.learner);
    assert!(run.share >= 0.93, "{run:?}");
}

/// A client that has one request a second for half a minute after its first refusal.
struct Trickle {
    learning: Learning,
    refused_at: Option<f64>,
    sent_at: f64,
}

impl Client for Trickle {
    fn next(&mut self, now: f64) -> Option<f64> {
        let at = self.learning.next(now)?;
        let is_slow = self.refused_at.is_some_and(|refused| now < refused + 30.0);
        Some(if is_slow {
            at.max(self.sent_at + 1.0)
        } else {
            at
        })
    }

    fn sent(&mut self, now: f64) -> usize {
        self.sent_at = now;
        self.learning.sent(now)
    }

    fn answered(&mut self, request: usize, now: f64, outcome: Outcome) {
        if matches!(outcome, Outcome::Throttled(_)) {
            self.refused_at.get_or_insert(now);
        }
        self.learning.answered(request, now, outcome);
    }
}

/// A client that had little to send has not shown that a host admits what it refused.
#[test]
fn a_trickle_after_a_refusal_confirms_no_rate() {
    for (n, seconds) in [
        (5.0, 1.0),
        (10.0, 1.0),
        (20.0, 1.0),
        (10.0, 2.0),
        (15.0, 3.0),
    ] {
        let runs = (0..20).map(|number| {
            let mut client = Trickle {
                learning: Learning::new(number),
                refused_at: None,
                sent_at: 0.0,
            };
            let server = near(&Rule::log(n, seconds), 0.005);
            run_for(server, &mut client, number, 90.0)
        });
        let run = mean(runs);
        assert!(run.throttled <= 4.0, "{n} per {seconds} s: {run:?}");
    }
}
