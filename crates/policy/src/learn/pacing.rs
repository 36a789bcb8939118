//! Which instant the confirmed limits, the search and the start allow.

use super::confirmed::{Confirmed, Pace, Shape};
use super::search::{self, Search};
use super::{LONG_AGO, Learner, UNANSWERED_TIMEOUT_S};

/// After how many windows without a refusal a search tries one more.
const SEARCH_QUIET: f64 = 1.0;

/// The first instant that one limit allows.
#[derive(Clone, Copy)]
pub(super) enum Allowed {
    At(f64),
    AfterAnswer,
}

impl Learner {
    /// Returns what all limits together allow.
    pub(super) fn allowed(&self, now: f64) -> Allowed {
        let is_testing = self.testing.is_some();
        if is_testing && self.without_headers(now) > 0 {
            return Allowed::AfterAnswer;
        }
        let mut latest = self.not_before;
        for limit in self.confirmed.iter().flatten() {
            if is_testing && limit.shape == Shape::Cap {
                // A test goes alone.
                continue;
            }
            match self.kept(limit, now) {
                Allowed::At(at) => latest = latest.max(at),
                Allowed::AfterAnswer => return Allowed::AfterAnswer,
            }
        }
        if is_testing {
            return Allowed::At(latest);
        }
        match &self.search {
            Some(search) => Allowed::At(latest.max(self.searched(search, now))),
            None if self.confirmed.iter().all(Option::is_none) => self.started(latest, now),
            None => Allowed::At(latest),
        }
    }

    /// The start: the first request alone, then twice as many every second.
    fn started(&self, latest: f64, now: f64) -> Allowed {
        let most = (self.served / 4).max(2);
        let most = if self.served == 0 { 1 } else { most };
        if u32::from(self.without_headers(now)) >= most {
            return Allowed::AfterAnswer;
        }
        Allowed::At(latest.max(self.last_sent + 1.0 / f64::from(self.start_rate)))
    }

    /// What the hypothesis allows that the search acts on.
    fn searched(&self, search: &Search, now: f64) -> f64 {
        let Some((n, window)) = search.window() else {
            return self.last_sent + 1.0 / f64::from(search.rate);
        };
        if let Some(distance) = search.min_distance() {
            let passed = self.resumed.map_or(0.0, |resumed| now - resumed);
            return self.last_sent + 1.0 / distance.ramp(n / window, passed);
        }
        if window < search::LONG {
            // A window that refuses nothing for a while may admit more: one is tried.
            let moved = self.search_moved.max(self.resumed.unwrap_or(now));
            let is_quiet = now - moved >= SEARCH_QUIET * window.clamp(1.0, 2.0);
            let more = if is_quiet && search.fresh == 0 {
                1.0
            } else {
                0.0
            };
            return self.pace(n + more, window).next(&self.log, now);
        }
        // A long window is filled at once and exceeded by one: waiting for it would take longer
        // than to be wrong.
        let free = self
            .log
            .nth_last(n.floor() + 1.0)
            .map_or(LONG_AGO, |at| at + window);
        let fill = f64::from(search.fill).max(2.0 * n / window);
        free.max(self.last_sent + 1.0 / fill)
    }

    /// What a confirmed limit allows, with a few more if a probe is due.
    fn kept(&self, limit: &Confirmed, now: f64) -> Allowed {
        let probed = self.is_probing(now) && self.is_probed(limit);
        match limit.shape {
            Shape::Window { seconds } => {
                let extra = if probed { self.probe.step() } else { 0.0 };
                let mut pace = self.pace(limit.n() + extra, f64::from(seconds));
                if probed {
                    pace.last_sent -= 0.49 * f64::from(seconds) / limit.n();
                }
                Allowed::At(pace.next(&self.log, now))
            }
            Shape::Cap => {
                let extra = if probed { 1.0 } else { 0.0 };
                if f64::from(self.unanswered(now)) >= limit.n() + extra {
                    return Allowed::AfterAnswer;
                }
                let gap = f64::from(self.round_trip) / (2.0 * limit.n().max(1.0));
                Allowed::At(self.last_sent + gap)
            }
            Shape::Rate => {
                let faster = if probed {
                    1.0 + 0.04 * self.probe.step()
                } else {
                    1.0
                };
                Allowed::At(self.last_sent + 1.0 / (limit.n().max(1e-3) * faster))
            }
        }
    }

    /// Returns how many requests may still get the headers of an answer.
    fn without_headers(&self, now: f64) -> u16 {
        self.unanswered(now).saturating_sub(self.open_bodies)
    }

    /// Returns how many requests have not ended, as far as that is known.
    fn unanswered(&self, now: f64) -> u16 {
        if now < self.last_sent + UNANSWERED_TIMEOUT_S {
            self.in_flight.count()
        } else {
            0
        }
    }

    fn pace(&self, n: f64, window: f64) -> Pace {
        Pace {
            n: n.max(1.0),
            window,
            margin: f64::from(self.margin),
            last_sent: self.last_sent,
        }
    }

    /// Returns the longest interval that may have to pass for a window to be free. A window that
    /// admits less than the slowest rate does not count.
    pub(super) fn longest_window(&self, slowest: f64) -> f64 {
        let confirmed = (self.confirmed.iter().flatten()).map(|limit| (limit.n(), limit.window()));
        let acting = self.search.as_ref().and_then(Search::window);
        (confirmed.chain(acting))
            .filter(|(n, window)| *window <= n * slowest)
            .fold(0.0, |longest, (_, window)| window.max(longest))
    }
}
