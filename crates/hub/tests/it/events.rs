use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::{Host, Patience, Request};
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::support::{HubWorld, config, get, ms, seconds};

/// Writes the events as lines: milliseconds since the start, request, host, what.
fn story(world: &HubWorld) -> String {
    let events = world.events.0.lock();
    let Some(start) = events.first().map(|event| event.at) else {
        return String::new();
    };
    let line = |event: &docstokg_hub::event::Event| {
        let millis = event.at.since(start).as_millis();
        let what = format!("{:?}", event.what);
        // Instants are shown relative to the start, as everything else.
        let what = relative(&what, start.as_micros());
        format!("{millis:>6} #{} {} {what}", event.request, event.host)
    };
    events.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn relative(text: &str, start: u64) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("BootInstant(") {
        let (before, after) = rest.split_at(at);
        let (digits, tail) = after["BootInstant(".len()..]
            .split_once(')')
            .expect("a closing bracket");
        let micros: u64 = digits.parse().expect("digits");
        out.push_str(&format!(
            "{before}@{}ms",
            micros.saturating_sub(start) / 1_000
        ));
        rest = tail;
    }
    out + rest
}

fn world(origin: OriginScript, breaker: &str) -> HubWorld {
    let flags = CommandLineFlags {
        breaker: vec![format!("a.example={breaker}")],
        rate: vec!["a.example:metadata=rates:2/SECOND,max_delay_ms:5000".into()],
        ..CommandLineFlags::default()
    };
    HubWorld::exact(
        [
            origin.latency(ms(40)),
            OriginScript::new("b.example").latency(ms(10)),
        ],
        config(flags),
    )
}

#[test]
fn a_retry_after_429() {
    let origin = OriginScript::new("a.example").route(
        "/",
        [
            ScriptedReply::status(429).header("retry-after", "3"),
            ScriptedReply::ok("fine"),
        ],
    );
    let world = world(origin, "fail_max:5");
    assert!(
        world
            .run(|hub| async move { hub.fetch(get("http://a.example/")).await })
            .is_ok()
    );
    insta::assert_snapshot!(story(&world));
}

#[test]
fn an_open_a_denial_and_a_probe_that_fails_and_one_that_succeeds() {
    let origin = OriginScript::new("a.example").route(
        "/",
        [
            ScriptedReply::status(503),
            ScriptedReply::status(503),
            ScriptedReply::ok("fine"),
        ],
    );
    let world = world(origin, "fail_max:1,reset:10,early_probes:false");
    let once = || get("http://a.example/").repeatable(docstokg_hub::Repeatable::No);
    for _ in 0..2 {
        let _ = world.run(move |hub| async move { hub.fetch(once()).await });
    }
    world.simulation.run_for(seconds(10));
    let _ = world.run(move |hub| async move { hub.fetch(once()).await });
    world.simulation.run_for(seconds(20));
    let _ = world.run(move |hub| async move { hub.fetch(once()).await });
    insta::assert_snapshot!(story(&world));
}

#[test]
fn a_head_that_is_free_and_a_redirect_across_hosts() {
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
    let head = Request::head("http://a.example/".parse().expect("a URL"));
    assert!(
        world
            .run(move |hub| async move { hub.fetch(head).await })
            .is_ok()
    );
    assert!(
        world
            .run(|hub| async move { hub.fetch(get("http://a.example/go")).await })
            .is_ok()
    );
    let story = story(&world);
    assert!(!story.contains("SECRET"));
    insta::assert_snapshot!(story);
}

#[test]
fn a_wait_in_the_queue_and_one_for_a_block() {
    let world = world(OriginScript::new("a.example"), "fail_max:5");
    world.block(
        &Host::parse("a.example").expect("a host"),
        seconds(2),
        "test",
    );
    let patient = |n: usize| get(&format!("http://a.example/{n}")).patience(Patience::Wait);
    let _ = world.fetch_all((0..4).map(patient).collect());
    insta::assert_snapshot!(story(&world));
}
