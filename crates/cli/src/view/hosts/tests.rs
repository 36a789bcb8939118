//! The figures of hosts, from scripted events.

use super::*;

/// A role that waits is shown with the limit that binds it, not the sum over roles.
#[test]
fn the_role_that_waits_is_shown_beside_the_limit_that_binds() {
    let hosts = HostObserver::new(&docstokg_hub::config::load::shipped().unwrap());
    let host = Host::parse("pub.example").unwrap();
    let at = |seconds: u64| BootInstant::from_micros(seconds * 1_000_000);
    let event_of = |request, role, seconds, what| Event {
        at: at(seconds),
        request,
        host: host.clone(),
        role,
        what,
    };
    let event = |role, seconds, what| event_of(1, role, seconds, what);
    let go = || EventKind::Go {
        attempt: 1,
        probe: false,
        rate_delay: Duration::ZERO,
        slot_wait: Duration::ZERO,
        breaker_wait: Duration::ZERO,
        resolver: None,
        rate_window: None,
    };
    for second in 95..100 {
        hosts.note(&event(Role::Artifact, second, go()));
        hosts.note(&event(Role::Landing, second, go()));
        hosts.note(&event(Role::Landing, second, go()));
    }
    let lines = hosts.lines(at(100), 8);
    assert_eq!(lines[0].role, Role::Landing);
    let waits = |until: u64, window: &str| EventKind::WaitRate {
        until: at(until),
        window: window.parse().ok(),
        basis: LimitBasis::Configured,
    };
    let long = waits(3_600, "500/HOUR");
    hosts.note(&event_of(2, Role::Artifact, 98, long));
    // The shorter wait of another request changes nothing.
    let short = waits(101, "2/SECOND");
    hosts.note(&event_of(3, Role::Artifact, 99, short));
    let lines = hosts.lines(at(100), 8);
    assert!((lines[0].rate - 1.0).abs() < 0.3, "{}", lines[0].rate);
    assert!(
        lines[0]
            .text(100)
            .contains("/s, limit 500 an hour  queue 3500 s")
    );
    let wait = lines[0].long_wait(Duration::from_secs(10)).unwrap();
    assert_eq!(wait.why, "500 an hour");
    assert!(wait.hint.unwrap().contains("--rate pub.example:artifact="));
    let learned = EventKind::WaitRate {
        until: at(9_000),
        window: "4/SECOND".parse().ok(),
        basis: LimitBasis::StatedOrLearned,
    };
    hosts.note(&event_of(4, Role::Artifact, 99, learned));
    let shown = hosts.lines(at(100), 8)[0].text(120);
    let words = "/s, stated by the host or learned, about 4 a second  queue";
    assert!(shown.contains(words), "{shown}");
    hosts.note(&event_of(4, Role::Artifact, 99, go()));
    // The request goes early, for example because an operator ended the pause.
    hosts.note(&event_of(2, Role::Artifact, 100, go()));
    let lines = hosts.lines(at(100), 8);
    let artifact = lines[0].long_wait(Duration::from_millis(500)).unwrap();
    assert_eq!(artifact.why, "2 a second");
    hosts.note(&event_of(3, Role::Artifact, 100, go()));
    let lines = hosts.lines(at(100), 8);
    assert!(lines[0].long_wait(Duration::from_millis(1)).is_none());
}

#[test]
fn the_rate_of_a_host_is_measured_over_whole_windows() {
    let window = |limit: u32, seconds: u64| Window {
        limit: limit.try_into().unwrap(),
        per: Duration::from_secs(seconds),
    };
    assert_eq!(span(Some(&window(2, 1))), Duration::from_secs(5));
    assert_eq!(span(Some(&window(1, 3))), Duration::from_secs(6));
    assert_eq!(span(Some(&window(30, 60))), Duration::from_secs(60));
    assert_eq!(span(None), RATE_MEASURE_INTERVAL);
}
