//! Bodies in memory, as streams and as files; caps and timeouts.

use std::time::Duration;

use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::policy::breaker::BreakerState;
use docstokg_hub::{Host, Repeatable, Role};
use docstokg_origin_sim::{OriginScript, Piece, ScriptedReply};

use crate::support::{HubWorld, config, get, ms, rates, seconds};

// Downloads that continue where they broke off.
mod resume;

fn host() -> Host {
    Host::parse("a.example").expect("a host")
}

fn quiet_config() -> docstokg_hub::config::Config {
    let mut configuration = config(rates(&[
        "a.example:artifact=rates:1000/SECOND,max_concurrent:1",
        "a.example:metadata=rates:1000/SECOND,max_concurrent:1",
    ]));
    configuration.transport.durability = docstokg_hub::config::Durability::None;
    configuration
}

#[test]
fn encoded_bodies_come_decoded() {
    let world = HubWorld::new(
        [OriginScript::new("a.example")
            .route("/", [ScriptedReply::status(200).gzip(b"hello hello hello")])],
        quiet_config(),
    );
    let answer = world
        .run(|hub| async move { hub.fetch(get("http://a.example/")).await })
        .expect("an answer");
    assert_eq!(&*answer.body, b"hello hello hello");
    assert_eq!(
        world.ledger().arrivals()[0].header("accept-encoding"),
        Some("gzip, deflate, br, zstd")
    );
}

#[test]
fn decoding_bomb_or_oversized_body_is_refused_without_a_retry() {
    let bomb = ScriptedReply::status(200).gzip(&vec![0; 8 << 20]);
    let giant = ScriptedReply::ok("x").claiming(1 << 40);
    let origin = OriginScript::new("a.example")
        .route("/bomb", [bomb])
        .route("/giant", [giant])
        .route("/big", [ScriptedReply::ok(vec![1; 5_000])]);
    let world = HubWorld::new([origin], quiet_config());
    let class = |path: &'static str, cap: Option<u64>| {
        let request = get(&format!("http://a.example{path}"));
        let request = match cap {
            Some(cap) => request.max_body(cap),
            None => request,
        };
        world
            .run(move |hub| async move { hub.fetch(request).await })
            .map(|answer| answer.body.len())
            .map_err(|error| error.to_string())
    };
    assert!(
        class("/bomb", None)
            .expect_err("a bomb")
            .contains("more than 200 times")
    );
    assert_eq!(
        class("/giant", None).expect_err("a giant"),
        "a.example: the body is larger than the allowed 67108864 bytes"
    );
    assert!(class("/big", Some(4_999)).is_err());
    assert_eq!(class("/big", Some(5_000)), Ok(5_000));
    assert_eq!(world.ledger().len(), 4, "nothing was asked twice");
    assert_eq!(
        world.view(&host()).failures(),
        0,
        "and the origin is not to blame"
    );
}

#[test]
fn a_long_body_is_kept_beside_memory_and_one_that_breaks_off_is_asked_for_again() {
    let body: Vec<u8> = (0..50_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    let broken = ScriptedReply::ok(body[..20_000].to_vec()).claiming(50_000);
    let origin = OriginScript::new("a.example")
        .route("/long", [broken, ScriptedReply::ok(body.clone())])
        .route("/short", [ScriptedReply::ok("short")])
        .route("/none", [ScriptedReply::status(404).body("none")]);
    let world = HubWorld::new([origin], quiet_config());
    let fetch = |path: &'static str| {
        let answer = world.run(move |hub| async move {
            hub.fetch_spooled(get(&format!("http://a.example{path}")), 1_000)
                .await
        });
        answer.expect("an answer").body
    };
    let long = fetch("/long");
    assert_eq!(long.beginning()[..], body[..1_000]);
    assert_eq!(long.read(u64::MAX).expect("it is there"), body);
    assert_eq!(long.read(30_000).expect("it is there"), body[..30_000]);
    for (path, said) in [("/short", "short"), ("/none", "none")] {
        let answer = fetch(path);
        assert_eq!(answer.beginning(), said);
        assert_eq!(answer.read(u64::MAX).expect("it is there"), said);
    }
    assert_eq!(world.ledger().len(), 4, "the long one was asked for twice");
}

#[test]
fn a_slow_drip_ends_in_a_timeout() {
    let drip = ScriptedReply::status(200).drip(&[7; 400], 1, seconds(2));
    let silent = ScriptedReply::status(200).pieces([
        Piece::Bytes("x".into()),
        Piece::Pause(seconds(300)),
        Piece::Bytes("y".into()),
    ]);
    let origin = OriginScript::new("a.example")
        .route("/drip", [drip])
        .route("/silent", [silent]);
    let mut configuration = quiet_config();
    configuration.transport.deadline = None;
    let world = HubWorld::new([origin], configuration);
    for (path, why) in [
        ("/drip", "less than 64 bytes a second"),
        ("/silent", "no bytes for 30 s"),
    ] {
        let error = world
            .run(move |hub| async move { hub.fetch(get(&format!("http://a.example{path}"))).await })
            .expect_err("a timeout");
        assert!(error.sentence().contains(why), "{}", error.sentence());
    }
}

#[test]
fn a_file_appears_complete_and_under_its_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let body: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    let cut = ScriptedReply::ok("")
        .pieces([Piece::Bytes(body[..5_000].to_vec().into()), Piece::Cut])
        .claiming(400_000);
    let origin = OriginScript::new("a.example")
        .route("/file", [cut, ScriptedReply::ok(body.clone())])
        .route("/gone", [ScriptedReply::status(404).body("no such file")]);
    let world = HubWorld::new([origin], quiet_config());
    let path = directory.path().join("paper.pdf");
    let target = path.clone();
    let done = world
        .run(move |hub| async move {
            hub.download(get("http://a.example/file").role(Role::Artifact), &target)
                .await
        })
        .expect("a file");
    let file = done.file.expect("a file");
    assert_eq!(
        (file.bytes, std::fs::read(&path).expect("a file")),
        (400_000, body)
    );
    assert_eq!(file.sha256.len(), 64);
    assert_eq!(
        done.journey.attempts, 2,
        "the cut body was a failed attempt"
    );
    let target = directory.path().join("gone.pdf");
    let done = world
        .run(move |hub| async move { hub.download(get("http://a.example/gone"), &target).await })
        .expect("an answer");
    assert!(done.file.is_none());
    assert_eq!(&*done.preview, b"no such file");
    let names: Vec<_> = std::fs::read_dir(directory.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(
        names,
        ["paper.pdf"],
        "no temporary leftovers, and no error page saved as a file"
    );
}

#[test]
fn a_directory_that_is_not_there_is_said_so_and_not_retried() {
    let world = HubWorld::new([OriginScript::new("a.example")], quiet_config());
    let path = std::path::PathBuf::from("/nonexistent-directory/paper.pdf");
    let error = world
        .run(move |hub| async move { hub.download(get("http://a.example/file"), &path).await })
        .expect_err("no directory");
    assert_eq!(
        error.sentence(),
        "cannot write /nonexistent-directory/paper.pdf: No such file or directory (os error 2)"
    );
    assert!(world.ledger().is_empty(), "and nothing was sent for it");
}

#[test]
fn headers_have_their_timeout_from_the_connection_on() {
    // Latency and dialling of an origin, and after how long the request fails; on a new connection
    // and on a kept one.
    let cases = [
        (seconds(15), ms(0), Some([1_000, 1_000])),
        (seconds(3), ms(2_500), Some([3_500, 1_000])),
        (ms(900), seconds(8), None),
        (seconds(0), seconds(60), Some([11_000, 11_000])),
    ];
    for (latency, dialling, expected) in cases {
        let origin = OriginScript::new("a.example")
            .dial_delay(dialling)
            .route("/slow", [ScriptedReply::ok("late").after(latency)]);
        let mut configuration = config(rates(&["a.example:metadata=rates:1000/SECOND"]));
        configuration.transport.header_timeout = seconds(1);
        let world = HubWorld::exact([origin], configuration);
        let took = [1, 2].map(|round| {
            let start = world.simulation.elapsed();
            let slow = get("http://a.example/slow").repeatable(Repeatable::No);
            let outcome = world.run(|hub| async move { hub.fetch(slow).await });
            assert_eq!(
                outcome.map_err(|error| error.kind.class()).err(),
                expected.map(|_| "timeout"),
                "{latency:?} after {dialling:?}"
            );
            let took = world.simulation.elapsed().saturating_sub(start).as_millis();
            if round == 1 && dialling < seconds(8) {
                let good =
                    world.run(|hub| async move { hub.fetch(get("http://a.example/")).await });
                assert!(good.is_ok(), "a connection to keep");
            }
            took
        });
        if let Some(expected) = expected {
            assert_eq!(took, expected, "{latency:?} after {dialling:?}");
        }
    }
}

#[test]
fn a_stream_holds_its_slot_until_it_ends() {
    let body = ScriptedReply::status(200).drip(&[1; 3_000], 1_000, seconds(1));
    let origin = OriginScript::new("a.example").route("/stream", [body]);
    let world = HubWorld::exact([origin], quiet_config());
    let (hub, simulation) = (world.hub.clone(), world.simulation.clone());
    world.simulation.start(async move {
        let mut streamed = hub
            .stream(get("http://a.example/stream"))
            .await
            .expect("a stream");
        let mut pieces = 0;
        while let Some(piece) = streamed.body.next().await.expect("a piece") {
            assert_eq!(piece.len(), 1_000);
            pieces += 1;
        }
        assert_eq!((pieces, simulation.elapsed().as_secs()), (3, 3));
    });
    let outcomes = world.fetch_all(vec![get("http://a.example/other")]);
    assert!(
        outcomes[0].0 >= 3.0,
        "the only slot was taken until the body had ended: {outcomes:?}"
    );
}

#[test]
fn a_dropped_stream_says_nothing_about_the_origin_and_frees_its_slot() {
    let body = ScriptedReply::status(200).drip(&[1; 3_000], 1_000, seconds(60));
    let world = HubWorld::new(
        [OriginScript::new("a.example").route("/stream", [body])],
        quiet_config(),
    );
    world.run(|hub| async move {
        let mut streamed = hub
            .stream(get("http://a.example/stream"))
            .await
            .expect("a stream");
        let _ = streamed.body.next().await.expect("a piece");
    });
    assert!(
        world
            .run(|hub| async move { hub.fetch(get("http://a.example/other")).await })
            .is_ok()
    );
    assert_eq!(world.view(&host()).failures(), 0);
}

#[test]
fn a_stream_that_breaks_off_is_a_failure_of_the_origin() {
    let body = ScriptedReply::status(200)
        .pieces([Piece::Bytes("half".into()), Piece::Cut])
        .claiming(8);
    let world = HubWorld::new(
        [OriginScript::new("a.example").route("/stream", [body])],
        quiet_config(),
    );
    world.run(|hub| async move {
        let mut streamed = hub
            .stream(get("http://a.example/stream"))
            .await
            .expect("a stream");
        assert_eq!(
            &*streamed.body.next().await.expect("a piece").expect("half"),
            b"half"
        );
        assert!(streamed.body.next().await.is_err());
    });
    assert_eq!(world.view(&host()).failures(), 1);
    assert_eq!(world.view(&host()).state(), BreakerState::Closed);
}

#[test]
fn a_consumer_that_stops_reading_loses_its_stream_and_not_the_hosts_slot() {
    let body = ScriptedReply::status(200).drip(&[1; 3_000], 1_000, ms(1));
    let world = HubWorld::exact(
        [OriginScript::new("a.example").route("/stream", [body])],
        quiet_config(),
    );
    let (hub, simulation) = (world.hub.clone(), world.simulation.clone());
    world.simulation.start(async move {
        let mut streamed = hub
            .stream(get("http://a.example/stream"))
            .await
            .expect("a stream");
        let _ = streamed.body.next().await.expect("a piece");
        simulation.sleep(Duration::from_secs(100)).await;
        let error = streamed.body.next().await.expect_err("too late");
        assert_eq!(
            error.to_string(),
            "the body broke off: it was not read for too long"
        );
    });
    let outcomes = world.fetch_all(vec![get("http://a.example/other")]);
    assert!(
        (60.0..61.0).contains(&outcomes[0].0),
        "the slot was given up after a minute: {outcomes:?}"
    );
}

#[test]
fn requests_name_the_client_and_what_they_accept() {
    let mut configuration = config(CommandLineFlags::default());
    configuration.identity.mailto = Some("me@home.org".to_owned());
    let world = HubWorld::new([OriginScript::new("a.example")], configuration);
    for role in Role::ALL {
        assert!(
            world
                .run(move |hub| async move { hub.fetch(get("http://a.example/").role(role)).await })
                .is_ok()
        );
    }
    let arrivals = world.ledger().arrivals();
    let agents: Vec<&str> = arrivals
        .iter()
        .map(|arrival| arrival.header("user-agent").expect("an agent"))
        .collect();
    let name = concat!("docstokg/", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        agents,
        [
            format!("{name} (mailto:me@home.org)"),
            name.to_owned(),
            name.to_owned()
        ],
        "the address goes to services"
    );
    let accepts: Vec<&str> = arrivals
        .iter()
        .map(|arrival| {
            arrival
                .header("accept")
                .expect("accept")
                .split(',')
                .next()
                .expect("one")
        })
        .collect();
    assert_eq!(
        accepts,
        ["application/json", "text/html", "application/pdf"]
    );
    assert_eq!(
        arrivals[2].header("accept-encoding"),
        Some("identity"),
        "files come as they are"
    );
}

#[test]
fn request_without_an_identity_names_no_contact() {
    let mut identity = config(CommandLineFlags::default()).identity;
    let name = concat!("docstokg/", env!("CARGO_PKG_VERSION"));
    assert_eq!(identity.user_agent(Role::Metadata), name);
    (identity.url, identity.mailto) = (
        Some("https://lab.example/crawl".to_owned()),
        Some("me@lab.example".to_owned()),
    );
    assert_eq!(
        identity.user_agent(Role::Artifact),
        format!("{name} (+https://lab.example/crawl)")
    );
    identity.contact = docstokg_hub::config::Contact::Everywhere;
    assert_eq!(
        identity.user_agent(Role::Artifact),
        format!("{name} (+https://lab.example/crawl; mailto:me@lab.example)")
    );
}
