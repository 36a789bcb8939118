//! What an attempt enters with and what comes of it: how long it may wait, what is reported when it
//! goes, and the error when it is refused.

use std::time::Duration;

use docstokg_policy::rate::LimitBasis;
use docstokg_policy::site::{Patience, RefusalReason};

use crate::admission::{Denied, Permits, Terms, Waits};
use crate::error::{ErrorKind, Refused, RefusedBy};
use crate::event::What;
use crate::hub::Inner;
use crate::journey::Track;
use crate::request::{RateWait, Request};
use crate::target::{NamedHop, Target};

/// How long a retry whose wait is bounded may wait in the queue of its host.
const RETRY_ENTRY: Duration = Duration::from_secs(60);

/// A crawl delay from which on requests are not queued for it: the caller learns when to come back.
const LONG_DELAY: Duration = Duration::from_secs(600);

fn has_long_delay(target: &Target) -> bool {
    let delay = target.route.site.key.crawl_delay;
    delay.is_some_and(|delay| delay >= LONG_DELAY)
}

impl Inner {
    /// Says how long an attempt may wait, and for what.
    pub(super) fn terms(
        &self,
        target: &Target,
        request: &Request,
        attempt: u32,
        track: &Track,
    ) -> Terms {
        let now = self.runtime.boot();
        let is_retry = attempt > 1;
        // A request that bounds the wait for its own retry does not wait for a host that was paused
        // meanwhile: it comes back.
        let deadline = match request.retry_wait {
            Some(most) if is_retry => track.deadline.min(now + most.max(RETRY_ENTRY)),
            _ => track.deadline,
        };
        // What it waited for another request is no part of that: its own begins here.
        let begun = track.started + track.journey.flight_wait;
        let deadline = match request.held_until(begun) {
            Some(until) => deadline.min(until),
            None => deadline,
        };
        let latest = match request.rate_wait {
            // A request that was let through once is not turned away on its retry: only the
            // deadline bounds that.
            _ if is_retry => deadline,
            RateWait::Policy => now + target.route.site.rules.max_delay,
            RateWait::None => now,
            RateWait::Deadline if has_long_delay(target) => track.deadline.min(now + LONG_DELAY),
            RateWait::Deadline => deadline,
            RateWait::AtMost(most) => now + most,
        };
        Terms {
            asked: now,
            patience: if is_retry {
                Patience::Wait
            } else {
                request.patience
            },
            latest,
            deadline,
            jitter_sample: self.random.share(),
            weight: request.weight,
            backlog: request.group.as_ref().map_or(0, |group| {
                group.backlog(&target.route.site.site.key, target.role)
            }),
        }
    }

    /// Turns a refusal, or the failure of a store, into the error of the request.
    pub(super) fn denied(
        &self,
        target: &Target,
        by: RefusedBy,
        denied: Denied,
        waited: Duration,
        track: &Track,
    ) -> ErrorKind {
        let refusal = match denied {
            Denied::Refused(refusal) => refusal,
            Denied::Store(error) => {
                return ErrorKind::Store {
                    host: target.host.clone(),
                    error,
                };
            }
        };
        track.note(&target.host, target.role, || What::Refused {
            refusal: refusal.clone(),
            by: by.clone(),
            waited,
            basis: match &refusal.reason {
                RefusalReason::Rate {
                    window: Some(window),
                } => target.route.site.basis_of(window),
                _ => LimitBasis::Configured,
            },
        });
        let is_breaker = matches!(refusal.reason, RefusalReason::Open { .. });
        let now = (self.runtime.boot(), self.runtime.wall());
        let refused = Refused::new(&target.host, target.role, by, refusal, now);
        if is_breaker {
            ErrorKind::BreakerOpen(refused)
        } else {
            ErrorKind::RateLimited(refused)
        }
    }
}

/// Reports to the observers on which terms an attempt goes.
pub(super) fn note_entry(
    target: &Target,
    permits: &Permits,
    attempt: u32,
    waits: Waits,
    track: &Track,
) {
    let note = |what: What| track.note(&target.host, target.role, || what);
    let permit = &permits.site_state().permit;
    if let Some(refusal) = &permit.shadowed {
        note(What::Shadowed((**refusal).clone()));
    }
    if target.route.site.key.free {
        note(What::HeadSkipped);
    }
    note(What::Go {
        attempt,
        probe: permit.probe,
        rate_delay: waits.rate,
        rate_window: waits.rate_window,
        slot_wait: waits.slots,
        breaker_wait: waits.breaker,
        resolver: permits.resolver_state(),
    });
}

/// Returns the error of a request that was cancelled while it only waited.
pub(crate) fn cancelled(target: &NamedHop) -> ErrorKind {
    ErrorKind::Cancelled {
        host: target.host.clone(),
    }
}
