//! The record of one request: what it waited for and how long. Every response carries it.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::host::Host;
use docstokg_policy::retry::StopReason;
use docstokg_policy::role::Role;

use crate::clock::{BootInstant, Runtime};
use crate::error::ErrorKind;
use crate::event::{Event, Observer, What};

/// What happened on the way to an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journey {
    /// Requests that were sent, over all hops.
    pub attempts: u32,
    /// Redirects that were followed.
    pub redirects: u32,
    /// Time spent waiting for rates.
    pub rate_delay: Duration,
    /// Time spent waiting for slots.
    pub slot_wait: Duration,
    /// Time spent waiting for breakers.
    pub breaker_wait: Duration,
    /// Time spent waiting before retries.
    pub backoff: Duration,
    /// Time from sending to headers, of the last attempt.
    pub header_time: Duration,
    /// Time from headers to the end of the body, of the last attempt.
    pub body_time: Duration,
    /// Time over all.
    pub elapsed: Duration,
    /// Why there was no further attempt, when the last one was not good.
    pub stopped: Option<StopReason>,
}

/// A request that has not ended.
pub(crate) struct Track {
    pub(crate) journey: Journey,
    pub(crate) started: BootInstant,
    pub(crate) deadline: BootInstant,
    request: u64,
    /// The hop it is on, until its end is reported.
    at: Option<(Host, Role)>,
    runtime: Arc<dyn Runtime>,
    observers: Arc<[Arc<dyn Observer>]>,
}

impl Track {
    pub(crate) fn begin(
        request: u64,
        deadline: Option<Duration>,
        runtime: &Arc<dyn Runtime>,
        observers: &Arc<[Arc<dyn Observer>]>,
    ) -> Self {
        let started = runtime.boot();
        Self {
            journey: Journey::default(),
            started,
            deadline: deadline.map_or(BootInstant::FAR, |deadline| started + deadline),
            request,
            at: None,
            runtime: Arc::clone(runtime),
            observers: Arc::clone(observers),
        }
    }

    pub(crate) fn now(&self) -> BootInstant {
        self.runtime.boot()
    }

    /// Reports to the observers, if there are any; `what` is made only then.
    pub(crate) fn note(&self, host: &Host, role: Role, what: impl FnOnce() -> What) {
        if !self.observers.is_empty() {
            let event = Event {
                at: self.runtime.boot(),
                request: self.request,
                host: host.clone(),
                role,
                what: what(),
            };
            for observer in &*self.observers {
                observer.note(&event);
            }
        }
    }

    pub(crate) fn deadline_error(&self, host: &Host, during: &'static str) -> ErrorKind {
        ErrorKind::Deadline {
            host: host.clone(),
            deadline: self.deadline.since(self.started),
            during,
        }
    }

    /// Begins a hop.
    pub(crate) fn hop(&mut self, host: &Host, role: Role, what: impl FnOnce() -> What) {
        if !self.observers.is_empty() {
            self.at = Some((host.clone(), role));
        }
        self.note(host, role, what);
    }

    /// Returns the record up to now.
    pub(crate) fn so_far(&mut self) -> Journey {
        self.journey.elapsed = self.now().since(self.started);
        self.journey.clone()
    }

    /// Reports the end, once, and returns the record.
    pub(crate) fn end(&mut self, error: Option<&'static str>) -> Journey {
        self.report_end(error);
        self.so_far()
    }

    fn report_end(&mut self, error: Option<&'static str>) {
        if let Some((host, role)) = self.at.take() {
            self.note(&host, role, || What::End { error });
        }
    }
}

impl Drop for Track {
    fn drop(&mut self) {
        self.report_end(Some("cancelled"));
    }
}
