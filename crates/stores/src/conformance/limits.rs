//! The limits of a host in the contract: learned limits and declared quotas.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::host_model::learned::{LearnMode, LearnPolicy};
use docstokg_policy::host_model::quotas::QuotaStatement;
use docstokg_policy::rate_headers::{Quota, RateHeaderFamily, RateHeaderReading, Unit};
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AttemptResult, LanePolicy, Permit,
};
use docstokg_policy::time::BootInstant;

use super::{LONG_TEST_WINDOW, SiteClient, arrive};
use crate::handle::StateStore;

/// The [`LearnPolicy`] to learn limits below the configured ones.
const TIGHTEN_POLICY: LearnPolicy = LearnPolicy {
    mode: LearnMode::Tighten,
    slowest: LONG_TEST_WINDOW,
};

/// Returns the report of a request that the host refused as one too many.
fn refused(permit: &Permit) -> AttemptResult {
    AttemptResult {
        outcome: AttemptMeaning::Throttled,
        retry_after: None,
        wants_retry: false,
        maybe_refused: false,
        sent: permit.at,
    }
}

/// Returns the [`AdmissionRequest`] of a client that learns limits.
fn learning(client: &SiteClient) -> AdmissionRequest {
    let policy = LanePolicy {
        learn: Some(TIGHTEN_POLICY),
        ..client.policy()
    };
    AdmissionRequest::at_once(&client.costs, policy)
}

/// Checks that a limit learned by one handle applies to all handles, and is dropped for all.
pub fn what_was_learned_is_shared_until_it_is_forgotten(store: &dyn StateStore) {
    let (client, other) = (
        SiteClient::new(store, "learned", &[100]),
        SiteClient::new(store, "learned", &[100]),
    );
    let permit = client.go();
    let report = refused(&permit);
    arrive(client.site.settle(&learning(&client), &permit, &report));
    let is_held_back = |client: &SiteClient| {
        let entry = arrive(client.site.enter(&learning(client))).entry;
        matches!(entry, AdmissionDecision::Refused(_))
    };
    assert!(is_held_back(&other), "a refusal holds every handle back");
    assert!(arrive(other.site.view()).site.learned().is_some());
    assert!(arrive(other.site.forget_learned()));
    assert!(
        !arrive(client.site.forget_learned()),
        "it is forgotten once"
    );
    assert!(arrive(client.site.view()).site.learned().is_none());
    assert!(!is_held_back(&client));
}

/// Checks that an operator ends the pause after a refusal, and that responses wake waiting
/// requests.
pub fn an_operator_ends_the_pause_after_a_refusal(store: &dyn StateStore) {
    let client = SiteClient::new(store, "pause", &[100]);
    let ask = learning(&client);
    let permit = client.go();
    let report = refused(&permit);
    let settled = arrive(client.site.settle(&ask, &permit, &report));
    assert!(settled.calls_next, "others may have waited for the answer");
    assert!(matches!(
        arrive(client.site.enter(&ask)).entry,
        AdmissionDecision::Refused(_)
    ));
    arrive(client.site.unblock());
    let AdmissionDecision::Go(permit) = arrive(client.site.enter(&ask)).entry else {
        panic!("the pause has ended")
    };
    let heard = client
        .site
        .settle_headers(&ask, &permit, AttemptMeaning::Success);
    assert!(arrive(heard).calls_next, "headers teach before a body ends");
}

/// Checks that a declared quota applies to every handle: together they use exactly the remainder.
pub fn a_stated_quota_is_shared_and_never_exceeded(store: &dyn StateStore) {
    const LEFT: u32 = 40;
    let lane: Arc<str> = "metadata".into();
    let first = SiteClient::new(store, "quota", &[1_000]);
    let permit = first.go();
    let quota = Quota {
        unit: Unit::Requests,
        window: None,
        limit: Some(1_000),
        remaining: Some(LEFT),
        resets_in: Some(Duration::from_secs(3_000)),
        partition: None,
        source: RateHeaderFamily::RateLimit,
    };
    let statement = Arc::new(QuotaStatement {
        reading: RateHeaderReading {
            quotas: vec![quota],
            ..RateHeaderReading::default()
        },
        retry_after: None,
        is_refusal: false,
        is_spent_kind: false,
    });
    let heard = arrive((first.site).state_quotas(&asking(&first, &lane), &permit, &statement));
    assert!(!heard.holds, "something is left");
    let permitted: usize = std::thread::scope(|scope| {
        let caller = || {
            let client = SiteClient::new(store, "quota", &[1_000]);
            let goes = |_: &u32| {
                let entry = arrive(client.site.enter(&asking(&client, &lane))).entry;
                matches!(entry, AdmissionDecision::Go(_))
            };
            (0..LEFT).filter(goes).count()
        };
        let callers: Vec<_> = (0..4).map(|_| scope.spawn(caller)).collect();
        let ended = callers.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended.map(|count| count.expect("no panic")).sum()
    });
    assert_eq!(permitted, LEFT as usize, "of what is left");
    let view = arrive(first.site.view());
    let quotas = view.site.quotas().expect("quotas");
    let stated = quotas.of(&lane).expect("its lane").as_of(view.now);
    assert_eq!(stated.quotas[0].remaining, Some(0));
    assert!(arrive(first.site.forget_learned()));
    let entry = arrive(first.site.enter(&asking(&first, &lane))).entry;
    assert!(matches!(entry, AdmissionDecision::Go(_)), "{entry:?}");
}

fn asking(client: &SiteClient, lane: &Arc<str>) -> AdmissionRequest {
    AdmissionRequest {
        quota_lane: Some(Arc::clone(lane)),
        ..client.ask(BootInstant::ZERO)
    }
}
