//! Instants as seconds after an origin, which moves ahead before ticks run out.

use std::time::Duration;

use super::{LONG_AGO, Learner};
use crate::time::BootInstant;

/// How far an instant may lie from the origin, in seconds.
const LONGEST_REACH: f64 = 200_000.0;

impl Learner {
    /// Returns the seconds since the origin, zero for instants before it.
    pub(super) fn seconds(&self, at: BootInstant) -> f64 {
        let Some(origin) = self.origin else {
            return 0.0;
        };
        at.since(origin).as_secs_f64()
    }

    /// Returns the instant, rounded up to a microsecond.
    pub(super) fn instant(&self, seconds: f64, now: BootInstant) -> BootInstant {
        let Some(origin) = self.origin else {
            return now;
        };
        origin.plus_micros((seconds.max(0.0) * 1e6).ceil() as u64)
    }

    /// Sets the origin, or moves it ahead before ticks run out.
    pub(super) fn rebase(&mut self, now: BootInstant) {
        let Some(origin) = self.origin else {
            self.origin = Some(now);
            return;
        };
        let reach = now.since(origin).as_secs_f64();
        if reach < LONGEST_REACH {
            return;
        }
        let by = reach - 4_000.0;
        self.origin = Some(origin + Duration::from_secs_f64(by.min(1e13)));
        self.log.rebase(by);
        let instants = [
            &mut self.not_before,
            &mut self.last_sent,
            &mut self.epoch,
            &mut self.last_served,
            &mut self.search_moved,
        ];
        for at in instants {
            *at = (*at - by).max(LONG_AGO);
        }
        for at in [&mut self.resumed, &mut self.outage_since, &mut self.testing]
            .into_iter()
            .flatten()
        {
            *at -= by;
        }
        for limit in self.confirmed.iter_mut().flatten() {
            limit.raised_at = (limit.raised_at - by).max(LONG_AGO);
        }
        self.probe.rebase(by);
    }
}
