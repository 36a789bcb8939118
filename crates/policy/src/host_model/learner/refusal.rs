//! The meaning of a refusal. A confirmed limit explains the refusal, or the refusal opens or
//! extends a search, or its cause is temporary.

use super::confirmed::{ConfirmedLimit, LimitShape};
use super::hypothesis::{RefusalEvidence, tolerance};
use super::search::{ActingLimit, LimitSearch, RATE_SCORE};
use super::units::{LearnerInstant, Seconds};
use super::{Learner, SendPurpose, SentRequest};
use crate::time::BootInstant;

/// The longest time over which the rate before a first refusal is measured.
const MEASURED_TIME: Seconds = Seconds(5.0);
/// The difference above which two Retry-After values count as different.
const ADVICE_DIFFERENCE: Seconds = Seconds(1.0);
/// The time by which a Retry-After must exceed a window to show that the refusal has another cause.
const UNUSUAL_ADVICE: Seconds = Seconds(3.0);
/// The share of a cap that must be in flight for the cap to explain a refusal.
const CAP_SHARE: f64 = 0.6;

/// The cause of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusalCause {
    /// A probe that met the confirmed limit with this index.
    ProbeRefused(usize),
    /// The confirmed limit with this index, which is too high.
    TooHigh(usize),
    /// A temporary cause: a pause, or a further refusal while a window is still full.
    Passing,
    /// A cause that no confirmed limit explains.
    Unexplained,
}

impl Learner {
    /// Learns from a refusal. Of many refusals of one
    /// [`RefusalEpoch`](crate::host_model::learner::state::RefusalEpoch), only the first is
    /// evidence.
    pub(super) fn throttled(
        &mut self,
        sent: SentRequest,
        sent_at: LearnerInstant,
        now: LearnerInstant,
        retry_after: Option<BootInstant>,
    ) {
        self.log.forget(sent_at);
        if self.last_refusal.is_after(sent_at) {
            return;
        }
        self.outage.doubtful = None;
        // A wait of zero does not say when to return.
        let advice = retry_after
            .map(|end| self.learner_instant(end) - now)
            .filter(|advice| advice.0 > 0.0);
        let verdict = self.take_in_refusal(sent, sent_at, now, advice);
        self.testing = Some(now);
        self.wait(verdict, advice, now);
        self.last_advice = advice.map(Seconds::narrow);
    }

    /// Learns from a refusal that the
    /// [`RequestLog`](crate::host_model::learner::request_log::RequestLog) does not contain. The
    /// epoch of the refusal begins at `now`.
    pub(super) fn take_in_refusal(
        &mut self,
        sent: SentRequest,
        sent_at: LearnerInstant,
        now: LearnerInstant,
        advice: Option<Seconds>,
    ) -> RefusalCause {
        let refusal = self.refusal(sent_at, advice);
        if let Some(others) = sent.others
            && (refusal.fresh || self.last_refusal.in_row == 0)
        {
            self.in_flight.refused(others);
        }
        if !refusal.fresh && self.search.is_none() && advice.is_none() && self.is_free(sent_at) {
            self.unexpected = self.unexpected.saturating_add(1);
        }
        let verdict = self.explain(sent, &refusal, advice);
        self.last_refusal.begin(now, self.log.total());
        match verdict {
            RefusalCause::ProbeRefused(index) => {
                if let Some(limit) = &mut self.confirmed[index] {
                    limit.seen = limit.seen.saturating_add(1);
                    limit.raised_at = None;
                }
                self.probe.slow_down();
            }
            RefusalCause::TooHigh(index) => self.lower(index, sent, &refusal, now),
            RefusalCause::Passing => {}
            RefusalCause::Unexplained => self.look_for(&refusal, now),
        }
        verdict
    }

    /// Learns how long a host banned the client: the host refused every request although all limits
    /// were free.
    pub(super) fn learn_ban(&mut self, length: Seconds) {
        if self.unexpected >= 1 {
            self.ban = length.narrow();
        } else {
            self.ban.0 *= 0.8;
        }
        self.unexpected = 0;
    }

    fn refusal(&self, at: LearnerInstant, advice: Option<Seconds>) -> RefusalEvidence {
        let last = &self.last_refusal;
        let admitted = f64::from(self.log.total().saturating_sub(last.total));
        let since = |from: LearnerInstant| admitted / (at - from).max(Seconds(0.05));
        let low = last.at.map_or_else(
            || {
                let time = (at - LearnerInstant::ORIGIN).clamp(Seconds(0.1), MEASURED_TIME);
                self.log.count(MEASURED_TIME, at) / time
            },
            since,
        );
        RefusalEvidence {
            at,
            fresh: last.resumed.is_some(),
            repeated: if self.confirmed().next().is_some() {
                1.0
            } else {
                0.3
            },
            margin: self.margin.wide(),
            measured: (low, last.resumed.map_or(low, since).max(low)),
            advice,
            round_trip: self.round_trip.wide(),
        }
    }

    fn explain(
        &self,
        sent: SentRequest,
        refusal: &RefusalEvidence,
        advice: Option<Seconds>,
    ) -> RefusalCause {
        if self.search.is_some() {
            return RefusalCause::Unexplained;
        }
        let explains = |limit: &ConfirmedLimit| self.explains(limit, sent, refusal);
        let mut limits = self.confirmed.iter().enumerate();
        let found = limits.find_map(|(index, limit)| Some((index, limit.filter(explains)?)));
        let Some((index, limit)) = found else {
            return RefusalCause::Unexplained;
        };
        if sent.purpose == SendPurpose::Probe {
            return RefusalCause::ProbeRefused(index);
        }
        let last = self.last_advice.unwrap_or_default().wide();
        let is_unusual = advice.is_some_and(|advice| {
            let differs = (advice - last).0.abs() > ADVICE_DIFFERENCE.0;
            advice > limit.window() + UNUSUAL_ADVICE && differs
        });
        if is_unusual || !refusal.fresh {
            return RefusalCause::Passing;
        }
        RefusalCause::TooHigh(index)
    }

    /// Returns whether every confirmed window was free at an instant.
    fn is_free(&self, at: LearnerInstant) -> bool {
        self.confirmed()
            .all(|limit| !limit.is_window() || self.log.count(limit.window(), at) < limit.n() - 0.5)
    }

    fn explains(
        &self,
        limit: &ConfirmedLimit,
        sent: SentRequest,
        refusal: &RefusalEvidence,
    ) -> bool {
        match limit.shape {
            LimitShape::Window { .. } => {
                let window = limit.window();
                let near = limit.n() - tolerance(limit.n(), window) - 0.5;
                let was_refused = || {
                    self.last_refusal
                        .at
                        .is_some_and(|at| refusal.at - at < window)
                };
                self.log.count(window, refusal.at) >= near
                    || self.log.count(refusal.widened(window), refusal.at) + 0.5 >= limit.n()
                    || (!refusal.fresh && was_refused())
            }
            LimitShape::Cap => f64::from(sent.others.unwrap_or(0)) >= CAP_SHARE * limit.n(),
            LimitShape::Rate => refusal.fresh,
        }
    }

    /// Opens a search, or extends the one under way.
    fn look_for(&mut self, refusal: &RefusalEvidence, now: LearnerInstant) {
        if let Some(cap) = self.in_flight.cap() {
            self.in_flight.forget();
            self.search = None;
            self.confirm(ConfirmedLimit::new(LimitShape::Cap, f64::from(cap), 2), now);
            return;
        }
        if let Some(search) = &mut self.search {
            if let Some(rate) = search.refused(&self.log, refusal) {
                self.search = None;
                self.confirm(ConfirmedLimit::new(LimitShape::Rate, rate.0, 2), now);
                return;
            }
        } else {
            let known = self.confirmed;
            let is_confirmed = |window: Seconds| {
                (known.iter().flatten()).any(|limit| (limit.window() - window).0.abs() < 0.01)
            };
            self.search = Some(LimitSearch::open(&self.log, refusal, is_confirmed));
        }
        self.settle_search(now);
    }

    /// Confirms the [`MinDistance`](crate::host_model::learner::min_distance::MinDistance)
    /// hypothesis, once its distance is admitted again for a while.
    pub(super) fn settle_distance(&mut self, sent_at: LearnerInstant, now: LearnerInstant) {
        let resumed = self.last_refusal.resumed;
        let passed = resumed.map_or(Seconds(0.0), |resumed| sent_at - resumed);
        let search = self.search.as_ref();
        let distance = search.and_then(LimitSearch::min_distance);
        if let Some(found) = distance.filter(|own| own.is_held(&self.log, sent_at, passed)) {
            self.search = None;
            let rate = found.admitted_rate().0;
            self.confirm(ConfirmedLimit::new(LimitShape::Rate, rate, 1), now);
        }
    }

    /// Confirms the acting hypothesis of the search, once no slower hypothesis is left.
    pub(super) fn settle_search(&mut self, now: LearnerInstant) {
        let Some(search) = self.search else { return };
        let any_known = self.confirmed().next().is_some();
        if any_known && search.best() <= RATE_SCORE {
            self.search = None;
            self.probe.restart(now);
            return;
        }
        if !search.is_settled() {
            return;
        }
        self.search = None;
        self.ban = self.ban.max(search.ban);
        let seen = u16::from(search.fresh) + 1;
        let limit = match (search.acting, search.found()) {
            (ActingLimit::Window(_), Some((n, window))) if search.is_smooth() => {
                // The mean of the admitted and the refused rate.
                let rate = (n * (n + 1.0)).sqrt() / window.0;
                ConfirmedLimit::new(LimitShape::Rate, rate, seen)
            }
            (ActingLimit::Window(_), Some((n, window))) => {
                ConfirmedLimit::of_window(n.round(), window, seen)
            }
            _ => ConfirmedLimit::new(LimitShape::Rate, search.rate.wide().0, seen),
        };
        self.confirm(limit, now);
    }

    /// Adds a [`ConfirmedLimit`]; the loosest limit is dropped if there are too many.
    fn confirm(&mut self, limit: ConfirmedLimit, now: LearnerInstant) {
        let round_trip = self.round_trip.wide();
        let same = |other: &ConfirmedLimit| match (other.shape, limit.shape) {
            (LimitShape::Window { seconds: a }, LimitShape::Window { seconds: b }) => {
                (a - b).abs() < 0.01
            }
            (a, b) => a == b,
        };
        let slot = (self.confirmed.iter())
            .position(|slot| slot.as_ref().is_some_and(same))
            .or_else(|| self.confirmed.iter().position(Option::is_none))
            .unwrap_or_else(|| {
                let rates = self
                    .confirmed
                    .map(|slot| slot.map_or(0.0, |limit| limit.rate(round_trip).0));
                (1..rates.len()).fold(0, |top, i| if rates[i] > rates[top] { i } else { top })
            });
        self.confirmed[slot] = Some(limit);
        self.probe.restart(now);
    }
}
