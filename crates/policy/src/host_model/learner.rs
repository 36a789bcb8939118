//! Learned limits: infers from refusals how many requests a host admits.
//!
//! The client counts its own admitted requests. At a status 429, the counts of the last second up
//! to the last hour are known. Later responses show which count separates admitted from refused
//! requests (`search`). The result is a [`ConfirmedLimit`], which is kept exactly and spaced
//! evenly. From time to time one extra request tests the limit (`probe`). A refusal that no
//! confirmed limit explains opens a new search (`refusal`).
//!
//! A [`Learner`] is the whole state of one host. The state has a fixed size and needs no clock, I/O
//! or allocation. [`Learner::next`] returns when to send; [`Learner::sent`] and
//! [`Learner::answered`] report. Configured limits apply in addition.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the state is small: conversions saturate, and counts are far below 2^24"
)]

mod confirmed;
mod hypothesis;
mod in_flight;
mod lowered;
mod min_distance;
mod next;
mod probe;
mod refusal;
mod request;
mod request_log;
mod response;
mod search;
mod state;
mod time_origin;
mod unavailable;
mod units;
mod wait;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use confirmed::{ConfirmedLimit, LimitShape};
pub use request::{HostResponse, LearnBounds, NextRequest, SentRequest};

use crate::time::BootInstant;
use in_flight::InFlightCounts;
use next::{AllowedInstant, NextQuestion};
use probe::ProbeSchedule;
use request::SendPurpose;
use request_log::RequestLog;
use search::LimitSearch;
use state::{HostOutage, RefusalEpoch, StartRate};
use units::{LearnerInstant, RequestRate, Seconds, stored_instant, stored_length};

/// The initial margin of windows, before any refusal.
const START_MARGIN: Seconds<f32> = Seconds(0.01);
/// The time after the last request for which responses are awaited.
const UNANSWERED_TIMEOUT: Seconds = Seconds(60.0);
/// The longest time between a request with status 503 and a served request that shows a refusal. If
/// the host serves another request within that time, the host was not down.
pub const SERVED_WITHIN: Duration = Duration::from_secs(2);
/// The number of limits that can be confirmed at once.
const MAX_CONFIRMED: usize = 3;

/// The phase of a [`Learner`], which decides the instant of the next request.
#[derive(Clone, Copy, Debug)]
enum LearnerPhase<'a> {
    /// A phase of single requests, from a refusal or an outage until the host serves a request.
    Testing,
    /// No limit is known: the rate of requests rises.
    Starting,
    /// A refusal has no explanation yet.
    Searching(&'a LimitSearch),
    /// Requests keep the confirmed limits.
    Confirmed,
}

/// The inferred limits of one host.
///
/// The order of the fields is the stored form.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learner {
    /// The instant from which a [`LearnerInstant`] is counted.
    origin: Option<BootInstant>,
    retry_end: BootInstant,
    log: RequestLog,
    confirmed: [Option<ConfirmedLimit>; MAX_CONFIRMED],
    search: Option<LimitSearch>,
    probe: ProbeSchedule,
    in_flight: InFlightCounts,
    /// The instant before which no request is sent.
    #[serde(with = "stored_instant")]
    not_before: Option<LearnerInstant>,
    #[serde(with = "stored_instant")]
    last_sent: Option<LearnerInstant>,
    last_refusal: RefusalEpoch,
    /// If set, requests are sent one at a time, until a request sent from this instant on is
    /// admitted.
    testing: Option<LearnerInstant>,
    /// The length of the Retry-After of the last refusal.
    #[serde(with = "stored_length")]
    last_advice: Option<Seconds<f32>>,
    outage: HostOutage,
    start: StartRate,
    /// The time by which each window is widened.
    margin: Seconds<f32>,
    round_trip: Seconds<f32>,
    /// The instant at which the search last learned from a response.
    #[serde(with = "stored_instant")]
    search_moved: Option<LearnerInstant>,
    /// The time after a refusal for which the host refuses every request, because it bans the
    /// client.
    ban: Seconds<f32>,
    /// The number of refusals in the current row at which every limit was free.
    unexpected: u8,
    /// The number of requests in flight whose headers have arrived.
    open_bodies: u16,
}

impl Default for Learner {
    fn default() -> Self {
        Self {
            origin: None,
            retry_end: BootInstant::ZERO,
            log: RequestLog::default(),
            confirmed: [None; MAX_CONFIRMED],
            search: None,
            probe: ProbeSchedule::default(),
            in_flight: InFlightCounts::default(),
            not_before: None,
            last_sent: None,
            last_refusal: RefusalEpoch::default(),
            testing: None,
            last_advice: None,
            outage: HostOutage::default(),
            start: StartRate::default(),
            margin: START_MARGIN,
            round_trip: Seconds(0.0),
            search_moved: None,
            ban: Seconds(0.0),
            unexpected: 0,
            open_bodies: 0,
        }
    }
}

impl Learner {
    /// Creates a learner from requests that were sent before, in any order.
    #[must_use]
    pub fn from_history(sent: impl Iterator<Item = BootInstant>) -> Self {
        let mut sent: Vec<BootInstant> = sent.collect();
        sent.sort_unstable();
        let mut learner = Self {
            origin: sent.first().copied(),
            ..Self::default()
        };
        for at in sent {
            learner.rebase(at);
            learner.log_sent(learner.learner_instant(at));
        }
        learner
    }

    /// Records that a [`SentRequest`] was not sent.
    pub fn withdrawn(&mut self, sent: SentRequest, now: BootInstant) {
        self.rebase(now);
        let sent_at = self.learner_instant(sent.at);
        self.log.forget(sent_at);
        if self.last_sent.is_none_or(|last| last <= sent_at) {
            self.last_sent = self.log.nth_last(1.0);
        }
        self.landed(sent);
    }

    /// Returns whether no limit is confirmed and no search is under way.
    #[must_use]
    pub fn knows_nothing(&self) -> bool {
        self.search.is_none() && self.confirmed().next().is_none()
    }

    fn phase(&self) -> LearnerPhase<'_> {
        match &self.search {
            _ if self.testing.is_some() => LearnerPhase::Testing,
            Some(search) => LearnerPhase::Searching(search),
            None if self.knows_nothing() => LearnerPhase::Starting,
            None => LearnerPhase::Confirmed,
        }
    }

    /// Returns the instant until which refusals stop all requests; `now` if there is no pause.
    #[must_use]
    pub fn not_before(&self, now: BootInstant) -> BootInstant {
        let own = self.not_before.map_or(now, |at| self.boot_instant(at, now));
        own.max(self.retry_end).max(now)
    }

    /// Ends the pause after refusals: the next request may be sent at once, as a test.
    pub fn end_pause(&mut self) {
        self.not_before = None;
        self.retry_end = BootInstant::ZERO;
    }

    /// Returns the distance between requests at the rate that is currently assumed.
    #[must_use]
    pub fn distance(&self) -> Duration {
        let round_trip = self.round_trip.wide();
        let confirmed = self.confirmed().map(|limit| limit.rate(round_trip));
        let searched = self.search.as_ref().map(|search| match search.window() {
            Some((n, window)) => n / window,
            None => search.rate.wide(),
        });
        let lowest = confirmed.chain(searched).reduce(RequestRate::<f64>::min);
        let rate = lowest.unwrap_or(self.start.rate.wide());
        Duration::from_secs_f64(1.0 / rate.0.clamp(0.001, 1_000.0))
    }

    /// Returns the tightest confirmed window: its number of requests and its length. Without a
    /// confirmed window, returns one request in the current distance between requests.
    pub(crate) fn tightest(&self) -> (u32, Duration) {
        let windows = self.confirmed().filter(|limit| limit.is_window());
        let rate = |limit: &&ConfirmedLimit| (limit.n() / limit.window()).0;
        let tightest = windows.min_by(|a, b| rate(a).total_cmp(&rate(b)));
        tightest.map_or_else(
            || (1, self.distance()),
            |limit| {
                let n = limit.amount.round() as u32;
                (n.max(1), Duration::from_secs_f64(limit.window().0))
            },
        )
    }

    /// Returns the shortest time between a request and its response.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        Duration::from_secs_f32(self.round_trip.0.clamp(0.0, 60.0))
    }

    /// Continues after a reboot: drops the requests in flight, and moves instants to the new clock.
    pub fn after_reboot(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        self.origin = self.origin.map(shift);
        self.retry_end = shift(self.retry_end);
        self.in_flight.land_all();
        self.open_bodies = 0;
        self.testing = None;
        self.outage.doubtful = None;
    }

    /// Returns when the next request may be sent, within [`LearnBounds`].
    #[must_use]
    pub fn next(&self, bounds: &LearnBounds, now: BootInstant) -> NextRequest {
        let Some(last_sent) = self.last_sent else {
            let at = self.boot_instant(LearnerInstant::ORIGIN, now);
            return NextRequest::At(at.max(self.retry_end));
        };
        let slowest = Seconds(bounds.slowest.as_secs_f64());
        let unanswered_until = last_sent + UNANSWERED_TIMEOUT;
        let question = NextQuestion {
            learner: self,
            last_sent,
            now: self.learner_instant(now),
        };
        let at = match question.allowed() {
            AllowedInstant::AfterResponse if question.now < unanswered_until => {
                let at_latest = self.boot_instant(unanswered_until, now).max(self.retry_end);
                return NextRequest::AfterResponse { at_latest };
            }
            AllowedInstant::AfterResponse => unanswered_until,
            AllowedInstant::At(at) => at,
        };
        let floor = last_sent + slowest.max(question.longest_window(slowest));
        let ceiling = bounds.up_to.map(|window| {
            let per = Seconds(window.per.as_secs_f64());
            last_sent + per / f64::from(window.limit.get())
        });
        let at = LearnerInstant::later(ceiling, at.min(floor));
        NextRequest::At(self.boot_instant(at, now).max(self.retry_end))
    }

    /// Records a [`SentRequest`] that is sent now.
    pub fn sent(&mut self, bounds: &LearnBounds, now: BootInstant) -> SentRequest {
        self.rebase(now);
        let instant = self.learner_instant(now);
        let due = match self.next(bounds, now) {
            NextRequest::At(at) => self.learner_instant(at),
            NextRequest::AfterResponse { .. } => instant,
        };
        let is_late = self.last_sent.is_some_and(|last| {
            let slack = (0.25 * (due - last)).clamp(Seconds(0.02), Seconds(1.0));
            instant > due + slack
        });
        let purpose = if self.is_probe(instant) {
            SendPurpose::Probe
        } else if is_late {
            SendPurpose::AppLimited
        } else {
            SendPurpose::Paced
        };
        let others = self.in_flight.send();
        self.log_sent(instant);
        SentRequest {
            at: now,
            others: Some(others),
            purpose,
        }
    }

    fn log_sent(&mut self, at: LearnerInstant) {
        self.log.push(at);
        self.last_sent = Some(LearnerInstant::later(self.last_sent, at));
    }

    /// Learns from the response to a [`SentRequest`]. `jitter_sample` lies between zero and one.
    pub fn answered(
        &mut self,
        sent: SentRequest,
        now: BootInstant,
        answer: HostResponse,
        jitter_sample: f64,
    ) {
        self.landed(sent);
        self.take_in(sent, now, answer, jitter_sample);
    }

    /// Records that a [`SentRequest`] has ended without a response.
    pub fn landed(&mut self, sent: SentRequest) {
        if sent.others.is_some() {
            self.in_flight.answer();
        }
    }

    /// Learns from the headers of a [`HostResponse`] before its body has ended. The body counts as
    /// one request in flight, but delays no request that waits for a response.
    pub fn heard(&mut self, sent: SentRequest, now: BootInstant, answer: HostResponse) {
        if sent.others.is_some() {
            self.open_bodies = self.open_bodies.saturating_add(1);
        }
        self.take_in(sent, now, answer, 0.5);
    }

    /// Records the end of a body whose headers were reported by [`Learner::heard`].
    pub fn body_ended(&mut self, sent: SentRequest) {
        if sent.others.is_some() {
            self.open_bodies = self.open_bodies.saturating_sub(1);
        }
        self.landed(sent);
    }

    /// Returns every [`ConfirmedLimit`]; each has a form in words.
    pub fn confirmed(&self) -> impl Iterator<Item = &ConfirmedLimit> {
        self.confirmed.iter().flatten()
    }

    /// Returns whether a search is under way.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.search.is_some()
    }
}
