//! The circuit breaker of a host or resolver: when it opens, admits probes and closes.
//!
//! States: `Closed -> Open { until, reason } -> HalfOpen { leases }`. A block by a server or an
//! operator exists beside these states. A blocked host is reported as open, with the reason of the
//! block, and is half-open when the block ends. An open breaker becomes half-open by the passage of
//! time alone. A result counts only in the generation in which its request was admitted. Requests
//! from before an open or a block therefore neither close nor lengthen it. `early` schedules the
//! probes of an outage.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::role::Role;
use crate::time::BootInstant;

mod early;
mod lease;
mod policy;
mod settle;
mod state;
mod trip;

pub use policy::{BreakerPolicy, RollingWindow};
pub use settle::Settlement;
pub use state::{BreakerAdmission, BreakerState, OpenReason, Transition};
use trip::{FailureHistory, TripState};

/// The time for which failures are kept for a host without requests.
const FAILURE_MEMORY: Duration = Duration::from_secs(3_600);

/// The state of one breaker. Without failures the state takes a few machine words; further data is
/// allocated at the first failure.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Breaker {
    generation: u32,
    failures: u32,
    past: Option<Box<FailureHistory>>,
    trip: Option<Box<TripState>>,
}

impl Breaker {
    /// Returns the generation, which increases when an open or a block begins, and when a probe
    /// fails.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns whether the breaker is open, blocked or half-open.
    #[inline]
    #[must_use]
    pub fn has_tripped(&self) -> bool {
        self.trip.is_some()
    }

    /// Returns the number of failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the [`BreakerState`] at `now`.
    #[must_use]
    pub fn state(&self, now: BootInstant) -> BreakerState {
        match &self.trip {
            None => BreakerState::Closed,
            Some(trip) if trip.until() > now => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// Returns the end and the [`OpenReason`] of the open at `now`, if any.
    #[must_use]
    pub fn open_until(&self, now: BootInstant) -> Option<(BootInstant, &OpenReason)> {
        let trip = self.trip.as_deref()?;
        (trip.until() > now).then(|| (trip.until(), trip.reason()))
    }

    /// Returns whether the state can be dropped: the breaker is closed without failures, or was
    /// unused for an hour.
    #[must_use]
    pub fn is_idle(&self, now: BootInstant) -> bool {
        match &self.trip {
            None => self
                .past
                .as_ref()
                .is_none_or(|past| past.failed_at + FAILURE_MEMORY <= now),
            Some(trip) => trip.until() + FAILURE_MEMORY <= now,
        }
    }

    /// Applies the passage of time: an open becomes half-open at its end.
    #[inline]
    pub fn advance(&mut self, now: BootInstant) -> Option<Transition> {
        let trip = self.trip.as_deref_mut()?;
        if trip.half_open {
            trip.leases.retain(|lease| lease.expires > now);
            return None;
        }
        if trip.until() > now {
            return None;
        }
        trip.half_open = true;
        trip.block = None;
        Some(Transition {
            from: BreakerState::Open,
            to: BreakerState::HalfOpen,
            fail_count: self.failures,
            reset: None,
            reason: None,
        })
    }

    /// Decides at `now` about a request with a [`Role`]. The state does not change;
    /// [`Breaker::lease`] takes the lease of a probe.
    #[inline]
    #[must_use]
    pub fn admit(
        &self,
        policy: &BreakerPolicy,
        role: Role,
        held: Option<u64>,
        now: BootInstant,
    ) -> BreakerAdmission {
        let Some(trip) = self.trip.as_deref() else {
            return BreakerAdmission::Permit;
        };
        if trip.until() > now {
            return BreakerAdmission::Refused {
                until: trip.until(),
                reason: trip.reason().clone(),
                probing: false,
            };
        }
        let is_early = self.probes_early(policy, now);
        let most = policy.trial_calls[role.index()] as usize;
        let most = if is_early { most.min(1) } else { most };
        // All roles together have one early probe in flight at a time.
        let mut out = trip
            .leases
            .iter()
            .filter(|lease| (is_early || lease.role == role) && lease.expires > now);
        if let Some(id) = held
            && out.clone().any(|lease| lease.id == id)
        {
            return BreakerAdmission::Probe {
                jitter: Duration::ZERO,
            };
        }
        if out.clone().count() < most {
            return BreakerAdmission::Probe {
                jitter: policy.jitter,
            };
        }
        let until = out.next().map_or(now + policy.reset, |lease| lease.expires);
        BreakerAdmission::Refused {
            until,
            reason: trip.reason.clone(),
            probing: true,
        }
    }

    /// Returns a [`Breaker`] without history, for a role that gets its own breaker. A current block
    /// also applies to the new breaker.
    #[must_use]
    pub fn with_same_block(&self) -> Self {
        let trip = self
            .trip
            .as_deref()
            .and_then(|trip| trip.block.as_ref())
            .map(|block| {
                let (until, reason) = (BootInstant::ZERO, block.reason.clone());
                Box::new(TripState::new(until, reason, Some(block.clone())))
            });
        Self {
            trip,
            ..Self::default()
        }
    }

    /// Records that `who` opened the breaker, unless an opener is recorded already.
    pub fn sign(&mut self, who: &Arc<str>) {
        if let Some(trip) = self.trip.as_deref_mut() {
            trip.by.get_or_insert_with(|| Arc::clone(who));
        }
    }

    /// Returns the process or operator that opened the breaker, if recorded.
    #[must_use]
    pub fn opened_by(&self) -> Option<&Arc<str>> {
        self.trip.as_deref()?.by.as_ref()
    }

    /// Returns how many failures a [`RollingWindow`] of the length `within` counts at `now`.
    #[must_use]
    pub fn recent_failures(&self, within: Duration, now: BootInstant) -> usize {
        self.past
            .iter()
            .flat_map(|past| &past.recent)
            .filter(|failure| **failure + within > now)
            .count()
    }

    /// Moves every instant to another clock.
    pub fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        if let Some(trip) = self.trip.as_deref_mut() {
            trip.open_until = shift(trip.open_until);
            if let Some(block) = &mut trip.block {
                block.until = shift(block.until);
            }
            trip.leases.clear();
        }
        if let Some(past) = self.past.as_deref_mut() {
            for instant in [
                &mut past.turned_at,
                &mut past.failed_at,
                &mut past.throttled_at,
            ]
            .into_iter()
            .chain(&mut past.recent)
            .filter(|instant| **instant > BootInstant::ZERO)
            {
                *instant = shift(*instant);
            }
        }
    }
}
