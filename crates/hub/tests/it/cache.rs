//! The response cache, judged by what the origin received.

use std::time::Duration;

use docstokg_hub::config::{CacheRules, Config};
use docstokg_hub::policy::freshness::Overrides;
use docstokg_hub::{
    CacheAccess, CacheUse, ErrorKind, ForwardReason, Host, Request, Role, StaleReason,
};
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use http::{HeaderValue, Method, header};

use crate::support::{HubWorld, config, get, rates, seconds};

// What is stored, and for whom.
mod stored;
// Concurrent requests for the same thing.
mod flights;

/// The shipped configuration with a cache in memory, and a limit of `rate` for metadata.
fn caching(rate: &str) -> Config {
    let rate = format!("a.example:metadata=rates:{rate}");
    let mut config = config(rates(&[&rate]));
    config.cache.enabled = true;
    config
}

fn host() -> Host {
    Host::parse("a.example").expect("a host")
}

fn url(path: &str) -> Request {
    get(&format!("http://a.example{path}"))
}

/// An answer that is fresh for a time.
fn fresh(body: &'static str, max_age: u64) -> ScriptedReply {
    ScriptedReply::ok(body).header("cache-control", &format!("max-age={max_age}"))
}

/// Fetches once: the status, the body and what the cache did.
fn fetch(world: &HubWorld, request: Request) -> (u16, String, CacheUse) {
    let answer = world
        .run(|hub| async move { hub.fetch(request).await })
        .expect("an answer");
    let body = String::from_utf8(answer.body.to_vec()).expect("text");
    (answer.head.status.as_u16(), body, answer.journey.cache)
}

#[test]
fn a_fresh_hit_spends_no_token_and_leaves_the_breaker_as_it_is() {
    let origin = OriginScript::new("a.example").route("/", [fresh("one", 600), fresh("two", 600)]);
    let world = HubWorld::exact([origin], caching("1/HOUR"));
    assert_eq!(
        fetch(&world, url("/")),
        (200, "one".into(), CacheUse::Stored)
    );
    let before = format!("{:?}", world.view(&host()).site);
    world.simulation.run_for(seconds(30));
    for _ in 0..10 {
        let age = seconds(30);
        let expected = (200, "one".to_owned(), CacheUse::Hit { age });
        assert_eq!(fetch(&world, url("/")), expected);
    }
    assert_eq!(world.ledger().len(), 1, "the cache answered");
    assert_eq!(format!("{:?}", world.view(&host()).site), before);
    let refused = world.run(|hub| async move { hub.fetch(url("/other")).await });
    assert!(refused.is_err(), "a miss needs a token");
}

#[test]
fn a_fresh_hit_is_served_while_the_breaker_is_open() {
    let origin = OriginScript::new("a.example").route("/", [fresh("one", 600)]);
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    fetch(&world, url("/"));
    world.block(&host(), seconds(3_600), "maintenance");
    assert_eq!(fetch(&world, url("/")).1, "one");
    let refused = world.run(|hub| async move { hub.fetch(url("/other")).await });
    let refused = refused.expect_err("the breaker is open");
    assert!(matches!(refused.kind, ErrorKind::BreakerOpen(_)));
    assert_eq!(world.ledger().len(), 1);
}

#[test]
fn a_stale_answer_is_validated_with_a_token_and_a_304_renews_it() {
    let first = fresh("one", 10).header("etag", "\"v1\"");
    let renewed = ScriptedReply::status(304)
        .header("etag", "\"v1\"")
        .header("cache-control", "max-age=600");
    let origin = OriginScript::new("a.example").route("/", [first, renewed, fresh("three", 1)]);
    let world = HubWorld::exact([origin], caching("2/HOUR"));
    fetch(&world, url("/"));
    world.simulation.run_for(seconds(11));
    let validated = fetch(&world, url("/"));
    assert_eq!(validated, (200, "one".into(), CacheUse::Revalidated));
    let arrivals = world.ledger().arrivals();
    assert_eq!(arrivals[1].header("if-none-match"), Some("\"v1\""));
    world.simulation.run_for(seconds(300));
    let hit = fetch(&world, url("/"));
    assert!(matches!(hit.2, CacheUse::Hit { .. }), "{hit:?}");
    assert_eq!(world.ledger().len(), 2);
    let refused = world.run(|hub| async move { hub.fetch(url("/other")).await });
    assert!(refused.is_err(), "the validation took the second token");
}

#[test]
fn a_304_about_another_answer_is_not_taken() {
    let first = fresh("one", 1).header("etag", "\"v1\"");
    let wrong = ScriptedReply::status(304).header("etag", "\"v9\"");
    let origin =
        OriginScript::new("a.example").route("/", [first, wrong, ScriptedReply::ok("two")]);
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    fetch(&world, url("/"));
    world.simulation.run_for(seconds(2));
    assert_eq!(fetch(&world, url("/")).1, "two");
    assert_eq!(world.ledger().arrivals()[2].header("if-none-match"), None);
}

#[test]
fn a_stale_answer_stands_in_for_an_origin_that_fails_where_it_says_so() {
    let reply = |control: &str| ScriptedReply::ok("one").header("cache-control", control);
    let failing = || ScriptedReply::status(503);
    let origin = OriginScript::new("a.example")
        .route("/kind", [reply("max-age=1, stale-if-error=600"), failing()])
        .route("/strict", [reply("max-age=1"), failing()])
        .route(
            "/must",
            [
                reply("max-age=1, stale-if-error=600, must-revalidate"),
                failing(),
            ],
        );
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    for path in ["/kind", "/strict", "/must"] {
        fetch(&world, url(path));
    }
    world.simulation.run_for(seconds(10));
    let (status, body, used) = fetch(&world, url("/kind"));
    assert_eq!((status, body.as_str()), (200, "one"));
    let CacheUse::Stale { age, reason } = used else {
        panic!("{used:?} is not marked as stale");
    };
    assert!(age >= seconds(10) && reason == StaleReason::Error);
    let sent = world.ledger().len();
    world.block(&host(), seconds(3_600), "maintenance");
    let (_, body, used) = fetch(&world, url("/kind"));
    assert_eq!(body, "one");
    let reason = StaleReason::BreakerOpen;
    assert!(matches!(used, CacheUse::Stale { reason: why, .. } if why == reason));
    assert_eq!(world.ledger().len(), sent, "nothing is sent");
    world.unblock(&host());
    for path in ["/strict", "/must"] {
        assert_eq!(fetch(&world, url(path)).0, 503, "{path}");
    }
}

#[test]
fn stale_while_revalidate_answers_at_once_and_validates_in_the_background() {
    let first =
        ScriptedReply::ok("one").header("cache-control", "max-age=10, stale-while-revalidate=60");
    let origin = OriginScript::new("a.example").route("/", [first, fresh("two", 600)]);
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    fetch(&world, url("/"));
    world.simulation.run_for(seconds(20));
    let (_, body, used) = fetch(&world, url("/"));
    assert_eq!(body, "one");
    let reason = StaleReason::Revalidating;
    assert!(matches!(used, CacheUse::Stale { reason: why, .. } if why == reason));
    world.simulation.run();
    assert_eq!(world.ledger().len(), 2);
    let (_, body, used) = fetch(&world, url("/"));
    assert_eq!(body, "two");
    assert!(matches!(used, CacheUse::Hit { .. }));
}

#[test]
fn offline_request_is_served_by_the_cache_alone() {
    let origin = OriginScript::new("a.example").route("/", [fresh("one", 10), fresh("two", 10)]);
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    fetch(&world, url("/"));
    world.simulation.run_for(seconds(60));
    let offline = |path: &str| url(path).cache(CacheAccess::Offline);
    let (_, body, used) = fetch(&world, offline("/"));
    assert_eq!(body, "one");
    let reason = StaleReason::Offline;
    assert!(matches!(used, CacheUse::Stale { reason: why, .. } if why == reason));
    for request in [
        offline("/missing"),
        offline("/file").role(Role::Artifact),
        Request::new(Method::POST, "http://a.example/".parse().expect("a URL"))
            .cache(CacheAccess::Offline),
    ] {
        let error = world.run(|hub| async move { hub.fetch(request).await });
        let error = error.expect_err("nothing is sent");
        assert_eq!(error.kind.class(), "not_cached");
    }
    assert_eq!(world.ledger().len(), 1);
}

#[test]
fn refresh_asks_the_origin_and_stores_and_bypass_does_neither() {
    let origin = OriginScript::new("a.example")
        .route("/", ["one", "two", "three"].map(|body| fresh(body, 600)));
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    fetch(&world, url("/"));
    assert_eq!(fetch(&world, url("/").cache(CacheAccess::Refresh)).1, "two");
    assert_eq!(fetch(&world, url("/")).1, "two");
    let bypassed = fetch(&world, url("/").cache(CacheAccess::Bypass));
    assert_eq!((bypassed.1.as_str(), bypassed.2), ("three", CacheUse::None));
    assert_eq!(fetch(&world, url("/")).1, "two");
}

#[test]
fn configured_lifetimes_hold_for_look_ups_and_their_404s_alone() {
    let missing = || ScriptedReply::status(404).body("none");
    let origin = OriginScript::new("a.example")
        .route(
            "/works/1",
            [ScriptedReply::ok("one"), ScriptedReply::ok("two")],
        )
        .route("/works/2", [missing(), ScriptedReply::ok("found")])
        .route(
            "/works/3",
            [
                ScriptedReply::ok("a").header("cache-control", "no-store"),
                ScriptedReply::ok("b"),
            ],
        )
        .route(
            "/works/4",
            [ScriptedReply::status(500), ScriptedReply::ok("b")],
        )
        .route(
            "/works?cursor=x",
            [ScriptedReply::ok("page 1"), ScriptedReply::ok("page 2")],
        )
        .route(
            "/people/1",
            [ScriptedReply::ok("one"), ScriptedReply::ok("two")],
        );
    let mut config = caching("1000/SECOND");
    let rules = CacheRules {
        overrides: Overrides {
            ttl: Some(Duration::from_secs(86_400)),
            negative_ttl: Some(Duration::from_secs(3_600)),
            ..Overrides::default()
        },
        lookups: config.cache.hosts[&Host::parse("api.crossref.org").expect("a host")][0]
            .lookups
            .clone(),
    };
    let by_role = [rules, CacheRules::default(), CacheRules::default()];
    config.cache.hosts.insert(host(), by_role);
    config.retry.attempts = std::num::NonZeroU32::MIN;
    let world = HubWorld::exact([origin], config);
    let bodies = |path: &str| [fetch(&world, url(path)).1, fetch(&world, url(path)).1];
    assert_eq!(bodies("/works/1"), ["one", "one"]);
    assert_eq!(bodies("/works/2"), ["none", "none"]);
    assert_eq!(bodies("/works/3"), ["a", "b"]);
    assert_eq!(bodies("/works/4")[1], "b");
    assert_eq!(bodies("/works?cursor=x"), ["page 1", "page 2"]);
    assert_eq!(bodies("/people/1"), ["one", "two"]);
    let again = url("/works/2").cache(CacheAccess::SkipErrors);
    assert_eq!(fetch(&world, again).1, "found");
    world.simulation.run_for(seconds(23 * 3_600));
    assert_eq!(fetch(&world, url("/works/1")).1, "one");
    world.simulation.run_for(seconds(2 * 3_600));
    assert_eq!(fetch(&world, url("/works/1")).1, "two");
}

#[test]
fn without_a_cache_every_request_goes_to_the_origin() {
    let origin = OriginScript::new("a.example").route("/", [fresh("one", 600), fresh("two", 600)]);
    let world = HubWorld::exact([origin], config(rates(&[])));
    assert_eq!(fetch(&world, url("/")), (200, "one".into(), CacheUse::None));
    assert_eq!(fetch(&world, url("/")), (200, "two".into(), CacheUse::None));
}

#[test]
fn an_answer_says_why_the_origin_was_asked() {
    let replies = ["one", "two", "three", "four"].map(|body| fresh(body, 10));
    let origin = OriginScript::new("a.example").route("/", replies);
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    let forward = |request: Request| {
        let answer = world.run(|hub| async move { hub.fetch(request).await });
        answer.expect("an answer").journey.forward
    };
    assert_eq!(forward(url("/")), Some(ForwardReason::Miss));
    assert_eq!(forward(url("/")), None, "a hit");
    let no_cache = HeaderValue::from_static("no-cache");
    let demanding = url("/").header(header::CACHE_CONTROL, no_cache);
    assert_eq!(forward(demanding), Some(ForwardReason::Request));
    let refresh = url("/").cache(CacheAccess::Refresh);
    assert_eq!(forward(refresh), Some(ForwardReason::Request));
    world.simulation.run_for(seconds(11));
    assert_eq!(
        forward(url("/")),
        Some(ForwardReason::Stale),
        "replaced by a 200"
    );
    let artifact = url("/").role(Role::Artifact);
    assert_eq!(forward(artifact), Some(ForwardReason::Bypass));
    let past_cache = url("/").cache(CacheAccess::Bypass);
    assert_eq!(forward(past_cache), Some(ForwardReason::Bypass));
    let posted = Request::new(Method::POST, "http://a.example/".parse().expect("a URL"));
    assert_eq!(forward(posted), Some(ForwardReason::Method));
}
