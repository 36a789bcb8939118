//! Records of what is known of a host, as version 0.1.0 wrote them: they are read, they mean what
//! they meant, and they are written as they were, so that the other version reads them, too.

use std::time::Duration;

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::extension::Extensions;
use docstokg_policy::host_model::LimitEvent;
use docstokg_policy::host_model::learned::{LearnMode, LearnPolicy, LearnedLimits};
use docstokg_policy::host_model::quotas::Quotas;
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, Patience, Site};
use docstokg_policy::time::BootInstant;

use crate::support::{cost, learning, ms};

/// A record for each line: its name, how limits are learned, the instant at which it was written in
/// microseconds, the extensions of the site, and what it says.
const RECORDS: &str = include_str!("stored_records.txt");
/// An event for each line, as a store records it.
const EVENTS: &str = include_str!("stored_events.txt");

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16);
    digits.map(|pair| byte(pair).expect("a byte")).collect()
}

fn policy_of(text: &str) -> LearnPolicy {
    LearnPolicy {
        mode: match text {
            "tighten" => LearnMode::Tighten,
            rate => LearnMode::UpTo(rate.parse().expect("a rate")),
        },
        slowest: Duration::from_secs(60),
    }
}

/// Describes a site: the limits, and when a request may go that asks at an instant or later.
fn facts(site: &Site, learn: LearnPolicy, now: BootInstant) -> String {
    let limits = site.learned().into_iter().flat_map(LearnedLimits::limits);
    let limits: Vec<String> = limits.map(ToString::to_string).collect();
    let is_searching = site.learned().is_some_and(LearnedLimits::is_searching);
    let lanes = site.quotas().into_iter().flat_map(Quotas::lanes);
    let quotas = lanes.flat_map(|lane| lane.as_of(now).quotas).map(|quota| {
        let (remaining, limit, resets_in) = (quota.remaining, quota.limit, quota.resets_in);
        format!("{remaining:?}/{limit:?} resets {resets_in:?}")
    });
    let quotas: Vec<String> = quotas.collect();
    let instants = [0, 40, 400, 4_000, 40_000].map(|wait| {
        let now = now + ms(wait);
        let costs = [cost(0, 1, &[], Duration::ZERO)];
        let ask = AdmissionRequest {
            latest: BootInstant::FAR,
            patience: Patience::Wait,
            quota_lane: Some("metadata".into()),
            ..AdmissionRequest::at_once(&costs, learning(&BreakerPolicy::default(), learn))
        };
        match site.clone().enter(&ask, now).entry {
            AdmissionDecision::Go(_) => 0,
            AdmissionDecision::Wait(reserved) => reserved.at.since(now).as_micros(),
            other => panic!("{other:?}"),
        }
    });
    let (limits, quotas) = (limits.join(", "), quotas.join(", "));
    format!("{limits} | searching {is_searching} | {quotas} | {instants:?}")
}

#[test]
fn records_of_the_first_version_mean_what_they_meant() {
    for line in RECORDS.lines() {
        let mut fields = line.splitn(5, " | ");
        let mut next = || fields.next().expect("a field");
        let (name, learn, now, hex, said) = (next(), next(), next(), next(), next());
        let now = BootInstant::from_micros(now.parse().expect("an instant"));
        let bytes = bytes_of(hex);
        let extensions: Extensions = postcard::from_bytes(&bytes).expect("extensions");
        let mut site = Site::default();
        site.ensure_budgets(1);
        site.set_extensions(extensions);
        assert_eq!(facts(&site, policy_of(learn), now), said, "{name}");
        let written = postcard::to_allocvec(&site.extensions()).expect("bytes");
        assert_eq!(written, bytes, "{name}");
    }
    assert_eq!(RECORDS.lines().count(), 17);
}

#[test]
fn events_of_the_first_version_are_read_and_written() {
    for line in EVENTS.lines() {
        let event: LimitEvent = postcard::from_bytes(&bytes_of(line)).expect("an event");
        let written = postcard::to_allocvec(&event).expect("bytes");
        assert_eq!(written, bytes_of(line), "{event:?}");
    }
    assert_eq!(EVENTS.lines().count(), 7);
}
