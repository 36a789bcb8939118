//! Instants as seconds after an origin, which moves ahead before ticks run out.

use std::time::Duration;

use super::Learner;
use super::units::{LearnerInstant, Seconds, stored_instant};
use crate::time::BootInstant;

/// The distance from the origin at which the origin moves.
const MAX_REACH: Seconds = Seconds(200_000.0);
/// The distance from the origin to the present after a move; it exceeds the longest window.
const KEPT_REACH: Seconds = Seconds(4_000.0);

impl Learner {
    /// Returns an instant on the clock of the learner; the origin for instants before it.
    pub(super) fn learner_instant(&self, at: BootInstant) -> LearnerInstant {
        LearnerInstant(
            self.origin
                .map_or(0.0, |origin| at.since(origin).as_secs_f64()),
        )
    }

    /// Returns an instant on the boot clock, rounded up to a microsecond.
    pub(super) fn boot_instant(&self, at: LearnerInstant, now: BootInstant) -> BootInstant {
        let Some(origin) = self.origin else {
            return now;
        };
        origin.plus_micros((at.0.max(0.0) * 1e6).ceil() as u64)
    }

    /// Sets the origin, or moves it ahead before ticks run out.
    pub(super) fn rebase(&mut self, now: BootInstant) {
        let Some(origin) = self.origin else {
            self.origin = Some(now);
            return;
        };
        let reach = Seconds(now.since(origin).as_secs_f64());
        if reach < MAX_REACH {
            return;
        }
        let by = reach - KEPT_REACH;
        self.origin = Some(origin + Duration::from_secs_f64(by.0.min(1e13)));
        self.log.rebase(by);
        let instants = [
            &mut self.not_before,
            &mut self.last_sent,
            &mut self.last_refusal.at,
            &mut self.start.last_served,
            &mut self.search_moved,
        ];
        let limits = self.confirmed.iter_mut().flatten();
        for at in instants
            .into_iter()
            .chain(limits.map(|limit| &mut limit.raised_at))
        {
            // The stored form cannot represent an earlier instant.
            *at = at
                .map(|at| at - by)
                .filter(|at| at.0 > stored_instant::NEVER);
        }
        let (resumed, since) = (&mut self.last_refusal.resumed, &mut self.outage.since);
        for at in [resumed, since, &mut self.testing, &mut self.probe.next_at] {
            *at = at.map(|at| at - by);
        }
    }
}
