//! Converts events to records. Pure: the same events give the same records.
//!
//! Events of many requests arrive interleaved. The [`Assembler`] keeps the state of each active
//! request until one record can describe it: an attempt when it is settled, a request when it ends.

mod active;
mod decided_budget;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::BootInstant;
use docstokg_hub::config::Config;
use docstokg_hub::event::{Event, EventKind};
use docstokg_hub::policy::breaker::Transition;
use docstokg_hub::policy::rate::format_rates;
use docstokg_hub::{Host, Role};

use crate::record::{
    BudgetRecord, Record, RequestContext, RobotsRecord, RobotsState, TimedRecord, TransitionRecord,
};
use crate::run::RunIdentity;
use active::{ActiveRequest, AttemptCost};

/// Maximum number of hosts and roles that are remembered because their budgets have been recorded.
const MAX_REPORTED: usize = 16_384;

/// Converts each [`Event`] to [`TimedRecord`]s.
pub struct Assembler {
    run: Arc<RunIdentity>,
    config: Arc<Config>,
    active: HashMap<u64, ActiveRequest>,
    reported_budgets: HashSet<(Host, Role, Option<Arc<str>>)>,
    /// The last recorded [`RobotsState`] and crawl delay of each host.
    robots: HashMap<Host, (RobotsState, Option<Duration>)>,
}

/// Maximum number of hosts whose robots.txt is remembered, so that only changes are recorded.
const MAX_ROBOTS_HOSTS: usize = 4_096;

/// Returns the [`RobotsState`] that the error of a request shows; `None` if the error is not about
/// robots.txt.
fn robots_refusal(error: Option<&str>) -> Option<RobotsState> {
    match error {
        Some("disallowed") => Some(RobotsState::Forbids),
        Some("robots_unreachable") => Some(RobotsState::Unread),
        _ => None,
    }
}

impl Assembler {
    /// Creates an assembler without active requests.
    #[must_use]
    pub fn new(run: Arc<RunIdentity>, config: Arc<Config>) -> Self {
        Self {
            run,
            config,
            active: HashMap::new(),
            reported_budgets: HashSet::new(),
            robots: HashMap::new(),
        }
    }

    /// Returns the number of active requests.
    #[must_use]
    pub fn active_requests(&self) -> usize {
        self.active.len()
    }

    /// Applies one [`Event`], and appends the records that the event completes.
    pub fn take(&mut self, event: Event, records: &mut Vec<TimedRecord>) {
        let at = self.run.wall_of(event.at);
        let mut emit = |record: Record| records.push(TimedRecord { at, record });
        match event.what {
            EventKind::Hop { .. } => self.start_hop(event, &mut emit),
            EventKind::Breaker { key, transition } => {
                let change = transition_record(key, event.host, transition);
                emit(Record::Transition(Box::new(change)));
            }
            EventKind::BreakerSeen { key, transition } => {
                let mut change = transition_record(key, event.host, transition);
                change.elsewhere = true;
                emit(Record::Transition(Box::new(change)));
            }
            EventKind::Robots { crawl_delay } => {
                self.note_robots(event.host, RobotsState::Allows, crawl_delay, &mut emit);
            }
            EventKind::End { error } => {
                if let Some(state) = robots_refusal(error) {
                    self.note_robots(event.host, state, None, &mut emit);
                }
                self.end_request(event.at, event.request, error, &mut emit);
            }
            what => {
                if let Some(active) = self.active.get_mut(&event.request) {
                    active.take(event.at, what, &self.config, &mut emit);
                }
            }
        }
    }

    /// Starts a request, or continues it at another URL.
    fn start_hop(&mut self, event: Event, emit: &mut impl FnMut(Record)) {
        let Event {
            at,
            request,
            host,
            role,
            what:
                EventKind::Hop {
                    url,
                    method,
                    resolver,
                    kind,
                    service,
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
            service,
        };
        if let Some(active) = self.active.get_mut(&request) {
            active.continue_at(context, url, method);
        } else {
            let active = ActiveRequest::new(at, context, url, method, AttemptCost { weight, wait });
            self.active.insert(request, active);
        }
    }

    /// Records the [`RobotsState`] of a host if it has changed.
    fn note_robots(
        &mut self,
        host: Host,
        state: RobotsState,
        crawl_delay: Option<Duration>,
        emit: &mut impl FnMut(Record),
    ) {
        let news = (state, crawl_delay);
        if self.robots.get(&host) == Some(&news) {
            return;
        }
        if self.robots.len() >= MAX_ROBOTS_HOSTS {
            self.robots.clear();
        }
        self.robots.insert(host.clone(), news);
        emit(Record::Robots(RobotsRecord {
            host,
            state,
            crawl_delay,
        }));
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

    /// Emits the budgets of a host and role when they are first used. In a run over very many
    /// hosts, a budget may be emitted again; readers then count it once.
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
        if self.reported_budgets.len() >= MAX_REPORTED {
            self.reported_budgets.clear();
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
    if key == host.as_str() {
        return "host";
    }
    // A key with `:` is `HOST:ROLE` or `site:NAME:ROLE`: only the breaker of that role is open.
    if let Some((owner, role)) = key.rsplit_once(':')
        && Role::ALL.iter().any(|known| known.as_str() == role)
        && (owner == host.as_str() || owner.starts_with("site:"))
    {
        return "role";
    }
    match key.split_once(':') {
        Some(("resolver", _)) => "resolver",
        Some(("site", _)) => "site",
        Some(("network", _)) => "network",
        _ => "host",
    }
}

#[cfg(test)]
mod tests {
    use docstokg_hub::clock::SystemClock;
    use docstokg_hub::config::load::{ConfigSources, load};

    use super::*;

    #[test]
    fn of_very_many_hosts_only_some_are_remembered() {
        let (config, settings) =
            load(&ConfigSources::default()).expect("the shipped configuration");
        let run = Arc::new(RunIdentity::begin("test", &settings, &SystemClock));
        let mut assembler = Assembler::new(run, Arc::new(config));
        for number in 0..3 * MAX_REPORTED {
            let host = Host::parse(&format!("h{number}.example")).expect("a host");
            let mut reported = [0, 0];
            for times in &mut reported {
                assembler.report_budgets(&host, Role::Artifact, None, &mut |_| *times += 1);
            }
            assert!(reported[0] > 0 && reported[1] == 0, "{host}: {reported:?}");
        }
        assert!(assembler.reported_budgets.len() <= MAX_REPORTED);
    }
}
