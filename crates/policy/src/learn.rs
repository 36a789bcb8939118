//! Learned limits: finds out what a host admits from which requests it refuses.
//!
//! The client counts its own admitted requests. At a 429 it knows how many lay in the last 1, 2,
//! 3 ... 3600 seconds, and later answers show which of these counts separates accepted from
//! refused (`search`). What is left is a confirmed limit ([`Confirmed`]): kept exactly, spaced
//! evenly, tested by one request more from time to time (`probe`); it explains later refusals,
//! and only a refusal that no confirmed limit explains opens a new search (`refusal`).
//!
//! A [`Learner`] is the whole state of one host: of fixed size, serialisable, without clock, I/O
//! or allocation. Ask [`Learner::next`] when to send, report [`Learner::sent`] and
//! [`Learner::answered`]. It does not replace configured limits, which hold in addition.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the state is small: conversions saturate, and counts are far below 2^24"
)]

mod confirmed;
mod doubt;
mod hypothesis;
mod log;
mod min_distance;
mod origin;
mod pacing;
mod probe;
mod refusal;
mod search;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use confirmed::{Confirmed, Shape};

use crate::rate::Window;
use crate::time::BootInstant;
use log::Log;
use pacing::Allowed;
use probe::Probe;
use refusal::InFlight;
use search::Search;

/// An instant before all others, in seconds: it can be serialised, unlike minus infinity.
const LONG_AGO: f64 = -1e9;
/// The rate before anything is known, requests per second. It doubles every second.
const START_RATE: f32 = 2.0;
/// From this rate on the start is more careful: what is in flight at a refusal is refused as well.
const FAST: f32 = 50.0;
/// After this time an unanswered request is not waited for, in seconds.
const UNANSWERED_TIMEOUT_S: f64 = 60.0;
/// How long after a request that was answered with 503 another one has to be served, to show that the
/// host is up and has refused it.
pub const SERVED_WITHIN: Duration = Duration::from_secs(2);
/// The shortest and the longest pause of a host that is down, in seconds.
const OUTAGE_PAUSE: (f64, f64) = (1.0, 60.0);
/// Added to the end of a Retry-After: the server's clock and ours differ.
const RETRY_GUARD: Duration = Duration::from_millis(10);
/// How many limits can be confirmed at once.
const MOST_CONFIRMED: usize = 3;

/// What configuration allows a learner to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Learned limits never ask for a longer distance between requests than this.
    pub slowest: Duration,
    /// The highest rate, however much a host admits.
    pub up_to: Option<Window>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            slowest: Duration::from_secs(60),
            up_to: None,
        }
    }
}

/// When the next request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At this instant, or now if it has passed.
    At(BootInstant),
    /// Not before a request in flight is answered, or this instant, whichever is first.
    AfterAnswer {
        /// When the learner gives the requests in flight up.
        at_latest: BootInstant,
    },
}

/// A request on its way; goes back to the learner with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    at: BootInstant,
    /// How many other requests were on their way; `None` where that is not known.
    others: Option<u16>,
    purpose: Purpose,
}

impl Sent {
    /// A request that was sent before its learner began.
    pub(crate) fn before_learning(at: BootInstant) -> Self {
        Self {
            at,
            others: None,
            purpose: Purpose::Paced,
        }
    }

    /// Returns when it was sent.
    pub(crate) fn at(&self) -> BootInstant {
        self.at
    }
}

/// Why a request was sent at its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Purpose {
    /// The client had nothing to send before: it says nothing about higher rates.
    AppLimited,
    /// As soon as the limits allowed.
    Paced,
    /// One more than a confirmed limit allows.
    Probe,
}

/// What a host answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It served the request.
    Served,
    /// It admitted the request, and has nothing for it (404, 403): that is quick to say, so it never
    /// raises a rate.
    Neutral,
    /// It refused the request as one too many.
    Throttled {
        /// The instant before which it wants no request.
        retry_after: Option<BootInstant>,
    },
    /// It is down: 5xx, or no connection.
    Outage,
    /// It is down, or refused the request as one too many (503): what it serves next tells.
    Unavailable,
    /// Anything else, and requests without an answer. It never raises a rate.
    Other,
}

/// What is known about the limits of one host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learner {
    /// Instants inside are seconds after this one.
    origin: Option<BootInstant>,
    retry_end: BootInstant,
    log: Log,
    confirmed: [Option<Confirmed>; MOST_CONFIRMED],
    search: Option<Search>,
    probe: Probe,
    in_flight: InFlight,
    /// No request goes before.
    not_before: f64,
    last_sent: f64,
    /// When the last refusal was taken in. Requests sent before say nothing new.
    epoch: f64,
    /// The first admission after it.
    resumed: Option<f64>,
    /// How many had been admitted by then.
    total_at_epoch: u32,
    refusals_in_row: u8,
    /// One request at a time, until one that is sent from this instant on is admitted.
    testing: Option<f64>,
    /// The last refusal had a Retry-After.
    advised: bool,
    /// The length of the last Retry-After, in seconds.
    last_advice: f32,
    outage_since: Option<f64>,
    /// The first request since the host last served one that it may have refused.
    doubtful: Option<Sent>,
    served: u32,
    last_served: f64,
    start_rate: f32,
    /// By how much each window is widened, in seconds.
    margin: f32,
    round_trip: f32,
    /// When the search last learned anything.
    search_moved: f64,
    /// How long the host refused everything after a refusal, in seconds: it bans.
    ban: f32,
    /// Refusals of this row that came although every limit was free.
    unexpected: u8,
    /// How many requests in flight have had their headers.
    open_bodies: u16,
}

impl Default for Learner {
    fn default() -> Self {
        Self {
            origin: None,
            retry_end: BootInstant::ZERO,
            log: Log::default(),
            confirmed: [None; MOST_CONFIRMED],
            search: None,
            probe: Probe::default(),
            in_flight: InFlight::default(),
            not_before: LONG_AGO,
            last_sent: LONG_AGO,
            epoch: LONG_AGO,
            resumed: None,
            total_at_epoch: 0,
            refusals_in_row: 0,
            testing: None,
            advised: false,
            last_advice: 0.0,
            outage_since: None,
            doubtful: None,
            served: 0,
            last_served: LONG_AGO,
            start_rate: START_RATE,
            margin: 0.01,
            round_trip: 0.0,
            search_moved: LONG_AGO,
            ban: 0.0,
            unexpected: 0,
            open_bodies: 0,
        }
    }
}

impl Learner {
    /// Starts from requests that were sent before anything was learned, in any order.
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
            let seconds = learner.seconds(at);
            learner.log.push(seconds);
            learner.last_sent = learner.last_sent.max(seconds);
        }
        learner
    }

    /// Notes that a request was not sent after all.
    pub fn withdrawn(&mut self, sent: Sent, now: BootInstant) {
        self.rebase(now);
        let sent_at = self.seconds(sent.at);
        self.log.forget(sent_at);
        if self.last_sent <= sent_at {
            self.last_sent = self.log.nth_last(1.0).unwrap_or(LONG_AGO);
        }
        self.landed(sent);
    }

    /// Returns whether nothing is confirmed and nothing searched for.
    #[must_use]
    pub fn knows_nothing(&self) -> bool {
        self.search.is_none() && self.confirmed.iter().all(Option::is_none)
    }

    /// Returns until when no request goes after refusals; `now` if that is over.
    #[must_use]
    pub fn not_before(&self, now: BootInstant) -> BootInstant {
        let own = if self.not_before > LONG_AGO {
            self.instant(self.not_before, now)
        } else {
            now
        };
        own.max(self.retry_end).max(now)
    }

    /// Ends the pause after refusals: the next request may go at once, and is a test.
    pub fn end_pause(&mut self) {
        self.not_before = LONG_AGO;
        self.retry_end = BootInstant::ZERO;
    }

    /// Returns the distance between requests at the rate that is believed in.
    #[must_use]
    pub fn distance(&self) -> Duration {
        let round_trip = f64::from(self.round_trip);
        let confirmed = (self.confirmed.iter().flatten()).map(|limit| limit.rate(round_trip));
        let searched = self.search.as_ref().map(|search| match search.window() {
            Some((n, window)) => n / window,
            None => f64::from(search.rate),
        });
        let lowest = confirmed.chain(searched).fold(f64::MAX, f64::min);
        let rate = if lowest < f64::MAX {
            lowest
        } else {
            f64::from(self.start_rate)
        };
        Duration::from_secs_f64(1.0 / rate.clamp(0.001, 1_000.0))
    }

    /// Returns the confirmed window that allows least, or one request in the distance that is
    /// believed in.
    pub(crate) fn tightest(&self) -> (u32, Duration) {
        let windows = self.confirmed.iter().flatten().filter_map(|limit| {
            let window = limit.window();
            (window > 0.0).then(|| (limit.n() / window, limit.amount.round() as u32, window))
        });
        windows.min_by(|a, b| a.0.total_cmp(&b.0)).map_or_else(
            || (1, self.distance()),
            |(_, n, window)| (n.max(1), Duration::from_secs_f64(window)),
        )
    }

    /// Returns the shortest time that an answer took.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        Duration::from_secs_f32(self.round_trip.clamp(0.0, 60.0))
    }

    /// Goes on after a reboot: what was on its way is lost, and instants move to the new clock.
    pub fn after_reboot(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        self.origin = self.origin.map(shift);
        self.retry_end = shift(self.retry_end);
        self.in_flight.land_all();
        self.open_bodies = 0;
        self.testing = None;
        self.doubtful = None;
    }

    /// Returns when the next request may go.
    #[must_use]
    pub fn next(&self, bounds: &Bounds, now: BootInstant) -> Next {
        let seconds = self.seconds(now);
        let slowest = bounds.slowest.as_secs_f64();
        let lost = self.last_sent + UNANSWERED_TIMEOUT_S;
        let at = match self.allowed(seconds) {
            Allowed::AfterAnswer if seconds < lost => {
                let at_latest = self.instant(lost, now).max(self.retry_end);
                return Next::AfterAnswer { at_latest };
            }
            Allowed::AfterAnswer => lost,
            Allowed::At(at) => at,
        };
        let floor = self.last_sent + slowest.max(self.longest_window(slowest));
        let ceiling = bounds.up_to.map_or(LONG_AGO, |window| {
            self.last_sent + window.per.as_secs_f64() / f64::from(window.limit.get())
        });
        let at = self.instant(at.min(floor).max(ceiling), now);
        Next::At(at.max(self.retry_end))
    }

    /// Notes that a request goes now.
    pub fn sent(&mut self, bounds: &Bounds, now: BootInstant) -> Sent {
        self.rebase(now);
        let seconds = self.seconds(now);
        let due = match self.next(bounds, now) {
            Next::At(at) => self.seconds(at),
            Next::AfterAnswer { .. } => seconds,
        };
        let slack = (0.25 * (due - self.last_sent)).clamp(0.02, 1.0);
        let purpose = if self.is_probe(seconds) {
            Purpose::Probe
        } else if seconds > due + slack && self.last_sent > LONG_AGO {
            Purpose::AppLimited
        } else {
            Purpose::Paced
        };
        let others = self.in_flight.send();
        self.log.push(seconds);
        self.last_sent = self.last_sent.max(seconds);
        Sent {
            at: now,
            others: Some(others),
            purpose,
        }
    }

    /// Takes in the answer to a request. `jitter_sample` lies between zero and one.
    pub fn answered(&mut self, sent: Sent, now: BootInstant, answer: Answer, jitter_sample: f64) {
        self.landed(sent);
        self.take_in(sent, now, answer, jitter_sample);
    }

    /// Notes that a request has ended without an answer.
    pub fn landed(&mut self, sent: Sent) {
        if sent.others.is_some() {
            self.in_flight.answer();
        }
    }

    /// Takes in what the headers of an answer say, before its body has ended. Its body counts as
    /// one request at once, and keeps no other one waiting for an answer.
    pub fn heard(&mut self, sent: Sent, now: BootInstant, answer: Answer) {
        if sent.others.is_some() {
            self.open_bodies = self.open_bodies.saturating_add(1);
        }
        self.take_in(sent, now, answer, 0.5);
    }

    /// Notes that a body has ended whose headers were taken in.
    pub fn body_ended(&mut self, sent: Sent) {
        if sent.others.is_some() {
            self.open_bodies = self.open_bodies.saturating_sub(1);
        }
        self.landed(sent);
    }

    fn take_in(&mut self, sent: Sent, now: BootInstant, answer: Answer, jitter_sample: f64) {
        self.rebase(now);
        let seconds = self.seconds(now);
        let sent_at = self.seconds(sent.at);
        match answer {
            Answer::Served => {
                self.raise(sent, sent_at, seconds);
                self.resolve_doubt(sent_at, seconds);
                self.admitted(sent, sent_at, seconds);
            }
            Answer::Neutral => {
                // Nor does it show that a confirmed limit could be higher.
                let purpose = Purpose::AppLimited;
                self.admitted(Sent { purpose, ..sent }, sent_at, seconds);
            }
            Answer::Throttled { retry_after } => {
                if let Some(end) = retry_after {
                    self.retry_end = self.retry_end.max(end + RETRY_GUARD);
                }
                self.throttled(sent, sent_at, seconds, retry_after);
            }
            Answer::Outage => self.outage(seconds, jitter_sample),
            Answer::Unavailable => self.doubt(sent, seconds, jitter_sample),
            // A test goes on until the host serves again.
            Answer::Other => {}
        }
    }

    /// Returns what is confirmed, as [`Confirmed`] limits that write themselves in words.
    pub fn confirmed(&self) -> impl Iterator<Item = &Confirmed> {
        self.confirmed.iter().flatten()
    }

    /// Returns whether a search is under way.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Raises the rate of a start or search after a request that was served.
    fn raise(&mut self, sent: Sent, sent_at: f64, now: f64) {
        self.served = self.served.saturating_add(1);
        if sent.purpose != Purpose::AppLimited {
            let first = self.last_served <= LONG_AGO;
            let passed = if first { 0.0 } else { now - self.last_served };
            let passed = passed.clamp(0.0, 0.5) as f32;
            if let Some(search) = self.search.as_mut().filter(|_| sent_at >= self.epoch) {
                search.ramp(f64::from(passed));
            }
            let slower = (self.start_rate / FAST).max(1.0);
            self.start_rate = (self.start_rate * (passed / slower).exp2()).min(2_000.0);
        }
        self.last_served = now;
    }

    /// Takes in that the host admitted a request.
    fn admitted(&mut self, sent: Sent, sent_at: f64, now: f64) {
        let round_trip = (now - sent_at) as f32;
        if self.round_trip == 0.0 || round_trip < self.round_trip {
            self.round_trip = round_trip;
        }
        self.resume(sent_at);
        if sent_at < self.epoch {
            return;
        }
        if self.resumed.is_none() {
            self.resumed = Some(sent_at);
            if let Some(search) = &mut self.search {
                search.row_ended(&self.log, sent_at, self.epoch);
            }
            self.learn_ban(sent_at);
            self.probe.resume(now);
        }
        self.refusals_in_row = 0;
        if let Some(others) = sent.others {
            self.in_flight.admitted(others);
        }
        if let Some(search) = &mut self.search {
            let before = search.window();
            search.admitted(&self.log, sent_at);
            if search.window() != before {
                self.search_moved = now;
            }
            self.settle_distance(sent_at, now);
            self.settle_search(now);
        } else if sent.purpose == Purpose::Probe {
            self.probe_admitted(sent, sent_at, now);
        }
    }

    /// A host that is down is asked again after a fifth of the time that it has been down.
    fn outage(&mut self, now: f64, jitter_sample: f64) {
        let since = *self.outage_since.get_or_insert(now);
        self.pause(now - since, OUTAGE_PAUSE, now, jitter_sample);
    }

    /// Sends nothing for a fifth of the time that a host has been down, within bounds, and then one
    /// request at a time.
    fn pause(&mut self, down: f64, (least, most): (f64, f64), now: f64, jitter_sample: f64) {
        let wait = (0.2 * down).clamp(least, most);
        let jitter = 0.9 + 0.2 * jitter_sample.clamp(0.0, 1.0);
        self.not_before = self.not_before.max(now + wait * jitter);
        self.testing = Some(now);
    }

    /// Ends the test of a host, if the admitted request was part of it.
    fn resume(&mut self, sent_at: f64) {
        if self.testing.is_some_and(|since| since <= sent_at) {
            self.testing = None;
            self.outage_since = None;
        }
    }
}
