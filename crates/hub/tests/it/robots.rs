//! robots.txt as requests that obey it meet it, judged by what the origin saw.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use docstokg_hub::clock::Random;
use docstokg_hub::config::Config;
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::transport::{
    DialObserver, IncomingResponse, OutgoingRequest, SendError, Transport,
};
use docstokg_hub::{ErrorKind, FetchError, Host, Hub, RateWait, Request, RobotsPolicy};
use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};
use parking_lot::Mutex;

use crate::support::{HubWorld, config, count, get, ms, rates, seconds};

// Crawl delays, over roles, retries and processes.
mod crawl_delay;

/// A request that obeys robots.txt and waits for its turn.
fn obeying(url: &str) -> Request {
    get(url)
        .rate_wait(RateWait::Deadline)
        .deadline(seconds(3_600))
        .robots(RobotsPolicy::Obey {
            exempt: Arc::default(),
        })
}

fn host(name: &str) -> Host {
    Host::parse(name).expect("a host")
}

/// Limits that are never reached, so that only robots.txt slows requests down.
fn unlimited() -> Config {
    config(rates(&[
        "a.example:metadata=rates:1000/SECOND",
        "a.example:landing=rates:1000/SECOND",
        "a.example:artifact=rates:1000/SECOND",
    ]))
}

fn answering(robots: &str) -> OriginScript {
    OriginScript::new("a.example")
        .latency(ms(20))
        .route("/robots.txt", [ScriptedReply::ok(robots.to_owned())])
}

/// Fetches one URL and returns the error that ends it.
fn refusal(world: &HubWorld, url: &str) -> FetchError {
    let request = obeying(url);
    world.run(move |hub| async move { hub.fetch(request).await.expect_err("a refusal") })
}

/// Fetches one URL to its answer.
fn answer(world: &HubWorld, url: &str) -> u16 {
    let request = obeying(url);
    world
        .run(move |hub| async move { hub.fetch(request).await })
        .unwrap_or_else(|error| panic!("{error}"))
        .head
        .status
        .as_u16()
}

/// Returns the paths that arrived at a host, in order.
fn paths(world: &HubWorld, host: &str) -> Vec<String> {
    let arrivals = world.ledger().at(host).into_iter();
    arrivals.map(|arrival| arrival.path).collect()
}

fn robots_requests(world: &HubWorld) -> usize {
    let paths = paths(world, "a.example");
    paths.iter().filter(|path| *path == "/robots.txt").count()
}

#[test]
fn fifty_concurrent_requests_ask_for_robots_txt_once() {
    let world = HubWorld::new([answering("User-agent: *\nAllow: /\n")], unlimited());
    let requests = (0..50).map(|n| obeying(&format!("http://a.example/{n}")));
    let outcomes = world.fetch_all(requests.collect());
    assert_eq!(count(&outcomes, "200"), 50, "{outcomes:?}");
    let arrived = paths(&world, "a.example");
    assert_eq!((arrived.len(), arrived[0].as_str()), (51, "/robots.txt"));
    assert_eq!(robots_requests(&world), 1);
}

#[test]
fn a_cancelled_request_leaves_robots_txt_to_the_next() {
    let slow = ScriptedReply::ok("User-agent: *\nDisallow: /no\n").after(seconds(10));
    let origin = OriginScript::new("a.example").route("/robots.txt", [slow]);
    let world = HubWorld::new([origin], unlimited());
    let requests = vec![
        obeying("http://a.example/one").deadline(seconds(2)),
        obeying("http://a.example/two"),
        obeying("http://a.example/three"),
    ];
    let outcomes = world.fetch_all(requests);
    assert_eq!(count(&outcomes, "200"), 2, "{outcomes:?}");
    assert_eq!(
        robots_requests(&world),
        2,
        "the one that was given up, and its successor"
    );
}

#[test]
fn a_disallowed_path_is_refused_and_never_requested() {
    let origin = answering("User-agent: *\nDisallow: /private\n");
    let world = HubWorld::new([origin], unlimited());
    let error = refusal(&world, "http://a.example/private/page?q=1");
    assert!(
        matches!(&error.kind, ErrorKind::Disallowed { host } if host.as_str() == "a.example"),
        "{error}"
    );
    assert_eq!(error.journey.attempts, 0);
    assert_eq!(paths(&world, "a.example"), ["/robots.txt"]);
    assert_eq!(answer(&world, "http://a.example/public"), 200);
}

#[test]
fn a_redirect_to_a_host_that_disallows_it_is_not_followed() {
    let first = answering("User-agent: *\nAllow: /\n").route(
        "/moved",
        [ScriptedReply::redirect(
            302,
            "http://b.example/private/file",
        )],
    );
    let second = OriginScript::new("b.example").route(
        "/robots.txt",
        [ScriptedReply::ok(
            "User-agent: docstokg\nDisallow: /private\n",
        )],
    );
    let world = HubWorld::new([first, second], unlimited());
    let error = refusal(&world, "http://a.example/moved");
    assert!(
        matches!(&error.kind, ErrorKind::Disallowed { host } if host.as_str() == "b.example"),
        "{error}"
    );
    assert_eq!(paths(&world, "a.example"), ["/robots.txt", "/moved"]);
    // The redirect states http: https is tried where robots.txt is asked for, and nothing else.
    let arrived = paths(&world, "b.example");
    assert!(
        arrived.iter().all(|path| path == "/robots.txt"),
        "{arrived:?}"
    );
}

#[test]
fn an_exempt_host_is_not_asked_for_robots_txt() {
    let world = HubWorld::new([answering("User-agent: *\nDisallow: /\n")], unlimited());
    let exempt = HashSet::from([host("a.example")]);
    let request = get("http://a.example/api").robots(RobotsPolicy::Obey {
        exempt: Arc::new(exempt),
    });
    let answer = world.run(move |hub| async move { hub.fetch(request).await });
    assert_eq!(answer.expect("an answer").head.status, 200);
    assert_eq!(paths(&world, "a.example"), ["/api"]);
}

#[test]
fn requests_ask_for_no_robots_txt_by_default() {
    let world = HubWorld::new([answering("User-agent: *\nDisallow: /\n")], unlimited());
    let answer = world.run(|hub| async move { hub.fetch(get("http://a.example/private")).await });
    assert_eq!(answer.expect("an answer").head.status, 200);
    assert_eq!(paths(&world, "a.example"), ["/private"]);
}

#[test]
fn a_robots_txt_that_answers_503_holds_all_requests_back_for_longer_each_time() {
    const FAILURES: usize = 24;
    let replies =
        std::iter::repeat_n(ScriptedReply::status(503), FAILURES).chain([ScriptedReply::ok("")]);
    let origin = OriginScript::new("a.example").route("/robots.txt", replies);
    let flags = CommandLineFlags {
        breaker: vec!["a.example=fail_max:100,reset:60".into()],
        ..CommandLineFlags::default()
    };
    let world = HubWorld::new([origin], config(flags));
    let mut waits = Vec::new();
    while robots_requests(&world) < FAILURES {
        let error = refusal(&world, "http://a.example/one");
        let ErrorKind::RobotsUnread {
            retry_in: Some(wait),
            ..
        } = error.kind
        else {
            panic!("{error}");
        };
        let attempts = robots_requests(&world);
        world.simulation.run_for(wait / 2);
        let error = refusal(&world, "http://a.example/two");
        assert_eq!(error.kind.class(), "robots_unreachable", "{error}");
        assert_eq!(world.ledger().len(), attempts, "nothing is requested");
        world.simulation.run_for(wait / 2 + ms(1));
        waits.push(wait.as_secs_f64().round());
    }
    assert!(waits.is_sorted() && waits[0] <= 2.0, "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= 30.0), "{waits:?}");
    assert_eq!(answer(&world, "http://a.example/one"), 200);
    assert_eq!(robots_requests(&world), FAILURES + 1);
}

#[test]
fn a_site_without_robots_txt_allows_everything() {
    for status in [404, 403, 410] {
        let origin =
            OriginScript::new("a.example").route("/robots.txt", [ScriptedReply::status(status)]);
        let world = HubWorld::new([origin], unlimited());
        assert_eq!(answer(&world, "http://a.example/any"), 200);
        assert_eq!(answer(&world, "http://a.example/other"), 200);
        assert_eq!(
            paths(&world, "a.example"),
            ["/robots.txt", "/any", "/other"]
        );
    }
}

/// A network on which every connection is refused.
#[derive(Default)]
struct RefusingNetwork(Mutex<Vec<String>>);

impl Transport for RefusingNetwork {
    fn send(
        &self,
        request: OutgoingRequest,
        dial: Arc<dyn DialObserver>,
    ) -> Pin<Box<dyn Future<Output = Result<IncomingResponse, SendError>> + Send + '_>> {
        dial.dialling();
        self.0.lock().push(request.url.path().to_owned());
        Box::pin(async {
            Err(SendError::Fault {
                fault: Fault::Connect,
                message: "connection refused".to_owned(),
            })
        })
    }
}

#[test]
fn a_robots_txt_that_cannot_be_reached_holds_its_site_back() {
    let simulation = Simulation::new();
    let transport = Arc::new(RefusingNetwork::default());
    let hub = Hub::builder(config(CommandLineFlags::default()))
        .runtime(simulation.runtime())
        .store(simulation.store())
        .random(Random::seeded(5))
        .transport(Arc::clone(&transport) as Arc<dyn Transport>)
        .build()
        .expect("a hub");
    for _ in 0..2 {
        let hub = hub.clone();
        let error = simulation.block_on(async move {
            let request = obeying("http://a.example/page");
            hub.fetch(request).await.expect_err("no connection")
        });
        assert_eq!(error.kind.class(), "robots_unreachable", "{error}");
        let message = error.to_string();
        let cause = "the robots.txt of a.example cannot be read, so nothing is requested there \
                     for now: the site cannot be reached";
        assert!(message.contains(cause), "{message}");
    }
    let sent = transport.0.lock().clone();
    assert_eq!(sent, ["/robots.txt"; 4], "one request with its retries");
}

#[test]
fn robots_txt_is_requested_again_after_a_day_and_not_before() {
    let replies = [
        ScriptedReply::ok("User-agent: *\nAllow: /\n"),
        ScriptedReply::ok("User-agent: *\nDisallow: /page\n"),
    ];
    let origin = OriginScript::new("a.example").route("/robots.txt", replies);
    let world = HubWorld::new([origin], unlimited());
    assert_eq!(answer(&world, "http://a.example/page"), 200);
    world.simulation.run_for(seconds(86_400 - 60));
    assert_eq!(answer(&world, "http://a.example/page"), 200);
    assert_eq!(robots_requests(&world), 1);
    world.simulation.run_for(seconds(120));
    let error = refusal(&world, "http://a.example/page");
    assert_eq!(error.kind.class(), "disallowed", "{error}");
    assert_eq!(robots_requests(&world), 2);
}
