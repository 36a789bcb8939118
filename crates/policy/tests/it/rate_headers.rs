use std::fmt::Write;
use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::rate::{Window, format_rates};
use docstokg_policy::rate_headers::{
    MAX_RESET, MAX_WINDOW, Quota, RateHeaderFamily, RateHeaderHints, RateHeaderReading, ResetForm,
    Trust, Unit, read, spread, tighten, tighten_concurrency,
};
use docstokg_policy::time::Timestamp;
use http::HeaderMap;
use proptest::prelude::*;

use crate::parsers::{RATE_HEADERS_RECEIVED, header_map};
use crate::support::windows;

mod cases;

fn read_text(text: &str) -> RateHeaderReading {
    read_with(text, &RateHeaderHints::default())
}

fn read_with(text: &str, hints: &RateHeaderHints) -> RateHeaderReading {
    read(&header_map(text), RATE_HEADERS_RECEIVED, hints)
}

/// Writes a reading, one quota a line.
fn describe(reading: &RateHeaderReading) -> String {
    let mut text = String::new();
    for quota in &reading.quotas {
        let count = |count: Option<u32>| count.map_or("?".to_owned(), |count| count.to_string());
        let Quota {
            limit,
            remaining,
            unit,
            ..
        } = quota;
        write!(
            text,
            "  {} of {} {unit:?}",
            count(*remaining),
            count(*limit)
        )
        .expect("a string");
        if let Some(window) = quota.window {
            write!(text, " per {window:?}").expect("a string");
        }
        if let Some(resets_in) = quota.resets_in {
            write!(text, ", resets in {resets_in:?}").expect("a string");
        }
        if let Some(partition) = &quota.partition {
            write!(text, ", partition {partition}").expect("a string");
        }
        if let Some(gap) = quota.gap(reading.cost.unwrap_or(1)) {
            write!(text, ", one every {gap:?}").expect("a string");
        }
        writeln!(text, " ({:?})", quota.source).expect("a string");
    }
    for (name, value) in [
        ("concurrency", reading.concurrency.map_or(0, Into::into)),
        ("malformed", reading.malformed),
    ] {
        if value > 0 {
            writeln!(text, "  {name} {value}").expect("a string");
        }
    }
    if let Some(cost) = reading.cost {
        writeln!(text, "  cost {cost}").expect("a string");
    }
    text
}

/// Writes each case with what is read from it.
fn table(cases: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (title, headers) in cases {
        writeln!(text, "{title}").expect("a string");
        for line in headers.lines() {
            writeln!(text, "  > {}", line.trim()).expect("a string");
        }
        writeln!(text, "{}", describe(&read_text(headers))).expect("a string");
    }
    text
}

#[test]
fn headers_of_real_services_are_read() {
    insta::assert_snapshot!(table(cases::SERVICES));
}

#[test]
fn headers_of_every_draft_are_read() {
    insta::assert_snapshot!(table(cases::DRAFTS));
}

#[test]
fn malformed_fields_are_ignored_and_counted_and_absurd_values_capped() {
    insta::assert_snapshot!(table(cases::MALFORMED));
}

#[test]
fn a_hint_overrides_how_a_reset_is_recognised() {
    let resets_in = |text: &str, reset| {
        let hints = RateHeaderHints {
            reset,
            window: None,
        };
        read_with(text, &hints).quotas[0].resets_in
    };
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    // A minute after the response, in each form.
    for (value, form) in [
        ("60", ResetForm::SecondsLeft),
        ("1794830460", ResetForm::EpochSeconds),
        ("1794830460000", ResetForm::EpochMilliseconds),
        ("Mon, 16 Nov 2026 12:01:00 GMT", ResetForm::SecondsLeft),
    ] {
        let text = format!("x-ratelimit-remaining: 5\nx-ratelimit-reset: {value}");
        assert_eq!(resets_in(&text, form), seconds(60), "{value}, {form:?}");
        assert_eq!(
            resets_in(&text, ResetForm::Recognise),
            seconds(60),
            "{value}"
        );
    }
    let large = "x-ratelimit-remaining: 5\nx-ratelimit-reset: 1794830460";
    assert_eq!(resets_in(large, ResetForm::SecondsLeft), Some(MAX_RESET));
    // The RFC draft leaves no choice, so the hint does not concern it.
    let draft = "ratelimit: \"default\";r=5;t=60";
    assert_eq!(resets_in(draft, ResetForm::EpochSeconds), seconds(60));
}

#[test]
fn times_of_day_follow_the_clock_of_the_server() {
    let text = "date: Mon, 16 Nov 2026 13:00:00 GMT\nx-ratelimit-remaining: 5\n\
                x-ratelimit-reset: 1794834030";
    let reading = read_text(text);
    assert_eq!(reading.quotas[0].resets_in, Some(Duration::from_secs(30)));
}

#[test]
fn a_hint_gives_the_window_that_headers_leave_out() {
    let zenodo = "x-ratelimit-limit: 60\nx-ratelimit-remaining: 59";
    let hints = RateHeaderHints {
        window: Some(Duration::from_secs(60)),
        ..RateHeaderHints::default()
    };
    let reading = read_with(zenodo, &hints);
    assert_eq!(
        tightened("10/SECOND", &reading, Trust::Tighten),
        "10/SECOND+60/MINUTE"
    );
    assert_eq!(
        tightened("10/SECOND", &read_text(zenodo), Trust::Tighten),
        "10/SECOND"
    );
    let crossref = "x-rate-limit-limit: 10\nx-rate-limit-interval: 1s";
    assert_eq!(
        read_with(crossref, &hints).quotas[0].window,
        Some(Duration::from_secs(1))
    );
}

fn tightened(configured: &str, reading: &RateHeaderReading, trust: Trust) -> String {
    format_rates(&tighten(&windows(configured), reading, trust))
}

#[test]
fn headers_tighten_windows_and_raise_them_only_where_trusted() {
    for (configured, policy, tighter, raised) in [
        ("10/SECOND", "3;w=1", "3/SECOND", "3/SECOND"),
        ("3/SECOND", "10;w=1", "3/SECOND", "10/SECOND"),
        // One window implies the other, or neither does.
        ("1/SECOND", "60;w=60", "1/SECOND", "1/SECOND"),
        (
            "10/SECOND",
            "100;w=60",
            "10/SECOND+100/MINUTE",
            "10/SECOND+100/MINUTE",
        ),
        ("1/3SECOND", "10;w=1", "1/3SECOND", "30/3SECOND+10/SECOND"),
        // A second says nothing about an hour, nor an hour about a second.
        (
            "5/SECOND+500/HOUR",
            "10;w=1",
            "5/SECOND+500/HOUR",
            "10/SECOND+500/HOUR",
        ),
        ("5/SECOND", "36000;w=3600", "5/SECOND", "5/SECOND"),
        ("500/HOUR", "5000;w=3600", "500/HOUR", "5000/HOUR"),
        // The stricter of two policies counts.
        ("2/SECOND", "10;w=1, 300;w=60", "2/SECOND", "5/SECOND"),
        ("2/SECOND", "0;w=1", "2/SECOND", "2/SECOND"),
        (
            "2/SECOND",
            "1;qu=\"content-bytes\";w=1",
            "2/SECOND",
            "2/SECOND",
        ),
        ("2/SECOND", "garbage, ", "2/SECOND", "2/SECOND"),
    ] {
        let reading = read_text(&format!("ratelimit-policy: {policy}"));
        let actual =
            [Trust::Tighten, Trust::Raise].map(|trust| tightened(configured, &reading, trust));
        assert_eq!(actual, [tighter, raised], "{configured}, stated {policy}");
    }
    let reading = read_text("ratelimit-policy: 5;w=1");
    assert_eq!(
        format_rates(&tighten(&[], &reading, Trust::Tighten)),
        "5/SECOND"
    );
}

#[test]
fn headers_tighten_the_concurrency_limit() {
    let three = read_text("x-concurrency-limit: 3");
    let none = read_text("");
    let limit = |configured: u32, reading, trust| {
        let configured = NonZeroU32::new(configured);
        tighten_concurrency(configured, reading, trust).map_or(0, Into::into)
    };
    assert_eq!(limit(8, &three, Trust::Tighten), 3);
    assert_eq!(limit(1, &three, Trust::Tighten), 1);
    assert_eq!(limit(1, &three, Trust::Raise), 3);
    assert_eq!(
        limit(0, &three, Trust::Tighten),
        3,
        "no limit is configured"
    );
    assert_eq!(limit(8, &none, Trust::Raise), 8);
}

#[test]
fn what_is_left_lasts_until_the_reset() {
    let seconds = Duration::from_secs;
    assert_eq!(spread(4, seconds(60)), Some(seconds(15)));
    assert_eq!(
        spread(0, seconds(60)),
        Some(seconds(60)),
        "nothing before the reset"
    );
    assert_eq!(spread(1, seconds(60)), Some(seconds(60)));
    assert_eq!(spread(5, Duration::ZERO), None, "the reset has come");
    assert_eq!(spread(0, Duration::MAX), Some(MAX_RESET));
}

#[test]
fn a_spent_budget_leaves_free_requests_alone() {
    let reading = read_text(
        "x-ratelimit-limit: 1000\nx-ratelimit-remaining: 5\nx-ratelimit-credits-required: 10\n\
         x-ratelimit-reset: 57539",
    );
    let quota = &reading.quotas[0];
    assert_eq!((quota.unit, reading.cost), (Unit::Credits, Some(10)));
    assert_eq!(quota.gap(10), Some(Duration::from_secs(57_539)), "a search");
    assert_eq!(
        quota.gap(1),
        spread(5, Duration::from_secs(57_539)),
        "a list"
    );
    assert_eq!(quota.gap(0), None, "a work by its identifier");
}

/// The instants in milliseconds at which the first requests may go, each as early as possible.
fn schedule(windows: &[Window], requests: usize) -> Vec<u128> {
    let mut at: Vec<u128> = Vec::new();
    while at.len() < requests {
        let earliest = windows.iter().filter_map(|window| {
            let back = at.len().checked_sub(window.limit.get() as usize)?;
            Some(at[back] + window.per.as_millis())
        });
        let last = at.last().copied().unwrap_or(0);
        at.push(earliest.max().unwrap_or(0).max(last));
    }
    at
}

fn window(limit: u32, seconds: u64) -> Option<Window> {
    Some(Window::new(
        NonZeroU32::new(limit)?,
        Duration::from_secs(seconds),
    ))
}

fn keeps(at: &[u128], window: &Window) -> bool {
    let limit = window.limit.get() as usize;
    at.iter()
        .zip(at.iter().skip(limit))
        .all(|(one, other)| other - one >= window.per.as_millis())
}

/// Some windows as policies of the RFC draft.
fn policies() -> impl Strategy<Value = Vec<(u32, u32)>> {
    let seconds = prop_oneof![1u32..90, Just(3_600), 1u32..400_000];
    prop::collection::vec((0u32..60, seconds), 1..5)
}

fn field(policies: &[(u32, u32)]) -> Vec<String> {
    let line = |(q, w): &(u32, u32)| format!("ratelimit-policy: \"p{q}-{w}\";q={q};w={w}");
    policies.iter().map(line).collect()
}

proptest! {
    #[test]
    fn requests_that_keep_to_the_result_keep_to_configuration_and_headers(
        configured in prop::collection::vec((1u32..60, 1u64..90), 0..4),
        stated in policies(),
    ) {
        let configured: Vec<Window> = configured
            .iter()
            .filter_map(|(limit, per)| window(*limit, *per))
            .collect();
        let reading = read_text(&field(&stated).join("\n"));
        let at = schedule(&tighten(&configured, &reading, Trust::Tighten), 200);
        for window in &configured {
            prop_assert!(keeps(&at, window), "{window} of the configuration");
        }
        for trust in [Trust::Tighten, Trust::Raise] {
            let at = schedule(&tighten(&configured, &reading, trust), 200);
            // Windows of more than a day are cut.
            let whole = stated.iter().filter(|(_, w)| u64::from(*w) <= MAX_WINDOW.as_secs());
            for window in whole.filter_map(|(q, w)| window(*q, (*w).into())) {
                prop_assert!(keeps(&at, &window), "{window} of the headers, {trust:?}");
            }
        }
    }

    #[test]
    fn the_order_of_lines_does_not_matter(
        (stated, shuffled) in policies().prop_flat_map(|stated| {
            let shuffled = Just(field(&stated)).prop_shuffle();
            (Just(stated), shuffled)
        }),
        remaining in 0u32..100,
    ) {
        let (q, w) = stated[0];
        let service_limit = format!("ratelimit: \"p{q}-{w}\";r={remaining};t=7");
        let fields = ["x-ratelimit-limit: 60", "x-ratelimit-reset: 9", &service_limit].join("\n");
        let ordered = format!("{}\n{fields}", field(&stated).join("\n"));
        let other = format!("{fields}\n{}", shuffled.join("\n"));
        let one_line = shuffled.join(",").replace(",ratelimit-policy: ", ",");
        let in_one_line = format!("{fields}\n{one_line}");
        let reading = read_text(&ordered);
        prop_assert_eq!(reading.malformed, 0);
        prop_assert_eq!(&reading, &read_text(&other));
        prop_assert_eq!(&reading, &read_text(&in_one_line));
    }

    #[test]
    fn policies_are_read_as_written(
        (q, r) in any::<(u32, u32)>(),
        (w, t) in (1u64..86_401, 0u64..86_401),
    ) {
        let reading = read_text(&format!(
            "ratelimit-policy: \"a\";q={q};w={w};pk=:a2V5:\nratelimit: \"a\";r={r};t={t};pk=:a2V5:"
        ));
        let quota = Quota {
            unit: Unit::Requests,
            window: Some(Duration::from_secs(w)),
            limit: Some(q),
            remaining: Some(r),
            resets_in: Some(Duration::from_secs(t)),
            partition: Some("a2V5".into()),
            source: RateHeaderFamily::RateLimit,
        };
        prop_assert_eq!(reading, RateHeaderReading { quotas: vec![quota], ..RateHeaderReading::default() });
    }

    #[test]
    fn a_spread_quota_is_used_up_at_its_reset(remaining in 1u32.., millis in 1u64..200_000_000) {
        let resets_in = Duration::from_millis(millis).min(MAX_RESET);
        let gap = spread(remaining, resets_in).expect("a gap");
        let last = u128::from(remaining - 1) * gap.as_micros();
        prop_assert!(gap <= MAX_RESET);
        prop_assert!(gap.as_micros() * u128::from(remaining) >= resets_in.as_micros());
        prop_assert!(last < resets_in.as_micros() + u128::from(remaining));
    }
}

#[test]
fn responses_without_rate_headers_say_nothing() {
    let reading = read(
        &HeaderMap::new(),
        Timestamp::EPOCH,
        &RateHeaderHints::default(),
    );
    assert_eq!(reading, RateHeaderReading::default());
    let text = "content-type: text/html\nx-rated: no\nretry-after: 5";
    assert_eq!(read_text(text), RateHeaderReading::default());
}
