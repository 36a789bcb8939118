//! A request between its first event and its end. Converts the events of the request to records.

use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::BootInstant;
use docstokg_hub::config::Config;
use docstokg_hub::event::EventKind;
use docstokg_hub::policy::breaker::BreakerState;
use docstokg_hub::policy::classify::AttemptMeaning;
use docstokg_hub::policy::rate::Window;
use docstokg_hub::policy::retry::StopReason;
use docstokg_hub::policy::site::{Refusal, RefusalReason};
use docstokg_hub::{RateWait, RefusedBy};

use crate::record::{
    AdjustRecord, CacheRecord, CallRecord, ChargedBudget, CooldownRecord, EndRecord, HttpRecord,
    RateAction, RateRecord, Record, RequestContext,
};

/// The state of a request that has not ended. The [`Assembler`](crate::assemble::Assembler) keeps
/// one for each.
pub(super) struct ActiveRequest {
    started: BootInstant,
    context: RequestContext,
    url: Arc<str>,
    method: http::Method,
    cost: AttemptCost,
    /// True if the next attempt is a HEAD request that spends no token.
    free: bool,
    attempts: u32,
    status: Option<u16>,
    stopped: Option<StopReason>,
    attempt: Option<ActiveAttempt>,
}

/// The cost of each attempt of a request, and the longest wait that the request accepts.
pub(super) struct AttemptCost {
    pub(super) weight: u32,
    pub(super) wait: RateWait,
}

/// The wait of a request for a rate limit.
#[derive(Clone, Copy, Default)]
struct RateDelay {
    length: Duration,
    /// The [`Window`] that delayed or refused the request.
    window: Option<Window>,
    /// The further wait that a refused request would have needed.
    estimate: Option<Duration>,
}

/// An attempt that is not settled yet, in an [`ActiveRequest`].
struct ActiveAttempt {
    sent_at: BootInstant,
    number: u32,
    host_state: BreakerState,
    resolver_state: Option<BreakerState>,
    free: bool,
    rate_delay: Duration,
    slot_wait: Duration,
    breaker_wait: Duration,
    status: Option<u16>,
    retry_after: Option<Duration>,
    header_time: Option<Duration>,
    body_time: Option<Duration>,
    bytes: u64,
    fault: Option<&'static str>,
}

impl ActiveRequest {
    pub(super) fn new(
        started: BootInstant,
        context: RequestContext,
        url: String,
        method: http::Method,
        cost: AttemptCost,
    ) -> Self {
        Self {
            started,
            context,
            url: url.into(),
            method,
            cost,
            free: false,
            attempts: 0,
            status: None,
            stopped: None,
            attempt: None,
        }
    }

    /// Continues the request at another URL after a redirect.
    pub(super) fn continue_at(
        &mut self,
        context: RequestContext,
        url: String,
        method: http::Method,
    ) {
        (self.context, self.url, self.method) = (context, url.into(), method);
    }

    /// Applies one event of this request, and emits the [`Record`]s that it completes.
    pub(super) fn take(
        &mut self,
        at: BootInstant,
        what: EventKind,
        config: &Config,
        emit: &mut impl FnMut(Record),
    ) {
        match what {
            EventKind::HeadSkipped => self.free = true,
            EventKind::Go { .. } => self.start_attempt(at, &what, config, emit),
            EventKind::GivenBack => {
                self.attempts = self.attempts.saturating_sub(1);
                if self.attempt.take().is_some_and(|attempt| !attempt.free) {
                    emit(self.rate(RateAction::GivenBack, RateDelay::default(), config));
                }
            }
            EventKind::Refused {
                refusal,
                by,
                waited,
                basis: _,
            } => {
                let remaining = refusal.until.since(at);
                if let Some(state) = refusing_state(&refusal) {
                    self.deny(&by, state, remaining, emit);
                } else {
                    let delay = RateDelay {
                        length: waited,
                        window: refusing_window(&refusal),
                        estimate: Some(remaining),
                    };
                    emit(self.rate(RateAction::Block, delay, config));
                }
            }
            EventKind::Settled { outcome } => self.settle(at, Some(outcome), None, emit),
            EventKind::Adapted(change) => emit(Record::Adjusted(AdjustRecord {
                context: self.context.clone(),
                old: change.old.share(),
                new: change.new.share(),
                reason: change.reason,
            })),
            EventKind::CacheHit { status, age } => {
                emit(self.cache("hit", Some(status), Some(age), None));
            }
            EventKind::CacheRevalidated { status } => {
                emit(self.cache("revalidated", Some(status), None, None));
            }
            EventKind::CacheStale {
                status,
                age,
                reason,
            } => emit(self.cache("stale", Some(status), Some(age), Some(reason.as_str()))),
            EventKind::CacheStored => emit(self.cache("stored", None, None, None)),
            EventKind::Stop { reason } => self.stopped = Some(reason),
            what => self.take_answer(&what, emit),
        }
    }

    /// Starts an attempt after its admission, and records the permit and the state of the breakers.
    fn start_attempt(
        &mut self,
        at: BootInstant,
        go: &EventKind,
        config: &Config,
        emit: &mut impl FnMut(Record),
    ) {
        let EventKind::Go {
            attempt,
            probe,
            rate_delay,
            rate_window,
            slot_wait,
            breaker_wait,
            resolver,
        } = go
        else {
            return;
        };
        self.attempts += 1;
        let free = std::mem::take(&mut self.free);
        let action = if free {
            RateAction::HeadSkip
        } else {
            RateAction::Acquire
        };
        let delay = RateDelay {
            length: *rate_delay,
            window: *rate_window,
            estimate: None,
        };
        emit(self.rate(action, delay, config));
        let host_state = if *probe {
            BreakerState::HalfOpen
        } else {
            BreakerState::Closed
        };
        emit(Record::Call(Box::new(CallRecord {
            context: self.context.clone(),
            host_state,
            host_cooldown: None,
            resolver_state: *resolver,
        })));
        self.attempt = Some(ActiveAttempt {
            sent_at: at,
            number: *attempt,
            host_state,
            resolver_state: *resolver,
            free,
            rate_delay: *rate_delay,
            slot_wait: *slot_wait,
            breaker_wait: *breaker_wait,
            status: None,
            retry_after: None,
            header_time: None,
            body_time: None,
            bytes: 0,
            fault: None,
        });
    }

    /// Records what the cache did. If the cache has a response, the request gets that response.
    fn cache(
        &mut self,
        action: &'static str,
        status: Option<http::StatusCode>,
        age: Option<Duration>,
        reason: Option<&'static str>,
    ) -> Record {
        let status = status.map(|status| status.as_u16());
        self.status = status.or(self.status);
        Record::Cache(Box::new(CacheRecord {
            context: self.context.clone(),
            url: Arc::clone(&self.url),
            action,
            status,
            age,
            reason,
        }))
    }

    /// Stores the arrival of headers, a body or a fault in the active attempt.
    fn take_answer(&mut self, what: &EventKind, emit: &mut impl FnMut(Record)) {
        if let EventKind::Headers {
            status,
            retry_after,
            ..
        } = what
        {
            self.status = Some(status.as_u16());
            if let Some(length) = *retry_after {
                emit(Record::Cooldown(CooldownRecord {
                    context: self.context.clone(),
                    length,
                }));
            }
        }
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        match what {
            EventKind::Headers {
                took, retry_after, ..
            } => {
                attempt.status = self.status;
                attempt.header_time = Some(*took);
                attempt.retry_after = *retry_after;
            }
            EventKind::Body { received, took } => {
                attempt.body_time = Some(*took);
                attempt.bytes = *received;
            }
            EventKind::Fault { fault, .. } => attempt.fault = Some(fault.as_str()),
            _ => {}
        }
    }

    /// Ends the active attempt, if there is one, and records it. `None` as the outcome means that
    /// the attempt ended without being settled.
    pub(super) fn settle(
        &mut self,
        at: BootInstant,
        outcome: Option<AttemptMeaning>,
        error: Option<&'static str>,
        emit: &mut impl FnMut(Record),
    ) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        let error = attempt.fault.or(error);
        let good = attempt.status.is_some_and(|status| status < 400) && error.is_none();
        emit(Record::Http(Box::new(HttpRecord {
            context: self.context.clone(),
            method: self.method.clone(),
            url: Arc::clone(&self.url),
            sent: true,
            attempt: attempt.number,
            status: attempt.status,
            retry_after: attempt.retry_after,
            rate_delay: attempt.rate_delay,
            slot_wait: attempt.slot_wait,
            breaker_wait: attempt.breaker_wait,
            host_state: attempt.host_state,
            cooldown: None,
            resolver_state: attempt.resolver_state,
            breaker_recorded: match outcome {
                Some(AttemptMeaning::Success) => "success",
                Some(AttemptMeaning::Failure | AttemptMeaning::Throttled) => "failure",
                Some(AttemptMeaning::Neutral) | None => "none",
            },
            header_time: attempt.header_time,
            body_time: attempt.body_time,
            elapsed: at.since(attempt.sent_at),
            bytes: attempt.bytes,
            wasted: !good,
            error,
        })));
    }

    /// Records an attempt that was not sent because a breaker denied it.
    fn deny(
        &mut self,
        by: &RefusedBy,
        state: BreakerState,
        remaining: Duration,
        emit: &mut impl FnMut(Record),
    ) {
        // The breakers of a resolver and of local connectivity are checked before the host's. If
        // one of these refuses, the host's breaker was not checked, and is recorded as closed.
        let (host_state, host_cooldown, resolver_state, error) = match by {
            RefusedBy::Host => (state, Some(remaining), None, "breaker_open"),
            RefusedBy::Resolver(_) => (
                BreakerState::Closed,
                None,
                Some(state),
                "resolver_breaker_open",
            ),
            RefusedBy::Network => (BreakerState::Closed, None, None, "network_breaker_open"),
        };
        emit(Record::Call(Box::new(CallRecord {
            context: self.context.clone(),
            host_state,
            host_cooldown,
            resolver_state,
        })));
        emit(Record::Http(Box::new(HttpRecord {
            context: self.context.clone(),
            method: self.method.clone(),
            url: Arc::clone(&self.url),
            sent: false,
            attempt: self.attempts + 1,
            status: None,
            retry_after: None,
            rate_delay: Duration::ZERO,
            slot_wait: Duration::ZERO,
            breaker_wait: Duration::ZERO,
            host_state,
            cooldown: host_cooldown,
            resolver_state,
            breaker_recorded: "none",
            header_time: None,
            body_time: None,
            elapsed: Duration::ZERO,
            bytes: 0,
            wasted: false,
            error: Some(error),
        })));
    }

    fn rate(&self, action: RateAction, delay: RateDelay, config: &Config) -> Record {
        let limits = config.limits.of(&self.context.host, self.context.role);
        let (mode, max_delay) = match self.cost.wait {
            RateWait::None => ("fail", Some(Duration::ZERO)),
            RateWait::Policy => ("block", Some(limits.max_delay.value)),
            RateWait::AtMost(most) => ("block", Some(most)),
            RateWait::Deadline => ("block", None),
        };
        Record::Rate(Box::new(RateRecord {
            context: self.context.clone(),
            budget: ChargedBudget::of(&self.context, delay.window, config),
            action,
            weight: self.cost.weight,
            mode,
            delay: delay.length,
            estimate: delay.estimate,
            max_delay,
        }))
    }

    /// Ends the request, and returns its [`EndRecord`].
    pub(super) fn end(self, at: BootInstant, error: Option<&'static str>) -> EndRecord {
        EndRecord {
            context: self.context,
            url: self.url,
            attempts: self.attempts,
            status: self.status.filter(|_| error.is_none()),
            stopped: self.stopped,
            error,
            elapsed: at.since(self.started),
        }
    }
}

/// Returns the [`Window`] that refused the request; `None` for another reason.
fn refusing_window(refusal: &Refusal) -> Option<Window> {
    match &refusal.reason {
        RefusalReason::Rate { window } => *window,
        RefusalReason::Slots | RefusalReason::Open { .. } => None,
    }
}

/// Returns the [`BreakerState`] of the breaker that refused; `None` if the limiter refused.
fn refusing_state(refusal: &Refusal) -> Option<BreakerState> {
    match &refusal.reason {
        RefusalReason::Rate { .. } | RefusalReason::Slots => None,
        RefusalReason::Open { probing: true, .. } => Some(BreakerState::HalfOpen),
        RefusalReason::Open { .. } => Some(BreakerState::Open),
    }
}
