use std::sync::Arc;

use docstokg_hub::clock::{Clock as _, Random};
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::policy::retry::StopReason;
use docstokg_hub::{Hub, Patience, Repeatable, Request, Role};
use docstokg_origin_sim::{
    Arrival, OriginScript, Piece, ScriptedReply, SimTransport, SimulatedWeb, Simulation,
};
use http::Method;
use parking_lot::Mutex;

use crate::support::{HubWorld, config, get, ms, seconds};

fn world(replies: Vec<ScriptedReply>) -> HubWorld {
    HubWorld::new(
        [OriginScript::new("a.example").route("/", replies)],
        config(CommandLineFlags::default()),
    )
}

#[test]
fn transient_faults_are_tried_again_four_times_in_all() {
    for reply in [
        ScriptedReply::status(503),
        ScriptedReply::status(500),
        ScriptedReply::dead(Piece::Cut),
        ScriptedReply::ok("12345").pieces([Piece::Bytes("123".into()), Piece::Cut]),
    ] {
        let world = world(vec![reply]);
        let outcome = world.run(|hub| async move { hub.fetch(get("http://a.example/")).await });
        let journey = match outcome {
            Ok(answer) => answer.journey,
            Err(error) => error.journey,
        };
        assert_eq!(
            (journey.attempts, journey.stopped),
            (4, Some(StopReason::Attempts))
        );
        assert_eq!(world.ledger().len(), 4);
    }
}

#[test]
fn a_body_that_breaks_off_is_a_failed_attempt_and_the_next_one_counts() {
    let cut = ScriptedReply::ok("")
        .pieces([Piece::Bytes("half".into()), Piece::Cut])
        .claiming(8);
    let world = world(vec![cut, ScriptedReply::ok("complete")]);
    let answer = world
        .run(|hub| async move { hub.fetch(get("http://a.example/")).await })
        .expect("an answer");
    assert_eq!(
        (&*answer.body, answer.journey.attempts),
        (&b"complete"[..], 2)
    );
}

#[test]
fn retry_after_is_a_minimum_in_seconds_and_as_a_date() {
    for (value, least) in [
        ("7", 7.0),
        ("Mon, 21 Sep 2026 14:13:29 GMT", 8.0),
        ("0", 1.0),
        ("nonsense", 1.0),
        ("-3", 1.0),
    ] {
        let reply = ScriptedReply::status(429)
            .header("retry-after", value)
            .header("date", "Mon, 21 Sep 2026 14:13:20 GMT");
        let world = world(vec![reply, ScriptedReply::ok("fine")]);
        let answer = world
            .run(|hub| async move { hub.fetch(get("http://a.example/")).await })
            .expect("an answer");
        let waited = world.ledger().arrivals()[1]
            .at
            .since(world.ledger().arrivals()[0].at)
            .as_secs_f64();
        assert_eq!(answer.head.status, 200);
        assert!(waited >= least && waited < least + 2.5, "{value}: {waited}");
    }
}

#[test]
fn a_wait_that_ends_after_the_deadline_ends_the_fetch_at_once() {
    let world = world(vec![
        ScriptedReply::status(429).header("retry-after", "3600"),
    ]);
    let answer = world
        .run(|hub| async move {
            hub.fetch(get("http://a.example/").deadline(seconds(120)))
                .await
        })
        .expect("an answer");
    assert_eq!(answer.head.status, 429);
    assert!(matches!(
        answer.journey.stopped,
        Some(StopReason::Deadline { .. })
    ));
    assert!(world.simulation.elapsed() < seconds(1));
}

#[test]
fn a_post_is_sent_once_unless_the_caller_allows_more() {
    let post =
        || Request::new(Method::POST, "http://a.example/".parse().expect("a URL")).body("data");
    let world = world(vec![
        ScriptedReply::status(503).header("retry-after", "2"),
        ScriptedReply::ok("fine"),
    ]);
    let answer = world
        .run(move |hub| async move { hub.fetch(post()).await })
        .expect("an answer");
    assert_eq!(
        (answer.head.status.as_u16(), answer.journey.stopped),
        (503, Some(StopReason::NotRepeatable))
    );
    assert_eq!(world.ledger().len(), 1);
    world.simulation.run_for(seconds(3));
    let again = self::world(vec![ScriptedReply::status(503), ScriptedReply::ok("fine")]);
    let answer = again
        .run(move |hub| async move { hub.fetch(post().repeatable(Repeatable::Yes)).await })
        .expect("an answer");
    assert_eq!(
        (answer.head.status.as_u16(), again.ledger().len()),
        (200, 2)
    );
}

#[test]
fn final_answers_are_not_tried_again() {
    for status in [200, 204, 304, 400, 401, 403, 404, 410, 418, 451, 501, 505] {
        let world = world(vec![ScriptedReply::status(status)]);
        let answer = world
            .run(|hub| async move { hub.fetch(get("http://a.example/")).await })
            .expect("an answer");
        assert_eq!(
            (answer.head.status.as_u16(), world.ledger().len()),
            (status, 1)
        );
    }
}

/// The request's own answers open the breaker. It fails at once, with the time of the next probe,
/// unless the server stated a time or the request belongs to a run, which has time.
#[test]
fn a_request_that_opens_the_breaker_waits_only_for_a_stated_time() {
    let fetch = |bad: ScriptedReply, request: Request| {
        let flags = CommandLineFlags {
            breaker: vec!["a.example=fail_max:2,reset:30,early_probes:false".into()],
            ..CommandLineFlags::default()
        };
        let replies = [bad.clone(), bad, ScriptedReply::ok("fine")];
        let origin = OriginScript::new("a.example").route("/", replies);
        let world = HubWorld::new([origin], config(flags));
        let answer = world
            .run(|hub| async move { hub.fetch(request).await })
            .expect("an answer");
        let next = answer.journey.stopped.map(|stopped| {
            let until = stopped.until().expect("the time of the next probe");
            (stopped.as_str(), until.since(world.simulation.boot()))
        });
        let (status, attempts) = (answer.head.status.as_u16(), answer.journey.attempts);
        (status, attempts, next, world.simulation.elapsed())
    };
    let plain = || get("http://a.example/");
    for status in [429, 500, 503] {
        let (found, attempts, next, took) = fetch(ScriptedReply::status(status), plain());
        assert_eq!((found, attempts), (status, 2));
        let (why, left) = next.expect("it stopped");
        assert_eq!(why, "breaker-open");
        assert!(
            left > seconds(29) && took < seconds(2),
            "{left:?} after {took:?}"
        );
    }
    let stated = ScriptedReply::status(503).header("retry-after", "20");
    let (found, attempts, next, took) = fetch(stated, plain());
    assert_eq!((found, attempts, next), (200, 3, None));
    assert!(took >= seconds(40), "{took:?}");
    let of_a_run = plain().retry_wait(seconds(60));
    let (found, attempts, _, took) = fetch(ScriptedReply::status(503), of_a_run);
    assert_eq!((found, attempts), (200, 3));
    assert!(took >= seconds(30) && took < seconds(32), "{took:?}");
}

#[test]
fn request_ends_at_its_deadline() {
    let world = HubWorld::exact(
        [OriginScript::new("a.example").latency(seconds(20))],
        config(CommandLineFlags::default()),
    );
    let error = world
        .run(|hub| async move {
            hub.fetch(get("http://a.example/").deadline(ms(1_500)))
                .await
        })
        .expect_err("too late");
    assert_eq!(
        error.to_string(),
        "a.example: the deadline of 1.500 s passed before the answer began"
    );
    assert_eq!(world.simulation.elapsed(), ms(1_500));
}

#[test]
fn an_answer_that_does_not_begin_is_a_timeout() {
    let origin = OriginScript::new("a.example").latency(seconds(3_600));
    let world = HubWorld::new(
        [origin],
        config(CommandLineFlags {
            deadline: Some("0".into()),
            ..CommandLineFlags::default()
        }),
    );
    let error = world
        .run(|hub| async move { hub.fetch(get("http://a.example/")).await })
        .expect_err("a timeout");
    assert_eq!((error.kind.class(), error.journey.attempts), ("timeout", 4));
}

#[test]
fn a_retry_whose_wait_is_bounded_does_not_wait_for_a_host_that_was_paused_meanwhile() {
    let flags = CommandLineFlags {
        breaker: vec!["a.example=fail_max:2,reset:3600,early_probes:false".to_owned()],
        ..CommandLineFlags::default()
    };
    let world = HubWorld::new(
        [OriginScript::new("a.example").handler(|_, _| ScriptedReply::status(500))],
        config(flags),
    );
    let bounded = || {
        get("http://a.example/")
            .deadline(seconds(86_400))
            .retry_wait(seconds(5))
    };
    // Both fail; together they open the breaker while the first waits for its retry.
    let outcomes = world.fetch_all(vec![bounded(), bounded()]);
    assert!(outcomes.iter().all(|(at, _)| *at < 120.0), "{outcomes:?}");
}

/// The attempts of earlier hops are no attempts at the last one, whose retries the budget bounds.
#[test]
fn the_retry_budget_holds_after_redirects() {
    const REQUESTS: usize = 40;
    let yaml = "version: 1\nbreakers: { defaults: { fail_max: 100000 } }\n\
        limits: { defaults: { metadata: { rates: [1000/SECOND] } } }\n";
    let detour = OriginScript::new("b.example").handler(|arrival: &Arrival, _| {
        let next = match arrival.path.as_str() {
            "/1" => "http://b.example/2",
            "/2" => "http://b.example/3",
            _ => "http://a.example/",
        };
        ScriptedReply::status(302).header("location", next)
    });
    let failing = OriginScript::new("a.example")
        .handler(|_, _| ScriptedReply::status(503).header("retry-after", "0"));
    let config = crate::seed_configuration::read(yaml)
        .expect("a configuration")
        .0;
    let world = HubWorld::exact([detour, failing], config);
    world.run(|hub| async move {
        for _ in 0..REQUESTS {
            let request = get("http://b.example/1").patience(Patience::Wait);
            let _ = hub.fetch(request.deadline(seconds(600))).await;
        }
    });
    let sent = world.ledger().at("a.example").len();
    assert!(sent >= REQUESTS, "{sent}");
    assert!(sent <= REQUESTS * 3 / 2, "{sent} for {REQUESTS}");
}

/// The breaker stays out of it, so that the budget alone bounds the retries of two processes in two
/// roles.
#[test]
fn an_origin_that_fails_everything_sees_little_more_than_is_offered() {
    const OFFERED: usize = 100;
    let yaml = "version: 1\nbreakers: { defaults: { fail_max: 100000 } }\n";
    let simulation = Simulation::seeded(7);
    let origin = OriginScript::new("a.example").handler(|_, _| ScriptedReply::status(503));
    let web = SimulatedWeb::new([origin], simulation.boot());
    let store = simulation.shared_store();
    let stopped = Arc::new(Mutex::new(Vec::new()));
    for role in [Role::Metadata, Role::Landing] {
        let process = simulation.process();
        let hub = Hub::builder(
            crate::seed_configuration::read(yaml)
                .expect("a configuration")
                .0,
        )
        .runtime(process.runtime())
        .store(Arc::clone(&store))
        .random(Random::seeded(role.index() as u64))
        .transport(SimTransport::new(&simulation, &web))
        .build()
        .expect("a hub");
        let (world, stopped) = (simulation.clone(), Arc::clone(&stopped));
        process.run(async move {
            for _ in 0..OFFERED / 2 {
                let answer = hub.fetch(get("http://a.example/").role(role)).await;
                let journey = answer.expect("the 503 itself").journey;
                stopped.lock().push(journey.stopped);
                world.sleep(ms(200)).await;
            }
        });
    }
    simulation.run_for(seconds(600));
    let stopped = stopped.lock();
    assert_eq!(stopped.len(), OFFERED);
    let sent = web.ledger().len();
    assert!(sent <= OFFERED * 12 / 10, "{sent} requests for {OFFERED}");
    assert!(sent >= OFFERED + 8, "the first retries are free: {sent}");
    let over = stopped
        .iter()
        .filter(|stop| **stop == Some(StopReason::RetryBudget));
    assert!(over.count() > OFFERED / 2, "{stopped:?}");
}
