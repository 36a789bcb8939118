//! The admission to a site: which request is sent now, which waits, which has a slot.
//!
//! A [`SiteAdmission`] joins the state of a site in the store with the state of this process: its
//! admission queues and its slots. There is one queue per host, role and kind.
//!
//! - [`admission_queue`] has the queues, and [`registry`] creates them.
//! - [`admit`] takes one attempt through its queue, and [`states`] has the waits.
//! - [`permits`] collects and settles the permits of an attempt at all its sites.

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

/// The state of one site, as this process sees it.
pub(crate) struct SiteAdmission {
    pub(crate) key: SiteKey,
    pub(crate) handle: Arc<dyn SiteHandle>,
    runtime: Arc<dyn Runtime>,
    /// `true` if other processes also change the state. Their changes wake no request of this one.
    shared: bool,
    /// `true` if the store replies over a network, so that an operation takes time.
    remote: bool,
    /// The usual duration of an operation of the store.
    round_trip: round_trip::RoundTrip,
    lanes: Mutex<Vec<Arc<LaneState>>>,
    heartbeat: heartbeat::Heartbeat,
    pub(crate) health: HostHealth,
    /// `true` if this process has changed an adaptive rate of the site.
    has_adapted: AtomicBool,
    news: Arc<SiteNews>,
    /// The store and key that display a breaker of this process to others. Other processes show the
    /// breaker, but do not obey it.
    shown: Option<(Arc<dyn StateStore>, SiteKey)>,
}

/// The recipients of changes that belong to no request.
pub(crate) struct SiteNews {
    pub(crate) observers: Arc<[Arc<dyn Observer>]>,
    /// Counts the changes of breakers, for tasks that wait for a change.
    pub(crate) changes: watch::Sender<u64>,
}

impl SiteAdmission {
    /// Wakes all waiters to send their admission requests again: the state of the site has changed.
    pub(crate) fn wake_all(&self) {
        for lane in &*self.lanes.lock() {
            lane.queue.wake_all();
        }
    }

    /// Returns the instant until which the breaker is open, as this process last saw it.
    pub(crate) fn open_until(&self) -> Option<BootInstant> {
        self.health.open_until(self.runtime.boot())
    }

    /// Notifies the watches of hosts that a breaker has changed.
    pub(crate) fn spread_change(&self) {
        self.news.changes.send_modify(|changes| *changes += 1);
    }

    /// Displays a [`Transition`] of this process's own breaker to other processes.
    fn show(&self, transition: &Transition) {
        let Some((store, key)) = &self.shown else {
            return;
        };
        // If the store fails, the breaker is not displayed, but applies all the same.
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

    /// Wakes the heads of the site's other queues: an earlier position has become free.
    fn wake_heads_beside(&self, lane: &AdmissionQueue) {
        for other in self.lanes.lock().iter().filter(|other| !lane.is(other)) {
            other.queue.wake_head();
        }
    }

    /// Wakes all waiters if the reply is `true`, now or when the reply arrives.
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

    /// Returns whether the site must be kept: a request uses it, or an adaptive rate of the run has
    /// to be deleted.
    fn is_used(&self) -> bool {
        let lanes = self.lanes.lock();
        self.has_adapted.load(Ordering::Relaxed)
            || lanes.iter().any(|lane| Arc::strong_count(lane) > 1)
    }
}
