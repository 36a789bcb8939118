//! The limits of the host itself within a site: the conversion of requests, permits and responses
//! for the [`HostModel`].

use std::sync::Arc;

use super::order::OwnReservation;
use super::{AdmissionRequest, AttemptResult, Permit, Site, latest_of};
use crate::budget::{Budget, WindowFit};
use crate::classify::AttemptMeaning;
use crate::host_model::quotas::{QuotaEffect, QuotaNeed, QuotaStatement};
use crate::host_model::{EventEffect, HostModel, LimitEvent, LimitQuery, SettledRequest};
use crate::time::BootInstant;

impl AdmissionRequest {
    /// Returns the [`LimitQuery`] for the limits of the host, behind `waiting` requests of the
    /// site.
    pub(crate) fn limit_query(&self, waiting: u32) -> LimitQuery<'_> {
        LimitQuery {
            learn: self.policy.learn.as_ref(),
            lane: self.quota_lane.as_deref(),
            need: QuotaNeed {
                // Earlier requests in the queue of this process are included.
                earlier: waiting.saturating_add(self.queue_position.ahead().unwrap_or(0)),
                backlog: self.backlog,
                weight: self.quota_weight(),
                windows: self.costs.first().map(|cost| &*cost.windows),
            },
            latest: BootInstant::FAR,
        }
    }

    /// Returns the weight of the request in declared quotas: its own weight if above one, otherwise
    /// the configured credits.
    fn quota_weight(&self) -> u32 {
        let weights = self.costs.iter().map(|cost| cost.weight);
        match weights.max().unwrap_or(0) {
            1 => self.credits,
            weight => weight,
        }
    }
}

impl LimitEvent {
    /// Returns the event that records a permit.
    #[must_use]
    pub fn permitted(ask: &AdmissionRequest, id: u64) -> Self {
        Self::Permitted {
            id,
            learn: ask.policy.learn,
            lane: ask.quota_lane.clone(),
            weight: ask.quota_weight(),
        }
    }

    /// Returns the event that a permit or a reservation was given back.
    #[must_use]
    pub fn left(ask: &AdmissionRequest, id: u64, spent_at: Option<BootInstant>) -> Self {
        Self::Left {
            id,
            spent_at,
            lane: ask.quota_lane.clone(),
        }
    }

    /// Returns the event that records the quotas which a response declares; `None` if rate headers
    /// are ignored.
    #[must_use]
    pub fn stated(
        ask: &AdmissionRequest,
        permit: &Permit,
        statement: &QuotaStatement,
    ) -> Option<Self> {
        Some(Self::Stated {
            lane: Arc::clone(ask.quota_lane.as_ref()?),
            id: permit.id,
            permitted: permit.stamp,
            statement: statement.clone(),
        })
    }
}

impl SettledRequest {
    /// Creates the result of a permitted [`AdmissionRequest`].
    #[must_use]
    pub fn new(ask: &AdmissionRequest, permit: &Permit, report: &AttemptResult) -> Self {
        let cap = ask.policy.breaker.retry_after_cap;
        Self {
            id: permit.id,
            permitted: permit.stamp,
            outcome: report.outcome,
            maybe_refused: report.maybe_refused,
            retry_after: report.retry_after.map(|asked| asked.min(cap)),
            jitter_sample: ask.jitter_sample,
        }
    }
}

impl Site {
    /// Returns the [`HostModel`] of the site, if any.
    #[inline]
    #[must_use]
    pub fn host_model(&self) -> Option<&HostModel> {
        Some(&self.added.as_ref()?.host_model)
    }

    /// Drops learned limits and declared quotas. Returns whether any were known.
    pub fn forget_learned(&mut self) -> bool {
        self.touched = true;
        let model = self.added.as_mut().map(|added| &mut added.host_model);
        model.is_some_and(|model| !std::mem::take(model).is_empty())
    }

    /// Returns when an [`AdmissionRequest`] may be sent according to the limits of the host; `None`
    /// if no limit is known. Learned limits do not apply to a probe of the breaker.
    pub(super) fn limit_fit(
        &self,
        ask: &AdmissionRequest,
        own: Option<OwnReservation>,
        (from, is_probe): (BootInstant, bool),
        now: BootInstant,
    ) -> Option<WindowFit> {
        let model = self.host_model()?;
        let query = ask.limit_query(self.waiting_before(ask, own));
        let query = LimitQuery {
            learn: query.learn.filter(|_| !is_probe),
            latest: latest_of(ask, own, from),
            ..query
        };
        let fit = model.next(&query, now)?;
        Some(WindowFit {
            at: fit.at,
            because: fit.because,
        })
    }

    /// Applies an event to the [`HostModel`], if the site has one.
    pub(super) fn tell(&mut self, event: &LimitEvent, now: BootInstant) -> EventEffect {
        match &mut self.added {
            Some(added) => added.host_model.apply(event, std::iter::empty(), now),
            None => EventEffect::default(),
        }
    }

    /// Records that an [`AdmissionRequest`] is sent now. Returns whether its response teaches a
    /// limit.
    #[inline]
    pub(super) fn note_sent(&mut self, ask: &AdmissionRequest, id: u64, now: BootInstant) -> bool {
        if self.added.is_none() && !ask.searches_upwards() {
            return false;
        }
        self.added_mut();
        self.tell(&LimitEvent::permitted(ask, id), now).teaches
    }

    /// Learns from an [`AttemptResult`]. A first refusal starts to learn from the history of its
    /// budget.
    pub(super) fn learn_from(
        &mut self,
        ask: &AdmissionRequest,
        permit: &Permit,
        report: &AttemptResult,
        now: BootInstant,
    ) -> EventEffect {
        let is_refusal = report.outcome == AttemptMeaning::Throttled;
        if ask.policy.learn.is_none() || (self.added.is_none() && !is_refusal) {
            return EventEffect::default();
        }
        let event = LimitEvent::Answered(SettledRequest::new(ask, permit, report));
        let added = self.added.get_or_insert_default();
        let budget = ask.costs.first().map(|cost| &self.budgets[cost.budget]);
        let history = budget.into_iter().flat_map(Budget::instants);
        added.host_model.apply(&event, history, now)
    }

    /// Applies the quotas that a response declares.
    pub fn state_quotas(
        &mut self,
        ask: &AdmissionRequest,
        permit: &Permit,
        statement: &QuotaStatement,
        now: BootInstant,
    ) -> QuotaEffect {
        let Some(event) = LimitEvent::stated(ask, permit, statement) else {
            return QuotaEffect::default();
        };
        self.touched = true;
        self.added_mut();
        self.tell(&event, now).heard
    }
}
