//! Turns events into records. Pure: the same events give the same records.
//!
//! Events of many requests arrive interleaved. The assembler keeps the state of each active request
//! until one record can describe it: an attempt when it is settled, a request when it ends.

mod active;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use docstokg_hub::clock::BootInstant;
use docstokg_hub::config::Config;
use docstokg_hub::event::{Event, What};
use docstokg_hub::policy::breaker::Transition;
use docstokg_hub::policy::rate::format_rates;
use docstokg_hub::{Host, Role};

use crate::record::{BudgetRecord, Record, RequestContext, Stamped, TransitionRecord};
use crate::run::Run;
use active::{ActiveRequest, Cost};

/// Turns events into records.
pub struct Assembler {
    run: Arc<Run>,
    config: Arc<Config>,
    active: HashMap<u64, ActiveRequest>,
    reported_budgets: HashSet<(Host, Role, Option<Arc<str>>)>,
}

impl Assembler {
    /// Starts without active requests.
    #[must_use]
    pub fn new(run: Arc<Run>, config: Arc<Config>) -> Self {
        Self {
            run,
            config,
            active: HashMap::new(),
            reported_budgets: HashSet::new(),
        }
    }

    /// Returns the number of active requests.
    #[must_use]
    pub fn active_requests(&self) -> usize {
        self.active.len()
    }

    /// Takes one event, and appends the records that it completes.
    pub fn take(&mut self, event: Event, records: &mut Vec<Stamped>) {
        let at = self.run.wall_of(event.at);
        let mut emit = |record: Record| records.push(Stamped { at, record });
        match event.what {
            What::Hop { .. } => self.start_hop(event, &mut emit),
            What::Breaker { key, transition } => {
                let change = transition_record(key, event.host, transition);
                emit(Record::Transition(Box::new(change)));
            }
            What::BreakerSeen { key, transition } => {
                let mut change = transition_record(key, event.host, transition);
                change.elsewhere = true;
                emit(Record::Transition(Box::new(change)));
            }
            What::End { error } => self.end_request(event.at, event.request, error, &mut emit),
            what => {
                if let Some(active) = self.active.get_mut(&event.request) {
                    active.take(event.at, what, &self.config, &mut emit);
                }
            }
        }
    }

    /// A request starts, or continues at another URL.
    fn start_hop(&mut self, event: Event, emit: &mut impl FnMut(Record)) {
        let Event {
            at,
            request,
            host,
            role,
            what:
                What::Hop {
                    url,
                    method,
                    resolver,
                    kind,
                    weight,
                    wait,
                },
        } = event
        else {
            return;
        };
        self.report_budgets(&host, role, kind.as_ref(), emit);
        let context = RequestContext {
            request,
            host,
            role,
            resolver,
            kind,
        };
        if let Some(active) = self.active.get_mut(&request) {
            active.continue_at(context, url, method);
        } else {
            let active = ActiveRequest::new(at, context, url, method, Cost { weight, wait });
            self.active.insert(request, active);
        }
    }

    fn end_request(
        &mut self,
        at: BootInstant,
        request: u64,
        error: Option<&'static str>,
        emit: &mut impl FnMut(Record),
    ) {
        if let Some(mut active) = self.active.remove(&request) {
            // An attempt that was not settled ends with its request.
            active.settle(at, None, error, emit);
            emit(Record::End(Box::new(active.end(at, error))));
        }
    }

    /// Emits the budgets of a host and role when they are charged for the first time.
    fn report_budgets(
        &mut self,
        host: &Host,
        role: Role,
        kind: Option<&Arc<str>>,
        emit: &mut impl FnMut(Record),
    ) {
        let key = (host.clone(), role, kind.cloned());
        if self.reported_budgets.contains(&key) {
            return;
        }
        let reset = self.config.breakers.of(host).policy.reset;
        for (budget, windows) in self.config.budgets(host, role, kind.map(|kind| &**kind)) {
            emit(Record::Budget(BudgetRecord {
                host: host.clone(),
                role,
                kind: kind.cloned(),
                budget,
                rates: format_rates(windows),
                reset,
            }));
        }
        self.reported_budgets.insert(key);
    }
}

fn transition_record(key: Arc<str>, host: Host, transition: Transition) -> TransitionRecord {
    let Transition {
        from,
        to,
        fail_count,
        reset,
        reason,
    } = transition;
    TransitionRecord {
        scope: scope(&key, &host),
        key,
        host,
        from,
        to,
        fail_count,
        reset,
        reason: reason.map(|reason| reason.to_string()),
        elsewhere: false,
    }
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
