//! Requests that their caller cancels: what only waits ends at once, what is on the wire is
//! finished.

use std::sync::Arc;

use docstokg_hub::{RateWait, RequestGroup, RobotsPolicy};
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::support::{HubWorld, config, count, get, ms, rates, seconds};

#[test]
fn waiting_requests_are_cancelled_and_the_one_on_the_wire_is_finished() {
    // One request takes half a second, and the next may go a minute later.
    let world = HubWorld::new(
        [OriginScript::new("a.example").latency(ms(500))],
        config(rates(&["a.example:metadata=rates:1/MINUTE"])),
    );
    let group = Arc::new(RequestGroup::default());
    let requests = (0..5).map(|n| {
        get(&format!("http://a.example/{n}"))
            .rate_wait(RateWait::Deadline)
            .deadline(seconds(3_600))
            .in_group(Arc::clone(&group))
    });
    let requests = requests.collect();
    let (simulation, cancel) = (world.simulation.clone(), Arc::clone(&group));
    world.simulation.start(async move {
        simulation.sleep(ms(200)).await;
        assert_eq!(cancel.waiting(), 4, "one is on the wire");
        cancel.cancel();
    });
    let outcomes = world.fetch_all(requests);
    assert_eq!(
        (count(&outcomes, "200"), count(&outcomes, "cancelled")),
        (1, 4),
        "{outcomes:?}"
    );
    assert_eq!(world.ledger().at("a.example").len(), 1);
    assert!(world.simulation.elapsed() < seconds(2));
    assert_eq!(group.waiting(), 0);
    // Cancelled waits leave nothing behind: the next request waits for its window only.
    let outcomes = world.fetch_all(vec![
        get("http://a.example/later")
            .rate_wait(RateWait::Deadline)
            .deadline(seconds(120)),
    ]);
    assert_eq!(count(&outcomes, "200"), 1, "{outcomes:?}");
    assert!(world.simulation.elapsed() < seconds(62));
}

#[test]
fn a_wait_for_a_retry_is_cancelled_and_a_cancelled_group_sends_nothing() {
    let world = HubWorld::new(
        [OriginScript::new("a.example")
            .handler(|_, _| ScriptedReply::status(503).header("retry-after", "30"))],
        config(rates(&["a.example:metadata=rates:10/SECOND"])),
    );
    let group = Arc::new(RequestGroup::default());
    let request = || {
        get("http://a.example/")
            .deadline(seconds(600))
            .in_group(Arc::clone(&group))
    };
    let (simulation, cancel) = (world.simulation.clone(), Arc::clone(&group));
    world.simulation.start(async move {
        simulation.sleep(seconds(5)).await;
        cancel.cancel();
    });
    let outcomes = world.fetch_all(vec![request()]);
    assert_eq!(count(&outcomes, "cancelled"), 1, "{outcomes:?}");
    assert!(world.simulation.elapsed() < seconds(6));
    let outcomes = world.fetch_all(vec![request()]);
    assert_eq!(count(&outcomes, "cancelled"), 1, "{outcomes:?}");
    assert_eq!(world.ledger().at("a.example").len(), 1);
}

#[test]
fn a_robots_txt_on_the_wire_is_finished_and_the_request_behind_it_is_cancelled() {
    let robots = ScriptedReply::ok("User-agent: *\nAllow: /\n").after(seconds(2));
    let world = HubWorld::new(
        [OriginScript::new("a.example").route("/robots.txt", [robots])],
        config(rates(&["a.example:metadata=rates:10/SECOND"])),
    );
    let group = Arc::new(RequestGroup::default());
    let request = |n: u32| {
        get(&format!("http://a.example/{n}"))
            .robots(RobotsPolicy::Obey {
                exempt: Arc::default(),
            })
            .in_group(Arc::clone(&group))
    };
    let (simulation, cancel) = (world.simulation.clone(), Arc::clone(&group));
    world.simulation.start(async move {
        simulation.sleep(seconds(1)).await;
        assert_eq!(cancel.waiting(), 2, "the first requests robots.txt");
        cancel.cancel();
    });
    let outcomes = world.fetch_all((0..3).map(request).collect());
    assert_eq!(count(&outcomes, "cancelled"), 3, "{outcomes:?}");
    let ledger = world.ledger();
    let arrivals = ledger.at("a.example");
    assert_eq!(arrivals.len(), 1, "nothing but robots.txt was sent");
    assert!(world.simulation.elapsed() >= seconds(2), "it was finished");
}
