//! The limits that a site has learned of its host: the learner, and the requests on their way.
//!
//! All processes that share a site share this. It exists only where there is something to learn:
//! from the first refusal on, or from the first request on where a search upwards is allowed.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::learner::{
    ConfirmedLimit, HostResponse, LearnBounds, Learner, NextRequest, SentRequest,
};
use crate::rate::Window;
use crate::time::BootInstant;

/// The time for which a limit is believed after the last refusal.
const LIMIT_MEMORY: Duration = Duration::from_secs(7 * 86_400);
/// After this time the record of a request without an answer is dropped: its process may be gone.
const TRACKED_REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// The least time after which a request asks again that waits for the answer to another.
const MIN_ASK_AGAIN_PAUSE: Duration = Duration::from_millis(20);
/// The number of requests on their way that are remembered.
const MAX_TRACKED_REQUESTS: usize = 64;

/// The limits that are learned from refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LearnMode {
    /// Limits below the configured ones.
    Tighten,
    /// Whatever the host admits, from two per second upwards, and never more than this.
    UpTo(Window),
}

/// The way in which limits are learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnPolicy {
    /// The limits that are learned.
    pub mode: LearnMode,
    /// No learned limit asks for a longer distance between requests.
    pub slowest: Duration,
}

impl LearnPolicy {
    /// Returns whether limits are learned from the first request on.
    #[inline]
    #[must_use]
    pub fn searches_upwards(&self) -> bool {
        matches!(self.mode, LearnMode::UpTo(_))
    }

    fn bounds(&self) -> LearnBounds {
        LearnBounds {
            slowest: self.slowest,
            up_to: match self.mode {
                LearnMode::Tighten => None,
                LearnMode::UpTo(window) => Some(window),
            },
        }
    }
}

/// The effect of the headers of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LearnEffect {
    /// Other requests may have waited for them.
    pub calls_next: bool,
    /// The limit that they confirmed.
    pub confirmed: Option<ConfirmedLimit>,
}

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct TrackedRequest {
    id: u64,
    sent: SentRequest,
    /// Its headers have come, and taught what there was to learn.
    heard: bool,
}

impl TrackedRequest {
    /// Ends it without an answer that teaches anything.
    fn land(&self, learner: &mut Learner) {
        if self.heard {
            learner.body_ended(self.sent);
        } else {
            learner.landed(self.sent);
        }
    }
}

/// The limits that a site has learned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LearnedLimits {
    learner: Learner,
    tracked: Vec<TrackedRequest>,
    /// The last refusal, or the first request.
    begun: BootInstant,
}

impl LearnedLimits {
    /// Starts to learn at a first refusal, from the requests that were sent before it.
    #[must_use]
    pub fn from_history(sent: impl Iterator<Item = BootInstant>, now: BootInstant) -> Self {
        Self {
            learner: Learner::from_history(sent),
            tracked: Vec::new(),
            begun: now,
        }
    }

    /// Starts to learn with a first request.
    #[must_use]
    pub fn from_nothing(now: BootInstant) -> Self {
        Self {
            begun: now,
            ..Self::default()
        }
    }

    /// Returns when a request may go that has so many waiting requests before it. It may be later:
    /// a request asks again at that instant.
    #[must_use]
    pub fn next(&self, policy: &LearnPolicy, earlier: u32, now: BootInstant) -> BootInstant {
        if policy.mode == LearnMode::Tighten && self.learner.knows_nothing() {
            return self.learner.not_before(now);
        }
        let at = match self.learner.next(&policy.bounds(), now) {
            NextRequest::At(at) => at.max(now),
            NextRequest::AfterResponse { at_latest } => {
                let pause = (self.learner.round_trip() / 2).max(MIN_ASK_AGAIN_PAUSE);
                (now + pause).min(at_latest)
            }
        };
        if earlier == 0 {
            return at;
        }
        at + self.learner.distance().min(policy.slowest) * earlier
    }

    /// Notes that a request goes now.
    pub fn sent(&mut self, policy: &LearnPolicy, id: u64, now: BootInstant) {
        let sent = self.learner.sent(&policy.bounds(), now);
        if self.tracked.len() >= MAX_TRACKED_REQUESTS {
            // One whose headers have come teaches nothing more.
            let heard = self.tracked.iter().position(|tracked| tracked.heard);
            let lost = self.tracked.remove(heard.unwrap_or(0));
            lost.land(&mut self.learner);
        }
        let heard = false;
        self.tracked.push(TrackedRequest { id, sent, heard });
    }

    /// Notes that a request was not sent after all.
    pub fn withdrawn(&mut self, id: u64, now: BootInstant) {
        if let Some(tracked) = self.land(id) {
            self.learner.withdrawn(tracked.sent, now);
        }
    }

    /// Notes that a request ended without an answer that says anything.
    pub fn dropped(&mut self, id: u64) {
        if let Some(tracked) = self.land(id) {
            tracked.land(&mut self.learner);
        }
    }

    /// Takes in the headers of an answer whose body is still to come.
    pub fn heard(&mut self, id: u64, answer: HostResponse, now: BootInstant) -> LearnEffect {
        let is_awaited = |tracked: &TrackedRequest| tracked.id == id && !tracked.heard;
        let Some(index) = self.tracked.iter().position(is_awaited) else {
            return LearnEffect::default();
        };
        let before = self.confirmed_now();
        let tracked = &mut self.tracked[index];
        tracked.heard = true;
        self.learner.heard(tracked.sent, now, answer);
        LearnEffect {
            calls_next: true,
            confirmed: self.confirmed_since(&before),
        }
    }

    /// Takes in the answer to a request that was permitted at an instant. Returns the limit that it
    /// confirmed, if it did.
    pub fn answered(
        &mut self,
        (id, permitted): (u64, BootInstant),
        answer: HostResponse,
        jitter_sample: f64,
        now: BootInstant,
    ) -> Option<ConfirmedLimit> {
        let before = self.confirmed_now();
        // A request that was sent before anything was learned is known by its permit.
        let known = self.land(id);
        if let Some(heard) = known.filter(|tracked| tracked.heard) {
            heard.land(&mut self.learner);
            return None;
        }
        let sent = known.map_or_else(
            || SentRequest::before_learning(permitted),
            |known| known.sent,
        );
        if matches!(answer, HostResponse::Throttled { .. }) {
            self.begun = now;
        }
        if known.is_some() || matches!(answer, HostResponse::Throttled { .. }) {
            self.learner.answered(sent, now, answer, jitter_sample);
        }
        self.confirmed_since(&before)
    }

    fn confirmed_now(&self) -> Vec<ConfirmedLimit> {
        self.learner.confirmed().copied().collect()
    }

    /// Returns the limit that is confirmed and was not.
    fn confirmed_since(&self, before: &[ConfirmedLimit]) -> Option<ConfirmedLimit> {
        let is_new = |limit: &&ConfirmedLimit| !before.iter().any(|other| other.is_same_as(limit));
        self.learner.confirmed().find(is_new).copied()
    }

    /// Gives up requests whose answers are overdue.
    pub fn expire(&mut self, now: BootInstant) {
        let learner = &mut self.learner;
        self.tracked.retain(|tracked| {
            let is_lost = tracked.sent.at() + TRACKED_REQUEST_TIMEOUT <= now;
            if is_lost {
                tracked.land(learner);
            }
            !is_lost
        });
    }

    /// Ends the pause after refusals, on an operator's word.
    pub fn end_pause(&mut self) {
        self.learner.end_pause();
    }

    /// Returns whether it has nothing to say any more.
    #[must_use]
    pub fn is_over(&self, now: BootInstant) -> bool {
        self.begun + LIMIT_MEMORY <= now
    }

    /// Returns the confirmed limits.
    pub fn limits(&self) -> impl Iterator<Item = &ConfirmedLimit> {
        self.learner.confirmed()
    }

    /// Returns whether a search is under way.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.learner.is_searching()
    }

    /// Returns until when no request goes, on account of refusals.
    #[must_use]
    pub fn not_before(&self, now: BootInstant) -> BootInstant {
        self.learner.not_before(now)
    }

    /// Returns the confirmed limit that allows least, or the distance that is believed in.
    fn tightest(&self) -> (u32, Duration) {
        self.learner.tightest()
    }

    /// Returns the limit that allows least, as a window.
    pub(crate) fn window(&self) -> Window {
        let (count, length) = self.tightest();
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        Window::new(
            NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN),
            Duration::from_millis((micros / 1_000).max(1)),
        )
    }

    /// Moves every instant to the clock of the current boot of the machine.
    pub fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        self.begun = shift(self.begun);
        // What is on its way was lost with the machine.
        self.tracked.clear();
        self.learner.after_reboot(shift);
    }

    fn land(&mut self, id: u64) -> Option<TrackedRequest> {
        let index = self.tracked.iter().position(|tracked| tracked.id == id)?;
        Some(self.tracked.remove(index))
    }
}
