//! A breaker under random steps, and what an observer can know about it from outside.

use std::collections::BTreeSet;
use std::time::Duration;

use docstokg_policy::breaker::{BreakerPolicy, BreakerState, OpenReason};
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AttemptResult, Permit, RefusalReason, Site,
};
use docstokg_policy::time::BootInstant;
use proptest::prelude::*;

use crate::support::{ask, at, ms};

#[derive(Clone, Debug)]
pub(super) enum BreakerStep {
    Advance(u64),
    Admit(Role),
    Settle(usize, AttemptMeaning, Option<u64>),
    Headers(usize, AttemptMeaning),
    Release(usize),
    Block(u64),
    Unblock,
}

fn any_outcome() -> impl Strategy<Value = AttemptMeaning> {
    prop_oneof![
        3 => Just(AttemptMeaning::Success),
        4 => Just(AttemptMeaning::Failure),
        1 => Just(AttemptMeaning::Neutral),
        2 => Just(AttemptMeaning::Throttled),
    ]
}

pub(super) fn any_step() -> impl Strategy<Value = BreakerStep> {
    prop_oneof![
        3 => (0u64..4_000).prop_map(BreakerStep::Advance),
        6 => (0usize..3).prop_map(|role| BreakerStep::Admit(Role::ALL[role])),
        6 => (0usize..6, any_outcome(), proptest::option::weighted(0.3, 1u64..6))
            .prop_map(|(n, outcome, after)| BreakerStep::Settle(n, outcome, after)),
        2 => (0usize..6, any_outcome()).prop_map(|(n, outcome)| BreakerStep::Headers(n, outcome)),
        2 => (0usize..6).prop_map(BreakerStep::Release),
        1 => (1u64..8_000).prop_map(BreakerStep::Block),
        1 => Just(BreakerStep::Unblock),
    ]
}

/// A site, and what an observer can know without looking inside: which requests are in flight, what
/// was promised, which states and reasons were seen.
pub(super) struct Model {
    policy: BreakerPolicy,
    site: Site,
    now: BootInstant,
    in_flight: Vec<(Role, Permit)>,
    /// No request may be permitted before this: the latest promise of a server or an operator.
    promised: Option<BootInstant>,
    pub(super) states: BTreeSet<&'static str>,
    pub(super) reasons: BTreeSet<String>,
}

impl Model {
    /// Takes the steps, checking every promise after each.
    pub(super) fn run(
        policy: &BreakerPolicy,
        steps: &[BreakerStep],
    ) -> Result<Self, TestCaseError> {
        let mut model = Self {
            policy: policy.clone(),
            site: Site::default(),
            now: at(0),
            in_flight: Vec::new(),
            promised: None,
            states: BTreeSet::new(),
            reasons: BTreeSet::new(),
        };
        for step in steps {
            model.take(step)?;
            model.check_probes_and_note_state()?;
        }
        model.check_nothing_is_stuck()?;
        Ok(model)
    }

    fn take(&mut self, step: &BreakerStep) -> Result<(), TestCaseError> {
        match step {
            BreakerStep::Advance(millis) => self.now += ms(*millis),
            BreakerStep::Admit(role) => self.admit(*role)?,
            BreakerStep::Settle(n, outcome, after) if !self.in_flight.is_empty() => {
                self.settle(*n, *outcome, after.map(Duration::from_secs))?;
            }
            BreakerStep::Headers(n, outcome) if !self.in_flight.is_empty() => {
                let (role, permit) = &self.in_flight[n % self.in_flight.len()];
                let question = question(*role, &self.policy);
                self.site
                    .settle_headers(&question, permit, *outcome, self.now);
            }
            BreakerStep::Release(n) if !self.in_flight.is_empty() => {
                let (role, permit) = self.in_flight.remove(n % self.in_flight.len());
                self.leave(role, &permit);
            }
            BreakerStep::Block(millis) => {
                let until = self.now + ms(*millis);
                self.site
                    .block(until, &OpenReason::Operator("test".into()), self.now);
                self.promised = self.promised.max(Some(until));
            }
            BreakerStep::Unblock => {
                self.site.unblock(self.now);
                self.promised = None;
                prop_assert_eq!(self.site.breaker().state(self.now), BreakerState::Closed);
            }
            BreakerStep::Settle(..) | BreakerStep::Headers(..) | BreakerStep::Release(_) => {}
        }
        Ok(())
    }

    fn admit(&mut self, role: Role) -> Result<(), TestCaseError> {
        let now = self.now;
        let before = self.site.breaker().state(now);
        let question = question(role, &self.policy);
        match self.site.enter(&question, now).entry {
            AdmissionDecision::Go(permit) => {
                prop_assert!(
                    self.promised.is_none_or(|until| until <= now),
                    "admitted before the end of a block"
                );
                prop_assert!(before != BreakerState::Open, "admitted by an open breaker");
                let state = self.site.breaker().state(now);
                prop_assert_eq!(permit.probe, state == BreakerState::HalfOpen);
                self.in_flight.push((role, permit));
            }
            AdmissionDecision::Refused(refusal) => {
                prop_assert!(refusal.until > now, "a refusal that is over already");
                let RefusalReason::Open { reason, probing } = refusal.reason else {
                    panic!("no limit here")
                };
                let state = self.site.breaker().state(now);
                prop_assert_eq!(probing, state == BreakerState::HalfOpen);
                self.reasons.insert(reason.to_string());
            }
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn settle(
        &mut self,
        n: usize,
        outcome: AttemptMeaning,
        after: Option<Duration>,
    ) -> Result<(), TestCaseError> {
        let before = self.site.breaker().state(self.now);
        let (role, permit) = self.in_flight.remove(n % self.in_flight.len());
        let question = question(role, &self.policy);
        let stale = permit.generation != self.site.breaker().generation();
        let retry_after = after.filter(|_| outcome == AttemptMeaning::Throttled);
        let report = AttemptResult {
            outcome,
            retry_after,
            sent: permit.at,
            wants_retry: false,
            maybe_refused: false,
        };
        self.site.settle(&question, &permit, &report, self.now);
        if let Some(asked) = retry_after {
            let until = self.now + asked.min(self.policy.retry_after_cap);
            self.promised = self.promised.max(Some(until));
        }
        if stale && retry_after.is_none() {
            prop_assert_eq!(
                self.site.breaker().state(self.now),
                before,
                "a result of an older generation changed something"
            );
        }
        Ok(())
    }

    fn leave(&mut self, role: Role, permit: &Permit) {
        let question = question(role, &self.policy);
        self.site.leave(&question, permit.id, Some(permit.at));
    }

    fn check_probes_and_note_state(&mut self) -> Result<(), TestCaseError> {
        let breaker = self.site.breaker();
        self.states.insert(breaker.state(self.now).as_str());
        for role in Role::ALL {
            let probes = breaker.leases(role, self.now);
            prop_assert!(
                probes <= self.policy.trial_calls[role.index()] as usize,
                "{probes} probes of {role} at once"
            );
        }
        if let Some((_, reason)) = breaker.open_until(self.now) {
            self.reasons.insert(reason.to_string());
        }
        Ok(())
    }

    /// When every request has ended and time has passed, a request of each role is permitted.
    fn check_nothing_is_stuck(&mut self) -> Result<(), TestCaseError> {
        for (role, permit) in std::mem::take(&mut self.in_flight) {
            self.leave(role, &permit);
        }
        let later = self.now + Duration::from_secs(60);
        for role in Role::ALL {
            let question = question(role, &self.policy);
            let entry = self.site.clone().enter(&question, later).entry;
            prop_assert!(
                matches!(entry, AdmissionDecision::Go(_)),
                "stuck for {role}: {entry:?}"
            );
        }
        Ok(())
    }
}

fn question(role: Role, policy: &BreakerPolicy) -> AdmissionRequest {
    AdmissionRequest {
        role,
        ..ask(&[], policy)
    }
}
