//! HTTP/2, as nearly every service of the field speaks it: many requests on one connection, which
//! the origin may end.

use std::collections::HashSet;

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::{Hub, Role};
use docstokg_origin_sim::{Listener, OriginScript, Piece, ScriptedReply, Security, SimulatedWeb};
use http::Version;

use crate::support::{
    apply_load, config, expect_answers, get, ms, on_sockets, rates, seconds, trusting,
};

const HOST: &str = "modern.example";

/// An origin that shuts a connection down after so many requests, and a hub that finds it.
async fn world(
    origin: OriginScript,
    requests_per_connection: u32,
    flags: CommandLineFlags,
) -> (SimulatedWeb, Listener, Hub) {
    let web = SimulatedWeb::new([origin], SystemClock.boot());
    let (security, pem) = Security::self_signed_http2(HOST, requests_per_connection);
    let listener = Listener::start(&web, security).await.expect("a port");
    let mut configuration = config(flags);
    // The client library loses a request now and then when a connection ends, without an error: it
    // is tried again after this.
    configuration.transport.connect_timeout = seconds(5);
    configuration.transport.header_timeout = seconds(5);
    let hub = trusting(configuration, "modern.example:443", &listener, &pem);
    (web, listener, hub)
}

#[test]
fn requests_at_once_share_a_connection() {
    on_sockets(async {
        let origin = OriginScript::new(HOST).latency(ms(20));
        let (web, listener, hub) = world(
            origin,
            10_000,
            rates(&["modern.example:metadata=rates:1000/SECOND,max_concurrent:32"]),
        )
        .await;
        assert_eq!(
            hub.fetch(get("https://modern.example/first"))
                .await
                .expect("an answer")
                .head
                .version,
            Version::HTTP_2
        );
        let mut callers = tokio::task::JoinSet::new();
        for n in 0..32 {
            let hub = hub.clone();
            callers.spawn(async move {
                hub.fetch(get(&format!("https://modern.example/{n}")))
                    .await
                    .expect("an answer")
                    .head
                    .version
            });
        }
        while let Some(version) = callers.join_next().await {
            assert_eq!(version.expect("no panic"), Version::HTTP_2);
        }
        assert_eq!(
            (listener.connections(), web.ledger().arrivals().len()),
            (1, 33)
        );
    });
}

#[test]
fn a_connection_that_the_origin_ends_loses_nothing() {
    on_sockets(async {
        let origin = OriginScript::new(HOST).latency(ms(2));
        let (web, listener, hub) = world(
            origin,
            20,
            rates(&["modern.example:metadata=rates:1000/SECOND,max_concurrent:8"]),
        )
        .await;
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..8 {
            let hub = hub.clone();
            callers.spawn(async move {
                for n in 0..50 {
                    assert_eq!(
                        hub.fetch(get(&format!("https://modern.example/{caller}/{n}")))
                            .await
                            .expect("an answer")
                            .head
                            .status,
                        200
                    );
                }
            });
        }
        while let Some(done) = callers.join_next().await {
            done.expect("every request is answered");
        }
        let paths: HashSet<String> = web
            .ledger()
            .arrivals()
            .into_iter()
            .map(|arrival| arrival.path)
            .collect();
        assert_eq!(paths.len(), 400);
        assert!(
            listener.connections() >= 400 / 20,
            "{} connections",
            listener.connections()
        );
    });
}

#[test]
fn streams_that_end_badly_are_failed_attempts_and_tried_again() {
    on_sockets(async {
        let good = || ScriptedReply::ok("complete");
        let origin = OriginScript::new(HOST)
            .route("/broken", [ScriptedReply::dead(Piece::Reset), good()])
            .route(
                "/cut",
                [
                    ScriptedReply::ok("")
                        .pieces([
                            Piece::Bytes("comp".into()),
                            Piece::Pause(ms(5)),
                            Piece::Reset,
                        ])
                        .claiming(8),
                    good(),
                ],
            )
            .route("/short", [ScriptedReply::ok("comp").claiming(8), good()])
            .route("/unsized", [ScriptedReply::ok("in pieces").chunked()])
            .route("/gzip", [ScriptedReply::status(200).gzip(b"unpacked")])
            .route("/empty", [ScriptedReply::status(204)]);
        let flags = CommandLineFlags {
            breaker: vec!["modern.example=fail_max:100".into()],
            ..rates(&["modern.example:metadata=rates:1000/SECOND"])
        };
        let (web, _listener, hub) = world(origin, 10_000, flags).await;
        let expected = [
            ("/broken", "complete", 2),
            ("/cut", "complete", 2),
            ("/short", "complete", 2),
            ("/unsized", "in pieces", 1),
            ("/gzip", "unpacked", 1),
            ("/empty", "", 1),
        ];
        expect_answers(&hub, "https://modern.example", &expected).await;
        assert_eq!(
            web.ledger().arrivals().len(),
            3 * 2 + 3,
            "no other request has tried again"
        );
    });
}

#[test]
fn a_stream_that_is_refused_once_is_no_failure_and_an_origin_that_refuses_all_is() {
    on_sockets(async {
        let replies = [
            ScriptedReply::dead(Piece::Cut),
            ScriptedReply::ok("complete"),
        ];
        let origin = OriginScript::new(HOST).route("/once", replies).route(
            "/ever",
            std::iter::repeat_n(ScriptedReply::dead(Piece::Cut), 99),
        );
        let flags = CommandLineFlags {
            breaker: vec!["modern.example=fail_max:1,early_probes:false".into()],
            ..rates(&["modern.example:metadata=rates:1000/SECOND"])
        };
        let (web, _listener, hub) = world(origin, 10_000, flags).await;
        let answer = hub
            .fetch(get("https://modern.example/once"))
            .await
            .expect("the second time it is taken");
        assert_eq!(
            (&*answer.body, answer.journey.attempts),
            (&b"complete"[..], 1),
            "what was not looked at is no attempt"
        );
        let error = hub
            .fetch(get("https://modern.example/ever").deadline(seconds(5)))
            .await
            .expect_err("never taken");
        assert_eq!(
            (error.kind.class(), error.journey.attempts),
            ("read", 1),
            "{error}"
        );
        let error = hub
            .fetch(get("https://modern.example/once"))
            .await
            .expect_err("the breaker is open");
        assert_eq!(error.kind.class(), "breaker_open");
        // Twice once, and six times in vain: then it is a failure of the host.
        assert_eq!(web.ledger().arrivals().len(), 8);
    });
}

#[test]
fn a_large_file_comes_whole_while_others_are_asked_for() {
    on_sockets(async {
        let large: Vec<u8> = (0..8 << 20).map(|n: u32| (n * 31 % 251) as u8).collect();
        let expected = large.clone();
        let origin = OriginScript::new(HOST).handler(move |arrival, _| {
            if arrival.path == "/large" {
                ScriptedReply::ok(large.clone())
            } else {
                ScriptedReply::ok("small")
            }
        });
        let (_web, listener, hub) = world(
            origin,
            10_000,
            rates(&["modern.example:artifact=rates:1000/SECOND,max_concurrent:4"]),
        )
        .await;
        hub.fetch(get("https://modern.example/first").role(Role::Artifact))
            .await
            .expect("an answer");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("large.bin");
        let others = async {
            for n in 0..50 {
                let answer = hub
                    .fetch(get(&format!("https://modern.example/{n}")).role(Role::Artifact))
                    .await
                    .expect("an answer");
                assert_eq!(&*answer.body, b"small");
            }
        };
        let (file, ()) = tokio::join!(
            hub.download(
                get("https://modern.example/large").role(Role::Artifact),
                &path
            ),
            others
        );
        assert_eq!(
            file.expect("an answer").file.expect("a file").bytes,
            expected.len() as u64
        );
        assert!(
            std::fs::read(&path).expect("a file") == expected,
            "byte for byte"
        );
        assert_eq!(listener.connections(), 1);
    });
}

#[test]
fn the_origin_sees_no_window_exceeded_over_http_2() {
    on_sockets(async {
        let origin = OriginScript::new(HOST).dial_delay(ms(100));
        // Connections end now and then, so that some requests dial in the middle of it all.
        let (web, _listener, hub) = world(
            origin,
            70,
            rates(&[
                "modern.example:metadata=rates:50/SECOND,max_delay_ms:60000,max_concurrent:64",
            ]),
        )
        .await;
        apply_load(&hub, "https://modern.example/", 64, 3).await;
        // What the machine holds up for less than a second comes together with the next second's;
        // `cargo xtask politeness` measures it exactly, and how much of the rate is used.
        web.ledger()
            .no_window_exceeded(HOST, 100, seconds(1))
            .expect("the origin's own count");
    });
}
