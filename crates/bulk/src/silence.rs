//! Measures how long the hosts of deferred items have been silent.
//!
//! A run waits for a host that is down, paused or unreachable until the host has been silent for
//! the maximum wait of the run. The items of the host stay deferred until then, even if probes are
//! sent in the meantime.

use std::collections::BTreeMap;
use std::time::Duration;

use docstokg_policy::time::Timestamp;

use crate::deferral::WaitingFor;

/// The awaited hosts, each with the time at which its silence began.
#[derive(Debug, Default)]
pub(crate) struct Silences {
    since: BTreeMap<String, Timestamp>,
}

impl Silences {
    /// Records that an item begins to wait for a host. All requests to the host have failed for the
    /// time `failing_for`, and the last response came `served_ago` ago. If the host has responded
    /// since its recorded silence began, a new silence is recorded.
    pub(crate) fn begin(
        &mut self,
        host: &str,
        failing_for: Duration,
        served_ago: Option<Duration>,
        now: Timestamp,
    ) {
        let began = now - failing_for;
        match self.since.get_mut(host) {
            None => {
                self.since.insert(host.to_owned(), began);
            }
            Some(since) if served_ago.is_some_and(|served_ago| served_ago < now.since(*since)) => {
                *since = began;
            }
            Some(_) => {}
        }
    }

    /// Returns whether to wait for a host: an item is due within `max_wait`, and the host has not
    /// been silent for longer than `max_wait`. `served_ago` is the time since its last response.
    pub(crate) fn is_worth_waiting(
        &self,
        waiting: &WaitingFor,
        served_ago: Option<Duration>,
        max_wait: Duration,
        now: Timestamp,
    ) -> bool {
        let silent_for = self.silent_for(&waiting.host, served_ago, now);
        waiting.until.since(now) <= max_wait && silent_for <= max_wait
    }

    /// Returns for how long an awaited host has been silent. `served_ago` is the time since its
    /// last response.
    pub(crate) fn silent_for(
        &self,
        host: &str,
        served_ago: Option<Duration>,
        now: Timestamp,
    ) -> Duration {
        let since = self.since.get(host).copied().unwrap_or(now);
        now.since(since).min(served_ago.unwrap_or(Duration::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u32) -> Timestamp {
        Timestamp::from_secs_f64(f64::from(seconds))
    }

    fn waiting(until: u32) -> WaitingFor {
        WaitingFor {
            host: "a.example".into(),
            items: 1,
            until: at(until),
            why: "paused".into(),
        }
    }

    #[test]
    fn a_host_is_waited_for_until_it_has_been_silent_for_as_long_as_the_run_waits() {
        let max_wait = Duration::from_secs(60);
        let mut silences = Silences::default();
        silences.begin("a.example", Duration::ZERO, None, at(100));
        silences.begin("a.example", Duration::ZERO, None, at(150));
        let is_worth = |served_ago: Option<u64>, now: u32| {
            let served_ago = served_ago.map(Duration::from_secs);
            silences.is_worth_waiting(&waiting(now + 5), served_ago, max_wait, at(now))
        };
        assert!(is_worth(None, 160), "a minute after the first wait");
        assert!(!is_worth(None, 161));
        assert!(is_worth(Some(60), 200), "a minute after the sign of life");
        assert!(!is_worth(Some(61), 200));
        assert!(is_worth(Some(300), 160), "the first wait is the later one");
    }

    #[test]
    fn a_host_that_served_between_two_outages_is_waited_for_again() {
        let max_wait = Duration::from_secs(60);
        let mut silences = Silences::default();
        silences.begin("a.example", Duration::ZERO, None, at(100));
        // The host responded at 110, and was not needed for ten minutes.
        let served_ago = Some(Duration::from_secs(600));
        silences.begin("a.example", Duration::ZERO, served_ago, at(710));
        assert!(silences.is_worth_waiting(&waiting(715), served_ago, max_wait, at(710)));
        // The host has not responded since.
        silences.begin(
            "a.example",
            Duration::ZERO,
            Some(Duration::from_secs(660)),
            at(770),
        );
        let served_ago = Some(Duration::from_secs(661));
        assert!(!silences.is_worth_waiting(&waiting(776), served_ago, max_wait, at(771)));
    }

    #[test]
    fn a_pause_that_is_longer_than_the_run_waits_is_not_waited_for() {
        let mut silences = Silences::default();
        silences.begin("a.example", Duration::ZERO, None, at(100));
        let is_worth = |until| {
            let max_wait = Duration::from_secs(60);
            silences.is_worth_waiting(&waiting(until), None, max_wait, at(100))
        };
        assert!(is_worth(160));
        assert!(!is_worth(161));
    }
}
