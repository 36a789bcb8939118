//! What a run waits for: which host, until when, why, and how many works.
//!
//! Every work that is deferred says so here, so that progress lines and summaries can always name
//! it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Why one work is deferred.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deferral {
    /// The host that is waited for.
    pub host: String,
    /// Until when, in seconds since 1970.
    pub until: f64,
    /// Why, in a few words.
    pub why: String,
}

/// A host that works wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingFor {
    /// The host.
    pub host: String,
    /// How many works.
    pub works: u64,
    /// When the first of them is due, in seconds since 1970.
    pub until: f64,
    /// Why, in a few words.
    pub why: String,
}

/// All deferred works, by host.
#[derive(Debug, Default)]
pub(super) struct Waits {
    hosts: BTreeMap<String, HostWaits>,
}

#[derive(Debug, Default)]
struct HostWaits {
    /// How many works are due when, in milliseconds since 1970.
    due: BTreeMap<u64, u64>,
    why: String,
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are positive and far below 2^53 milliseconds"
)]
fn millis(time: f64) -> u64 {
    (time.max(0.0) * 1_000.0) as u64
}

impl Waits {
    pub(super) fn add(&mut self, deferral: &Deferral) {
        let host = self.hosts.entry(deferral.host.clone()).or_default();
        *host.due.entry(millis(deferral.until)).or_default() += 1;
        host.why.clone_from(&deferral.why);
    }

    pub(super) fn remove(&mut self, deferral: &Deferral) {
        let Some(host) = self.hosts.get_mut(&deferral.host) else {
            return;
        };
        let due = millis(deferral.until);
        if let Some(works) = host.due.get_mut(&due) {
            *works -= 1;
            if *works == 0 {
                host.due.remove(&due);
            }
        }
        if host.due.is_empty() {
            self.hosts.remove(&deferral.host);
        }
    }

    pub(super) fn clear(&mut self) {
        self.hosts.clear();
    }

    /// Lists the hosts, those that are due first first.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit")]
    pub(super) fn list(&self) -> Vec<WaitingFor> {
        let waiting = self.hosts.iter().filter_map(|(name, host)| {
            let until = *host.due.keys().next()? as f64 / 1_000.0;
            Some(WaitingFor {
                host: name.clone(),
                works: host.due.values().sum(),
                until,
                why: host.why.clone(),
            })
        });
        let mut waiting: Vec<WaitingFor> = waiting.collect();
        waiting.sort_by(|a, b| a.until.total_cmp(&b.until));
        waiting
    }

    /// Returns when the last work is due, in seconds since 1970.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit")]
    pub(super) fn last_due(&self) -> Option<f64> {
        self.hosts
            .values()
            .filter_map(|host| host.due.keys().next_back())
            .max()
            .map(|due| *due as f64 / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_listed_with_their_works_until_the_last_has_gone() {
        let deferral = |host: &str, until: f64| Deferral {
            host: host.into(),
            until,
            why: "paused".into(),
        };
        let mut waits = Waits::default();
        waits.add(&deferral("b.example", 20.0));
        waits.add(&deferral("a.example", 30.0));
        waits.add(&deferral("a.example", 10.0));
        let listed = waits.list();
        assert_eq!(
            listed
                .iter()
                .map(|wait| (wait.host.as_str(), wait.works, wait.until))
                .collect::<Vec<_>>(),
            [("a.example", 2, 10.0), ("b.example", 1, 20.0)]
        );
        assert_eq!(waits.last_due(), Some(30.0));
        waits.remove(&deferral("a.example", 10.0));
        waits.remove(&deferral("a.example", 30.0));
        waits.remove(&deferral("c.example", 1.0));
        assert_eq!(waits.list().len(), 1);
    }
}
