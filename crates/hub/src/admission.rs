//! The gate of a site: who may send now, who waits in line, who holds a slot.
//!
//! A [`Gate`] joins the store's state of one site with what belongs to this process alone: the
//! lanes, one per host, role and kind, each with its line of waiters; and the slots. [`admission`]
//! is the way through it.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use docstokg_policy::adaptive::AdaptivePolicy;
use docstokg_policy::breaker::{BreakerPolicy, State, Transition};
use docstokg_policy::classify::Classifier;
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use docstokg_policy::site::{Ask, Cost, Patience, Permit, QueuePosition, Refusal};
use docstokg_stores::{Answer, SiteHandle, SiteKey, StateStore, StoreError};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use crate::clock::{BootInstant, Runtime};
use crate::event::{Event, Observer, What};

pub(crate) mod admission;
mod grant;
mod lease;
mod line;
pub(crate) mod registry;
mod round_trip;
mod seen;
mod slots;

pub(crate) use grant::{Grant, Granted};
pub(crate) use lease::Listening;
use line::Line;
use slots::Slots;

/// One site, as this process sees it.
pub(crate) struct Gate {
    pub(crate) key: SiteKey,
    pub(crate) site: Arc<dyn SiteHandle>,
    runtime: Arc<dyn Runtime>,
    /// Other processes change the state as well, and call nobody here.
    shared: bool,
    /// Answers of the store take their time.
    remote: bool,
    /// How long.
    round_trip: round_trip::RoundTrip,
    lanes: Mutex<Vec<Arc<Lane>>>,
    heartbeat: lease::Heartbeat,
    /// How the breaker stood when this process last heard of it.
    seen: seen::Seen,
    /// When this process last read an answer that blocks the site, in microseconds: permits from
    /// before that are not used, though the store hears of it a moment later.
    blocked_at: AtomicU64,
    news: Arc<News>,
    /// Where a breaker of this process alone is shown to others: they see it, and do not obey it.
    shown: Option<(Arc<dyn StateStore>, SiteKey)>,
}

/// Where gates report what they hear outside of any request.
pub(crate) struct News {
    pub(crate) observers: Arc<[Arc<dyn Observer>]>,
    /// Counts the changes of breakers that heartbeats brought.
    pub(crate) changes: watch::Sender<u64>,
}

/// Why an attempt may not go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The breaker or the limiter says so.
    Refused(Refusal),
    /// The store that knows does not answer.
    Store(StoreError),
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for Denied {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What tells the lanes of a site apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaneKey {
    pub(crate) host: Host,
    pub(crate) role: Role,
    pub(crate) kind: Option<Arc<str>>,
    pub(crate) service: Option<Arc<str>>,
    /// HEAD where it is free: passes the breaker and takes slots, but charges nothing and waits for
    /// no rate.
    pub(crate) free: bool,
    /// The time that the robots.txt of the host asks for between two requests.
    pub(crate) crawl_delay: Option<Duration>,
}

/// One set of budgets: those who charge it wait in one line, first come first served.
pub(crate) struct Lane {
    pub(crate) key: LaneKey,
    pub(crate) costs: Box<[Cost]>,
    /// How many of the costs, from the first on, grow with the weight of a request. A crawl delay
    /// counts requests.
    weighted: usize,
    pub(crate) rules: Arc<Rules>,
    slots: Box<[Arc<Semaphore>]>,
    line: Line,
    /// The origin closes its connections: every request is dialled, and none is later than the
    /// others.
    pub(crate) closes: AtomicBool,
    /// Counts the answers: while others are served, a request that was not looked at is sent again.
    pub(crate) answers: AtomicU32,
}

/// What holds for a lane and is shared by many of them.
pub(crate) struct Rules {
    pub(crate) breaker: Arc<BreakerPolicy>,
    pub(crate) isolated: bool,
    pub(crate) classifier: Arc<Classifier>,
    pub(crate) adaptive: Option<AdaptivePolicy>,
    pub(crate) max_delay: Duration,
}

/// The terms on which one attempt asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Since when the attempt has been asking.
    pub(crate) asked: BootInstant,
    pub(crate) patience: Patience,
    pub(crate) latest: BootInstant,
    pub(crate) deadline: BootInstant,
    pub(crate) jitter_sample: f64,
    pub(crate) weight: u32,
}

impl Lane {
    /// Returns what an attempt is charged, with its weight put in.
    fn costs(&self, terms: &Terms) -> Cow<'_, [Cost]> {
        match terms.weight {
            _ if self.key.free => Cow::Borrowed(&self.costs),
            1 => Cow::Borrowed(&self.costs),
            weight => self
                .costs
                .iter()
                .enumerate()
                .map(|(index, cost)| Cost {
                    weight: if index < self.weighted {
                        weight
                    } else {
                        cost.weight
                    },
                    ..cost.clone()
                })
                .collect(),
        }
    }

    /// Puts the question of an attempt from its place in the queue.
    fn ask<'a>(
        &'a self,
        costs: &'a [Cost],
        terms: &Terms,
        queue_position: QueuePosition,
    ) -> Ask<'a> {
        Ask {
            role: self.key.role,
            isolated: self.rules.isolated,
            costs,
            breaker: &self.rules.breaker,
            adaptive: self.rules.adaptive.as_ref(),
            latest: terms.latest,
            deadline: terms.deadline,
            patience: terms.patience,
            queue_position,
            jitter_sample: terms.jitter_sample,
            lease: lease::LEASE,
            asked: terms.asked,
        }
    }
}

impl Gate {
    /// Wakes everybody in line: the state of the site has changed, and they have reason to ask
    /// again.
    pub(crate) fn wake_all(&self) {
        for lane in &*self.lanes.lock() {
            lane.line.wake_all();
        }
    }

    /// Returns until when the breaker is open, as this process last heard.
    pub(crate) fn open_until(&self) -> Option<BootInstant> {
        self.seen.open_until(self.runtime.boot())
    }

    /// Tells those who watch hosts that a breaker has changed.
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
            (State::Open, Some(reset), Some(reason)) => drop(store.site(key).block(reset, reason)),
            (State::Closed, ..) => drop(store.site(key).unblock()),
            _ => {}
        }
    }

    /// Takes note of an answer that asks for no requests: those that were permitted before it are
    /// not sent after it.
    fn note_block(&self) {
        self.blocked_at
            .store(self.runtime.boot().as_micros(), Ordering::Release);
    }

    /// Tells whether a block began after a permit was given.
    fn was_blocked_since(&self, permit: &Permit) -> bool {
        self.blocked_at.load(Ordering::Acquire) > permit.at.as_micros()
    }

    /// Wakes the heads of the site's other queues: a place before them has come free.
    fn wake_heads_beside(&self, lane: &Arc<Lane>) {
        for other in self
            .lanes
            .lock()
            .iter()
            .filter(|other| !Arc::ptr_eq(other, lane))
        {
            other.line.wake_head();
        }
    }

    /// Wakes everybody in line if the answer is yes, now or when it comes.
    pub(crate) fn wake_if(self: &Arc<Self>, answer: Answer<bool>) {
        match answer {
            Answer::Ready(Ok(true)) => self.wake_all(),
            Answer::Ready(_) => {}
            Answer::Later(freed) => {
                let gate = Arc::clone(self);
                self.runtime.spawn(Box::pin(async move {
                    if freed.await == Ok(true) {
                        gate.wake_all();
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
            let what = What::BreakerSeen {
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

    /// Tells whether somebody waits at the gate or is on the way through it.
    fn is_used(&self) -> bool {
        self.lanes
            .lock()
            .iter()
            .any(|lane| Arc::strong_count(lane) > 1)
    }
}
