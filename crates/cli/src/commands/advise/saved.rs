//! The refusals of a run that a learned limit would have prevented, from the times of its requests.

use docstokg_hub::policy::host_model::learner::{ConfirmedLimit, LimitShape};
use docstokg_telemetry::summary::limits::SentRequest;

/// Maximum difference between the intervals of two requests at their sending and at their arrival,
/// in seconds.
const ARRIVAL_JITTER_SHARE: f64 = 0.04;
/// The time in seconds within which another served request makes a 503 a refusal: the host was not
/// down.
const SAME_SECOND: f64 = 1.0;

/// The refusals of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HostRefusals {
    /// The number of refused requests.
    pub(super) all: u64,
    /// The number of refusals that exceeded the learned limits.
    pub(super) saved: u64,
}

/// Counts the refusals, and those that exceeded a [`ConfirmedLimit`]. The requests are in the order
/// of their sending.
pub(super) fn count(requests: &[SentRequest], limits: &[ConfirmedLimit]) -> HostRefusals {
    let mut found = HostRefusals::default();
    for (index, request) in requests.iter().enumerate() {
        if !is_refused(requests, request) {
            continue;
        }
        found.all += 1;
        let before = &requests[..index];
        if limits
            .iter()
            .any(|limit| is_above(limit, before, request.sent_s))
        {
            found.saved += 1;
        }
    }
    found
}

fn is_served(request: &SentRequest) -> bool {
    request.status.is_some_and(|status| status < 400)
}

fn is_refused(requests: &[SentRequest], request: &SentRequest) -> bool {
    let in_same_second = |other: &SentRequest| {
        is_served(other)
            && other.ended_s <= request.ended_s
            && other.ended_s > request.ended_s - SAME_SECOND
    };
    match request.status {
        Some(429) => true,
        Some(503) => requests.iter().any(in_same_second),
        _ => false,
    }
}

/// Tells whether a request at an instant exceeded a limit, after the requests before it.
fn is_above(limit: &ConfirmedLimit, before: &[SentRequest], at: f64) -> bool {
    let amount = f64::from(limit.amount).round();
    let counted = |condition: &dyn Fn(&SentRequest) -> bool| {
        let found = before.iter().filter(|other| condition(other)).count();
        f64::from(u32::try_from(found).unwrap_or(u32::MAX))
    };
    match limit.shape {
        LimitShape::Window { seconds } => {
            let from = at - f64::from(seconds) - ARRIVAL_JITTER_SHARE;
            counted(&|other| is_served(other) && other.sent_s > from) >= amount
        }
        LimitShape::Cap => counted(&|other| other.ended_s > at - ARRIVAL_JITTER_SHARE) >= amount,
        LimitShape::Rate => {
            let from = at - 1.0 / f64::from(limit.amount).max(1e-6);
            counted(&|other| other.sent_s > from) >= 1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(sent_s: f64, status: u16) -> SentRequest {
        SentRequest {
            sent_s,
            ended_s: sent_s + 0.05,
            status: Some(status),
        }
    }

    fn limit(shape: LimitShape, amount: f32) -> ConfirmedLimit {
        ConfirmedLimit::of(shape, amount, 2)
    }

    #[test]
    fn only_refusals_above_the_limit_would_have_been_saved() {
        let requests = [
            request(0.0, 200),
            request(0.1, 200),
            request(0.2, 429),
            request(6.0, 429),
            request(7.0, 503),
            request(7.5, 200),
            request(7.6, 503),
        ];
        let two_in_five = limit(LimitShape::Window { seconds: 5.0 }, 2.0);
        let found = count(&requests, &[two_in_five]);
        assert_eq!(
            found,
            HostRefusals { all: 3, saved: 1 },
            "the 503 alone in its second is an outage, and the second 429 has another cause"
        );
        assert_eq!(count(&requests, &[]).saved, 0);
    }

    #[test]
    fn a_cap_counts_what_is_in_flight_and_a_rate_the_distance() {
        let at_once = [request(0.0, 200), request(0.01, 429), request(1.0, 429)];
        let cap = limit(LimitShape::Cap, 1.0);
        assert_eq!(count(&at_once, &[cap]), HostRefusals { all: 2, saved: 1 });
        let rate = limit(LimitShape::Rate, 2.0);
        assert_eq!(count(&at_once, &[rate]), HostRefusals { all: 2, saved: 1 });
    }
}
