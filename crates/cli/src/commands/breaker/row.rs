//! A breaker in the output of `breaker show`: cells of a table, a sentence, or JSON.

use std::time::Duration;

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::json::whole_millis;
use docstokg_hub::policy::breaker::{Breaker, BreakerPolicy, BreakerState};
use docstokg_hub::policy::role::Role;
use docstokg_hub::stores::SiteView;
use serde_json::{Value, json};

/// A breaker in the output of `breaker show`.
pub(super) struct BreakerRow {
    pub(super) name: String,
    pub(super) state: BreakerState,
    reason: Option<String>,
    left: Duration,
    /// The effective reset, and the configured reset.
    reset: Duration,
    configured_reset: Duration,
    failures: u32,
    recent: usize,
    probes: [(usize, u32); 3],
    pub(super) opened_by: Option<String>,
}

impl BreakerRow {
    pub(super) fn new(
        name: String,
        breaker: &Breaker,
        policy: &BreakerPolicy,
        view: &SiteView,
    ) -> Self {
        let open = breaker.open_until(view.now);
        Self {
            name,
            state: breaker.state(view.now),
            reason: open.map(|(_, reason)| reason.to_string()),
            left: open.map_or(Duration::ZERO, |(until, _)| until.since(view.now)),
            reset: breaker.reset_in_force(policy),
            configured_reset: policy.reset,
            failures: breaker.failures(),
            recent: policy
                .window
                .map_or(0, |window| breaker.recent_failures(window.within, view.now)),
            probes: Role::ALL.map(|role| {
                (
                    breaker.leases(role, view.now),
                    policy.trial_calls[role.index()],
                )
            }),
            opened_by: breaker.opened_by().map(ToString::to_string),
        }
    }

    /// Creates the row of a configured breaker without recorded state.
    pub(super) fn untouched(name: String, policy: &BreakerPolicy) -> Self {
        let probes = Role::ALL.map(|role| (0, policy.trial_calls[role.index()]));
        Self {
            name,
            state: BreakerState::Closed,
            reason: None,
            left: Duration::ZERO,
            reset: policy.reset,
            configured_reset: policy.reset,
            failures: 0,
            recent: 0,
            probes,
            opened_by: None,
        }
    }

    fn until(&self) -> Option<String> {
        self.reason
            .as_ref()
            .map(|_| (SystemClock.wall() + self.left).to_string())
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let dash = || "-".to_owned();
        let failures = if self.recent > 0 {
            format!("{} ({} recent)", self.failures, self.recent)
        } else {
            self.failures.to_string()
        };
        vec![
            self.name.clone(),
            self.state.as_str().to_owned(),
            self.reason.clone().unwrap_or_else(dash),
            self.until().unwrap_or_else(dash),
            self.reason
                .as_ref()
                .map_or_else(dash, |_| format!("{:.0}", self.left.as_secs_f64().ceil())),
            format!("{}", self.reset.as_secs_f64()),
            failures,
            self.probes
                .map(|(out, most)| format!("{out}/{most}"))
                .join(" "),
            self.opened_by.clone().unwrap_or_else(dash),
        ]
    }

    pub(super) fn sentence(&self) -> String {
        match (&self.reason, self.until()) {
            (Some(reason), Some(until)) => format!(
                "{}: open ({reason}) until {until}, retry in {:.0} s",
                self.name,
                self.left.as_secs_f64().ceil()
            ),
            _ => format!("{}: {}", self.name, self.state.as_str()),
        }
    }

    pub(super) fn json(&self) -> Value {
        let probes: serde_json::Map<String, Value> = Role::ALL
            .into_iter()
            .map(|role| {
                let (out, most) = self.probes[role.index()];
                (
                    role.as_str().to_owned(),
                    json!({ "out": out, "most": most }),
                )
            })
            .collect();
        json!({
            "host": self.name,
            "state": self.state.as_str(),
            "reason": self.reason,
            "until": self.until(),
            "cooldown_remaining_ms": self.reason.as_ref().map(|_| whole_millis(self.left)),
            "reset_timeout_s": self.reset.as_secs_f64(),
            "configured_reset_timeout_s": self.configured_reset.as_secs_f64(),
            "failures": self.failures,
            "failures_in_window": self.recent,
            "probes": probes,
            "opened_by": self.opened_by,
        })
    }
}

#[cfg(test)]
mod tests {
    use docstokg_hub::clock::BootInstant;

    use super::*;

    #[test]
    fn the_reset_in_force_is_shown_beside_the_configured_one() {
        let policy = BreakerPolicy {
            reset: Duration::from_secs(60),
            ..BreakerPolicy::default()
        };
        let view = SiteView {
            site: docstokg_hub::policy::site::Site::default(),
            budgets: Vec::new(),
            now: BootInstant::ZERO,
        };
        let mut breaker = Breaker::default();
        let row =
            |breaker: &Breaker| BreakerRow::new("a.example".to_owned(), breaker, &policy, &view);
        assert_eq!(row(&breaker).cells()[5], "60");
        // A server that declares a longer pause twice gets no requests for that long.
        for _ in 0..2 {
            breaker.learn(&policy, Duration::from_secs(120));
        }
        let row = row(&breaker);
        assert_eq!(row.cells()[5], "120");
        let shown = row.json();
        assert_eq!(shown["reset_timeout_s"], 120.0);
        assert_eq!(shown["configured_reset_timeout_s"], 60.0);
    }
}
