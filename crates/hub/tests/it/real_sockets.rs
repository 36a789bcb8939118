//! Real sockets, in real time.

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::config::Config;
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::transport::wire::WireOptions;
use docstokg_hub::{Hub, Request};
use docstokg_origin_sim::{Listener, OriginScript, Piece, ScriptedReply, Security, SimulatedWeb};

use crate::support::{apply_load, config, expect_answers, get, ms, on_sockets, seconds, trusting};

fn web(origins: impl IntoIterator<Item = OriginScript>) -> SimulatedWeb {
    SimulatedWeb::new(origins, SystemClock.boot())
}

/// A hub that finds the named hosts at the listener.
fn hub(configuration: Config, listener: &Listener, hosts: &[&str]) -> Hub {
    let connect_to = hosts
        .iter()
        .map(|host| {
            format!("{host}={}", listener.address)
                .parse()
                .expect("a mapping")
        })
        .collect();
    Hub::builder(configuration)
        .wire(WireOptions {
            connect_to,
            ..WireOptions::default()
        })
        .build()
        .expect("a hub")
}

/// Fails once on each path but the first two, in a way of its own.
fn faulty_origin() -> OriginScript {
    let good = || ScriptedReply::ok("complete");
    let then_good = |broken: ScriptedReply| [broken, good()];
    let half = |end: Piece| ScriptedReply::ok("").pieces([Piece::Bytes("comp".into()), end]);
    let reset_later = [
        Piece::Bytes("comp".into()),
        Piece::Pause(ms(20)),
        Piece::Reset,
    ];
    let reset_body = ScriptedReply::ok("").pieces(reset_later).claiming(8);
    let huge_headers = ScriptedReply::ok("x").header("x-huge", &"h".repeat(2_000_000));
    OriginScript::new("a.example")
        .route("/chunked", [ScriptedReply::ok("in chunks").chunked()])
        .route("/gzip", [ScriptedReply::status(200).gzip(b"unpacked")])
        .route("/reset", then_good(ScriptedReply::dead(Piece::Reset)))
        .route("/closed", then_good(ScriptedReply::dead(Piece::Cut)))
        .route("/cut", then_good(half(Piece::Cut).claiming(8)))
        .route("/cut-chunks", then_good(half(Piece::Cut).chunked()))
        .route("/short", then_good(ScriptedReply::ok("comp").claiming(8)))
        .route("/reset-body", then_good(reset_body))
        .route("/huge-headers", then_good(huge_headers))
}

#[test]
fn a_response_of_a_thousand_fields_is_read_and_one_of_more_is_a_fault() {
    let with_fields = |count: usize| {
        let fields = 0..count;
        fields.fold(ScriptedReply::ok("complete"), |reply, number| {
            reply.header(&format!("x-field-{number}"), "v")
        })
    };
    let origin = OriginScript::new("a.example")
        .route("/many", [with_fields(1_000)])
        .route("/too-many", [with_fields(1_100)]);
    on_sockets(async move {
        let web = web([origin]);
        let listener = Listener::start(&web, Security::Plain)
            .await
            .expect("a port");
        let configuration = config(CommandLineFlags::default());
        let hub = hub(configuration, &listener, &["a.example:80"]);
        let many = hub.fetch(get("http://a.example/many")).await;
        let many = many.expect("an answer");
        assert_eq!(many.head.headers["x-field-999"], "v");
        let request = get("http://a.example/too-many").retry_wait(ms(1));
        let refused = hub.fetch(request).await.expect_err("a fault");
        assert_eq!(refused.kind.class(), "read", "{refused}");
    });
}

#[test]
fn every_fault_of_a_real_socket_is_recognised_and_tried_again() {
    on_sockets(async {
        let web = web([faulty_origin()]);
        let listener = Listener::start(&web, Security::Plain)
            .await
            .expect("a port");
        let flags = CommandLineFlags {
            rate: vec!["a.example:metadata=rates:1000/SECOND".into()],
            breaker: vec!["a.example=fail_max:100".into()],
            ..CommandLineFlags::default()
        };
        let hub = hub(config(flags), &listener, &["a.example:80"]);
        let expected = [
            ("/chunked", "in chunks", 1),
            ("/gzip", "unpacked", 1),
            ("/reset", "complete", 2),
            ("/closed", "complete", 2),
            ("/cut", "complete", 2),
            ("/cut-chunks", "complete", 2),
            ("/short", "complete", 2),
            ("/reset-body", "complete", 2),
            ("/huge-headers", "complete", 2),
        ];
        expect_answers(&hub, "http://a.example", &expected).await;
    });
}

#[test]
fn a_connection_that_ends_between_two_requests_is_no_failure_and_a_new_one_that_ends_is() {
    on_sockets(async {
        for (how, secure) in [
            (Piece::Cut, false),
            (Piece::Reset, false),
            (Piece::Cut, true),
            (Piece::Reset, true),
        ] {
            let (tls, pem) = Security::self_signed("a.example");
            let (security, scheme, port) = if secure {
                (tls, "https", 443)
            } else {
                (Security::Plain, "http", 80)
            };
            let hub = |listener: &Listener| {
                let flags = CommandLineFlags {
                    breaker: vec!["a.example=fail_max:1,early_probes:false".into()],
                    ..CommandLineFlags::default()
                };
                trusting(config(flags), &format!("a.example:{port}"), listener, &pem)
            };
            let url = |path: &str| get(&format!("{scheme}://a.example{path}")).deadline(seconds(5));
            let origin = OriginScript::new("a.example").route(
                "/again",
                [
                    ScriptedReply::dead(how.clone()),
                    ScriptedReply::ok("complete"),
                ],
            );
            let listener = Listener::start(&web([origin]), security.clone())
                .await
                .expect("a port");
            let warm = hub(&listener);
            warm.fetch(url("/first")).await.expect("an answer");
            let answer = warm
                .fetch(url("/again"))
                .await
                .expect("an answer by a new connection");
            assert_eq!(
                (&*answer.body, answer.journey.attempts),
                (&b"complete"[..], 2),
                "{how:?}"
            );
            assert_eq!(listener.connections(), 2);

            let listener = Listener::start(
                &web([OriginScript::new("a.example").route("/again", [ScriptedReply::dead(how)])]),
                security,
            )
            .await
            .expect("a port");
            let error = hub(&listener)
                .fetch(url("/again"))
                .await
                .expect_err("a fault");
            assert_eq!(
                (error.kind.class(), error.journey.attempts),
                ("read", 1),
                "the breaker has opened: {error}"
            );
        }
    });
}

/// Returns URLs that lead into the private network, the first two to a listener on this port.
fn internal_urls(port: u16) -> [String; 7] {
    [
        format!("http://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://127.1:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://2130706433:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://10.0.0.1/".to_owned(),
    ]
}

/// Redirects the path `/N` to the URL with that number.
fn redirecting(targets: [String; 7]) -> OriginScript {
    OriginScript::new("out.example").handler(move |arrival, _| {
        let number = arrival.path.trim_start_matches('/');
        let number: usize = number.parse().expect("a number");
        ScriptedReply::redirect(302, &targets[number])
    })
}

fn discovered(url: &str) -> Request {
    Request::get(url.parse().expect("a URL")).discovered()
}

#[test]
fn discovered_urls_do_not_reach_the_private_network() {
    on_sockets(async {
        let inside = web([]);
        let internal = Listener::start(&inside, Security::Plain)
            .await
            .expect("a port");
        let targets = internal_urls(internal.address.port());
        let listener = Listener::start(&web([redirecting(targets.clone())]), Security::Plain)
            .await
            .expect("a port");
        let hub = hub(
            config(CommandLineFlags::default()),
            &listener,
            &["out.example:80"],
        );
        for (n, target) in targets.iter().enumerate() {
            for request in [get(&format!("http://out.example/{n}")), discovered(target)] {
                let error = hub.fetch(request).await.expect_err("an internal address");
                assert_eq!(error.kind.class(), "internal_address", "{target}: {error}");
            }
        }
        assert!(inside.ledger().is_empty(), "nothing arrived inside");
        assert!(
            hub.fetch(get(&targets[0])).await.is_ok(),
            "a user-supplied URL is reached"
        );
        let answer = hub
            .fetch(get("http://out.example/0"))
            .await
            .expect("user-supplied by now");
        assert_eq!(answer.journey.redirects, 1, "and so is a redirect to it");
        let mut open = config(CommandLineFlags::default());
        open.transport.allow_internal = true;
        let open = Hub::builder(open).build().expect("a hub");
        assert!(
            open.fetch(discovered(&targets[1])).await.is_ok(),
            "or where the configuration allows it"
        );
    });
}

#[test]
fn https_works_with_a_given_certificate_and_not_without() {
    on_sockets(async {
        let web = web([OriginScript::new("secure.example")]);
        let (security, pem) = Security::self_signed("secure.example");
        let listener = Listener::start(&web, security).await.expect("a port");
        let trusting = trusting(
            config(CommandLineFlags::default()),
            "secure.example:443",
            &listener,
            &pem,
        );
        assert_eq!(
            trusting
                .fetch(get("https://secure.example/"))
                .await
                .expect("an answer")
                .head
                .status,
            200
        );
        let wary = hub(
            config(CommandLineFlags::default()),
            &listener,
            &["secure.example:443"],
        );
        let error = wary
            .fetch(get("https://secure.example/"))
            .await
            .expect_err("no trust");
        assert_eq!(
            (error.kind.class(), error.journey.attempts),
            ("tls", 1),
            "a certificate does not get better by asking again"
        );
    });
}

#[test]
fn a_file_is_synced_and_renamed_by_the_batch() {
    on_sockets(async {
        let web = web([OriginScript::new("a.example")
            .handler(|arrival, _| ScriptedReply::ok(arrival.path.repeat(1_000)))]);
        let listener = Listener::start(&web, Security::Plain)
            .await
            .expect("a port");
        let flags = CommandLineFlags {
            rate: vec!["a.example:artifact=rates:1000/SECOND,max_concurrent:50".into()],
            ..CommandLineFlags::default()
        };
        let hub = hub(config(flags), &listener, &["a.example:80"]);
        let directory = tempfile::tempdir().expect("a directory");
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..40 {
            let (hub, path) = (hub.clone(), directory.path().join(format!("{n}.txt")));
            tasks.spawn(async move {
                hub.download(
                    get(&format!("http://a.example/{n}")).role(docstokg_hub::Role::Artifact),
                    &path,
                )
                .await
            });
        }
        while let Some(done) = tasks.join_next().await {
            let file = done
                .expect("no panic")
                .expect("an answer")
                .file
                .expect("a file");
            let written = std::fs::read(&file.path).expect("a file");
            assert_eq!(written.len() as u64, file.bytes);
        }
        assert_eq!(
            std::fs::read_dir(directory.path())
                .expect("a directory")
                .count(),
            40
        );
    });
}

/// `cargo xtask politeness` measures it exactly, and how much of the rate is used.
#[test]
fn the_origin_sees_no_window_exceeded_from_cold_connections_on() {
    on_sockets(async {
        let origin = OriginScript::new("secure.example").dial_delay(ms(100));
        let web = web([origin]);
        let (security, pem) = Security::self_signed("secure.example");
        let listener = Listener::start(&web, security).await.expect("a port");
        let flags = CommandLineFlags {
            rate: vec![
                "secure.example:metadata=rates:50/SECOND,max_delay_ms:60000,max_concurrent:64"
                    .into(),
            ],
            ..CommandLineFlags::default()
        };
        let hub = trusting(config(flags), "secure.example:443", &listener, &pem);
        apply_load(&hub, "https://secure.example/", 64, 3).await;
        // What the machine holds up for less than a second comes together with the next second's.
        web.ledger()
            .no_window_exceeded("secure.example", 100, seconds(1))
            .expect("the origin's own count");
    });
}
