//! The window of a quota whose headers declare none: `X-RateLimit-*` has a limit, a remainder and a
//! reset in whole seconds.
//!
//! Estimates of the length come from these observations:
//!
//! - After the first request of a window, one request is used. The reset of its response is the
//!   length of the window, rounded. Seconds until the reset are too short by less than one second.
//!   A reset since 1970 is off by up to two seconds, because `Date` is rounded as well.
//! - The first requests of two windows in a row are at least one window apart: an upper bound.
//! - All used requests were sent within the window: a lower bound.
//!
//! After as many responses as the limit, but eight at most, a shorter window is tried. The trial
//! has the shortest length that the remainders allow, or one second less if they are not
//! conclusive. A window of one request is tried without the rounding from the second request on,
//! because each excess second delays every request.
//!
//! A refusal during a trial lengthens the window by a second. The next trial then needs four times
//! as many responses. After some windows without a refusal the length is proven. A later refusal is
//! due to a late request, and widens the window slightly.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Quota, RateHeaderFamily, RateHeaderReading, Unit};
use crate::time::BootInstant;

/// The longest implied window: a minute with its rounding. In a longer window, a second of rounding
/// hardly matters. If a window starts with the hour, its first request may also come long after the
/// start.
const MAX_IMPLIED_WINDOW: Duration = Duration::from_secs(62);
/// The shortest implied window, because servers declare whole seconds.
const SHORTEST_IMPLIED: Duration = Duration::from_secs(1);
/// The largest excess of a reset over the length of the window.
const WINDOW_ROUNDING: Duration = Duration::from_secs(2);
/// The length up to which a second of rounding is so large a part of a window that a shorter one is
/// tried.
const MAX_TRIED_WINDOW: Duration = Duration::from_secs(3);
/// The largest number of responses before a shorter window is first tried.
const MAX_BEFORE_TRIAL: u32 = 8;
/// The factor by which a refused trial raises the number of responses before the next trial.
const TRIAL_GROWTH: u32 = 4;
/// The number of windows without a refusal after which a length is proven.
const PROVEN_WINDOWS: u32 = 2;
/// The time by which a refusal widens a proven window.
const LATE_ARRIVAL_GUARD: Duration = Duration::from_millis(20);
/// The largest time by which refusals widen a proven window.
const LARGEST_GUARD: Duration = Duration::from_millis(100);

/// The largest number of departures that are recorded.
const MAX_DEPARTURES: usize = 128;
/// The largest variation of the time that a request takes to a server.
const NETWORK_JITTER: Duration = Duration::from_millis(150);
/// The largest even distance between requests at which remainders show the length of a window.
const LARGEST_GAP: Duration = Duration::from_secs(1);

/// The length of the window that the responses of a host imply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImpliedWindow {
    window: Option<Duration>,
    /// The shortest reset after the first request of a window.
    stated: Duration,
    /// The instant at which the latest first request was sent.
    first_sent: Option<BootInstant>,
    /// The number of requests served since the length last changed or a refusal came.
    served: u32,
    /// The number of refused trials of a shorter window.
    refused_trials: u32,
    /// The time by which the window is widened, because requests arrive late.
    guard: Duration,
    /// The instants at which the latest requests were sent.
    departures: VecDeque<BootInstant>,
    /// The longest time for which the server was seen to count a request as used.
    counted_for: Duration,
}

impl ImpliedWindow {
    /// Records a request that is sent.
    pub fn note_departure(&mut self, at: BootInstant) {
        if self.window.is_none() {
            return;
        }
        if self.departures.len() >= MAX_DEPARTURES {
            self.departures.pop_front();
        }
        self.departures.push_back(at);
    }

    /// Learns from a response, and adds the implied window to the quota without a window. The
    /// request was sent at `sent`, and its response arrived at `now`. Several quotas without
    /// windows cannot be distinguished, so they are not changed.
    pub fn complete(
        &mut self,
        reading: &mut RateHeaderReading,
        is_refusal: bool,
        sent: BootInstant,
        now: BootInstant,
    ) {
        let mut quotas = reading
            .quotas
            .iter_mut()
            .filter(|quota| lacks_window(quota));
        let (Some(quota), None) = (quotas.next(), quotas.next()) else {
            return;
        };
        if is_refusal {
            self.refute(quota.limit.unwrap_or(1));
        } else {
            self.learn(quota, sent, now);
        }
        if let Some(window) = self.window.filter(|window| *window <= MAX_IMPLIED_WINDOW) {
            quota.window = Some(window + self.guard);
            quota.source = RateHeaderFamily::Implied;
        }
    }

    fn learn(&mut self, quota: &Quota, sent: BootInstant, now: BootInstant) {
        let (Some(limit), Some(remaining), Some(resets_in)) =
            (quota.limit, quota.remaining, quota.resets_in)
        else {
            return;
        };
        // The time to the reset begins when the request arrives at the server, but is declared in
        // the response.
        let stated = Duration::from_secs((resets_in + now.since(sent)).as_secs());
        let is_first = limit.saturating_sub(remaining) == 1;
        if stated.is_zero() && !is_first {
            return;
        }
        let stated = stated.max(SHORTEST_IMPLIED);
        let is_longer = self
            .window
            .is_some_and(|known| stated > known + WINDOW_ROUNDING);
        let is_shorter = is_first && self.window.is_none_or(|known| stated < known);
        if is_longer || is_shorter {
            *self = Self {
                window: Some(stated),
                stated,
                first_sent: self.first_sent,
                refused_trials: if is_longer { 0 } else { self.refused_trials },
                guard: self.guard,
                served: 0,
                departures: std::mem::take(&mut self.departures),
                counted_for: self.counted_for,
            };
        }
        if self.departures.is_empty() && self.window.is_some() {
            self.departures.push_back(sent);
        }
        self.served = self.served.saturating_add(1);
        let used = limit.saturating_sub(remaining);
        if let Some(age) = self.age_of_oldest(used, sent) {
            self.counted_for = self.counted_for.max(age);
        }
        let growth = TRIAL_GROWTH.saturating_pow(self.refused_trials);
        let responses = limit.min(MAX_BEFORE_TRIAL).saturating_mul(growth);
        if self.served > responses {
            let known = self.window.unwrap_or_default();
            if known / limit.max(1) <= LARGEST_GAP && self.has_watched_for(known, sent) {
                self.shorten(self.shortest());
            } else if self.stated <= MAX_TRIED_WINDOW {
                self.shorten(known.saturating_sub(SHORTEST_IMPLIED));
            }
        } else if limit == 1 && self.refused_trials == 0 && self.stated <= MAX_TRIED_WINDOW {
            self.shorten(self.stated.saturating_sub(WINDOW_ROUNDING));
        }
        if !is_first {
            return;
        }
        let apart = self.first_sent.replace(sent).map(|first| now.since(first));
        // With a limit of one, every request is the first of a window. The time between two such
        // requests depends on the client, and does not bound the window.
        if let Some(apart) = apart.filter(|_| limit > 1 && self.refused_trials == 0) {
            self.shorten(Duration::from_secs(apart.as_secs()));
        }
    }

    /// Returns the age of the oldest of the used requests when the last one was counted. The
    /// remainder of a server refers to the request or to its response. The shorter age is valid for
    /// both.
    fn age_of_oldest(&self, used: u32, sent: BootInstant) -> Option<Duration> {
        let used = usize::try_from(used).ok().filter(|used| *used > 0)?;
        let age_at = |end: usize| {
            let oldest = self.departures.get(end.checked_sub(used)?)?;
            Some(self.departures.get(end - 1)?.since(*oldest))
        };
        let by_request = age_at(self.departures.partition_point(|at| *at <= sent))?;
        Some(by_request.min(age_at(self.departures.len())?))
    }

    /// Returns whether requests were sent for a time before an instant.
    fn has_watched_for(&self, length: Duration, now: BootInstant) -> bool {
        let first = self.departures.front();
        first.is_some_and(|first| now.since(*first) >= length)
    }

    /// Returns the shortest length in whole seconds that the remainders allow.
    fn shortest(&self) -> Duration {
        let counted_for = self.counted_for.saturating_sub(NETWORK_JITTER);
        Duration::from_secs(counted_for.as_secs() + 1)
    }

    /// Reduces the length, as far as the rounding of resets and the remainders allow.
    fn shorten(&mut self, length: Duration) {
        let least = self
            .stated
            .saturating_sub(WINDOW_ROUNDING)
            .max(self.shortest());
        let length = length.max(least);
        if self.window.is_some_and(|known| length < known) {
            self.window = Some(length);
            self.served = 0;
        }
    }

    /// Handles a refusal. A trial length becomes one second longer, and a proven length is widened
    /// slightly.
    fn refute(&mut self, limit: u32) {
        let is_proven = self.served > limit.saturating_mul(PROVEN_WINDOWS);
        let Some(known) = self.window.filter(|known| *known < self.stated) else {
            return;
        };
        if is_proven {
            self.guard = (self.guard + LATE_ARRIVAL_GUARD).min(LARGEST_GUARD);
        } else {
            self.window = Some(known + SHORTEST_IMPLIED);
            self.refused_trials += 1;
        }
        self.served = 0;
    }
}

/// Returns whether a [`Quota`] of requests has no window, in a family of headers whose window can
/// be implied.
fn lacks_window(quota: &Quota) -> bool {
    quota.window.is_none()
        && quota.unit == Unit::Requests
        && matches!(
            quota.source,
            RateHeaderFamily::XRateLimit | RateHeaderFamily::RateLimitFields
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(remaining: u32, resets_in_ms: u64) -> RateHeaderReading {
        let quota = Quota {
            unit: Unit::Requests,
            window: None,
            limit: Some(5),
            remaining: Some(remaining),
            resets_in: Some(Duration::from_millis(resets_in_ms)),
            partition: None,
            source: RateHeaderFamily::XRateLimit,
        };
        RateHeaderReading {
            quotas: vec![quota],
            ..RateHeaderReading::default()
        }
    }

    fn at(milliseconds: u64) -> BootInstant {
        BootInstant::from_micros(1_000_000 + milliseconds * 1_000)
    }

    /// Returns the window in seconds after a response. Its request was sent and completed at the
    /// same instant.
    fn completed_at(
        window: &mut ImpliedWindow,
        mut reading: RateHeaderReading,
        milliseconds: u64,
    ) -> Option<u64> {
        window.complete(&mut reading, false, at(milliseconds), at(milliseconds));
        reading.quotas[0].window.map(|window| window.as_secs())
    }

    /// Returns the window in seconds after a response, a minute after the response before.
    fn completed(window: &mut ImpliedWindow, reading: RateHeaderReading) -> Option<u64> {
        let before = window.first_sent.map_or(0, BootInstant::as_micros) / 1_000;
        completed_at(window, reading, before + 60_000)
    }

    fn refused(window: &mut ImpliedWindow) {
        window.complete(&mut reading(0, 1_000), true, at(0), at(0));
    }

    #[test]
    fn first_requests_of_two_windows_bound_its_length() {
        // A window of one second whose reset is rounded up twice.
        let mut window = ImpliedWindow::default();
        assert_eq!(completed_at(&mut window, reading(4, 2_000), 0), Some(2));
        assert_eq!(completed_at(&mut window, reading(0, 2_000), 800), Some(2));
        assert_eq!(completed_at(&mut window, reading(4, 2_000), 1_200), Some(1));
        assert_eq!(completed_at(&mut window, reading(3, 3_000), 1_400), Some(1));
        refused(&mut window);
        assert_eq!(completed_at(&mut window, reading(4, 2_000), 2_600), Some(2));
        assert_eq!(completed_at(&mut window, reading(4, 2_000), 3_800), Some(2));
    }

    #[test]
    fn a_window_that_begins_with_the_clock_is_not_shortened_further_than_rounding() {
        let mut window = ImpliedWindow::default();
        assert_eq!(completed_at(&mut window, reading(4, 8_000), 0), Some(8));
        assert_eq!(completed_at(&mut window, reading(4, 9_000), 300), Some(6));
        assert_eq!(completed_at(&mut window, reading(3, 9_000), 600), Some(9));
    }

    /// Simulates a server with a window of `per` for a client that sends every `gap` milliseconds.
    /// The server declares its reset since 1970, rounded up twice. Returns the window after
    /// `requests` requests.
    fn window_of_server(limit: u32, per: u64, gap: u64, slides: bool, requests: u64) -> u64 {
        let (mut window, mut log) = (ImpliedWindow::default(), Vec::<u64>::new());
        let mut implied = None;
        for sent in (0..requests).map(|number| 400 + number * gap) {
            let begun = if slides {
                (sent + 1).saturating_sub(per)
            } else {
                sent / per * per
            };
            log.retain(|at| *at >= begun);
            log.push(sent);
            assert!(log.len() <= limit as usize, "the client is polite");
            let resets_at = if slides { log[0] } else { begun } + per;
            let until = (sent + (resets_at - sent).next_multiple_of(1_000)).next_multiple_of(1_000);
            let left = limit - u32::try_from(log.len()).unwrap();
            let mut reading = reading(left, until - sent / 1_000 * 1_000);
            reading.quotas[0].limit = Some(limit);
            window.note_departure(at(sent));
            window.complete(&mut reading, false, at(sent), at(sent));
            implied = reading.quotas[0].window;
        }
        implied.unwrap().as_secs()
    }

    #[test]
    fn what_is_left_tells_the_length_of_a_window() {
        for slides in [true, false] {
            assert_eq!(window_of_server(4, 2_000, 510, slides, 40), 2);
            assert_eq!(window_of_server(9, 1_000, 115, slides, 40), 1);
            assert_eq!(window_of_server(100, 12_000, 122, slides, 250), 12);
            assert_eq!(window_of_server(7, 5_000, 725, slides, 40), 5);
        }
    }

    #[test]
    fn windows_of_one_request_are_tried_shorter_until_one_is_refused() {
        let one = |seconds: u64| {
            let mut reading = reading(0, seconds * 1_000);
            reading.quotas[0].limit = Some(1);
            reading
        };
        let mut window = ImpliedWindow::default();
        assert_eq!(completed(&mut window, one(3)), Some(1));
        refused(&mut window);
        assert!((0..4).all(|_| completed(&mut window, one(3)) == Some(2)));
        // The refusal may be due to the network, so the length is tried again.
        assert_eq!(completed(&mut window, one(3)), Some(1));
        refused(&mut window);
        assert!((0..16).all(|_| completed(&mut window, one(3)) == Some(2)));
    }

    #[test]
    fn a_late_request_widens_a_proven_window_a_little() {
        let mut window = ImpliedWindow::default();
        let mut length_after_response = || {
            let mut reading = reading(0, 2_000);
            reading.quotas[0].limit = Some(1);
            let sent = window.first_sent.unwrap_or(at(0)) + Duration::from_secs(1);
            window.complete(&mut reading, false, sent, sent);
            reading.quotas[0].window
        };
        for _ in 0..6 {
            assert_eq!(length_after_response(), Some(Duration::from_secs(1)));
        }
        let mut refusal = reading(0, 2_000);
        refusal.quotas[0].limit = Some(1);
        window.complete(&mut refusal, true, at(0), at(0));
        assert_eq!(refusal.quotas[0].window, Some(Duration::from_millis(1_020)));
    }

    #[test]
    fn the_first_request_of_a_window_tells_its_length() {
        let mut window = ImpliedWindow::default();
        assert_eq!(completed(&mut window, reading(2, 3_400)), None);
        // A reset since 1970 in whole seconds is up to a second late.
        assert_eq!(completed(&mut window, reading(4, 7_900)), Some(7));
        assert_eq!(completed(&mut window, reading(3, 6_100)), Some(7));
        assert_eq!(completed(&mut window, reading(4, 7_000)), Some(7));
    }

    #[test]
    fn a_longer_reset_and_a_shorter_first_one_correct_it() {
        let mut window = ImpliedWindow::default();
        assert_eq!(completed(&mut window, reading(4, 3_000)), Some(3));
        assert_eq!(completed(&mut window, reading(1, 9_500)), Some(9));
        assert_eq!(completed(&mut window, reading(4, 8_200)), Some(8));
    }

    #[test]
    fn a_long_window_is_not_implied() {
        let mut window = ImpliedWindow::default();
        assert_eq!(completed(&mut window, reading(4, 9_000)), Some(9));
        assert_eq!(completed(&mut window, reading(3, 63_000)), None);
    }

    #[test]
    fn a_refusal_and_several_quotas_tell_nothing() {
        let mut window = ImpliedWindow::default();
        window.complete(&mut reading(4, 3_000), true, at(0), at(0));
        assert_eq!(window, ImpliedWindow::default());
        let mut two = reading(4, 3_000);
        two.quotas.push(reading(4, 9_000).quotas.remove(0));
        window.complete(&mut two, false, at(0), at(0));
        assert_eq!(window, ImpliedWindow::default());
    }

    #[test]
    fn a_reset_within_the_second_implies_the_shortest_window_until_a_longer_one() {
        let mut window = ImpliedWindow::default();
        assert_eq!(completed(&mut window, reading(3, 900)), None);
        assert_eq!(completed(&mut window, reading(4, 900)), Some(1));
        // The end of an hour that begins with the clock.
        assert_eq!(completed(&mut window, reading(4, 3_600_000)), None);
    }

    #[test]
    fn the_time_that_a_response_takes_is_part_of_its_reset() {
        let mut window = ImpliedWindow::default();
        let mut slow = reading(4, 1_900);
        window.complete(&mut slow, false, at(0), at(200));
        assert_eq!(slow.quotas[0].window, Some(Duration::from_secs(2)));
    }
}
