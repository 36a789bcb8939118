//! The admission of a site: which request may be sent now, which waits, which holds a slot.
//!
//! A [`SiteAdmission`] joins the store's state of one site with what belongs to this process alone:
//! the lanes, one per host, role and kind, each with its queue of waiters; and the slots. A
//! [`AdmissionQueue`] is a way into its site. [`admit`] takes one attempt through it, state by
//! state, and [`permits`] holds and settles what an attempt was permitted by all the sites it had
//! to pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use docstokg_policy::breaker::{BreakerState, OpenReason, Transition};
use docstokg_stores::{SiteHandle, SiteKey, StateStore, StoreReply};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::clock::{BootInstant, Runtime};
use crate::event::{Event, EventKind, Observer};

mod admission_queue;
mod admit;
mod attempt_route;
mod failure_wait;
mod heartbeat;
mod host_health;
mod permit;
mod permits;
mod queue;
mod queued_request;
pub(crate) mod registry;
mod round_trip;
mod slots;
mod states;

use admission_queue::LaneState;
pub(crate) use admission_queue::{AdmissionQueue, AdmissionRules, AdmissionTerms, BudgetSetKey};
use admit::AdmissionContext;
pub(crate) use admit::AdmissionWaits;
pub(crate) use attempt_route::AdmissionGate;
pub(crate) use heartbeat::HeartbeatGuard;
pub(crate) use host_health::{HealthSign, HostHealth};
pub(crate) use permit::{BodyAhead, Consequence, HeldPermit, PermitState};
pub(crate) use permits::{AttemptDenial, AttemptReport, Permits, Route};

/// One site, as this process sees it.
pub(crate) struct SiteAdmission {
    pub(crate) key: SiteKey,
    pub(crate) handle: Arc<dyn SiteHandle>,
    runtime: Arc<dyn Runtime>,
    /// Other processes change the state as well, and wake no request of this one.
    shared: bool,
    /// Answers of the store take their time.
    remote: bool,
    /// How long.
    round_trip: round_trip::RoundTrip,
    lanes: Mutex<Vec<Arc<LaneState>>>,
    heartbeat: heartbeat::Heartbeat,
    pub(crate) health: HostHealth,
    /// Whether this process has changed an adaptive rate of the site.
    has_adapted: AtomicBool,
    news: Arc<SiteNews>,
    /// Where a breaker of this process alone is shown to others: they see it, and do not obey it.
    shown: Option<(Arc<dyn StateStore>, SiteKey)>,
}

/// Where sites report changes that belong to no request.
pub(crate) struct SiteNews {
    pub(crate) observers: Arc<[Arc<dyn Observer>]>,
    /// Counts the changes of breakers that heartbeats brought.
    pub(crate) changes: watch::Sender<u64>,
}

impl SiteAdmission {
    /// Wakes all waiters: the state of the site has changed, and they have reason to ask again.
    pub(crate) fn wake_all(&self) {
        for lane in &*self.lanes.lock() {
            lane.queue.wake_all();
        }
    }

    /// Returns until when the breaker is open, as this process last saw it.
    pub(crate) fn open_until(&self) -> Option<BootInstant> {
        self.health.open_until(self.runtime.boot())
    }

    /// Notifies the watches of hosts that a breaker has changed.
    pub(crate) fn spread_change(&self) {
        self.news.changes.send_modify(|changes| *changes += 1);
    }

    /// Shows a transition of this process's own breaker to other processes.
    fn show(&self, transition: &Transition) {
        let Some((store, key)) = &self.shown else {
            return;
        };
        // A store that does not answer shows nothing; the breaker holds all the same.
        match (transition.to, transition.reset, &transition.reason) {
            (BreakerState::Open, Some(reset), Some(OpenReason::EarlyProbeFailed)) => {
                drop(store.site(key).block(reset, &OpenReason::ProbeFailed));
            }
            (BreakerState::Open, Some(reset), Some(reason)) => {
                drop(store.site(key).block(reset, reason));
            }
            (BreakerState::Closed, ..) => drop(store.site(key).unblock()),
            _ => {}
        }
    }

    /// Wakes the heads of the site's queues.
    fn wake_heads(&self) {
        for lane in &*self.lanes.lock() {
            lane.queue.wake_head();
        }
    }

    /// Wakes the heads of the site's other queues: a position before them is free again.
    fn wake_heads_beside(&self, lane: &AdmissionQueue) {
        for other in self.lanes.lock().iter().filter(|other| !lane.is(other)) {
            other.queue.wake_head();
        }
    }

    /// Wakes all waiters if the answer is yes, now or when it comes.
    pub(crate) fn wake_if(self: &Arc<Self>, answer: StoreReply<bool>) {
        match answer {
            StoreReply::Ready(Ok(true)) => self.wake_all(),
            StoreReply::Ready(_) => {}
            StoreReply::Later(freed) => {
                let site = Arc::clone(self);
                self.runtime.spawn(Box::pin(async move {
                    if freed.await == Ok(true) {
                        site.wake_all();
                    }
                }));
            }
        }
    }

    /// Reports that another process or an operator has changed the breaker, and wakes the requests
    /// that wait for it.
    fn report_change(&self, transition: Option<Transition>) {
        self.wake_all();
        let lane = self.lanes.lock().first().map(Arc::clone);
        if let (Some(transition), Some(lane)) = (transition, lane) {
            let what = EventKind::BreakerSeen {
                key: Arc::clone(&self.key),
                transition,
            };
            let event = Event {
                at: self.runtime.boot(),
                request: 0,
                host: lane.key.host.clone(),
                role: lane.key.role,
                what,
            };
            for observer in &*self.news.observers {
                observer.note(&event);
            }
        }
        self.spread_change();
    }

    /// Returns whether a request waits for the site or is on its way through it, or the end of the
    /// run has to be reported to it.
    fn is_used(&self) -> bool {
        let lanes = self.lanes.lock();
        self.has_adapted.load(Ordering::Relaxed)
            || lanes.iter().any(|lane| Arc::strong_count(lane) > 1)
    }
}
