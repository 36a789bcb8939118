//! Declared quotas: what the rate headers of a host leave for requests, and when the next may go.
//!
//! A site keeps the quotas by lane, the name of the role or kind of request that receives them: an
//! exhausted search says nothing about downloads. All processes that share a site share this: each
//! permit is counted from the statement on, so that together they do not spend more than is left.
//! The state is bounded, and exists only where a host declares something.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rate::Window;
use crate::rate_headers::{RateHeaderReading, Unit};
use crate::time::BootInstant;
use crate::windows::Windows;

mod quota;

use quota::{QUOTA_MEMORY, TrackedQuota};

/// The most lanes of a site that keep quotas: the one that heard from its host longest ago goes.
pub const MAX_LANES: usize = 4;
/// The most quotas of a lane. Those that were stated longest ago go.
pub const MAX_QUOTAS_PER_LANE: usize = 4;
/// The number of permits that are remembered whose answers have not come.
const MAX_PERMITS_IN_FLIGHT: usize = 64;

/// The quotas that the headers of one answer declare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaStatement {
    /// The headers as read.
    pub reading: RateHeaderReading,
    /// The Retry-After of the same answer, which takes precedence over a reset.
    pub retry_after: Option<Duration>,
    /// The answer refuses the request: the quota did not allow it.
    pub is_refusal: bool,
    /// The reason is that the quota of that kind of request is spent for long.
    pub is_spent_kind: bool,
}

/// The effect of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaEffect {
    /// Waiting requests may go earlier than they were promised.
    pub calls_next: bool,
    /// The next request of the lane is held back.
    pub holds: bool,
}

/// The instants at which a request may go by the quotas of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaInstants {
    /// So that what is left lasts evenly until the reset.
    pub paced: BootInstant,
    /// As soon as anything is left.
    pub earliest: BootInstant,
    /// The limit that holds it back, as a window.
    pub window: Option<Window>,
}

/// The needs of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuotaNeed<'a> {
    /// How many waiting requests come before it.
    pub earlier: u32,
    /// How many requests its caller still has, itself included; zero if that is not known.
    pub backlog: u32,
    /// What the request weighs.
    pub weight: u32,
    /// The windows that hold for it, those that the host states among them.
    pub windows: Option<&'a Windows>,
}

/// The quotas of a site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quotas {
    lanes: Vec<LaneQuotas>,
}

/// The quotas of one role or kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneQuotas {
    lane: Box<str>,
    quotas: Vec<TrackedQuota>,
    /// Permits whose answers have not come, in their order.
    in_flight: Vec<InFlightPermit>,
    concurrency: Option<NonZeroU32>,
    /// When the host last stated how many requests at once it wants.
    concurrency_stated: BootInstant,
    /// What a request of weight one costs in credits, as the host states with its answers.
    credits: Option<u32>,
    malformed: u32,
    stated: BootInstant,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct InFlightPermit {
    id: u64,
    cost: QuotaCost,
}

/// The amounts that a request takes of quotas in each unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct QuotaCost {
    requests: u32,
    credits: u32,
    /// The number of bytes that the answer was expected to have.
    bytes: u32,
}

impl QuotaCost {
    /// Returns what a request takes of a quota in this unit.
    fn of(self, unit: Unit) -> u32 {
        match unit {
            Unit::Requests => self.requests,
            Unit::Credits => self.credits,
            // What an answer takes is known when it has come.
            Unit::ContentBytes | Unit::ConcurrentRequests | Unit::Other => 0,
        }
    }
}

impl Quotas {
    /// Returns the quotas of a lane.
    #[must_use]
    pub fn of(&self, lane: &str) -> Option<&LaneQuotas> {
        self.lanes.iter().find(|own| &*own.lane == lane)
    }

    /// Returns the quotas by lane.
    pub fn lanes(&self) -> impl Iterator<Item = &LaneQuotas> {
        self.lanes.iter()
    }

    fn of_mut(&mut self, lane: &str) -> Option<&mut LaneQuotas> {
        self.lanes.iter_mut().find(|own| &*own.lane == lane)
    }

    /// Takes in what the answer to a request declares, which was permitted under an id at an
    /// instant.
    pub fn declare(
        &mut self,
        lane: &str,
        permit: (u64, BootInstant),
        statement: &QuotaStatement,
        now: BootInstant,
    ) -> QuotaEffect {
        self.advance(now);
        if self.of(lane).is_none() {
            if self.lanes.len() >= MAX_LANES
                && let Some(oldest) = (0..self.lanes.len()).min_by_key(|i| self.lanes[*i].stated)
            {
                self.lanes.remove(oldest);
            }
            self.lanes.push(LaneQuotas::new(lane));
        }
        let found = self.of_mut(lane);
        found.map_or_else(QuotaEffect::default, |own| {
            own.declare(permit, statement, now)
        })
    }

    /// Returns when a request of a lane may go; `None` where its quotas say nothing.
    #[must_use]
    pub fn next(&self, lane: &str, need: QuotaNeed<'_>, now: BootInstant) -> Option<QuotaInstants> {
        self.of(lane)?.next(need, now)
    }

    /// Counts a permit.
    pub fn spend(&mut self, lane: &str, id: u64, weight: u32, now: BootInstant) {
        let Some(own) = self.of_mut(lane) else {
            return;
        };
        let cost = own.cost_of(weight);
        for quota in &mut own.quotas {
            quota.spend(cost, now);
        }
        if own.in_flight.len() >= MAX_PERMITS_IN_FLIGHT {
            own.in_flight.remove(0);
        }
        own.in_flight.push(InFlightPermit { id, cost });
    }

    /// Counts a permit no longer: its request was not sent.
    pub fn take_back(&mut self, lane: &str, id: u64) {
        let Some(own) = self.of_mut(lane) else {
            return;
        };
        if let Some(index) = own.in_flight.iter().position(|other| other.id == id) {
            let InFlightPermit { cost, .. } = own.in_flight.remove(index);
            for quota in &mut own.quotas {
                quota.take_back(cost);
            }
        }
    }

    /// Applies the passage of time: resets come, and old statements are forgotten.
    pub fn advance(&mut self, now: BootInstant) {
        for own in &mut self.lanes {
            own.quotas.retain_mut(|quota| {
                quota.advance(now);
                !quota.is_over(now)
            });
            if own.concurrency_stated + QUOTA_MEMORY <= now {
                own.concurrency = None;
            }
        }
        self.lanes.retain(|own| !own.is_over(now));
    }

    /// Returns whether they have nothing to say any more.
    #[must_use]
    pub fn is_over(&self, now: BootInstant) -> bool {
        self.lanes
            .iter()
            .all(|own| own.is_over(now) || (own.concurrency.is_none() && own.quotas.is_empty()))
    }

    /// Moves every instant to the clock of the current boot of the machine.
    pub fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        for own in &mut self.lanes {
            own.stated = shift(own.stated);
            own.concurrency_stated = shift(own.concurrency_stated);
            // What was in flight was lost with the machine.
            own.in_flight.clear();
            for quota in &mut own.quotas {
                quota.rebase(shift);
            }
        }
    }
}

impl LaneQuotas {
    fn new(lane: &str) -> Self {
        Self {
            lane: lane.into(),
            quotas: Vec::new(),
            in_flight: Vec::new(),
            concurrency: None,
            concurrency_stated: BootInstant::ZERO,
            credits: None,
            malformed: 0,
            stated: BootInstant::ZERO,
        }
    }

    /// Returns what a request of a weight takes. A request that weighs more than one says itself
    /// what it costs; of the others the host does.
    fn cost_of(&self, weight: u32) -> QuotaCost {
        let stated = self.credits.filter(|_| weight == 1);
        let bytes = self.quotas.iter().map(TrackedQuota::answer_bytes).max();
        let has_credits = self.quotas.iter().any(TrackedQuota::is_of_credits);
        QuotaCost {
            // Hosts that count credits without a word write their quotas like those of requests.
            requests: if has_credits { 1 } else { weight.max(1) },
            credits: stated.unwrap_or(weight),
            bytes: bytes.unwrap_or(0),
        }
    }

    /// Returns how many requests the host wants at once at most, where it says so.
    #[must_use]
    pub fn concurrency(&self) -> Option<NonZeroU32> {
        self.concurrency
    }

    /// Returns the name of the role or kind of request.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.lane
    }

    /// Returns what is stated, less what was permitted since. Fields that could not be read are
    /// counted over all answers.
    #[must_use]
    pub fn as_of(&self, now: BootInstant) -> RateHeaderReading {
        RateHeaderReading {
            quotas: self.quotas.iter().map(|quota| quota.as_of(now)).collect(),
            concurrency: self.concurrency,
            cost: self.credits,
            malformed: self.malformed,
        }
    }

    fn declare(
        &mut self,
        (id, sent): (u64, BootInstant),
        statement: &QuotaStatement,
        now: BootInstant,
    ) -> QuotaEffect {
        let reading = &statement.reading;
        if !reading.quotas.is_empty() {
            self.stated = now;
        }
        self.malformed = self.malformed.saturating_add(reading.malformed);
        if reading.concurrency.is_some() {
            (self.concurrency, self.concurrency_stated) = (reading.concurrency, now);
        }
        // A refused request cost nothing, which says nothing about the next.
        let cost = reading
            .cost
            .filter(|cost| *cost > 0 || !statement.is_refusal);
        self.credits = cost.or(self.credits);
        let later = self.in_flight.iter().position(|other| other.id == id);
        if let Some(index) = later {
            self.in_flight.drain(..=index);
        }
        let mut changed = QuotaEffect::default();
        let counted = reading.quotas.iter().filter(|quota| {
            matches!(
                quota.unit,
                Unit::Requests | Unit::Credits | Unit::ContentBytes
            )
        });
        for quota in counted.take(MAX_QUOTAS_PER_LANE) {
            // The origin counted the requests before this one, and perhaps not those after it.
            let known = self.quotas.iter().find(|known| known.is_of(quota));
            let bytes = known.map_or(0, TrackedQuota::answer_bytes);
            let costs = self.in_flight.iter().map(|other| match quota.unit {
                Unit::ContentBytes => bytes,
                unit => other.cost.of(unit),
            });
            let after = costs.fold(0, u32::saturating_add);
            let report = quota::QuotaReport {
                quota,
                after: later.map(|_| after),
                sent,
                retry_after: statement.retry_after,
                is_refusal: statement.is_refusal,
            };
            if let Some(known) = self.quotas.iter_mut().find(|known| known.is_of(quota)) {
                changed.calls_next |= known.hear(&report, now);
                continue;
            }
            if self.quotas.len() >= MAX_QUOTAS_PER_LANE
                && let Some(oldest) =
                    (0..self.quotas.len()).min_by_key(|i| self.quotas[*i].stated())
            {
                self.quotas.remove(oldest);
            }
            self.quotas.push(TrackedQuota::new(&report, now));
        }
        changed.holds = self.holds(now);
        changed
    }

    /// Returns when a request may go; `None` where the quotas say nothing.
    fn next(&self, need: QuotaNeed<'_>, now: BootInstant) -> Option<QuotaInstants> {
        let cost = self.cost_of(need.weight);
        let quotas = self.quotas.iter().filter(|quota| quota.binds(self.stated));
        let instants = quotas.filter_map(|quota| quota.next(need, cost, now));
        instants.reduce(|one, other| QuotaInstants {
            paced: one.paced.max(other.paced),
            earliest: one.earliest.max(other.earliest),
            window: if other.paced > one.paced {
                other.window
            } else {
                one.window
            },
        })
    }

    /// Returns whether the next request, of weight one, is held back.
    fn holds(&self, now: BootInstant) -> bool {
        let need = QuotaNeed {
            weight: 1,
            ..QuotaNeed::default()
        };
        self.next(need, now).is_some_and(|next| next.earliest > now)
    }

    fn is_over(&self, now: BootInstant) -> bool {
        let is_silent = self.concurrency_stated + QUOTA_MEMORY <= now;
        self.quotas.is_empty() && self.stated + QUOTA_MEMORY <= now && is_silent
    }
}
