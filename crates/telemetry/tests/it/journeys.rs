use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::{Repeatable, Request};
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::support::{World, get, ms};

fn world(origin: OriginScript, breaker: &str) -> World {
    let flags = CommandLineFlags {
        breaker: vec![format!("a.example={breaker}")],
        rate: vec!["a.example:metadata=rates:2/SECOND,max_delay_ms:5000".into()],
        ..CommandLineFlags::default()
    };
    World::exact(
        [
            origin.latency(ms(40)),
            OriginScript::new("b.example").latency(ms(10)),
        ],
        flags,
    )
}

#[test]
fn a_retry_after_429() {
    let world = world(
        OriginScript::new("a.example").route(
            "/",
            [
                ScriptedReply::status(429).header("retry-after", "3"),
                ScriptedReply::ok("fine"),
            ],
        ),
        "fail_max:5",
    );
    world.fetch(get("http://a.example/"));
    insta::assert_snapshot!(world.end().story());
}

#[test]
fn an_open_a_denial_a_probe_that_fails_and_one_that_succeeds() {
    let world = world(
        OriginScript::new("a.example").route(
            "/",
            [
                ScriptedReply::status(503),
                ScriptedReply::status(503),
                ScriptedReply::ok("fine"),
            ],
        ),
        "fail_max:1,reset:10,early_probes:false",
    );
    let once = || get("http://a.example/").repeatable(Repeatable::No);
    world.fetch(once());
    world.fetch(once());
    world.simulation.run_for(ms(10_000));
    world.fetch(once());
    world.simulation.run_for(ms(20_000));
    world.fetch(once());
    insta::assert_snapshot!(world.end().story());
}

#[test]
fn a_head_that_is_free_a_redirect_across_hosts_and_a_refusal() {
    let world = world(
        OriginScript::new("a.example").route(
            "/go",
            [ScriptedReply::redirect(
                302,
                "http://b.example/there?api_key=SECRET",
            )],
        ),
        "fail_max:5",
    );
    world.fetch(Request::head("http://a.example/".parse().expect("a URL")));
    world.fetch(get("http://a.example/go"));
    world.fetch(get("http://a.example/"));
    world.fetch(get("http://a.example/").rate_wait(docstokg_hub::RateWait::None));
    insta::assert_snapshot!(world.end().story());
}

#[test]
fn a_dropped_request_is_recorded_as_cancelled() {
    let world = world(
        OriginScript::new("a.example").route("/", [ScriptedReply::ok("slow").after(ms(60_000))]),
        "fail_max:5",
    );
    let hub = world.hub.clone();
    world.simulation.start(async move {
        let mut slow = std::pin::pin!(hub.fetch(get("http://a.example/")));
        // Polled once, then dropped.
        std::future::poll_fn(|context| {
            let _ = slow.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
    });
    world.simulation.run_for(ms(1));
    let story = world.end().story();
    assert!(story.contains("\"error\":\"cancelled\""), "{story}");
}
