//! Responses and their effect on a [`Learner`]: admissions, refusals and outages.

use std::time::Duration;

use super::units::{LearnerInstant, RequestRate, Seconds};
use super::{HostResponse, Learner, SendPurpose, SentRequest};
use crate::time::BootInstant;

/// The [`RequestRate`] from which a start grows more slowly, because a refusal also hits the
/// requests in flight.
const CAREFUL_START_RATE: RequestRate<f32> = RequestRate(50.0);
/// The highest [`RequestRate`] of a start.
const MAX_START_RATE: RequestRate<f32> = RequestRate(2_000.0);
/// The longest time between two responses that counts for the growth of a rate.
const MAX_GROWTH_TIME: Seconds = Seconds(0.5);
/// The pause for a host that is down.
const OUTAGE_PAUSE: PauseBounds = PauseBounds {
    least: Seconds(1.0),
    most: Seconds(60.0),
};
/// The length of a pause as a share of the time for which the host has been down.
const PAUSE_SHARE: f64 = 0.2;
/// The extra time after a Retry-After, because the clocks of server and client differ.
const RETRY_AFTER_GUARD: Duration = Duration::from_millis(10);

/// The shortest and the longest pause.
#[derive(Clone, Copy)]
pub(super) struct PauseBounds {
    pub(super) least: Seconds,
    pub(super) most: Seconds,
}

impl Learner {
    /// Learns from a [`HostResponse`], or from its headers.
    pub(super) fn take_in(
        &mut self,
        sent: SentRequest,
        now: BootInstant,
        answer: HostResponse,
        jitter_sample: f64,
    ) {
        self.rebase(now);
        let instant = self.learner_instant(now);
        let sent_at = self.learner_instant(sent.at);
        match answer {
            HostResponse::Served => {
                self.raise(sent, sent_at, instant);
                self.resolve_doubt(sent_at, instant);
                self.admitted(sent, sent_at, instant);
            }
            HostResponse::Neutral => {
                // A neutral response does not show that a confirmed limit could be higher.
                let purpose = SendPurpose::AppLimited;
                self.admitted(SentRequest { purpose, ..sent }, sent_at, instant);
            }
            HostResponse::Throttled { retry_after } => {
                if let Some(end) = retry_after {
                    self.retry_end = self.retry_end.max(end + RETRY_AFTER_GUARD);
                }
                self.throttled(sent, sent_at, instant, retry_after);
            }
            HostResponse::Outage => self.outage(instant, jitter_sample),
            HostResponse::Unavailable => self.doubt(sent, instant, jitter_sample),
            // A test continues until the host serves a request.
            HostResponse::Other => {}
        }
    }

    /// Raises the rate of a start or search after a [`SentRequest`] that was served.
    fn raise(&mut self, sent: SentRequest, sent_at: LearnerInstant, now: LearnerInstant) {
        let start = &mut self.start;
        start.served = start.served.saturating_add(1);
        if sent.purpose != SendPurpose::AppLimited {
            let passed = start.last_served.map_or(Seconds(0.0), |last| now - last);
            let passed = passed.clamp(Seconds(0.0), MAX_GROWTH_TIME).narrow();
            let is_new = !self.last_refusal.is_after(sent_at);
            if let Some(search) = self.search.as_mut().filter(|_| is_new) {
                search.ramp(passed.wide());
            }
            let slower = (start.rate.0 / CAREFUL_START_RATE.0).max(1.0);
            let growth = (passed.0 / slower).exp2();
            start.rate = RequestRate(start.rate.0 * growth).min(MAX_START_RATE);
        }
        start.last_served = Some(now);
    }

    /// Learns from an admitted [`SentRequest`].
    fn admitted(&mut self, sent: SentRequest, sent_at: LearnerInstant, now: LearnerInstant) {
        let round_trip = (now - sent_at).narrow();
        if self.round_trip.0 == 0.0 || round_trip < self.round_trip {
            self.round_trip = round_trip;
        }
        self.resume(sent_at);
        if self.last_refusal.is_after(sent_at) {
            return;
        }
        if self.last_refusal.resumed.is_none() {
            self.last_refusal.resumed = Some(sent_at);
            let length = self.last_refusal.length(sent_at);
            if let Some(search) = &mut self.search {
                search.row_ended(&self.log, sent_at, length);
            }
            self.learn_ban(length);
            self.probe.resume(now);
        }
        self.last_refusal.in_row = 0;
        if let Some(others) = sent.others {
            self.in_flight.admitted(others);
        }
        if let Some(search) = &mut self.search {
            let before = search.window();
            search.admitted(&self.log, sent_at);
            if search.window() != before {
                self.search_moved = Some(now);
            }
            self.settle_distance(sent_at, now);
            self.settle_search(now);
        } else if sent.purpose == SendPurpose::Probe {
            self.probe_admitted(sent, sent_at, now);
        }
    }

    /// Pauses before the next request to a host that is down.
    fn outage(&mut self, now: LearnerInstant, jitter_sample: f64) {
        let since = *self.outage.since.get_or_insert(now);
        self.pause(now - since, OUTAGE_PAUSE, now, jitter_sample);
    }

    /// Pauses for a share of the time for which a host has been down, within [`PauseBounds`].
    /// Afterwards requests are sent one at a time, as a test.
    pub(super) fn pause(
        &mut self,
        down: Seconds,
        bounds: PauseBounds,
        now: LearnerInstant,
        jitter_sample: f64,
    ) {
        let wait = (PAUSE_SHARE * down).clamp(bounds.least, bounds.most);
        let jitter = 0.9 + 0.2 * jitter_sample.clamp(0.0, 1.0);
        self.not_before = Some(LearnerInstant::later(self.not_before, now + jitter * wait));
        self.testing = Some(now);
    }

    /// Ends the test of a host with single requests, if the admitted request was part of the test.
    fn resume(&mut self, sent_at: LearnerInstant) {
        if self.testing.is_some_and(|since| since <= sent_at) {
            self.testing = None;
            self.outage.since = None;
        }
    }
}
