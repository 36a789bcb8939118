//! Many clients and several gateways want one URL: the origin is asked once.

use std::time::Duration;

use docstokg_hub::clock::{Clock as _, SystemClock};
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use super::running::{GatewayProcess, PATIENCE};
use super::state;
use crate::support::Served;

fn slow_origin(latency: Duration) -> Served {
    let answer =
        |body: &'static str| ScriptedReply::ok(body).header("cache-control", "max-age=600");
    Served::start(
        OriginScript::new("a.example")
            .latency(latency)
            .route("/data", [answer("one"), answer("two")]),
    )
}

#[test]
fn sixty_four_cold_requests_in_four_processes_are_one_for_the_origin() {
    let served = slow_origin(Duration::from_millis(700));
    let directory = state();
    let mapping = format!("a.example:80={}", served.address);
    for processes in [1, 4] {
        let directory = directory.path().join(processes.to_string());
        let start = || GatewayProcess::start(&directory, &["--connect-to", &mapping]);
        let gateways: Vec<GatewayProcess> = (0..processes).map(|_| start()).collect();
        let before = served.web.ledger().len();
        let got = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..64)
                .map(|number| {
                    let gateway = &gateways[number % gateways.len()];
                    scope.spawn(|| gateway.get("http://a.example/data").body)
                })
                .collect();
            let got = asked
                .into_iter()
                .map(|asked| asked.join().expect("an answer"));
            got.collect::<Vec<_>>()
        });
        assert!(
            got.windows(2).all(|two| two[0] == two[1]),
            "different answers"
        );
        assert_eq!(got.len(), 64);
        assert_eq!(
            served.web.ledger().len() - before,
            1,
            "{processes} processes"
        );
    }
}

#[test]
fn another_process_takes_over_when_the_one_that_asks_is_killed() {
    // The first answer never comes in the time of the test.
    let answer =
        |body: &'static str| ScriptedReply::ok(body).header("cache-control", "max-age=600");
    let answers = [answer("one").after(Duration::from_secs(600)), answer("two")];
    let served = Served::start(OriginScript::new("a.example").route("/data", answers));
    let directory = state();
    let mapping = format!("a.example:80={}", served.address);
    let start = || GatewayProcess::start(directory.path(), &["--connect-to", &mapping]);
    let (leader, follower) = (start(), start());
    let asked = leader.send("GET http://a.example/data HTTP/1.1\r\nHost: a.example\r\n\r\n");
    // The leader's request is on its way when the origin has it.
    let until = SystemClock.boot() + PATIENCE;
    while served.web.ledger().is_empty() {
        assert!(SystemClock.boot() < until, "the leader does not ask");
        std::thread::yield_now();
    }
    let got = std::thread::scope(|scope| {
        let waits = scope.spawn(|| follower.get("http://a.example/data"));
        leader.signal("KILL");
        drop(asked);
        waits.join().expect("an answer")
    });
    assert_eq!((got.status, got.body.as_slice()), (200, &b"two"[..]));
    assert_eq!(served.web.ledger().len(), 2);
}

#[test]
fn the_next_request_never_gets_an_older_answer() {
    let count = |_: &docstokg_origin_sim::Arrival, number| {
        ScriptedReply::ok(format!("answer {number}")).header("cache-control", "max-age=600")
    };
    let served = Served::start(OriginScript::new("a.example").handler(count));
    let directory = state();
    let mapping = format!("a.example:80={}", served.address);
    let rate = "a.example:metadata=rates:10000/SECOND";
    let arguments = ["--connect-to", &mapping, "--rate", rate];
    let gateway = GatewayProcess::start(directory.path(), &arguments);
    let get = "GET http://a.example/x HTTP/1.1\r\nHost: a.example";
    for _ in 0..100 {
        let refreshed = gateway.ask(&format!("{get}\r\nCache-Control: no-cache"));
        let next = gateway.ask(get);
        assert_eq!(next.body, refreshed.body, "{}", next.headers);
    }
}
