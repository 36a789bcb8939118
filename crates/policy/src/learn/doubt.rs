//! What a 503 means for the limits of a host: it is down, or it refuses what is too fast, as nginx
//! `limit_req` does.
//!
//! What the host does next tells. If it serves a request that was sent a little later, it is up and
//! has refused one too many: that is then taken in as any other refusal, as of the instant at which
//! it happened. Until then one request at a time goes, after a short pause.

use super::{Learner, SERVED_WITHIN, Sent};

/// The pause after a doubtful answer, in seconds, and the longest one of a row of them.
const PAUSE: (f64, f64) = (0.5, 60.0);

impl Learner {
    /// Takes in an answer that may be a refusal.
    pub(super) fn doubt(&mut self, sent: Sent, now: f64, jitter_sample: f64) {
        let sent_at = self.seconds(sent.at);
        // Neither a host that is down nor one that refuses has counted it.
        self.log.forget(sent_at);
        if sent_at < self.epoch {
            return;
        }
        if sent_at > self.not_before + PAUSE.1 {
            // The last one was long ago: this is another outage.
            self.doubtful = None;
        }
        let first = *self.doubtful.get_or_insert(sent);
        let since = self.seconds(first.at);
        self.pause(now - since, PAUSE, now, jitter_sample);
    }

    /// Takes in that the host served a request: what was doubtful before it is told apart.
    pub(super) fn resolve_doubt(&mut self, sent_at: f64, now: f64) {
        let first = self.doubtful.map(|first| (first, self.seconds(first.at)));
        let Some((first, refused_at)) = first.filter(|(_, at)| *at <= sent_at) else {
            return;
        };
        self.doubtful = None;
        if now - refused_at < SERVED_WITHIN.as_secs_f64() {
            self.take_in_refusal(first, refused_at, refused_at, None);
        } else {
            // It was down, and is back.
            self.not_before = self.not_before.min(now);
        }
    }
}
