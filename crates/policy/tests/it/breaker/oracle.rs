//! What the description of early probes says, computed without the breaker.

use std::time::Duration;

use docstokg_policy::breaker::{BreakerPolicy, BreakerState, OpenReason, Transition};
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::role::Role;
use docstokg_policy::time::BootInstant;

/// A running outage.
struct Outage {
    began: BootInstant,
    cap: Duration,
    /// When its last request failed.
    failed: BootInstant,
    /// When that was sent; of the first one, when it failed.
    asked: BootInstant,
    probes: Vec<(u64, Role, BootInstant)>,
}

pub(super) struct Oracle {
    policy: BreakerPolicy,
    failures: u32,
    outage: Option<Outage>,
    /// Outages without enough health between them.
    repeated: u32,
    closed: Option<BootInstant>,
    epoch: u64,
    pub(super) outages: u32,
    pub(super) failed_probes: u32,
    pub(super) probes_after_reset: u32,
    pub(super) opens_reported: u32,
    pub(super) failed_probes_reported: u32,
}

impl Oracle {
    pub(super) fn new(policy: &BreakerPolicy) -> Self {
        Self {
            policy: policy.clone(),
            failures: 0,
            outage: None,
            repeated: 0,
            closed: None,
            epoch: 0,
            outages: 0,
            failed_probes: 0,
            probes_after_reset: 0,
            opens_reported: 0,
            failed_probes_reported: 0,
        }
    }

    pub(super) fn is_down(&self) -> bool {
        self.outage.is_some()
    }

    /// Returns whether a request may go; `None` where that is a matter of jitter.
    pub(super) fn may_go(&self, role: Role, now: BootInstant) -> Option<bool> {
        let Some(outage) = &self.outage else {
            return Some(true);
        };
        let wait = (outage.failed.since(outage.began).as_secs_f64() * 0.2)
            .max(1.0)
            .min(outage.cap.as_secs_f64());
        // The wait counts from the last probe on, and half of it from its answer on.
        let has_waited = |share: f64| {
            now.since(outage.asked).as_secs_f64() >= wait * share
                && now.since(outage.failed).as_secs_f64() >= wait * share / 2.0
        };
        if !has_waited(0.9 - 1e-5) {
            return Some(false);
        }
        let most = self.policy.trial_calls[role.index()] as usize;
        let live = outage.probes.iter().filter(|probe| probe.2 > now);
        let free = if now < outage.began + outage.cap {
            most > 0 && live.count() == 0
        } else {
            live.filter(|probe| probe.1 == role).count() < most
        };
        match free {
            true if !has_waited(1.1 + 1e-5) => None,
            free => Some(free),
        }
    }

    /// Notes a request that went, and returns the epoch in which it did.
    pub(super) fn sent(&mut self, id: u64, role: Role, expires: BootInstant) -> u64 {
        if let Some(outage) = &mut self.outage {
            outage.probes.push((id, role, expires));
        }
        self.epoch
    }

    pub(super) fn answered(
        &mut self,
        (id, sent): (u64, BootInstant),
        epoch: u64,
        outcome: AttemptMeaning,
        now: BootInstant,
    ) {
        if epoch != self.epoch {
            return;
        }
        match (&mut self.outage, outcome) {
            (Some(_), AttemptMeaning::Success | AttemptMeaning::Neutral) => {
                self.outage = None;
                self.failures = 0;
                self.closed = Some(now);
            }
            (Some(outage), _) => {
                self.failed_probes += 1;
                self.probes_after_reset += u32::from(now >= outage.began + outage.cap);
                (outage.asked, outage.failed) = (sent, now);
                outage.probes.clear();
                self.epoch += 1;
            }
            (None, AttemptMeaning::Success) => self.failures = 0,
            (None, AttemptMeaning::Neutral) => {}
            (None, _) => {
                self.failures += 1;
                if self.failures >= self.policy.fail_max.get() {
                    self.begin_outage(now);
                }
            }
        }
        if let Some(outage) = &mut self.outage {
            outage.probes.retain(|probe| probe.0 != id);
        }
    }

    fn cap(&self) -> Duration {
        let doubled = self.policy.reset * 2_u32.pow(self.repeated.saturating_sub(1).min(12));
        doubled.min(self.policy.reset_ceiling)
    }

    fn begin_outage(&mut self, now: BootInstant) {
        let healthy = self.closed.map(|closed| now.since(closed));
        if healthy.is_some_and(|healthy| healthy >= self.cap()) {
            self.repeated = 0;
        }
        self.repeated += 1;
        self.outages += 1;
        self.epoch += 1;
        self.outage = Some(Outage {
            began: now,
            cap: self.cap(),
            failed: now,
            asked: now,
            probes: Vec::new(),
        });
    }

    /// Counts a change of state as telemetry does.
    pub(super) fn count(&mut self, change: Option<&Transition>) {
        let Some(change) = change.filter(|change| change.to == BreakerState::Open) else {
            return;
        };
        if change.reason == Some(OpenReason::EarlyProbeFailed) {
            self.failed_probes_reported += 1;
        } else {
            self.opens_reported += 1;
        }
    }
}
