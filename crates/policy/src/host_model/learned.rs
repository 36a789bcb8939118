//! The limits that a site has learned of its host: the learner, and the requests in flight.
//!
//! All processes that share a site share these limits. Learned limits exist from the first refusal
//! on. If the policy allows a search upwards, they exist from the first request on.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::learner::{
    ConfirmedLimit, HostResponse, LearnBounds, Learner, NextRequest, SentRequest,
};
use crate::rate::Window;
use crate::time::BootInstant;

/// The time for which a learned limit applies after the last refusal.
const LIMIT_MEMORY: Duration = Duration::from_secs(7 * 86_400);
/// The time after which a request without a response is dropped, because its process may have
/// ended.
const TRACKED_REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// The shortest wait of a request for the response to another request, before its instant is
/// computed again.
const MIN_ASK_AGAIN_PAUSE: Duration = Duration::from_millis(20);
/// The largest number of requests in flight that are tracked.
const MAX_TRACKED_REQUESTS: usize = 64;

/// The limits that are learned from refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LearnMode {
    /// Limits below the configured ones.
    Tighten,
    /// The rate that the host admits, searched from two requests per second upwards and up to this
    /// [`Window`].
    UpTo(Window),
}

/// The policy by which limits are learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnPolicy {
    /// The limits that are learned.
    pub mode: LearnMode,
    /// The longest distance between requests that a learned limit may require.
    pub slowest: Duration,
}

impl LearnPolicy {
    /// Returns whether limits are learned from the first request on, instead of the first refusal.
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

/// The effect of the headers of a response on other requests and on the learned limits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LearnEffect {
    /// Set if other requests may have waited for these headers.
    pub calls_next: bool,
    /// The [`ConfirmedLimit`] that the headers confirmed.
    pub confirmed: Option<ConfirmedLimit>,
}

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct TrackedRequest {
    id: u64,
    sent: SentRequest,
    /// Set if the headers have arrived, and the learner has used them.
    heard: bool,
}

impl TrackedRequest {
    /// Stops tracking the request, without a further effect on the [`Learner`].
    fn land(&self, learner: &mut Learner) {
        if self.heard {
            learner.body_ended(self.sent);
        } else {
            learner.landed(self.sent);
        }
    }
}

/// The limits that a site has learned of its host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LearnedLimits {
    learner: Learner,
    tracked: Vec<TrackedRequest>,
    /// The instant of the last refusal, or of the first request.
    begun: BootInstant,
}

impl LearnedLimits {
    /// Starts to learn at a first refusal; `sent` lists the requests that were sent before.
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

    /// Returns when a request may be sent, behind `earlier` waiting requests. The result may be too
    /// early, so the request computes its instant again at that time.
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

    /// Records a request that is sent now.
    pub fn sent(&mut self, policy: &LearnPolicy, id: u64, now: BootInstant) {
        let sent = self.learner.sent(&policy.bounds(), now);
        if self.tracked.len() >= MAX_TRACKED_REQUESTS {
            // A request whose headers have arrived teaches nothing more.
            let heard = self.tracked.iter().position(|tracked| tracked.heard);
            let lost = self.tracked.remove(heard.unwrap_or(0));
            lost.land(&mut self.learner);
        }
        let heard = false;
        self.tracked.push(TrackedRequest { id, sent, heard });
    }

    /// Records that a permitted request was not sent.
    pub fn withdrawn(&mut self, id: u64, now: BootInstant) {
        if let Some(tracked) = self.land(id) {
            self.learner.withdrawn(tracked.sent, now);
        }
    }

    /// Records that a request ended without a response from which limits can be learned.
    pub fn dropped(&mut self, id: u64) {
        if let Some(tracked) = self.land(id) {
            tracked.land(&mut self.learner);
        }
    }

    /// Learns from the headers of a [`HostResponse`] whose body is not complete.
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

    /// Learns from the [`HostResponse`] to a request that was permitted at `permitted`. Returns the
    /// limit that the response confirmed, if any.
    pub fn answered(
        &mut self,
        (id, permitted): (u64, BootInstant),
        answer: HostResponse,
        jitter_sample: f64,
        now: BootInstant,
    ) -> Option<ConfirmedLimit> {
        let before = self.confirmed_now();
        // A request from before the first refusal is not tracked; only the instant of its permit is
        // known.
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

    /// Returns the [`ConfirmedLimit`] that was confirmed since `before` was read, if any.
    fn confirmed_since(&self, before: &[ConfirmedLimit]) -> Option<ConfirmedLimit> {
        let is_new = |limit: &&ConfirmedLimit| !before.iter().any(|other| other.is_same_as(limit));
        self.learner.confirmed().find(is_new).copied()
    }

    /// Drops requests whose responses are overdue.
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

    /// Ends the pause after refusals, as an operator requests.
    pub fn end_pause(&mut self) {
        self.learner.end_pause();
    }

    /// Returns whether the learned limits have expired.
    #[must_use]
    pub fn is_over(&self, now: BootInstant) -> bool {
        self.begun + LIMIT_MEMORY <= now
    }

    /// Returns every [`ConfirmedLimit`].
    pub fn limits(&self) -> impl Iterator<Item = &ConfirmedLimit> {
        self.learner.confirmed()
    }

    /// Returns whether a search is under way.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.learner.is_searching()
    }

    /// Returns the instant until which refusals stop all requests.
    #[must_use]
    pub fn not_before(&self, now: BootInstant) -> BootInstant {
        self.learner.not_before(now)
    }

    /// Returns the tightest confirmed window: its number of requests and its length. Without a
    /// confirmed window, returns one request in the current distance between requests.
    fn tightest(&self) -> (u32, Duration) {
        self.learner.tightest()
    }

    /// Returns the tightest limit, as a [`Window`].
    pub(crate) fn window(&self) -> Window {
        let (count, length) = self.tightest();
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        Window::new(
            NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN),
            Duration::from_millis((micros / 1_000).max(1)),
        )
    }

    /// Moves every instant to the clock of the current boot.
    pub fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        self.begun = shift(self.begun);
        // Requests in flight were lost with the machine.
        self.tracked.clear();
        self.learner.after_reboot(shift);
    }

    fn land(&mut self, id: u64) -> Option<TrackedRequest> {
        let index = self.tracked.iter().position(|tracked| tracked.id == id)?;
        Some(self.tracked.remove(index))
    }
}
