//! What requests are refused, and what of others and their answers passes.

use docstokg_hub::policy::freshness::CacheMode;
use docstokg_origin_sim::{Arrival, OriginScript, Piece, ScriptedReply, ServedWeb};

use crate::running_gateway::{GatewaySetup, RunningGateway, fine, free_address};

#[test]
fn requests_that_are_not_for_the_gateway_are_refused_by_name() {
    let served = fine();
    let gateway = RunningGateway::before(&served, &GatewaySetup::default());
    let host = &gateway.address;
    let path = "/http://a.example/";
    for (head, status, reason) in [
        (
            "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443".to_owned(),
            501,
            "tunnel",
        ),
        (
            format!("GET {path} HTTP/1.1\r\nHost: evil.example"),
            421,
            "host",
        ),
        (
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: https://evil.example"),
            403,
            "other_site",
        ),
        (
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nSec-Fetch-Site: cross-site"),
            403,
            "other_site",
        ),
        (
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nDocstokg-Role: paper"),
            400,
            "role",
        ),
        (
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nDocstokg-Resolver: a b"),
            400,
            "resolver",
        ),
        (
            format!("GET http://{}/ HTTP/1.1\r\nHost: x", served.address),
            403,
            "internal_address",
        ),
        (
            format!("GET /nothing HTTP/1.1\r\nHost: {host}"),
            404,
            "target",
        ),
    ] {
        let answer = gateway.ask(&head);
        let problem = answer.problem();
        assert_eq!(
            (answer.status, &problem["reason"]),
            (status, &reason.into()),
            "{head}"
        );
        assert!(
            !answer.headers.contains("access-control"),
            "{}",
            answer.headers
        );
    }
    assert!(
        served.web.ledger().is_empty(),
        "the origin heard of one of them"
    );
    let tunnel = gateway.ask("CONNECT a.example:8443 HTTP/1.1\r\nHost: a.example:8443");
    let detail = tunnel.problem()["detail"].to_string();
    assert!(detail.contains("/https://a.example:8443/PATH"), "{detail}");
}

#[test]
fn a_page_of_another_site_has_an_origin_of_its_own() {
    let of_an_origin = [
        ("access-control-allow-origin", "*"),
        ("set-cookie", "a=1"),
        ("set-cookie2", "a=1"),
        ("clear-site-data", "\"*\""),
        ("service-worker-allowed", "/"),
        ("alt-svc", "h2=\"b.example:443\""),
        ("www-authenticate", "Basic realm=\"gateway\""),
        ("origin-trial", "token"),
        ("origin-agent-cluster", "?1"),
    ];
    let page = of_an_origin
        .iter()
        .fold(ScriptedReply::ok("<p>"), |page, (name, value)| {
            page.header(name, value)
        });
    let served = ServedWeb::start(OriginScript::new("a.example").route("/p", [page]));
    let gateway = RunningGateway::before(&served, &GatewaySetup::default());
    let shown = gateway.page("/http://a.example/p");
    assert_eq!(shown.header("content-security-policy"), Some("sandbox"));
    for (name, _) in of_an_origin {
        assert_eq!(shown.header(name), None, "{name}");
    }
    // A proxy's client shows the page under its own name.
    let proxied = gateway.get("http://a.example/p");
    assert_eq!(proxied.header("content-security-policy"), None);
    assert!(proxied.header("www-authenticate").is_some());
}

#[test]
fn with_an_origin_every_path_is_one_below_it() {
    let served = ServedWeb::start(
        OriginScript::new("a.example")
            .handler(|arrival, _| ScriptedReply::ok(arrival.path.clone())),
    );
    let setup = GatewaySetup {
        origin: Some("http://a.example/base/"),
        ..GatewaySetup::default()
    };
    let gateway = RunningGateway::before(&served, &setup);
    let path = |path: &str| {
        let answer = gateway.page(path);
        (
            answer.status,
            String::from_utf8_lossy(&answer.body).into_owned(),
        )
    };
    assert_eq!(path("/x?y=1"), (200, "/base/x?y=1".to_owned()));
    for outside in ["/../x", "/%2e%2e/x", "/a/../../x"] {
        assert_eq!(path(outside).0, 404, "{outside}");
    }
    let other = gateway.page("/http://b.example/");
    assert_eq!(other.body, b"/base/http://b.example/");
}

#[test]
fn a_request_that_comes_back_is_recognised() {
    let listen = free_address();
    let origin = format!("http://{listen}");
    let setup = GatewaySetup {
        listen: &listen,
        origin: Some(&origin),
        ..GatewaySetup::default()
    };
    let gateway = RunningGateway::before(&fine(), &setup);
    let answer = gateway.page("/x");
    assert_eq!(answer.status, 508);
    assert_eq!(answer.problem()["reason"], "loop");
}

#[test]
fn everything_a_client_sends_reaches_the_origin_and_back_once() {
    let echo = |arrival: &Arrival, _| {
        let seen = format!(
            "{} {}",
            arrival.method,
            arrival.header("x-odd").unwrap_or("-")
        );
        ScriptedReply::status(418)
            .header("x-answer", "one")
            .header("location", "http://a.example/elsewhere")
            .body(seen)
    };
    let served = ServedWeb::start(OriginScript::new("a.example").handler(echo));
    let gateway = RunningGateway::before(&served, &GatewaySetup::default());
    for method in ["PUT", "PATCH", "DELETE", "OPTIONS", "PURGE", "GET"] {
        let head = format!(
            "{method} http://a.example/x HTTP/1.1\r\nHost: a.example\r\nX-Odd: yes\r\n\
             Content-Length: 0\r\nConnection: X-Hop\r\nX-Hop: no"
        );
        let answer = gateway.ask(&head);
        assert_eq!(answer.status, 418, "{method}");
        assert_eq!(answer.header("x-answer"), Some("one"));
        assert_eq!(
            String::from_utf8_lossy(&answer.body),
            format!("{method} yes")
        );
    }
    let arrivals = served.web.ledger().arrivals();
    assert_eq!(arrivals.len(), 6, "nothing is repeated or followed");
    for arrival in &arrivals {
        assert_eq!(arrival.header("x-hop"), None);
        assert!(arrival.header("via").is_some());
        assert_eq!(arrival.header("host"), Some("a.example"));
    }
}

#[test]
fn a_request_that_has_no_forwards_left_ends_at_the_gateway() {
    let echo = |arrival: &Arrival, _| {
        ScriptedReply::ok(arrival.header("max-forwards").unwrap_or("-").to_owned())
    };
    let served = ServedWeb::start(OriginScript::new("a.example").handler(echo));
    let gateway = RunningGateway::before(&served, &GatewaySetup::default());
    let ask = |method: &str, forwards: &str| {
        gateway.ask(&format!(
            "{method} http://a.example/x?token=SECRET HTTP/1.1\r\nHost: a.example\r\n\
             Max-Forwards: {forwards}\r\nPrivate-Token: SECRET\r\nX-Odd: yes"
        ))
    };
    let options = ask("OPTIONS", "0");
    assert_eq!((options.status, options.body.len()), (200, 0));
    assert!(options.header("allow").is_some());
    let trace = ask("TRACE", "0");
    let shown = String::from_utf8_lossy(&trace.body).into_owned();
    assert_eq!(
        (trace.status, trace.header("content-type")),
        (200, Some("message/http"))
    );
    assert!(
        shown.starts_with("TRACE http://a.example/x?token=*** HTTP/1.1\r\n")
            && shown.contains("x-odd: yes")
            && !shown.contains("SECRET"),
        "{shown}"
    );
    assert!(served.web.ledger().is_empty(), "the origin heard of it");
    for (method, forwards, left) in [
        ("OPTIONS", "3", "2"),
        ("TRACE", "1", "0"),
        ("OPTIONS", "many", "many"),
        ("GET", "0", "0"),
    ] {
        let answer = ask(method, forwards);
        assert_eq!(String::from_utf8_lossy(&answer.body), left, "{method}");
    }
}

#[test]
fn an_answer_to_one_client_s_credential_is_not_given_to_another() {
    let own = |arrival: &Arrival, _| {
        let names = [
            "x-access-token",
            "token",
            "apikey",
            "x-gitlab-token",
            "x-own",
            "x-whatever",
        ];
        let sent = names.iter().find_map(|name| arrival.header(name));
        ScriptedReply::ok(sent.unwrap_or("nobody").to_owned())
            .header("cache-control", "max-age=600")
    };
    for mode in [CacheMode::Private, CacheMode::Shared] {
        let served = ServedWeb::start(OriginScript::new("a.example").handler(own));
        let rate = "a.example:metadata=rates:1000/SECOND";
        let setup = GatewaySetup {
            mode,
            rates: &[rate],
            ..GatewaySetup::default()
        };
        let gateway = RunningGateway::before(&served, &setup);
        let ask = |line: &str| {
            let head = format!("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n{line}");
            String::from_utf8_lossy(&gateway.ask(&head).body).into_owned()
        };
        let mut names = vec!["X-Access-Token", "Token", "ApiKey", "X-GitLab-Token"];
        names.extend((mode == CacheMode::Private).then_some("X-Whatever"));
        for name in names {
            for client in ["alice", "bob"] {
                assert_eq!(ask(&format!("{name}: {client}")), client, "{mode:?} {name}");
            }
        }
        let key = "eyJhbGciOi.eyJzdWIi.alice";
        assert_eq!(ask(&format!("X-Own: {key}")), key, "{mode:?}: by its value");
    }
}

#[test]
fn ignored_field_does_not_part_the_responses_of_a_private_cache() {
    let served = ServedWeb::start(
        OriginScript::new("a.example")
            .handler(|_, _| ScriptedReply::ok("text").header("cache-control", "max-age=600")),
    );
    let rate = "a.example:metadata=rates:1000/SECOND";
    let setup = GatewaySetup {
        rates: &[rate],
        ignored_fields: &["x-number", "x-token"],
        ..GatewaySetup::default()
    };
    let gateway = RunningGateway::before(&served, &setup);
    let requests = [
        ("X-Number: 1", 1),
        ("X-Number: 2", 1),
        ("X-Other: 1", 2),
        // A credential is never ignored.
        ("X-Token: 1", 3),
        ("X-Token: 2", 4),
    ];
    for (line, sent) in requests {
        let head = format!("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n{line}");
        assert_eq!(gateway.ask(&head).status, 200);
        assert_eq!(served.web.ledger().len(), sent, "{line}");
    }
}

#[test]
fn an_answer_that_breaks_off_is_cut_for_the_client_and_not_stored() {
    let half = ScriptedReply::ok("")
        .header("cache-control", "max-age=600")
        .pieces([Piece::Bytes(vec![b'x'; 5_000].into()), Piece::Reset]);
    let whole = ScriptedReply::ok("whole").header("cache-control", "max-age=600");
    let served = ServedWeb::start(
        OriginScript::new("a.example").route("/cut", [half.claiming(10_000), whole]),
    );
    let gateway = RunningGateway::before(&served, &GatewaySetup::default());
    let cut = gateway.get("http://a.example/cut");
    assert_eq!(cut.header("content-length"), Some("10000"));
    assert!(cut.body.len() < 10_000, "{}", cut.body.len());
    assert_eq!(gateway.get("http://a.example/cut").body, b"whole");
}

#[test]
fn answers_that_cannot_be_read_are_not_passed_on_as_good_ones() {
    let coded = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n\
                 Transfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let switching = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
    let raw = |text: &'static str| ScriptedReply::verbatim(200, [Piece::Bytes(text.into())]);
    let served = ServedWeb::start(
        OriginScript::new("a.example")
            .route("/coded", [raw(coded)])
            .route("/switching", [raw(switching)]),
    );
    let gateway = RunningGateway::before(&served, &GatewaySetup::default());
    for path in ["coded", "switching", "coded"] {
        let answer = gateway.get(&format!("http://a.example/{path}"));
        assert_eq!(answer.status, 502, "{path}: {}", answer.headers);
    }
}

#[test]
fn a_gateway_before_one_origin_answers_for_no_other_server() {
    let served = fine();
    let setup = GatewaySetup {
        origin: Some("http://a.example"),
        ..GatewaySetup::default()
    };
    let gateway = RunningGateway::before(&served, &setup);
    assert_eq!(gateway.get("http://a.example/").body, b"fine");
    let other = gateway.get("http://bank.example/account");
    assert_eq!(other.status, 421);
    assert_eq!(other.problem()["reason"], "origin");
    assert_eq!(served.web.ledger().len(), 1);
}

#[test]
fn cache_status_says_why_the_origin_was_asked() {
    let served = ServedWeb::start(OriginScript::new("a.example").handler(|_, _| {
        let reply = ScriptedReply::ok("text").header("cache-control", "max-age=0");
        reply.header("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")
    }));
    let generous = ["metadata", "artifact"].map(|role| format!("a.example:{role}=rates:99/SECOND"));
    let setup = GatewaySetup {
        rates: &generous.each_ref().map(String::as_str),
        ..GatewaySetup::default()
    };
    let gateway = RunningGateway::before(&served, &setup);
    let status = |start: &str, line: &str| {
        let head = format!("{start} http://a.example/ HTTP/1.1\r\nHost: a.example\r\n{line}");
        let answer = gateway.ask(&head);
        assert_eq!(answer.status, 200, "{}", answer.headers);
        answer.header("cache-status").map(str::to_owned)
    };
    for (method, line, expected) in [
        ("GET", "Accept: */*", "docstokg; fwd=miss; stored"),
        ("GET", "Accept: */*", "docstokg; fwd=stale; stored"),
        (
            "GET",
            "Cache-Control: no-cache",
            "docstokg; fwd=request; stored",
        ),
        ("GET", "Docstokg-Role: artifact", "docstokg; fwd=bypass"),
        ("GET", "Cache-Control: no-store", "docstokg; fwd=bypass"),
        ("POST", "Content-Length: 0", "docstokg; fwd=method"),
    ] {
        assert_eq!(status(method, line).as_deref(), Some(expected), "{line}");
    }
}
