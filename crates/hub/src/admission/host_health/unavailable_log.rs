//! Decides whether a 503 means that the origin is down, or that it throttles, as nginx `limit_req`
//! does.
//!
//! An origin that is down serves no request after its first 503. A throttling origin serves some of
//! the requests that were sent after a refused one. After that was seen once, the origin is known
//! to throttle by 503 for [`UNAVAILABLE_MEMORY`]. Its 503s then count as throttling as long as it
//! serves other requests.

use std::time::Duration;

use docstokg_policy::host_model::learner::SERVED_WITHIN;
use parking_lot::Mutex;

use crate::clock::BootInstant;

/// The time for which an origin is known to throttle by 503.
const UNAVAILABLE_MEMORY: Duration = Duration::from_secs(600);
/// The shortest time for which a served request shows that the origin is up.
const MIN_RECENT: Duration = Duration::from_secs(1);
/// The longest time for which a served request shows that the origin is up; it applies if requests
/// are rare.
const MAX_RECENT: Duration = Duration::from_secs(10);
/// Maximum number of 503s in a row that count as throttling. Further ones count as an outage.
const MAX_REFUSALS_IN_ROW: u32 = 8;

/// The 503s of an origin, as this process has seen them.
#[derive(Default)]
pub(super) struct UnavailableLog(Mutex<UnavailableCounts>);

#[derive(Default)]
struct UnavailableCounts {
    /// The send time of the first request with a 503 since the origin last served a request that
    /// was sent later.
    refused: Option<BootInstant>,
    in_row: u32,
    served: Option<BootInstant>,
    throttles_until: Option<BootInstant>,
}

impl UnavailableLog {
    /// Records that the origin served a request that was sent at `sent`.
    pub(super) fn note_served(&self, sent: BootInstant, now: BootInstant) {
        let mut seen = self.0.lock();
        // A request that was sent before the refused one says nothing about throttling, so that
        // `refused` is kept.
        if let Some(refused) = seen.refused.take_if(|refused| *refused <= sent)
            && now.since(refused) < SERVED_WITHIN
        {
            seen.throttles_until = Some(now + UNAVAILABLE_MEMORY);
        }
        seen.served = Some(now);
        seen.in_row = 0;
    }

    /// Counts a 503, and returns whether it means throttling by an origin that is up. `distance` is
    /// the usual time between two requests to the origin.
    pub(super) fn count_unavailable(
        &self,
        sent: BootInstant,
        distance: Duration,
        now: BootInstant,
    ) -> bool {
        let mut seen = self.0.lock();
        seen.refused.get_or_insert(sent);
        seen.in_row = seen.in_row.saturating_add(1);
        let recent = (distance * 2).clamp(MIN_RECENT, MAX_RECENT);
        let serves = seen.served.is_some_and(|served| now.since(served) < recent);
        let throttles = seen.throttles_until.is_some_and(|until| now < until);
        throttles && serves && seen.in_row <= MAX_REFUSALS_IN_ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> BootInstant {
        BootInstant::from_micros(1_000_000_000 + milliseconds * 1_000)
    }

    const SHORT: Duration = Duration::from_millis(100);

    #[test]
    fn an_origin_that_goes_down_does_not_throttle() {
        let origin = UnavailableLog::default();
        for number in 0..20 {
            origin.note_served(at(number * 100), at(number * 100 + 50));
        }
        for number in 20..120 {
            let (sent, now) = (at(number * 100), at(number * 100 + 50));
            assert!(!origin.count_unavailable(sent, SHORT, now), "{number}");
        }
        // The first response after an outage is not a sign of throttling.
        origin.note_served(at(12_100), at(12_150));
        assert!(!origin.count_unavailable(at(12_200), SHORT, at(12_250)));
    }

    #[test]
    fn an_origin_that_serves_a_later_request_throttles() {
        let origin = UnavailableLog::default();
        origin.note_served(at(0), at(50));
        assert!(
            !origin.count_unavailable(at(100), SHORT, at(150)),
            "not known yet"
        );
        // Sent before the refused request: no sign of throttling.
        origin.note_served(at(90), at(160));
        assert!(!origin.count_unavailable(at(170), SHORT, at(180)));
        origin.note_served(at(300), at(350));
        assert!(origin.count_unavailable(at(400), SHORT, at(450)));
        assert!(
            !origin.count_unavailable(at(2_000), SHORT, at(2_050)),
            "it serves nothing now"
        );
        // For rare requests, a served request shows for a longer time that the origin is up.
        origin.note_served(at(3_000), at(3_050));
        let seldom = Duration::from_secs(3);
        assert!(origin.count_unavailable(at(6_000), seldom, at(6_050)));
    }
}
