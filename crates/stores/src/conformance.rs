//! The contract of a store as functions: every store, and every wrapper around a store, runs
//! [`run_all`].
//!
//! Each function panics with the violated rule. The functions use only the replies of a handle,
//! never the internals of a store.

#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a violated contract ends the test that runs it"
)]

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::{BreakerPolicy, BreakerState, OpenReason};
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::host::Host;
use docstokg_policy::rate::Window;
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AttemptResult, BudgetCost, LanePolicy, Permit,
    RefusalReason, ReservedSlot,
};
use docstokg_policy::time::BootInstant;
use docstokg_policy::windows::Windows;

use crate::handle::{BudgetKey, SiteHandle, StateStore, StoreReply};

mod limits;
mod probes;
pub mod wrapper;

pub use limits::{
    a_stated_quota_is_shared_and_never_exceeded, an_operator_ends_the_pause_after_a_refusal,
    what_was_learned_is_shared_until_it_is_forgotten,
};
pub use probes::{
    an_outage_is_probed_early_by_one_request_at_a_time,
    half_open_admits_no_more_than_its_trial_calls,
};

/// Runs the whole contract against a [`StateStore`] that no other test uses.
///
/// ```no_run
/// use std::sync::Arc;
/// use docstokg_stores::clock::SystemClock;
/// use docstokg_stores::conformance;
/// use docstokg_stores::memory::MemoryStore;
///
/// conformance::run_all(&MemoryStore::new(Arc::new(SystemClock)));
/// ```
pub fn run_all(store: &dyn StateStore) {
    two_handles_of_a_key_see_one_state(store);
    sites_do_not_see_each_other(store);
    budgets_are_named_once(store);
    a_window_is_never_exceeded(store);
    a_refusal_changes_nothing(store);
    a_cost_is_spent_in_all_budgets_or_none(store);
    a_reservation_left_is_free_for_others(store);
    a_permit_left_unused_is_free_for_others(store);
    a_request_heavier_than_anothers_limit_blocks_no_other(store);
    failures_add_up_over_handles(store);
    a_block_is_obeyed_by_the_very_next_enter(store);
    half_open_admits_no_more_than_its_trial_calls(store);
    an_outage_is_probed_early_by_one_request_at_a_time(store);
    concurrent_callers_get_exactly_the_limit(store);
    what_was_learned_is_shared_until_it_is_forgotten(store);
    an_operator_ends_the_pause_after_a_refusal(store);
    a_stated_quota_is_shared_and_never_exceeded(store);
}

/// A window so long that no permit leaves it during a test.
const LONG_TEST_WINDOW: Duration = Duration::from_secs(3_600);

/// A site with budgets, and the request with a cost in each budget.
struct SiteClient {
    site: Arc<dyn SiteHandle>,
    costs: Vec<BudgetCost>,
    breaker: BreakerPolicy,
}

impl SiteClient {
    fn new(store: &dyn StateStore, key: &str, limits: &[u32]) -> Self {
        let site = store.site(&key.into());
        let cost = |(index, limit): (usize, &u32)| {
            let window = Window::new(NonZeroU32::new(*limit).expect("not zero"), LONG_TEST_WINDOW);
            let host = Host::parse("conformance.example").expect("a host");
            let budget = if index == 0 {
                BudgetKey::Role(host, Role::Metadata)
            } else {
                BudgetKey::Common
            };
            BudgetCost {
                budget: site.budget(&budget),
                weight: 1,
                windows: Arc::new(Windows::new([window], Duration::ZERO)),
                slots: None,
            }
        };
        let costs = limits.iter().enumerate().map(cost).collect();
        let breaker = BreakerPolicy {
            fail_max: NonZeroU32::new(3).expect("not zero"),
            jitter: Duration::ZERO,
            ..BreakerPolicy::default()
        };
        Self {
            site,
            costs,
            breaker,
        }
    }

    fn policy(&self) -> LanePolicy {
        LanePolicy {
            lease: LONG_TEST_WINDOW,
            ..LanePolicy::new(self.breaker.clone())
        }
    }

    fn ask(&self, latest: BootInstant) -> AdmissionRequest {
        AdmissionRequest {
            latest,
            ..AdmissionRequest::at_once(&self.costs, self.policy())
        }
    }

    fn enter(&self) -> AdmissionDecision {
        arrive(self.site.enter(&self.ask(BootInstant::ZERO))).entry
    }

    fn go(&self) -> Permit {
        match self.enter() {
            AdmissionDecision::Go(permit) => permit,
            other => panic!("expected a go, got {other:?}"),
        }
    }

    fn wait(&self) -> ReservedSlot {
        match arrive(self.site.enter(&self.ask(BootInstant::FAR))).entry {
            AdmissionDecision::Wait(reserved) => reserved,
            other => panic!("expected a reservation, got {other:?}"),
        }
    }

    fn refused(&self) -> RefusalReason {
        match self.enter() {
            AdmissionDecision::Refused(refusal) => refusal.reason,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    fn settle(&self, permit: &Permit, outcome: AttemptMeaning) {
        let report = AttemptResult {
            outcome,
            retry_after: None,
            sent: permit.at,
            wants_retry: false,
            maybe_refused: false,
        };
        arrive(
            self.site
                .settle(&self.ask(BootInstant::ZERO), permit, &report),
        );
    }
}

/// Waits for a [`StoreReply`] without an executor.
pub fn arrive<T: Send + Unpin>(answer: StoreReply<T>) -> T {
    match answer {
        StoreReply::Ready(value) => value.expect("the store answers"),
        StoreReply::Later(mut future) => {
            let waker = std::task::Waker::from(Arc::new(ThreadUnparker(std::thread::current())));
            let mut context = std::task::Context::from_waker(&waker);
            loop {
                if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
                    return value.expect("the store answers");
                }
                std::thread::park();
            }
        }
    }
}

struct ThreadUnparker(std::thread::Thread);

impl std::task::Wake for ThreadUnparker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Checks that a weight above the limit of another process does not block that process.
pub fn a_request_heavier_than_anothers_limit_blocks_no_other(store: &dyn StateStore) {
    let (mut one, other) = (
        SiteClient::new(store, "heavier", &[10]),
        SiteClient::new(store, "heavier", &[2]),
    );
    let dialling = one.go();
    arrive(
        one.site
            .hold(&one.ask(BootInstant::ZERO), &dialling, LONG_TEST_WINDOW),
    );
    for _ in 0..8 {
        one.go();
    }
    one.costs[0].weight = 5;
    let heavy = one.wait();
    let reserved = other.wait();
    arrive(one.site.leave(&one.ask(BootInstant::ZERO), heavy.id, None));
    arrive(
        other
            .site
            .leave(&other.ask(BootInstant::ZERO), reserved.id, None),
    );
}

/// Checks that handles of the same key share its history and its breaker.
pub fn two_handles_of_a_key_see_one_state(store: &dyn StateStore) {
    let (one, other) = (
        SiteClient::new(store, "shared", &[1]),
        SiteClient::new(store, "shared", &[1]),
    );
    one.go();
    assert!(
        matches!(other.refused(), RefusalReason::Rate { .. }),
        "the other handle does not know of the permit"
    );
}

/// Checks that handles of different keys share nothing.
pub fn sites_do_not_see_each_other(store: &dyn StateStore) {
    SiteClient::new(store, "left", &[1]).go();
    SiteClient::new(store, "right", &[1]).go();
}

/// Checks that a budget has the same index through every handle.
pub fn budgets_are_named_once(store: &dyn StateStore) {
    let site = store.site(&"named".into());
    let again = store.site(&"named".into());
    let (first, second) = (
        site.budget(&BudgetKey::Common),
        site.budget(&BudgetKey::Service("s".into())),
    );
    assert!(first != second, "two budgets, one index");
    assert_eq!(
        (
            again.budget(&BudgetKey::Common),
            again.budget(&BudgetKey::Service("s".into()))
        ),
        (first, second)
    );
}

/// Checks that exactly as many requests are permitted as the limit allows.
pub fn a_window_is_never_exceeded(store: &dyn StateStore) {
    let client = SiteClient::new(store, "window", &[5]);
    for _ in 0..5 {
        client.go();
    }
    assert!(matches!(
        client.refused(),
        RefusalReason::Rate { window: Some(_) }
    ));
}

/// Checks that a refusal spends nothing: a free permit stays free.
pub fn a_refusal_changes_nothing(store: &dyn StateStore) {
    let client = SiteClient::new(store, "refusal", &[2]);
    let (first, _) = (client.go(), client.go());
    for _ in 0..10 {
        client.refused();
    }
    arrive(
        client
            .site
            .leave(&client.ask(BootInstant::ZERO), first.id, Some(first.stamp)),
    );
    client.go();
}

/// Checks that a request which one budget refuses spends nothing in the others.
pub fn a_cost_is_spent_in_all_budgets_or_none(store: &dyn StateStore) {
    let tight = SiteClient::new(store, "atomic", &[3, 1]);
    tight.go();
    for _ in 0..5 {
        tight.refused();
    }
    let loose = SiteClient {
        costs: vec![tight.costs[0].clone()],
        ..SiteClient::new(store, "atomic", &[3])
    };
    loose.go();
    loose.go();
    loose.refused();
}

/// Checks that a released reservation no longer delays other requests.
pub fn a_reservation_left_is_free_for_others(store: &dyn StateStore) {
    let client = SiteClient::new(store, "reservation", &[1]);
    client.go();
    let reserved = client.wait();
    arrive(
        client
            .site
            .leave(&client.ask(BootInstant::ZERO), reserved.id, None),
    );
    let again = client.wait();
    assert!(
        again.at < reserved.at + LONG_TEST_WINDOW / 2,
        "the reservation that was given up still counts"
    );
}

/// Checks that an unused permit is given back.
pub fn a_permit_left_unused_is_free_for_others(store: &dyn StateStore) {
    let client = SiteClient::new(store, "permit", &[1]);
    let permit = client.go();
    arrive(client.site.leave(
        &client.ask(BootInstant::ZERO),
        permit.id,
        Some(permit.stamp),
    ));
    client.go();
}

/// Checks that failures through several handles count together.
pub fn failures_add_up_over_handles(store: &dyn StateStore) {
    let clients = [0, 1, 2].map(|_| SiteClient::new(store, "failures", &[100]));
    for client in &clients {
        let permit = client.go();
        client.settle(&permit, AttemptMeaning::Failure);
    }
    for client in &clients {
        assert!(matches!(
            client.refused(),
            RefusalReason::Open {
                reason: OpenReason::Consecutive,
                ..
            }
        ));
    }
    assert_eq!(arrive(clients[0].site.view()).state(), BreakerState::Open);
}

/// Checks that an operator's block applies to every process at once, and so does its end.
pub fn a_block_is_obeyed_by_the_very_next_enter(store: &dyn StateStore) {
    let (operator, worker) = (
        SiteClient::new(store, "block", &[100]),
        SiteClient::new(store, "block", &[100]),
    );
    arrive(operator.site.block(
        LONG_TEST_WINDOW,
        &OpenReason::Operator("conformance".into()),
    ));
    assert!(matches!(
        worker.refused(),
        RefusalReason::Open {
            reason: OpenReason::Operator(_),
            ..
        }
    ));
    arrive(operator.site.unblock());
    worker.go();
}

/// Checks that concurrent callers together get exactly the limit.
pub fn concurrent_callers_get_exactly_the_limit(store: &dyn StateStore) {
    let permitted: usize = std::thread::scope(|scope| {
        let caller = || {
            let client = SiteClient::new(store, "crowd", &[1_000]);
            (0..500)
                .filter(|_| matches!(client.enter(), AdmissionDecision::Go(_)))
                .count()
        };
        let callers: Vec<_> = (0..4).map(|_| scope.spawn(caller)).collect();
        callers
            .into_iter()
            .map(|caller| caller.join().expect("no panic"))
            .sum()
    });
    assert_eq!(permitted, 1_000);
}
