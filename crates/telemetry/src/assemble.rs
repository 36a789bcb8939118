//! Makes records of events. Pure: the same events give the same records.
//!
//! Events come one by one and from many requests at once; what belongs together is kept by request
//! until it can be said in one record: an attempt when it is settled, a request when it ends.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::BootInstant;
use docstokg_hub::config::Config;
use docstokg_hub::event::{Event, What};
use docstokg_hub::policy::breaker::{State, Transition};
use docstokg_hub::policy::classify::Outcome;
use docstokg_hub::policy::rate::format_rates;
use docstokg_hub::policy::site::{Refusal, RefusalReason};
use docstokg_hub::{Host, RateWait, RefusedBy, Role};

use crate::record::{
    AdjustRecord, BudgetRecord, CallRecord, CooldownRecord, EndRecord, HttpRecord, Place,
    RateAction, RateRecord, Record, Stamped, TransitionRecord,
};
use crate::run::Run;

/// Turns events into records.
pub struct Assembler {
    run: Arc<Run>,
    config: Arc<Config>,
    open: HashMap<u64, Open>,
    seen: HashSet<(Host, Role, Option<Arc<str>>)>,
}

/// A request under way.
struct Open {
    started: BootInstant,
    place: Place,
    url: Arc<str>,
    method: http::Method,
    weight: u32,
    wait: RateWait,
    free: bool,
    attempts: u32,
    status: Option<u16>,
    stopped: Option<&'static str>,
    attempt: Option<Attempt>,
}

/// An attempt under way.
struct Attempt {
    went: BootInstant,
    number: u32,
    host_state: State,
    resolver_state: Option<State>,
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

impl Assembler {
    /// Starts with nothing under way.
    #[must_use]
    pub fn new(run: Arc<Run>, config: Arc<Config>) -> Self {
        Self {
            run,
            config,
            open: HashMap::new(),
            seen: HashSet::new(),
        }
    }

    /// Returns how many requests are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.open.len()
    }

    /// Takes one event, and adds what it completes.
    pub fn take(&mut self, event: Event, records: &mut Vec<Stamped>) {
        let Event {
            at,
            request,
            host,
            role,
            what,
            ..
        } = event;
        let wall = self.run.wall_of(at);
        let mut say = |record: Record| records.push(Stamped { at: wall, record });
        match what {
            What::Hop {
                url,
                method,
                resolver,
                kind,
                weight,
                wait,
            } => {
                self.tell_budgets(&host, role, kind.as_ref(), &mut say);
                let place = Place {
                    request,
                    host,
                    role,
                    resolver,
                    kind,
                };
                if let Some(open) = self.open.get_mut(&request) {
                    (open.place, open.url, open.method) = (place, url.into(), method);
                } else {
                    self.open.insert(
                        request,
                        Open::begin(at, place, url.into(), method, weight, wait),
                    );
                }
            }
            What::Breaker { key, transition } => say(changed(key, host, transition, false)),
            What::BreakerSeen { key, transition } => say(changed(key, host, transition, true)),
            what => {
                let Some(open) = self.open.get_mut(&request) else {
                    return;
                };
                if let What::End { error } = what {
                    open.end_attempt(at, error, &mut say);
                    if let Some(open) = self.open.remove(&request) {
                        say(Record::End(Box::new(open.end(at, error))));
                    }
                } else {
                    open.take(at, what, &self.config, &mut say);
                }
            }
        }
    }

    /// Tells the budgets of a host and role, the first time that they are charged.
    fn tell_budgets(
        &mut self,
        host: &Host,
        role: Role,
        kind: Option<&Arc<str>>,
        say: &mut impl FnMut(Record),
    ) {
        let key = (host.clone(), role, kind.cloned());
        if self.seen.contains(&key) {
            return;
        }
        let reset = self.config.breakers.of(host).policy.reset;
        for (budget, windows) in self.config.budgets(host, role, kind.map(|kind| &**kind)) {
            say(Record::Budget(BudgetRecord {
                host: host.clone(),
                role,
                kind: kind.cloned(),
                budget,
                rates: format_rates(windows),
                reset,
            }));
        }
        self.seen.insert(key);
    }
}

impl Open {
    fn begin(
        started: BootInstant,
        place: Place,
        url: Arc<str>,
        method: http::Method,
        weight: u32,
        wait: RateWait,
    ) -> Self {
        Self {
            started,
            place,
            url,
            method,
            weight,
            wait,
            free: false,
            attempts: 0,
            status: None,
            stopped: None,
            attempt: None,
        }
    }

    fn take(&mut self, at: BootInstant, what: What, config: &Config, say: &mut impl FnMut(Record)) {
        match what {
            What::HeadSkipped => self.free = true,
            What::Go {
                attempt,
                probe,
                rate_delay,
                slot_wait,
                breaker_wait,
                resolver,
            } => {
                self.attempts += 1;
                let free = std::mem::take(&mut self.free);
                say(self.rate(
                    if free {
                        RateAction::HeadSkip
                    } else {
                        RateAction::Acquire
                    },
                    rate_delay,
                    None,
                    config,
                ));
                let host_state = if probe {
                    State::HalfOpen
                } else {
                    State::Closed
                };
                let place = self.place.clone();
                say(Record::Call(Box::new(CallRecord {
                    place,
                    host_state,
                    host_cooldown: None,
                    resolver_state: resolver,
                })));
                self.attempt = Some(Attempt {
                    went: at,
                    number: attempt,
                    host_state,
                    resolver_state: resolver,
                    free,
                    rate_delay,
                    slot_wait,
                    breaker_wait,
                    status: None,
                    retry_after: None,
                    header_time: None,
                    body_time: None,
                    bytes: 0,
                    fault: None,
                });
            }
            What::GivenBack => {
                self.attempts = self.attempts.saturating_sub(1);
                if self.attempt.take().is_some_and(|attempt| !attempt.free) {
                    say(self.rate(RateAction::GivenBack, Duration::ZERO, None, config));
                }
            }
            What::Refused {
                refusal,
                by,
                waited,
            } => self.refused(at, &refusal, &by, waited, config, say),
            What::Headers {
                status,
                took,
                retry_after,
            } => {
                self.status = Some(status.as_u16());
                if let Some(attempt) = &mut self.attempt {
                    attempt.status = self.status;
                    attempt.header_time = Some(took);
                    attempt.retry_after = retry_after;
                }
                if let Some(length) = retry_after {
                    say(Record::Cooldown(CooldownRecord {
                        place: self.place.clone(),
                        length,
                    }));
                }
            }
            What::Body { received, took } => {
                if let Some(attempt) = &mut self.attempt {
                    attempt.body_time = Some(took);
                    attempt.bytes = received;
                }
            }
            What::Fault { fault, .. } => {
                if let Some(attempt) = &mut self.attempt {
                    attempt.fault = Some(fault.as_str());
                }
            }
            What::Settled { outcome } => self.settled(at, Some(outcome), None, say),
            What::Adapted(change) => {
                let (old, new) = (change.old.share(), change.new.share());
                say(Record::Adjusted(AdjustRecord {
                    place: self.place.clone(),
                    old,
                    new,
                    reason: change.reason,
                }));
            }
            What::Stop { reason } => self.stopped = Some(reason.as_str()),
            _ => {}
        }
    }

    /// The request ended; an attempt that was not settled ends with it.
    fn end_attempt(
        &mut self,
        at: BootInstant,
        error: Option<&'static str>,
        say: &mut impl FnMut(Record),
    ) {
        if self.attempt.is_some() {
            self.settled(at, None, error, say);
        }
    }

    fn settled(
        &mut self,
        at: BootInstant,
        outcome: Option<Outcome>,
        error: Option<&'static str>,
        say: &mut impl FnMut(Record),
    ) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        let error = attempt.fault.or(error);
        let good = attempt.status.is_some_and(|status| status < 400) && error.is_none();
        say(Record::Http(Box::new(HttpRecord {
            place: self.place.clone(),
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
                Some(Outcome::Success) => "success",
                Some(Outcome::Failure | Outcome::Throttled) => "failure",
                Some(Outcome::Neutral) | None => "none",
            },
            header_time: attempt.header_time,
            body_time: attempt.body_time,
            elapsed: at.since(attempt.went),
            bytes: attempt.bytes,
            wasted: !good,
            error,
        })));
    }

    fn refused(
        &mut self,
        at: BootInstant,
        refusal: &Refusal,
        by: &RefusedBy,
        waited: Duration,
        config: &Config,
        say: &mut impl FnMut(Record),
    ) {
        let remaining = refusal.until.since(at);
        let probing = match &refusal.reason {
            RefusalReason::Rate { .. } | RefusalReason::Slots => {
                return say(self.rate(RateAction::Block, waited, Some(remaining), config));
            }
            RefusalReason::Open { probing, .. } => *probing,
        };
        let state = if probing {
            State::HalfOpen
        } else {
            State::Open
        };
        // The breakers of a resolver and of the own network are asked before the host's, which then
        // has nothing to do with it.
        let (host_state, host_cooldown, resolver_state, error) = match by {
            RefusedBy::Host => (state, Some(remaining), None, "breaker_open"),
            RefusedBy::Resolver(_) => (State::Closed, None, Some(state), "resolver_breaker_open"),
            RefusedBy::Network => (State::Closed, None, None, "network_breaker_open"),
        };
        say(Record::Call(Box::new(CallRecord {
            place: self.place.clone(),
            host_state,
            host_cooldown,
            resolver_state,
        })));
        say(Record::Http(Box::new(HttpRecord {
            place: self.place.clone(),
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

    fn rate(
        &self,
        action: RateAction,
        delay: Duration,
        estimate: Option<Duration>,
        config: &Config,
    ) -> Record {
        let (mode, max_delay) = match self.wait {
            RateWait::None => ("fail", Some(Duration::ZERO)),
            RateWait::Policy => (
                "block",
                Some(
                    config
                        .limits
                        .of(&self.place.host, self.place.role)
                        .max_delay
                        .value,
                ),
            ),
            RateWait::AtMost(most) => ("block", Some(most)),
            RateWait::Deadline => ("block", None),
        };
        Record::Rate(Box::new(RateRecord {
            place: self.place.clone(),
            action,
            weight: self.weight,
            mode,
            delay,
            estimate,
            max_delay,
        }))
    }

    fn end(self, at: BootInstant, error: Option<&'static str>) -> EndRecord {
        let Self {
            started,
            place,
            url,
            attempts,
            status,
            stopped,
            ..
        } = self;
        EndRecord {
            place,
            url,
            attempts,
            status: status.filter(|_| error.is_none()),
            stopped,
            error,
            elapsed: at.since(started),
        }
    }
}

fn changed(key: Arc<str>, host: Host, transition: Transition, elsewhere: bool) -> Record {
    let Transition {
        from,
        to,
        fail_count,
        reset,
        reason,
    } = transition;
    let (scope, reason) = (scope(&key, &host), reason.map(|reason| reason.to_string()));
    Record::Transition(Box::new(TransitionRecord {
        scope,
        key,
        host,
        from,
        to,
        fail_count,
        reset,
        reason,
        elsewhere,
    }))
}

fn scope(key: &str, host: &Host) -> &'static str {
    match key.split_once(':') {
        _ if key == host.as_str() => "host",
        Some(("resolver", _)) => "resolver",
        Some(("site", _)) => "site",
        Some(("network", _)) => "network",
        _ => "host",
    }
}
