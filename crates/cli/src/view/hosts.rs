//! Progress per host: its rate and limit, the waits of its requests, and the state of its breaker.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use docstokg_bulk::run_snapshot::HostActivity;
use docstokg_hub::Host;
use docstokg_hub::clock::BootInstant;
use docstokg_hub::config::Config;
use docstokg_hub::config::show::change_hint;
use docstokg_hub::event::{Event, EventKind, Observer};
use docstokg_hub::policy::breaker::BreakerState;
use docstokg_hub::policy::rate::{LimitBasis, Window, limit_in_words, window_in_words};
use docstokg_hub::policy::role::Role;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::activity::activity_text;

/// Minimum time over which the rate of a host is measured.
const RATE_MEASURE_INTERVAL: Duration = Duration::from_secs(5);
/// The longest window that counts as a pace and not as a quota.
const MAX_PACE_WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of hosts that are tracked; hosts without recent requests are dropped.
const MAX_HOSTS: usize = 2_000;

/// Observes the events of every host.
pub(super) struct HostObserver {
    known: Mutex<HashMap<Host, ObservedHost>>,
    /// Requests on the wire, by their numbers.
    in_flight: Mutex<HashSet<u64>>,
    config: Config,
}

#[derive(Default)]
struct ObservedHost {
    sent: VecDeque<(BootInstant, Role)>,
    /// The wait of each request, by the number of the request.
    waits: HashMap<u64, HostWait>,
    open_until: Option<BootInstant>,
    throttled: u64,
}

/// The wait of a request.
#[derive(Clone, Copy)]
struct HostWait {
    role: Role,
    until: BootInstant,
    limit: Option<BindingLimit>,
}

impl ObservedHost {
    fn wait(&mut self, event: &Event, until: BootInstant, limit: Option<BindingLimit>) {
        let earlier = self.waits.get(&event.request);
        let limit = limit.or(earlier.and_then(|wait| wait.limit));
        let role = event.role;
        let wait = HostWait { role, until, limit };
        self.waits.insert(event.request, wait);
    }

    fn end_wait(&mut self, event: &Event) {
        self.waits.remove(&event.request);
    }

    /// Returns the longest wait of a role's requests, and its limit. Requests that wait behind
    /// others may not know the limit.
    fn longest_wait(&self, role: Role, now: BootInstant) -> (Duration, Option<BindingLimit>) {
        let of_role = || self.waits.values().filter(|wait| wait.role == role);
        let until = of_role().map(|wait| wait.until).max();
        let limited = of_role().filter(|wait| wait.limit.is_some());
        let limit = limited.max_by_key(|wait| wait.until);
        let left = until.map_or(Duration::ZERO, |until| until.since(now));
        (left, limit.and_then(|wait| wait.limit))
    }
}

/// The limit that delays requests.
#[derive(Clone, Copy)]
struct BindingLimit {
    window: Window,
    basis: LimitBasis,
}

impl BindingLimit {
    /// Returns the limit, without its even pacing.
    fn limit(&self) -> &Window {
        match &self.basis {
            LimitBasis::Spacing(limit) => limit,
            _ => &self.window,
        }
    }

    fn in_words(&self) -> String {
        limit_in_words(&self.window, self.basis)
    }
}

/// The line of a host, with the role that waits longest, or else the role that sends most.
pub(super) struct HostLine {
    host: String,
    role: Role,
    rate: f64,
    /// The window that is shown beside the rate.
    allowed: Option<Window>,
    waits: Duration,
    limit: Option<BindingLimit>,
    open: Option<Duration>,
    throttled: u64,
}

/// A long wait for a host.
pub(super) struct LongWait<'a> {
    pub(super) host: &'a str,
    pub(super) left: Duration,
    /// The limit, in words.
    pub(super) why: String,
    /// The way to change the limit, if the configuration has the limit.
    pub(super) hint: Option<String>,
}

/// Returns the strictest window that is a pace.
fn pace<'a>(windows: impl Iterator<Item = &'a Window>) -> Option<&'a Window> {
    let pacing = windows.filter(|window| window.per <= MAX_PACE_WINDOW);
    pacing.min_by(|a, b| per_second(a).total_cmp(&per_second(b)))
}

fn per_second(window: &Window) -> f64 {
    f64::from(window.limit.get()) / window.per.as_secs_f64()
}

/// Returns a time in which the rate cannot exceed its limit: a whole number of windows.
fn span(window: Option<&Window>) -> Duration {
    let Some(window) = window.filter(|window| !window.per.is_zero()) else {
        return RATE_MEASURE_INTERVAL;
    };
    let times = RATE_MEASURE_INTERVAL
        .as_nanos()
        .div_ceil(window.per.as_nanos())
        .max(1);
    window.per * u32::try_from(times).unwrap_or(1)
}

impl HostObserver {
    /// Creates an observer without hosts.
    pub(super) fn new(config: &Config) -> Self {
        Self {
            known: Mutex::default(),
            in_flight: Mutex::default(),
            config: config.clone(),
        }
    }

    /// Returns the number of requests on the wire.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.lock().len() as u64
    }

    /// Notes whether a request is on the wire.
    fn note_flight(&self, event: &Event) {
        match &event.what {
            EventKind::Go { .. } => {
                self.in_flight.lock().insert(event.request);
            }
            EventKind::Settled { .. } | EventKind::GivenBack | EventKind::End { .. } => {
                self.in_flight.lock().remove(&event.request);
            }
            _ => {}
        }
    }

    /// Returns the rate of a role, measured over its own windows, and the tightest of them.
    fn rate(
        &self,
        host: &Host,
        watched: &ObservedHost,
        role: Role,
        now: BootInstant,
    ) -> (f64, Option<Window>) {
        let budgets = self.config.budgets(host, role, None);
        let windows = budgets.iter().flat_map(|(_, windows)| *windows);
        let tightest = pace(windows);
        let span = span(tightest);
        let recent = watched
            .sent
            .iter()
            .filter(|(at, of)| *of == role && now.since(*at) < span);
        let recent = u32::try_from(recent.count()).unwrap_or(u32::MAX);
        (f64::from(recent) / span.as_secs_f64(), tightest.copied())
    }

    /// Returns the line of a host, unless the host is idle.
    fn line(&self, host: &Host, watched: &ObservedHost, now: BootInstant) -> Option<HostLine> {
        let open = watched.open_until.map(|until| until.since(now));
        let open = open.filter(|left| !left.is_zero());
        let of_role = |role: Role| {
            let (waits, limit) = watched.longest_wait(role, now);
            let (rate, tightest) = self.rate(host, watched, role, now);
            (waits, rate, role, tightest, limit)
        };
        let roles = Role::ALL.map(of_role).into_iter();
        let (waits, rate, role, tightest, limit) =
            roles.max_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.total_cmp(&b.1)))?;
        if rate == 0.0 && open.is_none() && waits.is_zero() {
            return None;
        }
        let limit = limit.filter(|_| !waits.is_zero());
        Some(HostLine {
            host: host.to_string(),
            role,
            rate,
            allowed: limit.map(|limit| *limit.limit()).or(tightest),
            waits,
            limit,
            open,
            throttled: watched.throttled,
        })
    }

    /// Returns the hosts with the longest queues, then those with the highest rates.
    pub(super) fn lines(&self, now: BootInstant, most: usize) -> Vec<HostLine> {
        let mut known = self.known.lock();
        let mut lines: Vec<HostLine> = Vec::new();
        for (host, watched) in &mut *known {
            while watched
                .sent
                .front()
                .is_some_and(|(first, _)| now.since(*first) > MAX_PACE_WINDOW)
            {
                watched.sent.pop_front();
            }
            watched.waits.retain(|_, wait| wait.until > now);
            lines.extend(self.line(host, watched, now));
        }
        drop(known);
        lines.sort_by(|a, b| {
            (b.waits, b.rate)
                .partial_cmp(&(a.waits, a.rate))
                .unwrap_or(std::cmp::Ordering::Equal)
                .then_with(|| a.host.cmp(&b.host))
        });
        lines.truncate(most);
        lines
    }
}

impl Observer for HostObserver {
    fn note(&self, event: &Event) {
        self.note_flight(event);
        let note = |change: &dyn Fn(&mut ObservedHost)| {
            let mut known = self.known.lock();
            if known.len() >= MAX_HOSTS && !known.contains_key(&event.host) {
                known.retain(|_, watched| {
                    watched
                        .sent
                        .back()
                        .is_some_and(|(last, _)| event.at.since(*last) < RATE_MEASURE_INTERVAL)
                });
            }
            change(known.entry(event.host.clone()).or_default());
        };
        match &event.what {
            EventKind::Go { .. } => note(&|watched| {
                watched.end_wait(event);
                watched.sent.push_back((event.at, event.role));
            }),
            EventKind::WaitRate {
                until,
                window,
                basis,
            } => {
                let limit = window.map(|window| BindingLimit {
                    window,
                    basis: *basis,
                });
                note(&|watched| watched.wait(event, *until, limit));
            }
            EventKind::WaitTurn {
                not_before: until, ..
            } => note(&|watched| watched.wait(event, *until, None)),
            EventKind::Refused { .. } | EventKind::End { .. } => {
                note(&|watched| watched.end_wait(event));
            }
            EventKind::Headers { status, .. } if status.as_u16() == 429 => {
                note(&|watched| watched.throttled += 1);
            }
            EventKind::Breaker { transition, .. } | EventKind::BreakerSeen { transition, .. } => {
                note(&|watched| {
                    watched.open_until = (transition.to == BreakerState::Open)
                        .then(|| event.at + transition.reset.unwrap_or_default());
                });
            }
            _ => {}
        }
    }
}

impl HostLine {
    /// Returns the wait with its reason, if the wait is at least `least`.
    pub(super) fn long_wait(&self, least: Duration) -> Option<LongWait<'_>> {
        let limit = self.limit.as_ref();
        (self.waits >= least).then(|| LongWait {
            host: &self.host,
            left: self.waits,
            why: limit.map_or_else(|| "its limit".to_owned(), BindingLimit::in_words),
            hint: limit
                .filter(|limit| limit.basis.is_configured())
                .map(|_| change_hint(&self.host, self.role)),
        })
    }

    /// Formats the line for a terminal of this width.
    pub(super) fn text(&self, width: usize) -> String {
        activity_text(&self.activity(), width)
    }

    /// Formats the line as JSON.
    pub(super) fn json(&self) -> Value {
        json!(self.activity())
    }

    /// Returns the figures of the line.
    pub(super) fn activity(&self) -> HostActivity {
        let limited_to = match (&self.limit, &self.allowed) {
            (Some(limit), _) if !limit.basis.is_configured() => Some(limit.in_words()),
            (_, Some(allowed)) => Some(format!("limit {}", window_in_words(allowed))),
            _ => None,
        };
        HostActivity {
            host: self.host.clone(),
            role: self.role.as_str().to_owned(),
            rate: self.rate,
            allowed: self.allowed.as_ref().map(per_second),
            limit: self.limit.map(|limit| limit.in_words()),
            window: self.limit.map(|limit| limit.limit().to_string()),
            limited_to,
            waits_s: self.waits.as_secs_f64(),
            open_s: self.open.map(|open| open.as_secs_f64()),
            status_429: self.throttled,
        }
    }
}
