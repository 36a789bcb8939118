//! What each host is doing: how fast it is asked against what is allowed, what waits until when, how its breaker stands.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use docstokg_hub::Host;
use docstokg_hub::clock::BootInstant;
use docstokg_hub::config::Config;
use docstokg_hub::event::{Event, Observer, What};
use docstokg_hub::policy::breaker::State;
use docstokg_hub::policy::rate::Window;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Over how long the rate is measured.
const RECENT: Duration = Duration::from_secs(5);
/// How many hosts are remembered; those that were silent longest are forgotten.
const MOST: usize = 2_000;

/// Watches every host.
pub(super) struct Hosts {
    known: Mutex<HashMap<Host, Watched>>,
    limits: HashMap<Host, Vec<Window>>,
    defaults: Vec<Window>,
}

#[derive(Default)]
struct Watched {
    sent: VecDeque<BootInstant>,
    waits_until: BootInstant,
    open_until: Option<BootInstant>,
    throttled: u64,
}

/// One host, as it is shown.
pub(super) struct Line {
    host: String,
    rate: f64,
    allowed: Option<f64>,
    waits: Duration,
    open: Option<Duration>,
    throttled: u64,
}

/// Returns the rate that the tightest pacing window allows, per second.
fn per_second(windows: &[Window]) -> Option<f64> {
    let pacing = windows.iter().filter(|window| window.per <= Duration::from_secs(60));
    pacing.map(|window| f64::from(window.limit.get()) / window.per.as_secs_f64()).min_by(f64::total_cmp)
}

impl Hosts {
    /// Starts with nobody.
    pub(super) fn new(config: &Config) -> Self {
        let mut limits: HashMap<Host, Vec<Window>> = HashMap::new();
        for (host, own) in &config.limits.hosts {
            limits.insert(host.clone(), own.roles.iter().flat_map(|role| role.rates.value.clone()).collect());
        }
        for site in &config.sites {
            for host in &site.hosts {
                limits.entry(host.clone()).or_default().extend(site.common.iter().flat_map(|common| common.rates.value.clone()));
            }
        }
        let defaults = config.limits.defaults.iter().flat_map(|role| role.rates.value.clone()).collect();
        Self { known: Mutex::default(), limits, defaults }
    }

    /// Returns the busiest hosts: those that are asked or waited for most.
    pub(super) fn lines(&self, now: BootInstant, most: usize) -> Vec<Line> {
        let mut known = self.known.lock();
        let mut lines: Vec<Line> = Vec::new();
        for (host, watched) in &mut *known {
            while watched.sent.front().is_some_and(|first| now.since(*first) > RECENT) {
                watched.sent.pop_front();
            }
            let open = watched.open_until.map(|until| until.since(now)).filter(|left| !left.is_zero());
            let waits = watched.waits_until.since(now);
            if watched.sent.is_empty() && open.is_none() && waits.is_zero() {
                continue;
            }
            let windows = self.limits.get(host).unwrap_or(&self.defaults);
            let rate = f64::from(u32::try_from(watched.sent.len()).unwrap_or(u32::MAX)) / RECENT.as_secs_f64();
            lines.push(Line { host: host.to_string(), rate, allowed: per_second(windows), waits, open, throttled: watched.throttled });
        }
        drop(known);
        lines
            .sort_by(|a, b| (b.waits, b.rate).partial_cmp(&(a.waits, a.rate)).unwrap_or(std::cmp::Ordering::Equal).then_with(|| a.host.cmp(&b.host)));
        lines.truncate(most);
        lines
    }
}

impl Observer for Hosts {
    fn note(&self, event: &Event) {
        let note = |change: &dyn Fn(&mut Watched)| {
            let mut known = self.known.lock();
            if known.len() >= MOST && !known.contains_key(&event.host) {
                known.retain(|_, watched| watched.sent.back().is_some_and(|last| event.at.since(*last) < RECENT));
            }
            change(known.entry(event.host.clone()).or_default());
        };
        match &event.what {
            What::Go { .. } => note(&|watched| watched.sent.push_back(event.at)),
            What::WaitRate { until, .. } | What::WaitTurn { not_before: until, .. } => {
                note(&|watched| watched.waits_until = watched.waits_until.max(*until));
            }
            What::Headers { status, .. } if status.as_u16() == 429 => note(&|watched| watched.throttled += 1),
            What::Breaker { transition, .. } | What::BreakerSeen { transition, .. } => note(&|watched| {
                watched.open_until = (transition.to == State::Open).then(|| event.at + transition.reset.unwrap_or_default());
            }),
            _ => {}
        }
    }
}

impl Line {
    /// Returns how long its line is.
    pub(super) fn waits(&self) -> Duration {
        self.waits
    }

    /// Writes the line for a terminal.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{:<34} {:>5.1}/s", self.host, self.rate);
        if let Some(allowed) = self.allowed {
            text.push_str(&format!(" of {allowed:.1}"));
        }
        if let Some(open) = self.open {
            text.push_str(&format!("  open, {:.0} s left", open.as_secs_f64()));
        } else if !self.waits.is_zero() {
            text.push_str(&format!("  line of {:.1} s", self.waits.as_secs_f64()));
        }
        if self.throttled > 0 {
            text.push_str(&format!("  {} x 429", self.throttled));
        }
        text
    }

    /// Writes the line as JSON.
    pub(super) fn json(&self) -> Value {
        json!({ "host": self.host, "rate": self.rate, "allowed": self.allowed, "waits_s": self.waits.as_secs_f64(),
                "open_s": self.open.map(|open| open.as_secs_f64()), "status_429": self.throttled })
    }
}
