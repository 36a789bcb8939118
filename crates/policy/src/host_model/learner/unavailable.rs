//! The meaning of a status 503 for limits: the host is down, or refuses a rate, as nginx
//! `limit_req` does.
//!
//! The next responses of the host show which. If the host serves a request that was sent a little
//! later, the host is up. The 503 then counts as a refusal at the instant at which it happened.
//! Until then, one request at a time goes after a short pause.

use super::response::PauseBounds;
use super::units::{LearnerInstant, Seconds};
use super::{Learner, SERVED_WITHIN, SentRequest};

/// The pause after a doubtful response.
const DOUBTFUL_PAUSE: PauseBounds = PauseBounds {
    least: Seconds(0.5),
    most: Seconds(60.0),
};

impl Learner {
    /// Handles a response that may be a refusal.
    pub(super) fn doubt(&mut self, sent: SentRequest, now: LearnerInstant, jitter_sample: f64) {
        let sent_at = self.learner_instant(sent.at);
        // Neither a host that is down nor a host that refuses has counted the request.
        self.log.forget(sent_at);
        if self.last_refusal.is_after(sent_at) {
            return;
        }
        let is_long_ago = |pause_end| sent_at > pause_end + DOUBTFUL_PAUSE.most;
        if self.not_before.is_none_or(is_long_ago) {
            // The earlier outage has ended, and this is another one.
            self.outage.doubtful = None;
        }
        let first = *self.outage.doubtful.get_or_insert(sent);
        let since = self.learner_instant(first.at);
        self.pause(now - since, DOUBTFUL_PAUSE, now, jitter_sample);
    }

    /// Classifies an earlier doubtful response as a refusal or an outage, when the host serves a
    /// request.
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
            // The host was down, and is up again.
            self.not_before = self.not_before.map(|pause_end| pause_end.min(now));
        }
    }
}
