//! What waits, what is refused, and what a slow client costs.

use std::io::Read as _;
use std::time::Duration;

use docstokg_origin_sim::{OriginScript, Piece, ScriptedReply, ServedWeb};

use crate::running_gateway::{GatewaySetup, RunningGateway, fine};

#[test]
fn a_request_that_would_wait_too_long_is_refused_with_its_reason() {
    let served = fine();
    let setup = GatewaySetup {
        rates: &["a.example:metadata=rates:1/HOUR"],
        caches: false,
        ..GatewaySetup::default()
    };
    let gateway = RunningGateway::before(&served, &setup);
    assert_eq!(gateway.get("http://a.example/").status, 200);
    // Known at once: the client's patience ends long before the hour does.
    let refused = gateway.get("http://a.example/");
    assert_eq!(refused.status, 429);
    let wait: u64 = refused
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("seconds");
    assert!((3_000..=3_601).contains(&wait), "{wait}");
    let problem = refused.problem();
    assert_eq!(problem["host"], "a.example");
    assert_eq!(problem["status"], 429);
    assert!(
        problem["cooldown_remaining_ms"].as_u64() > Some(3_000_000),
        "{problem}"
    );
    assert!(refused.header("server-timing").is_some());
    assert_eq!(served.web.ledger().len(), 1);
}

#[test]
fn a_paused_host_is_503_until_it_may_be_asked_again() {
    let served = ServedWeb::start(OriginScript::new("a.example").route(
        "/",
        [ScriptedReply::status(503).header("retry-after", "3600")],
    ));
    let gateway = RunningGateway::before(&served, &GatewaySetup::default());
    // The origin's own answer is passed on; the next request is not sent.
    assert_eq!(
        gateway.get("http://a.example/").header("retry-after"),
        Some("3600")
    );
    let refused = gateway.get("http://a.example/");
    assert_eq!(refused.status, 503);
    assert_eq!(refused.problem()["limit"], "retry-after");
    let wait: u64 = refused
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("seconds");
    assert!((3_000..=3_600).contains(&wait), "{wait}");
    assert_eq!(served.web.ledger().len(), 1);
}

#[test]
fn a_request_waits_for_a_moment_and_says_for_how_long() {
    let served = ServedWeb::start(
        OriginScript::new("a.example")
            .handler(|arrival, _| ScriptedReply::ok(arrival.path.clone())),
    );
    let setup = GatewaySetup {
        rates: &["a.example:metadata=rates:1/SECOND"],
        ..GatewaySetup::default()
    };
    let gateway = RunningGateway::before(&served, &setup);
    // The first need not wait, and neither does one that a busy machine asks a second later.
    let waited = (0..100).find_map(|number| {
        let answer = gateway.get(&format!("http://a.example/{number}"));
        let body = format!("/{number}").into_bytes();
        assert_eq!((answer.status, &answer.body), (200, &body));
        let timing = answer.header("server-timing").expect("times");
        let rate = timing.split("rate;dur=").nth(1)?.split(',').next()?;
        let milliseconds: f64 = rate.parse().expect("a number");
        (milliseconds > 0.0).then_some(milliseconds)
    });
    assert!(waited.is_some(), "no request waited");
}

#[test]
fn a_client_that_does_not_read_holds_no_slot_of_the_origin() {
    let large = ScriptedReply::ok(vec![b'x'; 20 << 20]);
    let served = ServedWeb::start(
        OriginScript::new("a.example")
            .route("/large", [large])
            .route("/small", [ScriptedReply::ok("small")]),
    );
    let setup = GatewaySetup {
        rates: &["a.example:metadata=rates:100/SECOND,max_concurrent:1"],
        ..GatewaySetup::default()
    };
    let gateway = RunningGateway::before(&served, &setup);
    let mut slow = gateway.send("GET http://a.example/large HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let mut first = [0; 1024];
    slow.read_exact(&mut first).expect("its beginning");
    // The only slot is free again although the large answer has not been read.
    assert_eq!(gateway.get("http://a.example/small").body, b"small");
    let mut rest = Vec::new();
    let wanted = 20 << 20;
    while rest.len() < wanted - 1024 {
        let mut piece = vec![0; 1 << 16];
        let length = slow.read(&mut piece).expect("the rest");
        assert!(length > 0, "the answer broke off");
        rest.extend_from_slice(&piece[..length]);
    }
    assert!(rest[1024..].iter().all(|byte| *byte == b'x'));
}

#[test]
fn a_client_that_leaves_ends_its_request() {
    let endless = ScriptedReply::ok("").chunked().pieces([Piece::Endless(
        vec![b'x'; 1 << 16].into(),
        Duration::from_millis(5),
    )]);
    let served = ServedWeb::start(
        OriginScript::new("a.example")
            .route("/endless", [endless])
            .route("/small", [ScriptedReply::ok("small")]),
    );
    let setup = GatewaySetup {
        rates: &["a.example:metadata=rates:100/SECOND,max_concurrent:1"],
        ..GatewaySetup::default()
    };
    let gateway = RunningGateway::before(&served, &setup);
    let mut left = gateway.send("GET http://a.example/endless HTTP/1.1\r\nHost: a.example\r\n\r\n");
    left.read_exact(&mut [0; 4096]).expect("its beginning");
    drop(left);
    assert_eq!(gateway.get("http://a.example/small").body, b"small");
}

#[test]
fn bodies_and_heads_of_requests_are_bounded() {
    let served = ServedWeb::start(
        OriginScript::new("a.example")
            .handler(|arrival, _| ScriptedReply::ok(arrival.method.clone())),
    );
    let setup = GatewaySetup {
        max_request_body: 1000,
        ..GatewaySetup::default()
    };
    let gateway = RunningGateway::before(&served, &setup);
    let post = |length: usize| {
        gateway.ask(&format!(
            "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{}",
            "x".repeat(length)
        ))
    };
    assert_eq!(post(1000).body, b"POST");
    assert_eq!(post(1001).problem()["reason"], "request_body");
    let long = "x".repeat(300 << 10);
    let head = format!("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX-Long: {long}");
    assert_eq!(gateway.ask(&head).status, 431);
    assert_eq!(served.web.ledger().len(), 1);
}

#[test]
fn clients_that_announce_much_and_send_little_take_little() {
    let served = ServedWeb::start(
        OriginScript::new("a.example")
            .handler(|arrival, _| ScriptedReply::ok(arrival.method.clone())),
    );
    let gateway = RunningGateway::before(&served, &GatewaySetup::default());
    let start = "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n";
    let length = 16 << 20;
    let stuck: Vec<_> = (0..32)
        .map(|number| match number % 2 {
            0 => gateway.send(&format!("{start}Content-Length: {length}\r\n\r\nx")),
            _ => gateway.send(&format!(
                "{start}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
            )),
        })
        .collect();
    for length in [1, 1000, 1 << 20] {
        let head = format!(
            "{start}Content-Length: {length}\r\nConnection: close\r\n\r\n{}",
            "x".repeat(length)
        );
        let answer = gateway.ask(&head);
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"POST"[..]));
    }
    drop(stuck);
}

#[test]
fn requests_for_heads_count() {
    let served = fine();
    let setup = GatewaySetup {
        rates: &["a.example:metadata=rates:3/HOUR"],
        caches: false,
        ..GatewaySetup::default()
    };
    let gateway = RunningGateway::before(&served, &setup);
    let head = "HEAD http://a.example/ HTTP/1.1\r\nHost: a.example";
    let statuses: Vec<u16> = (0..5).map(|_| gateway.ask(head).status).collect();
    assert!(statuses.ends_with(&[429, 429]), "{statuses:?}");
    assert!(served.web.ledger().len() <= 3);
}

#[test]
fn requests_for_heads_are_free_where_the_configuration_says_so() {
    let served = fine();
    let setup = GatewaySetup {
        rates: &["a.example:metadata=rates:1/MINUTE,count_head:false"],
        caches: false,
        ..GatewaySetup::default()
    };
    let gateway = RunningGateway::before(&served, &setup);
    let head = "HEAD http://a.example/ HTTP/1.1\r\nHost: a.example";
    let statuses: Vec<u16> = (0..5).map(|_| gateway.ask(head).status).collect();
    assert_eq!(statuses, [200; 5]);
    assert_eq!(gateway.get("http://a.example/").status, 200);
    assert_eq!(gateway.get("http://a.example/").status, 429);
}
