//! The admission to a site. It decides which request is sent now, which waits, and which occupies a
//! slot.
//!
//! A [`SiteAdmission`] joins the state of a site in the store with the state of this process: its
//! admission queues and its slots. Each host, role and kind has its own queue.
//!
//! - [`admission_queue`] defines the queues, and [`registry`] creates them.
//! - [`admit`] takes one attempt through its queue, and [`states`] has the waits.
//! - [`permits`] takes and settles the permits of an attempt at all its sites.

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
    /// `true` if other processes change the state of the site, too. Their changes do not wake
    /// requests of this process.
    shared: bool,
    /// `true` if operations of the store take time, because it replies over a network.
    remote: bool,
    /// The usual duration of an operation of the store.
    round_trip: round_trip::RoundTrip,
    lanes: Mutex<Vec<Arc<LaneState>>>,
    heartbeat: heartbeat::Heartbeat,
    pub(crate) health: HostHealth,
    /// `true` if this process has changed an adaptive rate of the site.
    has_adapted: AtomicBool,
    news: Arc<SiteNews>,
    /// The store and key through which other processes see a breaker that only this process uses.
    /// They display the breaker, but do not obey it.
    shown: Option<(Arc<dyn StateStore>, SiteKey)>,
}

/// The recipients of changes that no request of this process caused.
pub(crate) struct SiteNews {
    pub(crate) observers: Arc<[Arc<dyn Observer>]>,
    /// The number of changes of breakers. Tasks that wait for a change watch it.
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

    /// Wakes the tasks that watch hosts: a breaker has changed.
    pub(crate) fn spread_change(&self) {
        self.news.changes.send_modify(|changes| *changes += 1);
    }

    /// Shows other processes a [`Transition`] of a breaker that only this process uses.
    fn show(&self, transition: &Transition) {
        let Some((store, key)) = &self.shown else {
            return;
        };
        // If the store fails, other processes do not see the breaker, which still applies to this
        // one.
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

    /// Wakes the heads of the site's other queues, because an earlier position has become free for
    /// them.
    fn wake_heads_beside(&self, lane: &AdmissionQueue) {
        for other in self.lanes.lock().iter().filter(|other| !lane.is(other)) {
            other.queue.wake_head();
        }
    }

    /// Wakes all waiters if the reply is `true`. If the reply has not arrived yet, a task waits for
    /// it.
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

    /// Wakes all waiters of the site after another process or an operator has changed the breaker,
    /// and reports `transition` to the observers.
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

    /// Returns whether the site must be kept: a request uses it, or the run has to delete the
    /// site's adaptive rate when it ends.
    fn is_used(&self) -> bool {
        let lanes = self.lanes.lock();
        self.has_adapted.load(Ordering::Relaxed)
            || lanes.iter().any(|lane| Arc::strong_count(lane) > 1)
    }
}
