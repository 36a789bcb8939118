//! The contract of probes: their number, through any number of handles.

use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::role::Role;
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, RefusalReason};
use docstokg_policy::time::BootInstant;

use super::{LONG_TEST_WINDOW, SiteClient, arrive};
use crate::handle::StateStore;

/// Checks that a half-open breaker has no more probes in flight than allowed, through any number of
/// handles. A probe result ends the half-open state.
pub fn half_open_admits_no_more_than_its_trial_calls(store: &dyn StateStore) {
    let clients = [0, 1].map(|_| SiteClient::new(store, "half-open", &[100]));
    arrive(clients[0].site.block(
        Duration::from_micros(1),
        &OpenReason::Operator("conformance".into()),
    ));
    let probe = loop {
        if let AdmissionDecision::Go(permit) = clients[0].enter() {
            break permit;
        }
    };
    assert!(probe.probe);
    assert!(matches!(
        clients[1].refused(),
        RefusalReason::Open { probing: true, .. }
    ));
    clients[0].settle(&probe, AttemptMeaning::Success);
    assert!(!clients[1].go().probe);
}

/// Checks that an outage is probed long before its reset ends, by one request of all processes and
/// roles. A failed probe is not a new open, and a successful one ends the outage.
pub fn an_outage_is_probed_early_by_one_request_at_a_time(store: &dyn StateStore) {
    let clients = [0, 1].map(|_| {
        let mut client = SiteClient::new(store, "outage", &[100]);
        client.breaker.fail_max = NonZeroU32::MIN;
        client.breaker.reset_ceiling = LONG_TEST_WINDOW;
        client.breaker.reset = LONG_TEST_WINDOW;
        client
    });
    let permit = clients[0].go();
    clients[0].settle(&permit, AttemptMeaning::Failure);
    clients[1].refused();
    for outcome in [AttemptMeaning::Failure, AttemptMeaning::Success] {
        let probe = loop {
            if let AdmissionDecision::Go(permit) = clients[1].enter() {
                break permit;
            }
            std::thread::yield_now();
        };
        assert!(probe.probe);
        let other = AdmissionRequest {
            role: Role::Artifact,
            ..clients[0].ask(BootInstant::ZERO)
        };
        assert!(
            matches!(
                arrive(clients[0].site.enter(&other)).entry,
                AdmissionDecision::Refused(_)
            ),
            "a second early probe"
        );
        clients[1].settle(&probe, outcome);
    }
    assert!(!clients[0].go().probe);
}
