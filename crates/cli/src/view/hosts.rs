//! Progress per host: its rate against its limit, how long requests to it wait, and the state of
//! its breaker.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use docstokg_hub::Host;
use docstokg_hub::clock::BootInstant;
use docstokg_hub::config::Config;
use docstokg_hub::event::{Event, Observer, What};
use docstokg_hub::policy::breaker::State;
use docstokg_hub::policy::rate::Window;
use docstokg_hub::policy::role::Role;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Minimum time over which the rate of a host is measured.
const RECENT: Duration = Duration::from_secs(5);
/// Longest window that counts as a pace and not as a quota.
const LONGEST_PACE: Duration = Duration::from_secs(60);
/// Maximum hosts that are tracked; hosts without recent requests are dropped.
const MAX_HOSTS: usize = 2_000;

/// Observes every host.
pub(super) struct Hosts {
    known: Mutex<HashMap<Host, Watched>>,
    config: Config,
}

#[derive(Default)]
struct Watched {
    sent: VecDeque<(BootInstant, Role)>,
    waits_until: BootInstant,
    window: Option<Window>,
    open_until: Option<BootInstant>,
    throttled: u64,
}

/// One host, as it is shown.
pub(super) struct Line {
    host: String,
    rate: f64,
    allowed: Option<f64>,
    waits: Duration,
    window: Option<Window>,
    open: Option<Duration>,
    throttled: u64,
}

/// Returns the strictest window that is a pace.
fn pace(windows: &[Window]) -> Option<&Window> {
    let pacing = windows.iter().filter(|window| window.per <= LONGEST_PACE);
    pacing.min_by(|a, b| per_second(a).total_cmp(&per_second(b)))
}

fn per_second(window: &Window) -> f64 {
    f64::from(window.limit.get()) / window.per.as_secs_f64()
}

/// Returns a time in which the rate cannot exceed its limit: a whole number of windows.
fn span(window: Option<&Window>) -> Duration {
    let Some(window) = window.filter(|window| !window.per.is_zero()) else {
        return RECENT;
    };
    let times = RECENT.as_nanos().div_ceil(window.per.as_nanos()).max(1);
    window.per * u32::try_from(times).unwrap_or(1)
}

impl Hosts {
    /// Starts with no host.
    pub(super) fn new(config: &Config) -> Self {
        Self {
            known: Mutex::default(),
            config: config.clone(),
        }
    }

    /// Returns the windows of a host and role, and the common windows of its site.
    fn windows(&self, host: &Host, role: Role) -> (Vec<Window>, Vec<Window>) {
        let common = self
            .config
            .sites
            .iter()
            .filter(|site| site.hosts.contains(host));
        let common = common
            .flat_map(|site| {
                site.common
                    .iter()
                    .flat_map(|common| common.rates.value.clone())
            })
            .collect();
        (
            self.config.limits.of(host, role).rates.value.clone(),
            common,
        )
    }

    /// Returns the rate of a host and its limit, each role measured over its own windows.
    fn rate(&self, host: &Host, watched: &Watched, now: BootInstant) -> (f64, Option<f64>) {
        let mut by_role: BTreeMap<&'static str, (Role, Vec<BootInstant>)> = BTreeMap::new();
        for (at, role) in &watched.sent {
            by_role
                .entry(role.as_str())
                .or_insert_with(|| (*role, Vec::new()))
                .1
                .push(*at);
        }
        let (mut rate, mut allowed, mut most) = (0.0, Some(0.0), None::<f64>);
        for (role, sent) in by_role.values() {
            let (own, common) = self.windows(host, *role);
            let all: Vec<Window> = own.iter().chain(&common).copied().collect();
            let tightest = pace(&all);
            let span = span(tightest);
            let recent = sent.iter().filter(|at| now.since(**at) < span).count();
            if recent == 0 {
                continue;
            }
            rate += f64::from(u32::try_from(recent).unwrap_or(u32::MAX)) / span.as_secs_f64();
            allowed = allowed
                .zip(tightest.map(per_second))
                .map(|(sum, own)| sum + own);
            most = pace(&common).map(per_second).or(most);
        }
        // The common windows of the site limit the sum of all roles.
        let allowed = allowed.filter(|allowed| *allowed > 0.0);
        let allowed = match (allowed, most) {
            (Some(allowed), Some(most)) => Some(allowed.min(most)),
            (allowed, most) => allowed.or(most),
        };
        (rate, allowed)
    }

    /// Returns the hosts with the longest queues, then those with the highest rates.
    pub(super) fn lines(&self, now: BootInstant, most: usize) -> Vec<Line> {
        let mut known = self.known.lock();
        let mut lines: Vec<Line> = Vec::new();
        for (host, watched) in &mut *known {
            while watched
                .sent
                .front()
                .is_some_and(|(first, _)| now.since(*first) > LONGEST_PACE)
            {
                watched.sent.pop_front();
            }
            let open = watched
                .open_until
                .map(|until| until.since(now))
                .filter(|left| !left.is_zero());
            let waits = watched.waits_until.since(now);
            let (rate, allowed) = self.rate(host, watched, now);
            if rate == 0.0 && open.is_none() && waits.is_zero() {
                continue;
            }
            let (window, throttled) = (watched.window, watched.throttled);
            lines.push(Line {
                host: host.to_string(),
                rate,
                allowed,
                waits,
                window,
                open,
                throttled,
            });
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

impl Observer for Hosts {
    fn note(&self, event: &Event) {
        let note = |change: &dyn Fn(&mut Watched)| {
            let mut known = self.known.lock();
            if known.len() >= MAX_HOSTS && !known.contains_key(&event.host) {
                known.retain(|_, watched| {
                    watched
                        .sent
                        .back()
                        .is_some_and(|(last, _)| event.at.since(*last) < RECENT)
                });
            }
            change(known.entry(event.host.clone()).or_default());
        };
        match &event.what {
            What::Go { .. } => note(&|watched| watched.sent.push_back((event.at, event.role))),
            What::WaitRate { until, window, .. } => note(&|watched| {
                watched.waits_until = watched.waits_until.max(*until);
                watched.window = window.or(watched.window);
            }),
            What::WaitTurn {
                not_before: until, ..
            } => note(&|watched| watched.waits_until = watched.waits_until.max(*until)),
            What::Headers { status, .. } if status.as_u16() == 429 => {
                note(&|watched| watched.throttled += 1);
            }
            What::Breaker { transition, .. } | What::BreakerSeen { transition, .. } => {
                note(&|watched| {
                    watched.open_until = (transition.to == State::Open)
                        .then(|| event.at + transition.reset.unwrap_or_default());
                });
            }
            _ => {}
        }
    }
}

impl Line {
    /// Returns the length of its queue.
    pub(super) fn waits(&self) -> Duration {
        self.waits
    }

    /// Returns the host, its wait and the reason, if the wait is at least `least`.
    pub(super) fn long_wait(&self, least: Duration) -> Option<(&str, Duration, String)> {
        let why = self.window.map_or_else(
            || "its limit".to_owned(),
            |window| format!("limit {window}"),
        );
        (self.waits >= least).then_some((self.host.as_str(), self.waits, why))
    }

    /// Formats the line for a terminal of this width.
    pub(super) fn text(&self, width: usize) -> String {
        let name = width.saturating_sub(40).clamp(12, 34);
        let host: String = if self.host.chars().count() > name {
            self.host
                .chars()
                .take(name - 1)
                .chain(['\u{2026}'])
                .collect()
        } else {
            self.host.clone()
        };
        let mut text = format!("{host:<name$} {:>5.1}/s", self.rate);
        if let Some(allowed) = self.allowed {
            text.push_str(&format!(" of {allowed:.1}"));
        }
        if let Some(open) = self.open {
            text.push_str(&format!(
                "  paused, retry in {:.0} s",
                open.as_secs_f64().ceil()
            ));
        } else if !self.waits.is_zero() {
            text.push_str(&format!("  queue {:.0} s", self.waits.as_secs_f64().ceil()));
        }
        if self.throttled > 0 {
            text.push_str(&format!("  {} x 429", self.throttled));
        }
        text.chars().take(width).collect()
    }

    /// Formats the line as JSON.
    pub(super) fn json(&self) -> Value {
        json!({
            "host": self.host,
            "rate": self.rate,
            "allowed": self.allowed,
            "waits_s": self.waits.as_secs_f64(),
            "open_s": self.open.map(|open| open.as_secs_f64()),
            "status_429": self.throttled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_host_is_measured_over_whole_windows() {
        let window = |limit: u32, seconds: u64| Window {
            limit: limit.try_into().unwrap(),
            per: Duration::from_secs(seconds),
        };
        assert_eq!(span(Some(&window(2, 1))), Duration::from_secs(5));
        assert_eq!(span(Some(&window(1, 3))), Duration::from_secs(6));
        assert_eq!(span(Some(&window(30, 60))), Duration::from_secs(60));
        assert_eq!(span(None), RECENT);
    }
}
