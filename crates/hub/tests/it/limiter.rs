//! Windows, wait queues and bounds, as the ledger of the origin shows them.

use std::sync::Arc;

use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::{RateWait, Request, Role};
use docstokg_origin_sim::OriginScript;

use crate::support::{HubWorld, config, count, get, ms, rates, seconds};

// How many run at once.
mod slots;

fn many(count: usize) -> Vec<Request> {
    (0..count)
        .map(|n| get(&format!("http://a.example/{n}")))
        .collect()
}

#[test]
fn request_waits_for_all_windows_of_its_budget() {
    let world = HubWorld::new(
        [OriginScript::new("a.example")],
        config(rates(&[
            "a.example:metadata=rates:2/SECOND+10/MINUTE,max_delay_ms:70000",
        ])),
    );
    let outcomes = world.fetch_all(many(15));
    assert_eq!(count(&outcomes, "200"), 15);
    world
        .ledger()
        .no_window_exceeded("a.example", 2, seconds(1))
        .expect("two in a second");
    world
        .ledger()
        .no_window_exceeded("a.example", 10, seconds(60))
        .expect("ten in a minute");
    let arrivals = world.ledger().at("a.example");
    let tenth = arrivals[9].at.since(arrivals[0].at).as_secs_f64();
    assert!(
        (4.0..4.2).contains(&tenth),
        "the second paces the first ten: {tenth}"
    );
    let eleventh = arrivals[10].at.since(arrivals[0].at).as_secs_f64();
    assert!(
        (60.0..60.1).contains(&eleventh),
        "the minute holds the eleventh: {eleventh}"
    );
}

#[test]
fn when_a_window_is_exceeded_the_rest_is_refused() {
    let world = HubWorld::new(
        [OriginScript::new("a.example")],
        config(rates(&[
            "a.example:metadata=rates:2/SECOND+10/MINUTE,max_delay_ms:5000",
        ])),
    );
    let outcomes = world.fetch_all(many(15));
    assert_eq!(
        (count(&outcomes, "200"), count(&outcomes, "rate_limited")),
        (10, 5)
    );
}

#[test]
fn roles_have_limits_and_bounds_of_their_own() {
    let flags = rates(&[
        "a.example:metadata=rates:1/SECOND,max_delay_ms:200",
        "a.example:artifact=rates:1/SECOND,max_delay_ms:3000",
    ]);
    let world = HubWorld::new([OriginScript::new("a.example")], config(flags));
    let both = |n: usize| {
        (0..n).flat_map(|n| {
            [Role::Metadata, Role::Artifact]
                .map(|role| get(&format!("http://a.example/{n}")).role(role))
        })
    };
    let outcomes = world.fetch_all(both(3).collect());
    assert_eq!(
        (count(&outcomes, "200"), count(&outcomes, "rate_limited")),
        (4, 2),
        "one of metadata, three of artifact: {outcomes:?}"
    );
    let refused: Vec<f64> = outcomes
        .iter()
        .filter(|(_, outcome)| outcome == "rate_limited")
        .map(|(at, _)| *at)
        .collect();
    assert!(
        refused.iter().all(|at| *at < 0.001),
        "refused at once, not after the bound: {refused:?}"
    );
    assert!(
        outcomes.last().expect("the last").0 > 2.0,
        "artifact waits up to its three seconds"
    );
}

#[test]
fn head_spends_no_token_unless_it_counts() {
    let head = |n: usize| {
        Request::head(format!("http://a.example/{n}").parse().expect("a URL"))
            .rate_wait(RateWait::Policy)
    };
    let world = HubWorld::new(
        [OriginScript::new("a.example")],
        config(rates(&["a.example:metadata=rates:2/SECOND,max_delay_ms:0"])),
    );
    let outcomes = world.fetch_all((0..20).map(head).collect());
    assert_eq!(count(&outcomes, "200"), 20, "a burst of HEAD, no delay");
    let outcomes = world.fetch_all(many(4));
    assert_eq!(
        (count(&outcomes, "200"), count(&outcomes, "rate_limited")),
        (2, 2),
        "GET costs a permit"
    );
    let world = HubWorld::new(
        [OriginScript::new("a.example")],
        config(rates(&[
            "a.example:metadata=rates:2/SECOND,max_delay_ms:0,count_head:true",
        ])),
    );
    assert_eq!(
        count(&world.fetch_all((0..5).map(head).collect()), "rate_limited"),
        3
    );
}

#[test]
fn a_wait_beyond_the_bound_is_refused_at_once_and_says_until_when() {
    let world = HubWorld::exact(
        [OriginScript::new("a.example")],
        config(rates(&[
            "a.example:metadata=rates:1/SECOND,max_delay_ms:100",
        ])),
    );
    assert!(
        world
            .run(|hub| async move { hub.fetch(get("http://a.example/")).await })
            .is_ok()
    );
    world.simulation.run_for(ms(300));
    let error = world
        .run(|hub| async move { hub.fetch(get("http://a.example/")).await })
        .expect_err("refused");
    let refused = error.kind.refused().expect("a refusal");
    assert_eq!(
        (error.kind.class(), refused.reason().as_str()),
        ("rate_limited", "1/SECOND")
    );
    assert_eq!(
        refused.cooldown_remaining,
        ms(710),
        "a second and the guard, less what has passed"
    );
    assert_eq!(world.simulation.elapsed(), ms(300));
    world.simulation.run_for(ms(709));
    assert!(
        world
            .run(|hub| async move {
                hub.fetch(get("http://a.example/").rate_wait(RateWait::None))
                    .await
            })
            .is_err()
    );
    world.simulation.run_for(ms(1));
    assert!(
        world
            .run(|hub| async move {
                hub.fetch(get("http://a.example/").rate_wait(RateWait::None))
                    .await
            })
            .is_ok()
    );
}

#[test]
fn waiting_requests_are_sent_in_order_of_arrival() {
    let world = HubWorld::new(
        [OriginScript::new("a.example")],
        config(rates(&[
            "a.example:metadata=rates:1/SECOND,max_delay_ms:60000",
        ])),
    );
    let _ = world.fetch_all(many(10));
    let order: Vec<String> = world
        .ledger()
        .at("a.example")
        .into_iter()
        .map(|arrival| arrival.path)
        .collect();
    assert_eq!(order, (0..10).map(|n| format!("/{n}")).collect::<Vec<_>>());
}

#[test]
fn a_joined_site_has_one_budget_over_hosts_and_roles() {
    let origins = [
        OriginScript::new("arxiv.org").latency(ms(200)),
        OriginScript::new("export.arxiv.org").latency(ms(200)),
    ];
    let world = HubWorld::new(origins, config(CommandLineFlags::default()));
    let requests = (0..3).flat_map(|n| {
        let api = get(&format!("http://export.arxiv.org/api/{n}"));
        let file = get(&format!("http://arxiv.org/pdf/{n}")).role(Role::Artifact);
        [api, file].map(|request| request.rate_wait(RateWait::Deadline))
    });
    let outcomes = world.fetch_all(requests.collect());
    assert_eq!(count(&outcomes, "200"), 6);
    let mut arrivals = world.ledger().arrivals();
    arrivals.sort_by_key(|arrival| arrival.at);
    for pair in arrivals.windows(2) {
        assert!(
            pair[1].at.since(pair[0].at) >= seconds(3),
            "one request in three seconds, whichever host"
        );
        assert!(
            pair[0].ended.expect("ended") <= pair[1].at,
            "one connection at a time"
        );
    }
}

#[test]
fn a_kind_of_request_costs_its_budget_beside_that_of_its_role() {
    let world = HubWorld::new(
        [OriginScript::new("api.crossref.org")],
        config(CommandLineFlags::default()),
    );
    let list = |n: usize| {
        get(&format!("https://api.crossref.org/works?rows={n}"))
            .kind("list")
            .rate_wait(RateWait::Deadline)
    };
    let _ = world.fetch_all((0..9).map(list).collect());
    world
        .ledger()
        .no_window_exceeded("api.crossref.org", 3, seconds(1))
        .expect("three lists in a second");
    let arrivals = world.ledger().at("api.crossref.org");
    assert!(arrivals.last().expect("one").at.since(arrivals[0].at) < seconds(3));
}

#[test]
fn a_weight_counts_as_that_many_and_one_that_never_fits_is_an_error() {
    let world = HubWorld::new(
        [OriginScript::new("a.example")],
        config(rates(&[
            "a.example:metadata=rates:4/SECOND,max_delay_ms:5000",
        ])),
    );
    let heavy = (0..4)
        .map(|n| get(&format!("http://a.example/{n}")).weight(2))
        .collect();
    assert_eq!(count(&world.fetch_all(heavy), "200"), 4);
    world
        .ledger()
        .no_window_exceeded("a.example", 2, seconds(1))
        .expect("two of weight two in a second");
    let error = world
        .run(|hub| async move { hub.fetch(get("http://a.example/").weight(5)).await })
        .expect_err("too heavy");
    assert_eq!(
        error.to_string(),
        "a.example: a weight of 5 never fits a limit of 4"
    );
    let error = world
        .run(|hub| async move { hub.fetch(get("http://a.example/").weight(0)).await })
        .expect_err("asks for nothing");
    assert!(error.to_string().contains("its weight is 0"), "{error}");
}

#[test]
fn cancelled_wait_uses_no_permit() {
    let world = HubWorld::new(
        [OriginScript::new("a.example")],
        config(rates(&[
            "a.example:metadata=rates:1/SECOND,max_delay_ms:60000",
        ])),
    );
    let world = Arc::new(world);
    for n in 0..10 {
        let (hub, simulation) = (world.hub.clone(), world.simulation.clone());
        world.simulation.start(async move {
            let mut fetch = Box::pin(hub.fetch(get(&format!("http://a.example/{n}"))));
            let mut patience = simulation.sleep(ms(if n % 2 == 0 { 100_000 } else { 500 }));
            std::future::poll_fn(|context| {
                if fetch.as_mut().poll(context).is_ready() {
                    return std::task::Poll::Ready(());
                }
                Future::poll(patience.as_mut(), context)
            })
            .await;
        });
    }
    world.simulation.run();
    let order: Vec<String> = world
        .ledger()
        .at("a.example")
        .into_iter()
        .map(|arrival| arrival.path)
        .collect();
    assert_eq!(
        order,
        ["/0", "/2", "/4", "/6", "/8"],
        "requests that left took no turn"
    );
    let last = world
        .ledger()
        .at("a.example")
        .last()
        .expect("one")
        .at
        .since(world.ledger().arrivals()[0].at);
    assert!(last < ms(4_100), "and no time: {last:?}");
}

#[test]
fn a_connection_that_takes_long_does_not_crowd_the_window() {
    let origin = OriginScript::new("a.example")
        .dial_delay(ms(300))
        .latency(ms(20));
    let world = HubWorld::new(
        [origin],
        config(rates(&[
            "a.example:metadata=rates:10/SECOND,max_delay_ms:60000",
        ])),
    );
    let outcomes = world.fetch_all(many(100));
    assert_eq!(count(&outcomes, "200"), 100);
    world
        .ledger()
        .no_window_exceeded("a.example", 10, seconds(1))
        .expect("ten arrivals in a second, however late the first came");
}
