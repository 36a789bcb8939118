//! Runs of a minute, in which finding a limit costs most.

use crate::classes::Class;
use crate::server::{Rule, Server};
use crate::table::{FIRST, Learning, mean};
use crate::world::{Run, run_for};

/// How long a run lasts, in seconds.
const LENGTH: f64 = 60.0;
/// The servers of each rule: they differ in the length of the way to them.
const SERVERS: u8 = 10;

/// A server that answers after 100 ms, and does not count the first request: a limit may not apply
/// to robots.txt.
fn server(rule: &Rule, number: u8) -> Server {
    let mut server = Class::Log.server(FIRST);
    server.rules = vec![rule.clone()];
    server.think = 0.1;
    server.one_way = 0.002 * f64::from(number);
    server.jitter = 0.1 * server.one_way;
    server.free = 1;
    server
}

fn found(rule: &Rule) -> Run {
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
