//! What opens a breaker, and what an open breaker refuses.

use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::policy::breaker::BreakerState;
use docstokg_hub::{ErrorKind, Host, RefusedBy, Repeatable, Role};
use docstokg_origin_sim::{OriginScript, Piece, ScriptedReply};

use crate::support::{HubWorld, config, get, seconds};

// Probes of a half-open breaker.
mod half_open;
// What an outage costs with early probes.
mod outage;
// Requests that wait for the end of a block.
mod waiting;

/// A breaker with a fixed reset.
fn flags(breaker: &str) -> CommandLineFlags {
    CommandLineFlags {
        breaker: vec![format!("a.example={breaker},early_probes:false")],
        rate: vec![
            "a.example:metadata=rates:1000/SECOND".into(),
            "a.example:artifact=rates:1000/SECOND".into(),
        ],
        ..CommandLineFlags::default()
    }
}

fn host() -> Host {
    Host::parse("a.example").expect("a host")
}

/// A request that is tried once: each failure is one.
fn once(path: &str) -> docstokg_hub::Request {
    get(&format!("http://a.example{path}")).repeatable(Repeatable::No)
}

#[test]
fn consecutive_5xx_open_the_breaker_until_the_reset() {
    let origin = OriginScript::new("a.example").route(
        "/",
        [
            ScriptedReply::status(503),
            ScriptedReply::status(500),
            ScriptedReply::status(502),
            ScriptedReply::ok("fine"),
        ],
    );
    let world = HubWorld::exact([origin], config(flags("fail_max:3,reset:60")));
    for status in [503, 500, 502] {
        assert_eq!(
            world
                .run(move |hub| async move { hub.fetch(once("/")).await })
                .expect("an answer")
                .head
                .status,
            status
        );
    }
    let error = world
        .run(|hub| async move { hub.fetch(once("/")).await })
        .expect_err("open");
    let refused = error.kind.refused().expect("a refusal");
    assert!(matches!(error.kind, ErrorKind::BreakerOpen(_)));
    assert_eq!(
        (
            refused.reason().as_str(),
            refused.cooldown_remaining.as_secs()
        ),
        ("consecutive", 60)
    );
    assert_eq!(world.ledger().len(), 3, "a refusal sends nothing");
    world.simulation.run_for(seconds(59));
    assert!(
        world
            .run(|hub| async move { hub.fetch(once("/")).await })
            .is_err()
    );
    world.simulation.run_for(seconds(1));
    assert_eq!(
        world
            .run(|hub| async move { hub.fetch(once("/")).await })
            .expect("a probe")
            .head
            .status,
        200
    );
    assert_eq!(
        world.view(&host()).state(),
        BreakerState::Closed,
        "success closes"
    );
}

#[test]
fn consecutive_429_without_retry_after_open_the_breaker() {
    let origin = OriginScript::new("a.example").route("/", [ScriptedReply::status(429)]);
    let world = HubWorld::new([origin], config(flags("fail_max:3,reset:60")));
    for _ in 0..3 {
        let _ = world
            .run(|hub| async move { hub.fetch(once("/")).await })
            .expect("an answer");
    }
    assert_eq!(world.view(&host()).state(), BreakerState::Open);
}

#[test]
fn retry_after_blocks_the_host_for_that_long_and_no_longer_than_the_cap() {
    for (asked, cap, blocked) in [("4", "900", 4), ("4", "2", 2)] {
        let origin = OriginScript::new("a.example").route(
            "/",
            [
                ScriptedReply::status(429).header("retry-after", asked),
                ScriptedReply::ok("fine"),
            ],
        );
        let world = HubWorld::exact(
            [origin],
            config(flags(&format!("fail_max:5,reset:60,retry_after_cap:{cap}"))),
        );
        let _ = world
            .run(|hub| async move { hub.fetch(once("/")).await })
            .expect("an answer");
        let error = world
            .run(|hub| async move { hub.fetch(once("/")).await })
            .expect_err("blocked");
        let refused = error.kind.refused().expect("a refusal");
        assert_eq!(
            (
                refused.reason().as_str(),
                refused.cooldown_remaining.as_secs()
            ),
            ("retry-after", blocked)
        );
        world.simulation.run_for(seconds(blocked));
        assert_eq!(
            world
                .run(|hub| async move { hub.fetch(once("/")).await })
                .expect("a probe")
                .head
                .status,
            200
        );
    }
}

#[test]
fn a_rolling_window_of_failures_opens_the_breaker() {
    let sources = docstokg_hub::config::load::ConfigSources::default();
    let (mut configuration, _) =
        docstokg_hub::config::load::load(&sources).expect("a configuration");
    let policy = docstokg_hub::policy::breaker::BreakerPolicy {
        window: Some(docstokg_hub::policy::breaker::RollingWindow {
            threshold_failures: 3.try_into().expect("not zero"),
            within: seconds(10),
            cooldown: seconds(30),
        }),
        ..Default::default()
    };
    configuration.breakers.defaults.policy = policy.into();
    let replies = [503, 200, 503, 200, 503, 200].map(ScriptedReply::status);
    let world = HubWorld::new(
        [OriginScript::new("a.example").route("/", replies)],
        configuration,
    );
    for _ in 0..5 {
        let _ = world
            .run(|hub| async move { hub.fetch(once("/")).await })
            .expect("an answer");
        world.simulation.run_for(seconds(1));
    }
    let view = world.view(&host());
    assert_eq!(
        view.state(),
        BreakerState::Open,
        "three failures within ten seconds, successes between them"
    );
    assert_eq!(
        view.open_until().expect("open").1.to_string(),
        "rolling-window"
    );
}

#[test]
fn neutral_answers_do_not_flip_the_breaker() {
    let replies = [401, 403, 404, 410, 451, 400, 404, 403].map(ScriptedReply::status);
    let world = HubWorld::new(
        [OriginScript::new("a.example").route("/", replies)],
        config(flags("fail_max:2,reset:60")),
    );
    for _ in 0..8 {
        let _ = world
            .run(|hub| async move { hub.fetch(once("/")).await })
            .expect("an answer");
    }
    let view = world.view(&host());
    assert_eq!((view.state(), view.failures()), (BreakerState::Closed, 0));
}

#[test]
fn a_refusal_by_the_breaker_is_not_retried() {
    let world = HubWorld::exact(
        [OriginScript::new("a.example")],
        config(flags("fail_max:5,reset:60")),
    );
    world.block(&host(), seconds(30), "maintenance");
    let before = world.simulation.elapsed();
    let error = world
        .run(|hub| async move { hub.fetch(get("http://a.example/")).await })
        .expect_err("blocked");
    assert_eq!(
        error.kind.refused().expect("a refusal").reason(),
        "cli-open:maintenance"
    );
    assert_eq!(
        (error.journey.attempts, world.simulation.elapsed()),
        (0, before),
        "at once, without an attempt"
    );
    world.unblock(&host());
    assert!(
        world
            .run(|hub| async move { hub.fetch(get("http://a.example/")).await })
            .is_ok()
    );
}

#[test]
fn artifact_failures_leave_metadata_alone_where_the_role_counts_for_itself() {
    let mut configuration = config(flags("fail_max:5,reset:60"));
    let own = docstokg_hub::policy::breaker::BreakerPolicy {
        fail_max: 2.try_into().expect("not zero"),
        ..Default::default()
    };
    configuration
        .breakers
        .hosts
        .get_mut(&host())
        .expect("the host")
        .roles[Role::Artifact.index()] = Some(own.into());
    let origin = OriginScript::new("a.example").route("/file", [ScriptedReply::status(503)]);
    let world = HubWorld::new([origin], configuration);
    for _ in 0..2 {
        let _ = world
            .run(|hub| async move { hub.fetch(once("/file").role(Role::Artifact)).await })
            .expect("an answer");
    }
    assert!(
        world
            .run(|hub| async move { hub.fetch(once("/file").role(Role::Artifact)).await })
            .is_err()
    );
    assert!(
        world
            .run(|hub| async move { hub.fetch(once("/other")).await })
            .is_ok()
    );
    assert_eq!(world.view(&host()).failures(), 0);
}

#[test]
fn an_origin_that_ends_every_connection_opens_its_breaker() {
    let replies = std::iter::once(ScriptedReply::ok("fine"))
        .chain(std::iter::repeat_n(ScriptedReply::dead(Piece::Reset), 9));
    let world = HubWorld::new(
        [OriginScript::new("a.example").route("/", replies)],
        config(flags("fail_max:2,reset:60")),
    );
    let _ = world
        .run(|hub| async move { hub.fetch(once("/")).await })
        .expect("an answer");
    let error = world
        .run(|hub| async move {
            hub.fetch(get("http://a.example/").deadline(seconds(9)))
                .await
        })
        .expect_err("no answer");
    assert_eq!(error.kind.class(), "read");
    assert_eq!(
        (world.view(&host()).state(), world.ledger().len()),
        (BreakerState::Open, 4),
        "the first one did not count"
    );
}

#[test]
fn a_file_that_is_throttled_says_nothing_against_the_resolver_of_its_link() {
    let mut flags = flags("fail_max:100,reset:60");
    flags.breaker_resolver = vec!["unpaywall=fail_max:2,reset:45".into()];
    for (status, is_open) in [(429, false), (503, true)] {
        let origins = [
            OriginScript::new("a.example").route("/", [ScriptedReply::status(status)]),
            OriginScript::new("b.example"),
        ];
        let world = HubWorld::exact(origins, config(flags.clone()));
        for _ in 0..2 {
            let file = once("/").role(Role::Artifact).resolver("unpaywall");
            let _ = world.run(|hub| async move { hub.fetch(file).await });
        }
        let other = get("http://b.example/").resolver("unpaywall");
        let outcome = world.run(|hub| async move { hub.fetch(other).await });
        assert_eq!(outcome.is_err(), is_open, "{status}");
    }
}

#[test]
fn a_resolver_has_a_breaker_of_its_own_and_a_host_that_refuses_costs_it_nothing() {
    let mut flags = flags("fail_max:100,reset:60");
    flags.breaker_resolver = vec!["unpaywall=fail_max:2,reset:45,early_probes:false".into()];
    let origins = [
        OriginScript::new("a.example").route("/", [ScriptedReply::status(503)]),
        OriginScript::new("b.example"),
    ];
    let world = HubWorld::exact(origins, config(flags));
    let ask = |url: &str| get(url).repeatable(Repeatable::No).resolver("unpaywall");
    for _ in 0..2 {
        let _ = world
            .run(move |hub| async move { hub.fetch(ask("http://a.example/")).await })
            .expect("an answer");
    }
    let error = world
        .run(move |hub| async move { hub.fetch(ask("http://b.example/")).await })
        .expect_err("the resolver is open");
    let refused = error.kind.refused().expect("a refusal");
    assert_eq!(
        (refused.by.resolver(), refused.cooldown_remaining.as_secs()),
        (Some("unpaywall"), 45)
    );
    assert!(
        world
            .run(|hub| async move { hub.fetch(get("http://b.example/")).await })
            .is_ok(),
        "others are not affected"
    );

    world.simulation.run_for(seconds(45));
    world.block(&host(), seconds(10), "test");
    for _ in 0..3 {
        let error = world
            .run(move |hub| async move { hub.fetch(ask("http://a.example/")).await })
            .expect_err("the host is blocked");
        assert_eq!(
            error.kind.refused().expect("a refusal").by,
            RefusedBy::Host,
            "the host said no, and the resolver's probe came back"
        );
    }
    assert!(
        world
            .run(move |hub| async move { hub.fetch(ask("http://b.example/")).await })
            .is_ok()
    );
}
