//! Declared quotas: the limits in the rate headers of a host, and when the next request may be
//! sent.
//!
//! A site keeps quotas by lane, the name of a role or kind of request. An exhausted search quota
//! says nothing about downloads. All processes that share a site share the quotas, and count every
//! permit since the headers, so that together they do not exceed the quota. The state is bounded,
//! and exists only if a host declares a quota.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rate::Window;
use crate::rate_headers::{RateHeaderReading, Unit};
use crate::time::BootInstant;
use crate::windows::Windows;

mod quota;

use quota::{QUOTA_MEMORY, TrackedQuota};

/// The largest number of lanes of a site. The lane with the oldest headers is dropped first.
pub const MAX_LANES: usize = 4;
/// The largest number of quotas of a lane. The quota with the oldest headers is dropped first.
pub const MAX_QUOTAS_PER_LANE: usize = 4;
/// The largest number of permits in flight, without a response, that are tracked.
const MAX_PERMITS_IN_FLIGHT: usize = 64;

/// The quotas that the headers of one response declare.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaStatement {
    /// The rate headers, as parsed.
    pub reading: RateHeaderReading,
    /// The Retry-After of the same response, which takes precedence over a reset.
    pub retry_after: Option<Duration>,
    /// Set if the response refuses the request because of the quota.
    pub is_refusal: bool,
    /// Set if a quota is used up for a long time, so that the refusal concerns only this kind of
    /// request.
    pub is_spent_kind: bool,
}

/// The effect of a [`QuotaStatement`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaEffect {
    /// Set if waiting requests may be sent earlier than expected.
    pub calls_next: bool,
    /// Set if the quota delays the next request of the lane.
    pub holds: bool,
}

/// The instants at which a request may be sent according to the quotas of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaInstants {
    /// The instant at which the request keeps an even distance, so that the remainder lasts until
    /// the reset.
    pub paced: BootInstant,
    /// The first instant at which the quota allows the request, without an even distance.
    pub earliest: BootInstant,
    /// The limit that delays the request, as a [`Window`].
    pub window: Option<Window>,
}

/// The facts about a request from which the quotas of its lane compute its instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuotaNeed<'a> {
    /// The number of waiting requests before this one.
    pub earlier: u32,
    /// The number of requests that the caller still has, this one included; zero if unknown.
    pub backlog: u32,
    /// The weight of the request.
    pub weight: u32,
    /// The [`Windows`] that apply to the request, including those that the host declares.
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
    /// The permits without a response, in their order.
    in_flight: Vec<InFlightPermit>,
    concurrency: Option<NonZeroU32>,
    /// The instant at which the host last declared its limit of concurrent requests.
    concurrency_stated: BootInstant,
    /// The cost of a request of weight one in credits, as responses declare it.
    credits: Option<u32>,
    malformed: u32,
    stated: BootInstant,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct InFlightPermit {
    id: u64,
    cost: QuotaCost,
}

/// The amounts that a request uses of the quotas in each unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct QuotaCost {
    requests: u32,
    credits: u32,
    /// The expected size of the response in bytes.
    bytes: u32,
}

impl QuotaCost {
    /// Returns the amount that a request uses of a quota in a [`Unit`].
    fn of(self, unit: Unit) -> u32 {
        match unit {
            Unit::Requests => self.requests,
            Unit::Credits => self.credits,
            // The size of a response is known only after its arrival.
            Unit::ContentBytes | Unit::ConcurrentRequests | Unit::Other => 0,
        }
    }
}

impl Quotas {
    /// Returns the [`LaneQuotas`] of a lane, if any.
    #[must_use]
    pub fn of(&self, lane: &str) -> Option<&LaneQuotas> {
        self.lanes.iter().find(|own| &*own.lane == lane)
    }

    /// Returns the [`LaneQuotas`] of every lane.
    pub fn lanes(&self) -> impl Iterator<Item = &LaneQuotas> {
        self.lanes.iter()
    }

    fn of_mut(&mut self, lane: &str) -> Option<&mut LaneQuotas> {
        self.lanes.iter_mut().find(|own| &*own.lane == lane)
    }

    /// Applies the quotas that a response declares. `permit` is the id and the instant of the
    /// permit of its request.
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

    /// Returns when a request of a lane may be sent; `None` if its quotas do not limit the request.
    #[must_use]
    pub fn next(&self, lane: &str, need: QuotaNeed<'_>, now: BootInstant) -> Option<QuotaInstants> {
        self.of(lane)?.next(need, now)
    }

    /// Counts a permit in the quotas of a lane.
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

    /// Reverts the cost of a permit whose request was not sent.
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

    /// Applies the passage of time: resets take effect, and outdated headers are dropped.
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

    /// Returns whether all quotas have expired.
    #[must_use]
    pub fn is_over(&self, now: BootInstant) -> bool {
        self.lanes
            .iter()
            .all(|own| own.is_over(now) || (own.concurrency.is_none() && own.quotas.is_empty()))
    }

    /// Moves every instant to the clock of the current boot.
    pub fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        for own in &mut self.lanes {
            own.stated = shift(own.stated);
            own.concurrency_stated = shift(own.concurrency_stated);
            // Requests in flight were lost with the machine.
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

    /// Returns the [`QuotaCost`] of a request. A weight above one is itself the cost in credits;
    /// otherwise the host declares the cost.
    fn cost_of(&self, weight: u32) -> QuotaCost {
        let stated = self.credits.filter(|_| weight == 1);
        let bytes = self.quotas.iter().map(TrackedQuota::answer_bytes).max();
        let has_credits = self.quotas.iter().any(TrackedQuota::is_of_credits);
        QuotaCost {
            // Some hosts count credits without saying so, and write their quotas like those of
            // requests.
            requests: if has_credits { 1 } else { weight.max(1) },
            credits: stated.unwrap_or(weight),
            bytes: bytes.unwrap_or(0),
        }
    }

    /// Returns the largest number of concurrent requests that the host declares, if any.
    #[must_use]
    pub fn concurrency(&self) -> Option<NonZeroU32> {
        self.concurrency
    }

    /// Returns the name of the role or kind of request.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.lane
    }

    /// Returns the declared quotas, less the permits since. The number of unreadable fields covers
    /// all responses.
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
        // A refused request may cost nothing, unlike the next request.
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
            // The origin's count includes the requests before this one, and perhaps some of those
            // after it.
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

    /// Returns when a request may be sent; `None` if the quotas do not limit it.
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

    /// Returns whether the quotas delay the next request of weight one.
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
