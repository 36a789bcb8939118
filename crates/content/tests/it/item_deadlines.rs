//! `--item-deadline` and `--max-wait` hold, whatever a work waits for: a line of hours, a breaker
//! that opens in mid-run, a slot that is never free, an answer that never ends.

use std::time::Duration;

use docstokg_bulk::scheduler::RunEnd;
use docstokg_content::reason::Reason;
use docstokg_content::run::inputs::WorkList;
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::run_world::{World, pdf, urls};

const DEADLINE: Duration = Duration::from_secs(30);

/// Three works of one host, with this much time each: how the run ended, after how long, and why
/// works did.
fn run(
    origin: OriginScript,
    yaml: &str,
) -> (
    RunEnd,
    Duration,
    std::collections::BTreeMap<&'static str, u64>,
) {
    let world = World::new(vec![origin], &format!("version: 1\n{yaml}\n"), |_| None);
    let (ended, took, progress) =
        world.run(Box::new(WorkList::new("list", urls(1, 3))), |options| {
            options.item_deadline = Some(DEADLINE);
        });
    (ended, took, progress.counters().reasons)
}

fn without_robots(answer: impl Fn(&str) -> ScriptedReply + Send + Sync + 'static) -> OriginScript {
    OriginScript::new("h0.example").handler(move |arrival, _| {
        if arrival.path == "/robots.txt" {
            ScriptedReply::status(404)
        } else {
            answer(&arrival.path)
        }
    })
}

const FREE: &str =
    "limits: { hosts: { h0.example: { artifact: { rates: [] }, landing: { rates: [] } } } }";

#[test]
fn queue_of_hours_does_not_outlast_the_item_deadline() {
    let yaml = "limits: { hosts: { h0.example: { artifact: { rates: [\"1/HOUR\"] }, landing: { rates: [] } } } }";
    let (ended, took, reasons) = run(without_robots(|_| pdf("x")), yaml);
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    assert_eq!(
        reasons.get(Reason::Deadline.as_str()),
        Some(&2),
        "{reasons:?}"
    );
    assert!(took < DEADLINE * 2, "{took:?}");
}

#[test]
fn breaker_that_opens_in_mid_run_does_not_outlast_the_item_deadline() {
    let yaml = format!(
        "{FREE}\nbreakers: {{ hosts: {{ h0.example: {{ fail_max: 1, reset_timeout_s: 900, early_probes: false }} }} }}"
    );
    let (ended, took, reasons) = run(without_robots(|_| ScriptedReply::status(503)), &yaml);
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    assert_eq!(reasons.values().sum::<u64>(), 3, "{reasons:?}");
    assert!(took < DEADLINE * 2, "{took:?}");
}

#[test]
fn response_that_never_ends_does_not_outlast_the_item_deadline() {
    let (ended, took, reasons) = run(
        without_robots(|_| {
            ScriptedReply::status(200).drip(&vec![b'x'; 1 << 20], 64, Duration::from_millis(900))
        }),
        FREE,
    );
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    assert_eq!(
        reasons.get(Reason::Deadline.as_str()),
        Some(&3),
        "{reasons:?}"
    );
    assert!(took < DEADLINE * 2, "{took:?}");
}

#[test]
fn a_run_waits_no_longer_than_it_was_told_when_a_breaker_opens_in_mid_run() {
    let answered = std::sync::atomic::AtomicU32::new(0);
    let origin =
        without_robots(
            move |_| match answered.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => pdf("x"),
                _ => ScriptedReply::status(429).header("retry-after", "7200"),
            },
        );
    let world = World::new(vec![origin], &format!("version: 1\n{FREE}\n"), |_| None);
    let (ended, took, progress) =
        world.run(Box::new(WorkList::new("list", urls(1, 3))), |options| {
            options.max_wait = Duration::from_secs(60);
        });
    let RunEnd::Deferred { left: 2, due_in } = ended else {
        panic!("{ended:?}")
    };
    assert!(
        due_in > Duration::from_secs(7_000) && took < Duration::from_secs(120),
        "{due_in:?} {took:?}"
    );
    assert_eq!(progress.counters().done, 1);
}
