//! What a refusal means: a confirmed limit explains it, it opens or feeds a search, or it passes.

use serde::{Deserialize, Serialize};

use super::confirmed::{Confirmed, Shape};
use super::hypothesis::{Refusal, tolerance};
use super::search::{Acting, GRID, LONG, Search};
use super::{LONG_AGO, Learner, Purpose, Sent};
use crate::time::BootInstant;

/// How many requests at once are told apart.
const MOST: usize = 32;

/// The wait after a refusal without Retry-After, in seconds, and its growth in a row of refusals.
const FIRST_WAIT: f64 = 0.5;
const WAIT_GROWTH: f64 = 2.5;
pub(super) const LONGEST_WAIT: f64 = 60.0;
/// The wait after the refusal that confirms a limit.
const CONFIRMED_WAIT: f64 = 0.2;
/// Where a search knows when a window would be free, it asks then: not before this share of the wait
/// (the first, and later ones), and not after this one.
const EARLIEST_TEST: (f64, f64) = (0.8, 0.2);
const LATEST_TEST: f64 = 1.5;
/// In a long row of refusals the next window is not passed over: a test waits for no more than this
/// share of the time since the last admission.
const NEXT_WINDOW: f64 = 0.4;

/// By how much a limit that refuses without a probe is lowered at most.
const LOWERED: f64 = 0.96;
/// The highest limit that another window replaces: of more requests the counts of several windows
/// say too little.
const MAX_REPLACED: f64 = 12.0;
/// The shares of its rate at which a limit is replaced by one of a longer window.
const LEAST_REPLACED: f64 = 0.3;
const REPLACED: f64 = 0.97;
/// The longest window that replaces a limit, in seconds.
const LONGEST_REPLACING: f64 = 20.0;

/// The least rate that is believed in, requests per second.
const LEAST_RATE: f32 = 0.001;

/// The requests on their way, and what became of them by their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InFlight {
    count: u16,
    admitted: [u8; MOST],
    refused: [u8; MOST],
}

fn add_one(counts: &mut [u8; MOST], others: u16) {
    let slot = usize::from(others).min(MOST - 1);
    if counts[slot] == u8::MAX {
        for count in counts.iter_mut() {
            *count /= 2;
        }
    }
    counts[slot] += 1;
}

impl InFlight {
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// Adds a request, and returns how many others there are.
    pub(super) fn send(&mut self) -> u16 {
        let others = self.count;
        self.count = self.count.saturating_add(1);
        others
    }

    pub(super) fn answer(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    pub(super) fn land_all(&mut self) {
        self.count = 0;
    }

    pub(super) fn admitted(&mut self, others: u16) {
        add_one(&mut self.admitted, others);
    }

    fn refused(&mut self, others: u16) {
        add_one(&mut self.refused, others);
    }

    fn forget(&mut self) {
        self.admitted = [0; MOST];
        self.refused = [0; MOST];
    }

    /// Returns how many at once the host admits, if their number alone tells refused requests
    /// from admitted ones.
    fn cap(&self) -> Option<u16> {
        let least = (self.refused.iter())
            .position(|count| *count > 0)
            .filter(|k| *k >= 1)?;
        let refused: u32 = self.refused[least..].iter().map(|n| u32::from(*n)).sum();
        let admitted: u32 = self.admitted[least..].iter().map(|n| u32::from(*n)).sum();
        (refused >= 2 && admitted <= refused).then_some(least as u16)
    }
}

/// How a refusal is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A probe met the confirmed limit with this index.
    ProbeRefused(usize),
    /// The confirmed limit with this index is too high.
    TooHigh(usize),
    /// A cause that passes: a pause, or another refusal of a window that is not free yet.
    Passing,
    /// No confirmed limit explains it.
    Unexplained,
}

impl Learner {
    /// Takes in a refusal. Of many refusals of one epoch only the first is evidence.
    pub(super) fn throttled(
        &mut self,
        sent: Sent,
        sent_at: f64,
        now: f64,
        retry_after: Option<BootInstant>,
    ) {
        self.log.forget(sent_at);
        if sent_at < self.epoch {
            return;
        }
        self.doubtful = None;
        // A wait of zero says nothing about when to come back.
        let advice = retry_after
            .map(|end| self.seconds(end) - now)
            .filter(|advice| *advice > 0.0);
        let verdict = self.take_in_refusal(sent, sent_at, now, advice);
        self.testing = Some(now);
        self.wait(verdict, advice, now);
        self.last_advice = advice.unwrap_or(0.0) as f32;
        self.advised = advice.is_some();
    }

    /// Takes in what a refusal shows, which the log does not contain; its epoch begins at `now`.
    pub(super) fn take_in_refusal(
        &mut self,
        sent: Sent,
        sent_at: f64,
        now: f64,
        advice: Option<f64>,
    ) -> Verdict {
        let refusal = self.refusal(sent_at, advice);
        if let Some(others) = sent.others
            && (refusal.fresh || self.refusals_in_row == 0)
        {
            self.in_flight.refused(others);
        }
        if !refusal.fresh && self.search.is_none() && advice.is_none() && self.is_free(sent_at) {
            self.unexpected = self.unexpected.saturating_add(1);
        }
        let verdict = self.explain(sent, &refusal, advice);
        self.begin_epoch(now);
        match verdict {
            Verdict::ProbeRefused(index) => {
                if let Some(limit) = &mut self.confirmed[index] {
                    limit.seen = limit.seen.saturating_add(1);
                    limit.raised_at = LONG_AGO;
                }
                self.probe.slow_down();
            }
            Verdict::TooHigh(index) => self.lower(index, sent, &refusal, now),
            Verdict::Passing => {}
            Verdict::Unexplained => self.look_for(&refusal, now),
        }
        verdict
    }

    /// Notes how long a host refused everything, though its limits were free.
    pub(super) fn learn_ban(&mut self, sent_at: f64) {
        let length = (sent_at - self.epoch).min(LONGEST_WAIT) as f32;
        if self.unexpected >= 1 {
            self.ban = length;
        } else {
            self.ban *= 0.8;
        }
        self.unexpected = 0;
    }

    fn refusal(&self, at: f64, advice: Option<f64>) -> Refusal {
        let admitted = f64::from(self.log.total().saturating_sub(self.total_at_epoch));
        let since = |from: f64| admitted / (at - from).max(0.05);
        let low = if self.epoch > LONG_AGO {
            since(self.epoch)
        } else {
            self.log.count(5.0, at) / at.clamp(0.1, 5.0)
        };
        Refusal {
            at,
            fresh: self.resumed.is_some(),
            repeated: if self.confirmed.iter().any(Option::is_some) {
                1.0
            } else {
                0.3
            },
            margin: f64::from(self.margin),
            measured: (low, self.resumed.map_or(low, since).max(low)),
            advice,
            round_trip: f64::from(self.round_trip),
        }
    }

    fn begin_epoch(&mut self, now: f64) {
        self.epoch = now;
        self.resumed = None;
        self.total_at_epoch = self.log.total();
        self.refusals_in_row = self.refusals_in_row.saturating_add(1);
    }

    fn explain(&self, sent: Sent, refusal: &Refusal, advice: Option<f64>) -> Verdict {
        if self.search.is_some() {
            return Verdict::Unexplained;
        }
        let mut found = None;
        for (index, limit) in self.confirmed.iter().enumerate() {
            let Some(limit) = limit else { continue };
            if self.explains(limit, sent, refusal) {
                found = Some(index);
                break;
            }
        }
        let Some(index) = found else {
            return Verdict::Unexplained;
        };
        if sent.purpose == Purpose::Probe {
            return Verdict::ProbeRefused(index);
        }
        let predicted = self.confirmed[index].map_or(0.0, |limit| limit.window());
        let unusual = advice.is_some_and(|advice| {
            advice > predicted + 3.0 && (advice - f64::from(self.last_advice)).abs() > 1.0
        });
        if unusual || !refusal.fresh {
            return Verdict::Passing;
        }
        Verdict::TooHigh(index)
    }

    /// Returns whether every confirmed window had room at an instant.
    fn is_free(&self, at: f64) -> bool {
        (self.confirmed.iter().flatten()).all(|limit| {
            limit.window() == 0.0 || self.log.count(limit.window(), at) < limit.n() - 0.5
        })
    }

    fn explains(&self, limit: &Confirmed, sent: Sent, refusal: &Refusal) -> bool {
        match limit.shape {
            Shape::Window { seconds } => {
                let window = f64::from(seconds);
                let wide = window + 2.0 * refusal.margin + 0.04;
                let near = limit.n() - tolerance(limit.n(), window) - 0.5;
                self.log.count(window, refusal.at) >= near
                    || self.log.count(wide, refusal.at) + 0.5 >= limit.n()
                    || (!refusal.fresh && refusal.at - self.epoch < window)
            }
            Shape::Cap => f64::from(sent.others.unwrap_or(0)) >= 0.6 * limit.n(),
            Shape::Rate => refusal.fresh,
        }
    }

    /// Opens a search, or feeds the one under way.
    fn look_for(&mut self, refusal: &Refusal, now: f64) {
        if let Some(cap) = self.in_flight.cap() {
            self.in_flight.forget();
            self.search = None;
            self.confirm(Confirmed::new(Shape::Cap, f64::from(cap), 2), now);
            return;
        }
        if let Some(search) = &mut self.search {
            if let Some(rate) = search.refused(&self.log, refusal) {
                self.search = None;
                self.confirm(Confirmed::new(Shape::Rate, rate, 2), now);
                return;
            }
        } else {
            let known = self.confirmed;
            let is_confirmed = |window: f64| {
                (known.iter().flatten()).any(|limit| (limit.window() - window).abs() < 0.01)
            };
            self.search = Some(Search::open(&self.log, refusal, is_confirmed));
        }
        self.settle_search(now);
    }

    /// Confirms the distance of two requests that was admitted, once it is admitted again for a
    /// while.
    pub(super) fn settle_distance(&mut self, sent_at: f64, now: f64) {
        let passed = self.resumed.map_or(0.0, |resumed| sent_at - resumed);
        let distance = self.search.and_then(|search| search.min_distance());
        if let Some(found) = distance.filter(|own| own.is_held(&self.log, sent_at, passed)) {
            self.search = None;
            let rate = found.admitted_rate();
            self.confirm(Confirmed::new(Shape::Rate, rate, 1), now);
        }
    }

    /// Confirms what the search acts on, once nothing slower is left.
    pub(super) fn settle_search(&mut self, now: f64) {
        let Some(search) = self.search else { return };
        let any_known = self.confirmed.iter().any(Option::is_some);
        if any_known && search.best() <= -1.2 {
            self.search = None;
            self.probe.restart(now);
            return;
        }
        if !search.is_settled() {
            return;
        }
        self.search = None;
        self.ban = self.ban.max(search.ban);
        let limit = match (search.acting, search.found()) {
            (Acting::Window(_), Some((n, window))) if search.is_smooth() => {
                // Between the rate that was admitted and the one that was not.
                let rate = (n * (n + 1.0)).sqrt() / window;
                Confirmed::new(Shape::Rate, rate, u16::from(search.fresh) + 1)
            }
            (Acting::Window(_), Some((n, window))) => {
                let shape = Shape::Window {
                    seconds: window as f32,
                };
                Confirmed::new(shape, n.round(), u16::from(search.fresh) + 1)
            }
            _ => Confirmed::new(
                Shape::Rate,
                f64::from(search.rate),
                u16::from(search.fresh) + 1,
            ),
        };
        self.confirm(limit, now);
    }

    /// Adds a limit; the loosest one goes if there are too many.
    fn confirm(&mut self, limit: Confirmed, now: f64) {
        let round_trip = f64::from(self.round_trip);
        let same = |other: &Confirmed| match (other.shape, limit.shape) {
            (Shape::Window { seconds: a }, Shape::Window { seconds: b }) => (a - b).abs() < 0.01,
            (a, b) => a == b,
        };
        let slot = (self.confirmed.iter())
            .position(|slot| slot.as_ref().is_some_and(same))
            .or_else(|| self.confirmed.iter().position(Option::is_none))
            .unwrap_or_else(|| {
                let rates = self
                    .confirmed
                    .map(|slot| slot.map_or(0.0, |l| l.rate(round_trip)));
                (1..rates.len()).fold(0, |top, i| if rates[i] > rates[top] { i } else { top })
            });
        self.confirmed[slot] = Some(limit);
        self.probe.restart(now);
    }

    /// Returns the longer window that a refusal speaks for which a confirmed limit does not predict:
    /// the one that its Retry-After names or, if the limit refused unexpectedly before, the one that
    /// has never held as many admitted requests since the last refusal as it holds now.
    fn longer_window(&self, limit: &Confirmed, refusal: &Refusal) -> Option<(f64, f64)> {
        let log = &self.log;
        let rate = limit.rate(f64::from(self.round_trip));
        if limit.shape == Shape::Cap || limit.n() > MAX_REPLACED {
            return None;
        }
        let slower = |window: f64| {
            let n = log.count(window, refusal.at);
            let share = n / window / rate;
            (n >= 1.0 && (LEAST_REPLACED..REPLACED).contains(&share)).then_some((n, window))
        };
        let advised = refusal
            .window_by_advice(log)
            .filter(|window| limit.window() > 0.0 && *window > limit.window() + 1.0);
        if let Some(found) = advised.and_then(slower) {
            return Some(found);
        }
        if limit.surprises == 0 {
            return None;
        }
        let admitted = || log.recent().filter(|at| *at > self.epoch);
        let fits = |(n, window): &(f64, f64)| admitted().all(|at| log.count(*window, at) <= *n);
        let windows = GRID.into_iter().map(f64::from);
        windows
            .filter(|window| *window > limit.window() && *window <= LONGEST_REPLACING)
            .filter_map(slower)
            .filter(fits)
            .reduce(|best, other| {
                if other.0 / other.1 > best.0 / best.1 {
                    other
                } else {
                    best
                }
            })
    }

    /// Lowers a confirmed limit that refuses without a probe.
    fn lower(&mut self, index: usize, sent: Sent, refusal: &Refusal, now: f64) {
        let margin = f64::from(self.margin);
        let again = self.refusals_in_row > 1;
        let longer = self.confirmed[index].and_then(|limit| self.longer_window(&limit, refusal));
        let Some(limit) = &mut self.confirmed[index] else {
            return;
        };
        limit.seen = limit.seen.saturating_add(1);
        if limit.take_back(now) {
            self.probe.slow_down();
            return;
        }
        limit.surprises = limit.surprises.saturating_add(1);
        if let Some((n, window)) = longer {
            let seconds = window as f32;
            *limit = Confirmed::new(Shape::Window { seconds }, n, limit.seen);
            limit.surprises = 1;
            return;
        }
        let rate = limit.rate(f64::from(self.round_trip));
        let measured = refusal.measured.0 / rate.max(1e-3);
        match limit.shape {
            Shape::Window { .. } if limit.surprises == 1 && limit.n() <= 64.0 => {
                self.margin = (2.0 * margin).min(0.1) as f32;
            }
            Shape::Window { .. } if limit.n() <= 12.0 => {
                limit.shape = Shape::Rate;
                limit.amount = (rate * LOWERED) as f32;
            }
            Shape::Window { .. } => {
                limit.amount *= (1.03 * measured).clamp(LOWERED, 0.98) as f32;
            }
            Shape::Rate => {
                let factor = if again { 0.8 } else { LOWERED };
                limit.amount = (limit.amount * factor as f32).max(LEAST_RATE);
            }
            Shape::Cap => limit.amount = f32::from(sent.others.unwrap_or(1)).max(1.0),
        }
        limit.before_step = limit.amount;
        limit.before_raises = limit.amount;
    }

    /// Decides how long nothing is sent.
    fn wait(&mut self, verdict: Verdict, advice: Option<f64>, now: f64) {
        let times = f64::from(self.refusals_in_row.saturating_sub(1).min(12));
        let mut own = (FIRST_WAIT * WAIT_GROWTH.powf(times)).min(LONGEST_WAIT);
        let ban = self.search.map_or(self.ban, |search| search.ban);
        own = own.max(f64::from(ban).min(LONGEST_WAIT));
        let earliest = if times == 0.0 {
            EARLIEST_TEST.0 * own
        } else {
            let passed = now - self.log.nth_last(1.0).unwrap_or(now);
            let earliest = EARLIEST_TEST.1 * own;
            if passed < LONG {
                earliest
            } else {
                earliest.min(NEXT_WINDOW * passed)
            }
        };
        if let Some(search) = self
            .search
            .as_ref()
            .filter(|search| advice.is_none() && search.ban == 0.0)
            && let Some(at) = search.next_free(&self.log, now + earliest)
            && at < now + LATEST_TEST * own
        {
            own = at - now + f64::from(self.margin);
        }
        let acting = self.search.as_ref().and_then(Search::window);
        let free = acting.map_or(LONG_AGO, |(n, window)| {
            let at = self
                .log
                .nth_last(n.floor())
                .map_or(LONG_AGO, |at| at + window);
            if at - now > 0.25 * window {
                at + f64::from(self.margin)
            } else {
                LONG_AGO
            }
        });
        let wait = match (verdict, advice) {
            (_, Some(advice)) if self.advised && self.refusals_in_row > 1 => advice.max(own),
            (_, Some(advice)) => advice,
            (Verdict::ProbeRefused(_), None) => f64::from(self.ban).clamp(0.02, LONGEST_WAIT),
            // One more was sent to confirm the limit, and did.
            (Verdict::Unexplained, None) if self.search.is_none() && self.refusals_in_row == 1 => {
                f64::from(self.ban).clamp(CONFIRMED_WAIT, LONGEST_WAIT)
            }
            (_, None) => own,
        };
        let free = (self.confirmed.iter().flatten()).fold(free, |latest, limit| {
            let at = self
                .log
                .nth_last(limit.n())
                .map_or(LONG_AGO, |at| at + limit.window());
            if limit.window() > 0.0 {
                latest.max(at)
            } else {
                latest
            }
        });
        let until = (now + wait).max(if advice.is_some() { LONG_AGO } else { free });
        self.not_before = self.not_before.max(until);
        let (window, cost) = match verdict {
            Verdict::ProbeRefused(index) | Verdict::TooHigh(index) => (
                self.confirmed[index].map_or(0.0, |limit| limit.window()),
                until - now,
            ),
            _ => (0.0, 0.0),
        };
        self.probe.refused(window, cost);
    }
}
