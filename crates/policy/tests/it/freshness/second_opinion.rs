//! The crate http-cache-semantics as a second opinion on whether an answer is fresh. It follows
//! RFC 7234; every difference has a reason that is named here.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use http::{Request, Response};
use http_cache_semantics::{BeforeRequest, CacheOptions, CachePolicy};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::scene::{Argument, Scene, scenes};

const SCENES: usize = 6_000;

/// What the crate says: served without asking the origin.
fn other_opinion(scene: &Scene) -> bool {
    let (first, later) = scene.request_headers();
    let request = |headers| {
        let mut request = Request::builder()
            .uri("http://a.example/")
            .body(())
            .expect("a request");
        *request.headers_mut() = headers;
        request
    };
    let mut response = Response::builder()
        .status(scene.status)
        .body(())
        .expect("a response");
    *response.headers_mut() = scene.response_headers();
    let micros = Scene::received().as_micros().unsigned_abs();
    let received = SystemTime::UNIX_EPOCH + Duration::from_micros(micros);
    let options = CacheOptions {
        shared: scene.shared,
        cache_heuristic: 0.0,
        immutable_min_time_to_live: Duration::ZERO,
        ignore_cargo_cult: false,
    };
    let policy = CachePolicy::new_options(&request(first), &response, received, options);
    let now = received + Duration::from_secs(scene.later);
    let before = policy.before_request(&request(later), now);
    policy.is_storable() && matches!(before, BeforeRequest::Fresh(_))
}

/// Why the crate may say something else about a scene.
fn reason(scene: &Scene) -> Option<&'static str> {
    let has = |name: &str| scene.answered.iter().any(|one| one.name == name);
    let asks = |name: &str| scene.asked.iter().any(|one| one.name == name);
    let all = || scene.answered.iter().chain(&scene.asked);
    let names: Vec<_> = scene.answered.iter().map(|one| one.name).collect();
    let twice = |name: &&str| names.iter().filter(|other| *other == name).count() > 1;
    [
        (
            "it knows no targeted field",
            scene.shared && scene.targeted.is_some(),
        ),
        ("it reads names with their case", all().any(|one| one.loud)),
        (
            "it accepts malformed members, and splits quoted strings",
            all().any(|one| {
                matches!(
                    one.argument,
                    Argument::Broken | Argument::Wrong | Argument::Field
                )
            }),
        ),
        (
            "it reads a number without its argument as absent",
            all().any(|one| {
                one.argument == Argument::None
                    && (one.name.contains("age") || one.name == "min-fresh")
            }),
        ),
        (
            "it takes the first of several values",
            names.iter().any(twice),
        ),
        (
            "it does not compute the age by Date and delay",
            scene.delay > 0 || scene.date.flatten().is_some_and(|date| date < 0),
        ),
        (
            "it stores fewer statuses",
            [302, 299, 503].contains(&scene.status),
        ),
        ("it knows no must-understand", has("must-understand")),
        (
            "it takes proxy-revalidate for a lifetime of zero",
            scene.shared && has("proxy-revalidate"),
        ),
        (
            "it has no limit of seconds",
            scene.age.is_some_and(|age| age > 1 << 31)
                || all().any(|one| one.argument == Argument::Seconds(99_999_999_999)),
        ),
        (
            "it uses what is stored for a request with no-store",
            asks("no-store"),
        ),
        (
            "it obeys Pragma beside Cache-Control",
            scene.pragma && !scene.asked.is_empty(),
        ),
        (
            "it lets max-stale overrule s-maxage",
            scene.shared && asks("max-stale") && has("s-maxage"),
        ),
        (
            "it excludes the last second of max-stale, and combines it with max-age",
            asks("max-stale"),
        ),
        (
            "it validates immutable answers on reload",
            has("immutable") && asks("max-age"),
        ),
        (
            "it takes max-age=0 for at most zero",
            asks("max-age") && scene.later == 0,
        ),
        (
            "it knows no stale-while-revalidate",
            has("stale-while-revalidate"),
        ),
    ]
    .into_iter()
    .find_map(|(reason, applies)| applies.then_some(reason))
}

#[test]
fn differences_to_http_cache_semantics_have_known_reasons() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut differing = BTreeMap::<&str, usize>::new();
    let (mut alike, mut fresh) = (0, 0);
    for _ in 0..SCENES {
        let mut scene = scenes().new_tree(&mut runner).expect("a scene").current();
        // The crate has neither overrides nor a heuristic with a bound.
        (scene.ttl, scene.percent) = (None, None);
        scene.later %= 40;
        let permitted = scene.decided().0;
        let ours = permitted.fresh || permitted.at_once;
        if ours == other_opinion(&scene) {
            alike += 1;
            fresh += usize::from(ours);
            continue;
        }
        let reason = reason(&scene).unwrap_or_else(|| panic!("ours is {ours} for {scene:?}"));
        *differing.entry(reason).or_default() += 1;
    }
    assert!(alike > SCENES * 3 / 4, "{alike} alike, {differing:?}");
    assert!(
        fresh > SCENES / 50,
        "only {fresh} scenes are fresh for both"
    );
}
