//! Requests that wait for the end of a block.

use docstokg_hub::Patience;
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use super::{flags, host, once};
use crate::support::{HubWorld, config, count, get, ms, seconds};

#[test]
fn of_twenty_requests_that_met_one_429_all_succeed_after_it() {
    let origin = OriginScript::new("a.example")
        .latency(ms(50))
        .handler(|arrival, nth| {
            let _ = arrival;
            if nth == 0 {
                ScriptedReply::status(429).header("retry-after", "5")
            } else {
                ScriptedReply::ok("fine")
            }
        });
    let world = HubWorld::new([origin], config(flags("fail_max:100,reset:60")));
    let outcomes = world.fetch_all(
        (0..20)
            .map(|n| get(&format!("http://a.example/{n}")))
            .collect(),
    );
    assert_eq!(count(&outcomes, "200"), 20, "{outcomes:?}");
    world
        .ledger()
        .nothing_before_retry_after("a.example")
        .expect("no request came early");
    let finished = outcomes.last().expect("the last").0;
    assert!(
        finished < 6.0,
        "one probe, then all at once, not one by one: {finished}"
    );
}

#[test]
fn patient_requests_wait_until_a_block_ends() {
    let world = HubWorld::exact(
        [OriginScript::new("a.example")],
        config(flags("fail_max:5,reset:60")),
    );
    world.block(&host(), seconds(3_600), "test");
    let patient = get("http://a.example/")
        .patience(Patience::Wait)
        .deadline(seconds(7_200));
    let answer = world
        .run(move |hub| async move { hub.fetch(patient).await })
        .expect("an answer");
    assert!(answer.journey.breaker_wait >= seconds(3_600));
    let hurried = get("http://a.example/")
        .patience(Patience::Wait)
        .deadline(seconds(10));
    world.block(&host(), seconds(3_600), "again");
    let before = world.simulation.elapsed();
    assert!(
        world
            .run(move |hub| async move { hub.fetch(hurried).await })
            .is_err()
    );
    assert_eq!(
        world.simulation.elapsed(),
        before,
        "a wait known to end after the deadline is refused at once"
    );
}

#[test]
fn waiting_in_the_queue_ends_in_a_refusal_when_a_block_begins() {
    let mut flags = flags("fail_max:5,reset:60");
    flags.rate = vec!["a.example:metadata=rates:1/SECOND,max_delay_ms:60000".into()];
    let origin = OriginScript::new("a.example").route(
        "/first",
        [ScriptedReply::status(429)
            .header("retry-after", "100")
            .after(ms(2_500))],
    );
    let world = HubWorld::new([origin], config(flags));
    let outcomes = world.fetch_all(vec![
        once("/first"),
        once("/2"),
        once("/3"),
        once("/4"),
        once("/5"),
    ]);
    assert_eq!(
        world.ledger().len(),
        2,
        "the first, and the second before the answer to the first"
    );
    assert_eq!(count(&outcomes, "breaker_open"), 3);
    let refused_at = outcomes
        .iter()
        .filter(|(_, outcome)| outcome == "breaker_open")
        .map(|(at, _)| *at)
        .fold(0.0, f64::max);
    assert!(
        refused_at < 2.6,
        "at once, not when their turn would have come: {refused_at}"
    );
}
