use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::{RedirectPolicy, Request};
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderValue, Method};

use crate::support::{HubWorld, config, get, rates, seconds};

#[test]
fn every_hop_passes_the_limits_of_its_own_host() {
    let origins = [
        OriginScript::new("a.example").handler(|arrival, _| {
            ScriptedReply::redirect(302, &format!("http://b.example{}", arrival.path))
        }),
        OriginScript::new("b.example"),
    ];
    let world = HubWorld::new(
        origins,
        config(rates(&[
            "a.example:metadata=rates:100/SECOND",
            "b.example:metadata=rates:1/SECOND,max_delay_ms:60000",
        ])),
    );
    let outcomes = world.fetch_all(
        (0..5)
            .map(|n| get(&format!("http://a.example/{n}")))
            .collect(),
    );
    assert!(
        outcomes.iter().all(|(_, outcome)| outcome == "200"),
        "{outcomes:?}"
    );
    world
        .ledger()
        .no_window_exceeded("b.example", 1, seconds(1))
        .expect("the target's own limit");
    assert_eq!(world.ledger().at("a.example").len(), 5);
}

#[test]
fn keys_are_not_sent_to_another_origin() {
    let origins = [
        OriginScript::new("a.example")
            .route("/", [ScriptedReply::redirect(307, "http://b.example/x")]),
        OriginScript::new("b.example"),
    ];
    let world = HubWorld::new(origins, config(CommandLineFlags::default()));
    let request = get("http://a.example/")
        .header(AUTHORIZATION, HeaderValue::from_static("Bearer SECRET"))
        .header(
            HeaderName::from_static("private-token"),
            HeaderValue::from_static("SECRET"),
        )
        .secret_header(
            HeaderName::from_static("x-own-key"),
            HeaderValue::from_static("SECRET"),
        );
    let answer = world
        .run(move |hub| async move { hub.fetch(request).await })
        .expect("an answer");
    assert_eq!(
        (answer.head.url.as_str(), answer.journey.redirects),
        ("http://b.example/x", 1)
    );
    let (first, second) = (
        world.ledger().at("a.example"),
        world.ledger().at("b.example"),
    );
    assert_eq!(first[0].header("authorization"), Some("Bearer SECRET"));
    assert_eq!(
        (
            second[0].header("authorization"),
            second[0].header("private-token"),
            second[0].header("x-own-key")
        ),
        (None, None, None)
    );
}

#[test]
fn redirect_loop_or_long_chain_ends_with_an_error() {
    let origin = OriginScript::new("a.example")
        .route("/loop", [ScriptedReply::redirect(302, "/back")])
        .route("/back", [ScriptedReply::redirect(302, "/loop")])
        .handler(|arrival, _| ScriptedReply::redirect(302, &format!("{}x", arrival.path)));
    let world = HubWorld::new(
        [origin],
        config(rates(&["a.example:metadata=rates:1000/SECOND"])),
    );
    let error = world
        .run(|hub| async move { hub.fetch(get("http://a.example/loop")).await })
        .expect_err("a circle");
    assert_eq!(error.to_string(), "a.example: it redirects in a circle");
    assert_eq!(world.ledger().len(), 2);
    let error = world
        .run(|hub| async move { hub.fetch(get("http://a.example/long")).await })
        .expect_err("too long");
    assert_eq!(
        (error.to_string().as_str(), error.journey.redirects),
        ("a.example: there are more than 10 redirects", 10)
    );
}

#[test]
fn the_method_follows_the_status() {
    let origin = OriginScript::new("a.example")
        .route("/303", [ScriptedReply::redirect(303, "/done")])
        .route("/308", [ScriptedReply::redirect(308, "/done")]);
    let world = HubWorld::new([origin], config(CommandLineFlags::default()));
    for (path, method) in [("/303", "GET"), ("/308", "POST")] {
        let post = Request::new(
            Method::POST,
            format!("http://a.example{path}").parse().expect("a URL"),
        )
        .body("data");
        assert!(
            world
                .run(move |hub| async move { hub.fetch(post).await })
                .is_ok()
        );
        assert_eq!(
            world.ledger().arrivals().last().expect("one").method,
            method,
            "{path}"
        );
    }
}

#[test]
fn a_redirect_from_https_to_http_is_refused() {
    let world = HubWorld::new(
        [OriginScript::new("a.example")
            .route("/", [ScriptedReply::redirect(302, "http://a.example/x")])],
        config(CommandLineFlags::default()),
    );
    let error = world
        .run(|hub| async move { hub.fetch(get("https://a.example/")).await })
        .expect_err("a downgrade");
    assert!(error.to_string().contains("from https to http"), "{error}");
}

#[test]
fn a_request_that_does_not_follow_gets_the_redirect() {
    let world = HubWorld::new(
        [OriginScript::new("a.example").route("/", [ScriptedReply::redirect(302, "/x")])],
        config(CommandLineFlags::default()),
    );
    let answer = world
        .run(|hub| async move {
            hub.fetch(get("http://a.example/").follow(RedirectPolicy::Nothing))
                .await
        })
        .expect("an answer");
    assert_eq!(
        (answer.head.status.as_u16(), world.ledger().len()),
        (302, 1)
    );
}

#[test]
fn a_retry_of_a_hop_does_not_start_the_chain_again() {
    let origins = [
        OriginScript::new("a.example")
            .route("/", [ScriptedReply::redirect(302, "http://b.example/")]),
        OriginScript::new("b.example")
            .route("/", [ScriptedReply::status(503), ScriptedReply::ok("fine")]),
    ];
    let world = HubWorld::new(origins, config(CommandLineFlags::default()));
    let answer = world
        .run(|hub| async move { hub.fetch(get("http://a.example/")).await })
        .expect("an answer");
    assert_eq!(&*answer.body, b"fine");
    assert_eq!(
        (
            world.ledger().at("a.example").len(),
            world.ledger().at("b.example").len()
        ),
        (1, 2)
    );
}
