//! Chains that need a cookie, and hops that resolvers of links lead to.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use docstokg_hub::clock::Random;
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::transport::{
    DialObserver, IncomingResponse, OutgoingRequest, SendError, Transport,
};
use docstokg_hub::{CookieJar, Hub, RateWait, Request, Role};
use docstokg_origin_sim::{OriginScript, ScriptedReply, SimTransport};

use crate::support::{HubWorld, config, get};

fn page(url: &str, jar: &Arc<CookieJar>) -> Request {
    get(url).role(Role::Landing).cookies(Arc::clone(jar))
}

/// A publisher as they are: the article sends requests without a cookie to the identity host, which
/// sets one for the site and sends back to the very same URL.
fn publisher() -> [OriginScript; 3] {
    let has = |arrival: &docstokg_origin_sim::Arrival, cookie: &str| {
        arrival
            .header("cookie")
            .is_some_and(|sent| sent.contains(cookie))
    };
    let article = OriginScript::new("www.pub.example").handler(move |arrival, _| {
        match arrival.path.as_str() {
            "/same" if !has(arrival, "seen=1") => {
                ScriptedReply::redirect(302, "/same").header("set-cookie", "seen=1; Path=/")
            }
            "/article" if !has(arrival, "ticket=ok") => {
                ScriptedReply::redirect(303, "https://idp.pub.example/authorize?back=/article")
            }
            "/endless" => ScriptedReply::redirect(302, "/endless").header("set-cookie", "fixed=1"),
            _ => ScriptedReply::ok("the article"),
        }
    });
    let identity = OriginScript::new("idp.pub.example").handler(move |arrival, _| {
        if arrival.path.starts_with("/authorize") && !has(arrival, "session=7") {
            return ScriptedReply::redirect(302, "https://idp.pub.example/transit")
                .header("set-cookie", "session=7; Secure; HttpOnly");
        }
        let ticket = ScriptedReply::redirect(302, "https://www.pub.example/article")
            .header("set-cookie", "ticket=ok; Domain=pub.example; Secure");
        ticket.header("set-cookie", "stolen=1; Domain=other.example")
    });
    [article, identity, OriginScript::new("other.example")]
}

#[test]
fn chains_over_cookies_and_the_identity_host_end_at_the_article() {
    let world = HubWorld::new(publisher(), config(CommandLineFlags::default()));
    let jar = Arc::new(CookieJar::new());
    for path in ["/same", "/article"] {
        let request = page(&format!("https://www.pub.example{path}"), &jar);
        let answer = world
            .run(move |hub| async move { hub.fetch(request).await })
            .expect("an answer");
        assert_eq!(&*answer.body, b"the article", "{path}");
    }
    let hops: Vec<String> = world
        .ledger()
        .arrivals()
        .iter()
        .map(|arrival| format!("{}{}", arrival.host, arrival.path))
        .collect();
    let expected = [
        "www.pub.example/same",
        "www.pub.example/same",
        "www.pub.example/article",
        "idp.pub.example/authorize?back=/article",
    ];
    assert_eq!(hops[..4], expected);
    assert_eq!(
        hops[4..],
        ["idp.pub.example/transit", "www.pub.example/article"]
    );
    // The run's next request to the site needs no chain; another site gets and keeps nothing.
    let (again, other) = (
        page("https://www.pub.example/article", &jar),
        page("https://other.example/", &jar),
    );
    let answers =
        world.run(move |hub| async move { (hub.fetch(again).await, hub.fetch(other).await) });
    assert!(answers.0.is_ok() && answers.1.is_ok());
    assert_eq!(world.ledger().len(), 8);
    assert_eq!(world.ledger().at("other.example")[0].header("cookie"), None);
}

#[test]
fn same_url_with_the_same_cookies_is_a_redirect_loop() {
    let world = HubWorld::new(publisher(), config(CommandLineFlags::default()));
    let jar = Arc::new(CookieJar::new());
    let request = page("https://www.pub.example/endless", &jar);
    let error = world
        .run(move |hub| async move { hub.fetch(request).await })
        .expect_err("a circle");
    assert_eq!(
        error.to_string(),
        "www.pub.example: it redirects in a circle"
    );
    assert_eq!(
        world.ledger().len(),
        2,
        "once without the cookie, once with it"
    );
}

#[test]
fn without_a_jar_and_for_metadata_there_are_no_cookies() {
    let world = HubWorld::new(publisher(), config(CommandLineFlags::default()));
    let jar = Arc::new(CookieJar::new());
    for request in [
        get("https://www.pub.example/same").role(Role::Landing),
        get("https://www.pub.example/same").cookies(jar),
    ] {
        let error = world
            .run(move |hub| async move { hub.fetch(request).await })
            .expect_err("a circle");
        assert!(error.to_string().contains("circle"), "{error}");
    }
    assert!(
        world
            .ledger()
            .arrivals()
            .iter()
            .all(|arrival| arrival.header("cookie").is_none())
    );
}

/// Serves http only at one host.
struct PlainOnly(Arc<dyn Transport>);

impl Transport for PlainOnly {
    fn send(
        &self,
        request: OutgoingRequest,
        dial: Arc<dyn DialObserver>,
    ) -> Pin<Box<dyn Future<Output = Result<IncomingResponse, SendError>> + Send + '_>> {
        if request.url.scheme() == "https" && request.url.host_str() == Some("old.example") {
            let refused = SendError::Fault {
                fault: Fault::Connect,
                message: "connection refused".to_owned(),
            };
            return Box::pin(std::future::ready(Err(refused)));
        }
        self.0.send(request, dial)
    }
}

#[test]
fn a_doi_that_leads_to_http_is_tried_by_https_and_then_followed() {
    let origins = [
        OriginScript::new("doi.org").handler(|arrival, _| match arrival.path.as_str() {
            "/10.1/modern" => ScriptedReply::redirect(302, "http://modern.example/a"),
            _ => ScriptedReply::redirect(302, "http://old.example/a"),
        }),
        OriginScript::new("modern.example"),
        OriginScript::new("old.example"),
    ];
    let world = HubWorld::new(origins, config(CommandLineFlags::default()));
    let transport = Arc::new(PlainOnly(SimTransport::new(&world.simulation, &world.web)));
    let hub = Hub::builder(config(CommandLineFlags::default()))
        .runtime(world.simulation.runtime())
        .random(Random::seeded(1))
        .transport(transport)
        .build()
        .expect("a hub");
    let world = HubWorld { hub, ..world };
    let fetch = |path: &str| {
        let request = get(&format!("https://doi.org{path}"))
            .role(Role::Landing)
            .rate_wait(RateWait::Deadline);
        world
            .run(move |hub| async move { hub.fetch(request).await })
            .expect("an answer")
            .head
            .url
            .to_string()
    };
    assert_eq!(fetch("/10.1/modern"), "https://modern.example/a");
    assert_eq!(fetch("/10.1/old"), "http://old.example/a");
    for n in 0..8 {
        assert_eq!(
            fetch(&format!("/10.1/old{n}")),
            "http://old.example/a",
            "its breaker is closed, and https is not tried again"
        );
    }
    assert_eq!(world.ledger().at("old.example").len(), 9);
}
