//! What is stored, and for whom.

use std::path::Path;

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::event::EventKind;
use docstokg_hub::transport::wire::WireOptions;
use docstokg_hub::{CacheUse, Hub, Request, Role};
use docstokg_origin_sim::{Listener, OriginScript, ScriptedReply, Security, SimulatedWeb};
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderName, HeaderValue, Method};

use super::{caching, fetch, fresh, host, url};
use crate::support::{HubWorld, on_sockets};

#[test]
fn an_answer_to_one_credential_is_not_given_to_another() {
    let origin = OriginScript::new("a.example").route(
        "/",
        ["anonymous", "key 1", "key 2", "bearer"].map(|body| fresh(body, 600)),
    );
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    let name = HeaderName::from_static("x-api-key");
    let with_key =
        |key: &'static str| url("/").secret_header(name.clone(), HeaderValue::from_static(key));
    let bearer = || url("/").header(AUTHORIZATION, HeaderValue::from_static("Bearer t"));
    for _ in 0..2 {
        assert_eq!(fetch(&world, url("/")).1, "anonymous");
        assert_eq!(fetch(&world, with_key("k1")).1, "key 1");
        assert_eq!(fetch(&world, with_key("k2")).1, "key 2");
        assert_eq!(fetch(&world, bearer()).1, "bearer");
    }
    assert_eq!(world.ledger().len(), 4);
}

#[test]
fn credentials_in_fields_of_any_name_have_answers_of_their_own() {
    for name in [
        "private-token",
        "token",
        "x-gitlab-token",
        "x-shibboleth-session",
        "x-hub-signature-256",
        "x-forwarded-user",
        // Nobody knows what they say: better a miss than a leak.
        "x-whatever",
        "x-forwarded-host",
    ] {
        let answers = ["first", "second"].map(|body| fresh(body, 600));
        let origin = OriginScript::new("a.example").route("/", answers);
        let world = HubWorld::exact([origin], caching("100/SECOND"));
        let with = |value| url("/").header(HeaderName::from_static(name), value);
        for _ in 0..2 {
            for (value, body) in [("one", "first"), ("two", "second")] {
                let value = HeaderValue::from_static(value);
                assert_eq!(fetch(&world, with(value)).1, body, "{name}");
            }
        }
    }
}

#[test]
fn roles_and_varying_headers_have_answers_of_their_own_and_files_none() {
    let reply = |body: &'static str| fresh(body, 600).header("vary", "accept");
    let origin =
        OriginScript::new("a.example").route("/", ["json", "xml", "page", "f1", "f2"].map(reply));
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    let xml = || {
        Request::get("http://a.example/".parse().expect("a URL"))
            .header(ACCEPT, HeaderValue::from_static("text/xml"))
    };
    for _ in 0..2 {
        assert_eq!(fetch(&world, url("/")).1, "json");
        assert_eq!(fetch(&world, xml()).1, "xml");
        assert_eq!(fetch(&world, url("/").role(Role::Landing)).1, "page");
    }
    assert_eq!(fetch(&world, url("/").role(Role::Artifact)).1, "f1");
    assert_eq!(fetch(&world, url("/").role(Role::Artifact)).1, "f2");
}

#[test]
fn a_body_is_stored_as_it_is_decoded_and_its_headers_say_so() {
    let body = b"a body that is compressed on its way".repeat(20);
    let origin = OriginScript::new("a.example").route("/", [fresh("", 600).gzip(&body)]);
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    for _ in 0..2 {
        let answer = world.run(|hub| async move { hub.fetch(url("/")).await });
        let answer = answer.expect("an answer");
        assert_eq!(answer.body, body);
        if answer.journey.cache.is_reused() {
            assert!(!answer.head.headers.contains_key("content-encoding"));
            assert!(answer.head.headers.contains_key("age"));
        }
    }
    assert_eq!(world.ledger().len(), 1);
}

#[test]
fn a_body_that_breaks_off_is_not_stored() {
    let cut = fresh("half", 600).claiming(100);
    let origin = OriginScript::new("a.example").route("/", [cut, fresh("whole", 600)]);
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    assert_eq!(fetch(&world, url("/")).1, "whole");
    assert_eq!(fetch(&world, url("/")).1, "whole");
    assert_eq!(world.ledger().len(), 2);
}

#[test]
fn redirects_are_stored_under_their_own_url() {
    let moved = ScriptedReply::redirect(301, "/new").header("cache-control", "max-age=600");
    let origin = OriginScript::new("a.example")
        .route("/old", [moved])
        .route("/new", [fresh("here", 600)]);
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    assert_eq!(fetch(&world, url("/old")).1, "here");
    let (_, body, used) = fetch(&world, url("/old"));
    assert_eq!(body, "here");
    assert!(matches!(used, CacheUse::Hit { .. }));
    assert!(matches!(fetch(&world, url("/new")).2, CacheUse::Hit { .. }));
    assert_eq!(world.ledger().len(), 2);
}

#[test]
fn a_method_that_changes_something_drops_what_is_stored() {
    let origin = OriginScript::new("a.example").route(
        "/",
        [
            fresh("one", 600),
            ScriptedReply::status(204),
            fresh("two", 600),
        ],
    );
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    fetch(&world, url("/"));
    let put = Request::new(Method::PUT, "http://a.example/".parse().expect("a URL"));
    assert_eq!(fetch(&world, put).0, 204);
    assert_eq!(fetch(&world, url("/")).1, "two");
}

#[test]
fn streams_and_files_store_and_are_served_too() {
    let body = "a body in pieces ".repeat(1_000);
    let origin = OriginScript::new("a.example")
        .route("/s", [fresh("", 600).body(body.clone())])
        .route("/f", [fresh("", 600).body(body.clone())]);
    let mut config = caching("100/SECOND");
    // Another thread makes files durable, which simulated time does not wait for.
    config.transport.durability = docstokg_hub::config::Durability::None;
    let world = HubWorld::exact([origin], config);
    let directory = tempfile::tempdir().expect("a directory");
    for round in 0..2 {
        let streamed = world.run(|hub| async move {
            let mut answer = hub.stream(url("/s")).await.expect("an answer");
            let mut all = Vec::new();
            while let Some(piece) = answer.body.next().await.expect("a body") {
                all.extend_from_slice(&piece);
            }
            (all, answer.journey.cache.is_reused())
        });
        assert_eq!(streamed, (body.clone().into_bytes(), round == 1));
        let path = directory.path().join(round.to_string());
        let file = path.clone();
        let saved = world.run(|hub| async move { hub.download(url("/f"), &file).await });
        let saved = saved.expect("a file");
        assert_eq!(saved.journey.cache.is_reused(), round == 1);
        assert_eq!(std::fs::read_to_string(path).expect("a file"), body);
    }
    let memory = fetch(&world, url("/s"));
    assert!(memory.2.is_reused() && memory.1 == body);
    assert_eq!(world.ledger().len(), 2);
}

#[test]
fn a_stored_stream_has_ended_with_its_last_piece() {
    // One body in memory, one in a file.
    for length in [100, 500_000] {
        let body = "x".repeat(length);
        let origin = OriginScript::new("a.example").route("/", [fresh("", 600).body(body)]);
        let world = HubWorld::exact([origin], caching("100/SECOND"));
        fetch(&world, url("/"));
        let cancelled = |world: &HubWorld| {
            let events = world.events.0.lock();
            let ends = events.iter().filter_map(|event| match &event.what {
                EventKind::End { error } => Some(error.is_some()),
                _ => None,
            });
            ends.collect::<Vec<_>>()
        };
        for left in [0, 1] {
            world.run(move |hub| async move {
                let mut answer = hub.stream(url("/")).await.expect("an answer");
                let mut read = 0;
                while read + left < length {
                    let piece = answer.body.next().await.expect("a body");
                    read += piece.expect("a piece").len();
                    if left > 0 {
                        break;
                    }
                }
            });
        }
        // The first piece of a short body is all of it.
        let ends = cancelled(&world);
        assert_eq!(ends[..2], [false, false], "{length} bytes");
        assert!(length > 100 || !ends[2], "{length} bytes");
    }
}

/// Says whether a file below a directory has these bytes in it.
fn is_on_disk(directory: &Path, secret: &[u8]) -> bool {
    std::fs::read_dir(directory)
        .expect("a directory")
        .any(|entry| {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                is_on_disk(&path, secret)
            } else {
                let bytes = std::fs::read(path).unwrap_or_default();
                bytes.windows(secret.len()).any(|window| window == secret)
            }
        })
}

/// A hub whose cache is in a directory, and which finds `a.example` at a listener.
pub(super) fn on_disk(listener: &Listener, state: &Path) -> Hub {
    let mapping = format!("a.example:80={}", listener.address);
    let wire = WireOptions {
        connect_to: vec![mapping.parse().expect("a mapping")],
        ..WireOptions::default()
    };
    Hub::builder(caching("100/SECOND"))
        .wire(wire)
        .state_dir(state)
        .build()
        .expect("a hub")
}

#[test]
fn a_directory_is_shared_by_hubs_and_has_no_secrets_in_it() {
    on_sockets(async {
        let origin = OriginScript::new("a.example").route(
            "/data?api_key=verysecretvalue",
            [fresh("stored", 600).header("vary", "x-api-key")],
        );
        let web = SimulatedWeb::new([origin], SystemClock.boot());
        let listener = Listener::start(&web, Security::Plain).await;
        let listener = listener.expect("a listener");
        let state = tempfile::tempdir().expect("a directory");
        let hub = || on_disk(&listener, state.path());
        let request = || {
            let key = HeaderValue::from_static("othersecretvalue");
            url("/data?api_key=verysecretvalue")
                .secret_header(HeaderName::from_static("x-api-key"), key)
        };
        let first = hub().fetch(request()).await.expect("an answer");
        assert_eq!(first.journey.cache, CacheUse::Stored);
        let second = hub().fetch(request()).await.expect("an answer");
        assert!(matches!(second.journey.cache, CacheUse::Hit { .. }));
        assert_eq!(second.body, "stored");
        let listed = hub();
        let cache = listed.cache().expect("a cache");
        let entries = cache
            .list(
                None,
                docstokg_hub::stores::cache::ListPosition::default(),
                10,
            )
            .await
            .expect("a list");
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].host, host().as_str());
        assert!(
            is_on_disk(state.path(), b"stored"),
            "the search finds what is there"
        );
        for secret in [&b"verysecretvalue"[..], b"othersecretvalue"] {
            assert!(!is_on_disk(state.path(), secret));
        }
    });
}
