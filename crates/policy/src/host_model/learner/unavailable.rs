//! The meaning of a 503 for the limits of a host: it is down, or it refuses what is too fast, as
//! nginx `limit_req` does.
//!
//! The next responses of the host tell. If it serves a request that was sent a little later, it is
//! up and has refused one too many: that is then taken in as any other refusal, as of the instant
//! at which it happened. Until then one request at a time goes, after a short pause.

use super::response::PauseBounds;
use super::units::{LearnerInstant, Seconds};
use super::{Learner, SERVED_WITHIN, SentRequest};

/// The pause after a doubtful answer.
const DOUBTFUL_PAUSE: PauseBounds = PauseBounds {
    least: Seconds(0.5),
    most: Seconds(60.0),
};

impl Learner {
    /// Takes in an answer that may be a refusal.
    pub(super) fn doubt(&mut self, sent: SentRequest, now: LearnerInstant, jitter_sample: f64) {
        let sent_at = self.learner_instant(sent.at);
        // Neither a host that is down nor one that refuses has counted it.
        self.log.forget(sent_at);
        if self.last_refusal.is_after(sent_at) {
            return;
        }
        let is_long_ago = |pause_end| sent_at > pause_end + DOUBTFUL_PAUSE.most;
        if self.not_before.is_none_or(is_long_ago) {
            // This is another outage.
            self.outage.doubtful = None;
        }
        let first = *self.outage.doubtful.get_or_insert(sent);
        let since = self.learner_instant(first.at);
        self.pause(now - since, DOUBTFUL_PAUSE, now, jitter_sample);
    }

    /// Takes in that the host served a request: what was doubtful before it is told apart.
    pub(super) fn resolve_doubt(&mut self, sent_at: LearnerInstant, now: LearnerInstant) {
        let doubtful = self.outage.doubtful;
        let first = doubtful.map(|first| (first, self.learner_instant(first.at)));
        let Some((first, refused_at)) = first.filter(|(_, at)| *at <= sent_at) else {
            return;
        };
        self.outage.doubtful = None;
        if now - refused_at < Seconds(SERVED_WITHIN.as_secs_f64()) {
            self.take_in_refusal(first, refused_at, refused_at, None);
        } else {
            // It was down, and is back.
            self.not_before = self.not_before.map(|pause_end| pause_end.min(now));
        }
    }
}
