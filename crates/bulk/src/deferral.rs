//! The waits of a run: host, time, cause and number of items.
//!
//! Every deferred item is counted here, so that progress lines and summaries can always name its
//! cause.

use std::collections::BTreeMap;

use docstokg_hub::StatedBy;
use docstokg_policy::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The host, the time and the cause for which an item is deferred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deferral {
    /// The host that the item waits for.
    pub host: String,
    /// The time until which the item is deferred.
    #[serde(with = "crate::seconds")]
    pub until: Timestamp,
    /// The cause in a few words.
    pub why: String,
    /// The authority that set the time, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_by: Option<StatedBy>,
    /// The source whose breaker delays the item: its host is not paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<String>,
    /// The time from which the item may be tried, if other items make the first tries.
    #[serde(
        default,
        with = "crate::seconds::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub ready_at: Option<Timestamp>,
}

impl Deferral {
    /// Returns the time from which the item may be tried.
    #[must_use]
    pub fn ready_at(&self) -> Timestamp {
        self.ready_at.unwrap_or(self.until)
    }
}

/// A host that items wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingFor {
    /// The name of the host.
    pub host: String,
    /// The number of items.
    pub items: u64,
    /// The time at which the first item is due.
    pub until: Timestamp,
    /// The cause in a few words.
    pub why: String,
}

/// All deferred items, by host.
#[derive(Debug, Default)]
pub(crate) struct HostDeferrals {
    hosts: BTreeMap<String, HostWaits>,
}

#[derive(Debug, Default)]
struct HostWaits {
    due: BTreeMap<DueTimes, u64>,
    why: String,
}

/// The times at which items come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DueTimes {
    until: Timestamp,
    /// The items let others make the first tries, and come back early if those succeed.
    is_resting: bool,
}

impl DueTimes {
    fn of(deferral: &Deferral) -> Self {
        Self {
            until: deferral.until,
            is_resting: deferral.ready_at.is_some(),
        }
    }
}

impl HostWaits {
    fn first(&self) -> Option<Timestamp> {
        self.due.keys().next().map(|due| due.until)
    }
}

impl HostDeferrals {
    pub(crate) fn add(&mut self, deferral: &Deferral) {
        let host = self.hosts.entry(deferral.host.clone()).or_default();
        *host.due.entry(DueTimes::of(deferral)).or_default() += 1;
        host.why.clone_from(&deferral.why);
    }

    pub(crate) fn remove(&mut self, deferral: &Deferral) {
        let Some(host) = self.hosts.get_mut(&deferral.host) else {
            return;
        };
        let due = DueTimes::of(deferral);
        if let Some(items) = host.due.get_mut(&due) {
            *items -= 1;
            if *items == 0 {
                host.due.remove(&due);
            }
        }
        if host.due.is_empty() {
            self.hosts.remove(&deferral.host);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.hosts.clear();
    }

    /// Tells whether an item waits for a host.
    pub(crate) fn contains(&self, host: &str) -> bool {
        self.hosts.contains_key(host)
    }

    /// Lists the hosts as [`WaitingFor`], in the order of their earliest due time.
    pub(crate) fn list(&self) -> Vec<WaitingFor> {
        let waiting = self.hosts.iter().filter_map(|(name, host)| {
            Some(WaitingFor {
                host: name.clone(),
                items: host.due.values().sum(),
                until: host.first()?,
                why: host.why.clone(),
            })
        });
        let mut waiting: Vec<WaitingFor> = waiting.collect();
        waiting.sort_by_key(|wait| wait.until);
        waiting
    }

    /// Lists the hosts with the expected times and numbers of their items. Resting items come back
    /// as soon as the first items are served.
    pub(crate) fn dues(&self) -> Vec<(String, Vec<(Timestamp, u64)>)> {
        let of_host = |(name, host): (&String, &HostWaits)| {
            let first = host.first().unwrap_or_default();
            let mut due = BTreeMap::<Timestamp, u64>::new();
            for (at, items) in &host.due {
                let expected = if at.is_resting { first } else { at.until };
                *due.entry(expected).or_default() += items;
            }
            (name.clone(), due.into_iter().collect())
        };
        self.hosts.iter().map(of_host).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_listed_with_their_items_until_the_last_has_gone() {
        let deferral = |host: &str, until: f64| Deferral {
            host: host.into(),
            until: Timestamp::from_secs_f64(until),
            why: "paused".into(),
            set_by: None,
            resolver: None,
            ready_at: None,
        };
        let at = Timestamp::from_secs_f64;
        let mut waits = HostDeferrals::default();
        waits.add(&deferral("b.example", 20.0));
        waits.add(&deferral("a.example", 30.0));
        waits.add(&deferral("a.example", 10.0));
        let listed = waits.list();
        assert_eq!(
            listed
                .iter()
                .map(|wait| (wait.host.as_str(), wait.items, wait.until.as_secs_f64()))
                .collect::<Vec<_>>(),
            [("a.example", 2, 10.0), ("b.example", 1, 20.0)]
        );
        assert_eq!(
            waits.dues(),
            [
                ("a.example".to_owned(), vec![(at(10.0), 1), (at(30.0), 1)]),
                ("b.example".to_owned(), vec![(at(20.0), 1)]),
            ]
        );
        let resting = Deferral {
            ready_at: Some(Timestamp::from_secs_f64(10.0)),
            ..deferral("a.example", 310.0)
        };
        waits.add(&resting);
        let first = (at(10.0), 2);
        assert_eq!(
            waits.dues()[0].1[0],
            first,
            "a resting item comes with the first"
        );
        waits.remove(&resting);
        waits.remove(&deferral("a.example", 10.0));
        waits.remove(&deferral("a.example", 30.0));
        waits.remove(&deferral("c.example", 1.0));
        assert_eq!(waits.list().len(), 1);
    }

    #[test]
    fn a_deferral_is_persisted_in_seconds() {
        let text = r#"{"host":"a.example","until":1763280000.123457,"why":"paused"}"#;
        let deferral: Deferral = serde_json::from_str(text).expect("a deferral");
        assert_eq!(
            deferral.until,
            Timestamp::from_micros(1_763_280_000_123_457)
        );
        assert_eq!(serde_json::to_string(&deferral).expect("JSON"), text);
    }
}
