//! How many requests run at once: per process, per host and role.

use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_origin_sim::OriginScript;

use super::many;
use crate::support::{HubWorld, config, count, get, ms, rates, seconds};

#[test]
fn the_ceiling_of_the_process_holds_over_all_hosts() {
    let origins = (0..4).map(|n| OriginScript::new(&format!("h{n}.example")).latency(seconds(1)));
    let world = HubWorld::new(
        origins,
        config(CommandLineFlags {
            max_inflight: Some("3".into()),
            ..CommandLineFlags::default()
        }),
    );
    let outcomes = world.fetch_all(
        (0..12)
            .map(|n| get(&format!("http://h{}.example/{n}", n % 4)))
            .collect(),
    );
    assert_eq!(count(&outcomes, "200"), 12);
    let mut edges: Vec<(f64, i32)> = Vec::new();
    for arrival in world.ledger().arrivals() {
        edges.push((arrival.at.as_micros() as f64, 1));
        edges.push((arrival.ended.expect("ended").as_micros() as f64, -1));
    }
    edges.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    let most = edges
        .iter()
        .scan(0, |sum, (_, step)| {
            *sum += step;
            Some(*sum)
        })
        .max();
    assert_eq!(most, Some(3));
    assert!(
        (outcomes.last().expect("the last").0 - 4.0).abs() < 0.1,
        "three at a time, a second each"
    );
}

#[test]
fn the_slots_of_a_host_and_role_bound_what_runs_at_once() {
    let origin = OriginScript::new("a.example").latency(seconds(1));
    let world = HubWorld::new(
        [origin],
        config(rates(&[
            "a.example:metadata=rates:100/SECOND,max_concurrent:2",
        ])),
    );
    let outcomes = world.fetch_all(many(6));
    assert_eq!(
        count(&outcomes, "200"),
        6,
        "waiting for a slot is not bounded by max_delay_ms"
    );
    world
        .ledger()
        .at_most_in_flight("a.example", 2)
        .expect("two at once");
}

#[test]
fn a_request_that_waits_for_a_rate_holds_no_slot() {
    let origins = [
        OriginScript::new("a.example"),
        OriginScript::new("b.example"),
    ];
    let mut flags = rates(&["a.example:metadata=rates:1/10SECOND,max_delay_ms:60000"]);
    flags.max_inflight = Some("1".into());
    let world = HubWorld::new(origins, config(flags));
    let mut requests = many(4);
    requests.extend((0..5).map(|n| get(&format!("http://b.example/{n}"))));
    let outcomes = world.fetch_all(requests);
    assert_eq!(count(&outcomes, "200"), 9);
    let last = world
        .ledger()
        .at("b.example")
        .last()
        .expect("an arrival")
        .at
        .since(world.ledger().arrivals()[0].at);
    assert!(
        last < ms(100),
        "a free host does not wait behind an exhausted one: {last:?}"
    );
}
