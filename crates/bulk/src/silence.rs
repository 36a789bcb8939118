//! The time for which the hosts of deferred items have been silent.
//!
//! A host that is down, paused or unreachable is waited for until it has been silent for as long as
//! the run waits. Its items stay deferred, whatever probes find in between.

use std::collections::BTreeMap;
use std::time::Duration;

use docstokg_policy::time::Timestamp;

use crate::deferral::WaitingFor;

/// The time since which each awaited host has been silent.
#[derive(Debug, Default)]
pub(crate) struct Silences {
    since: BTreeMap<String, Timestamp>,
}

impl Silences {
    /// Records that an item waits for a host. The host has failed every request for `failing_for`,
    /// and last responded `served_ago` ago. If the host responded since the earlier wait began, its
    /// silence begins again.
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

    /// Tells whether to wait for a host: an item is due within `max_wait`, and the silence of the
    /// host is not longer than that. The host last responded `served_ago` ago.
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

    /// Returns the time for which an awaited host has been silent. The host last responded
    /// `served_ago` ago.
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
