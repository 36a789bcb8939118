//! What happens to a permit, on the server and in the pure functions.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::host_model::quotas::QuotaStatement;
use docstokg_policy::rate_headers::{Quota, RateHeaderReading};
use docstokg_policy::site::{AdmissionRequest, AttemptResult, Permit};
use docstokg_policy::time::Clock;
use docstokg_stores::conformance::arrive;
use proptest::prelude::*;

use super::World;

impl World<'_> {
    pub(super) fn state_quotas(
        &mut self,
        which: usize,
        quota: &Quota,
    ) -> Result<(), TestCaseError> {
        let (permit, role, weight, holder) = self.permits[which].clone();
        self.acting = holder;
        let (costs, now) = (self.costs(weight), self.clock.boot());
        let ask = self.ask(&costs, role);
        let mut reading = RateHeaderReading::default();
        reading.quotas.push(quota.clone());
        let statement = Arc::new(QuotaStatement {
            retry_after: None,
            is_refusal: quota.remaining == Some(0),
            is_spent_kind: false,
            reading,
        });
        let mut pure = self.pure.clone();
        let theirs = arrive(self.site().state_quotas(&ask, &permit, &statement));
        prop_assert_eq!(theirs, pure.state_quotas(&ask, &permit, &statement, now));
        self.pure = pure;
        Ok(())
    }

    pub(super) fn hold(&mut self, which: usize, longest: Duration) {
        let (permit, role, weight, holder) = self.permits[which].clone();
        self.acting = holder;
        let (costs, now) = (self.costs(weight), self.clock.boot());
        let mut pure = self.pure.clone();
        let ask = self.ask(&costs, role);
        arrive(self.site().hold(&ask, &permit, longest));
        pure.hold(&ask, &permit, now + longest);
        self.pure = pure;
    }

    pub(super) fn sent(&mut self, which: usize, longest: Duration) -> Result<(), TestCaseError> {
        let (permit, role, weight, holder) = self.permits[which].clone();
        self.acting = holder;
        let (costs, now) = (self.costs(weight), self.clock.boot());
        let mut pure = self.pure.clone();
        let ask = self.ask(&costs, role);
        let theirs = arrive(self.site().sent(&ask, &permit, longest));
        prop_assert_eq!(theirs, pure.sent(&ask, &permit, longest, now));
        self.pure = pure;
        Ok(())
    }

    pub(super) fn stamp(&mut self, which: usize) {
        let (permit, role, weight, holder) = self.permits[which].clone();
        self.acting = holder;
        let (costs, now) = (self.costs(weight), self.clock.boot());
        let mut pure = self.pure.clone();
        let ask = self.ask(&costs, role);
        arrive(self.site().stamp(&ask, &permit));
        pure.stamp(&ask, &permit, now);
        self.pure = pure;
    }

    pub(super) fn settle_headers(
        &mut self,
        which: usize,
        outcome: AttemptMeaning,
    ) -> Result<(), TestCaseError> {
        let (permit, role, weight, holder) = self.permits[which].clone();
        self.acting = holder;
        let (costs, now) = (self.costs(weight), self.clock.boot());
        let mut pure = self.pure.clone();
        let ask = self.ask(&costs, role);
        let ours = pure.settle_headers(&ask, &permit, outcome, now);
        let theirs = arrive(self.site().settle_headers(&ask, &permit, outcome));
        prop_assert_eq!(theirs, ours);
        self.pure = pure;
        Ok(())
    }

    pub(super) fn settle(
        &mut self,
        which: usize,
        report: &AttemptResult,
        jitter_sample: f64,
    ) -> Result<(), TestCaseError> {
        let (permit, role, weight, holder) = self.permits.remove(which);
        self.acting = holder;
        let (costs, now) = (self.costs(weight), self.clock.boot());
        let mut pure = self.pure.clone();
        let ask = AdmissionRequest {
            jitter_sample,
            ..self.ask(&costs, role)
        };
        // A good answer to a clean permit is not sent to the server at all: another test covers
        // that.
        let permit = Permit {
            clean: false,
            ..permit
        };
        let theirs = arrive(self.site().settle(&ask, &permit, report));
        let ours = pure.settle(&ask, &permit, report, now);
        prop_assert_eq!(&theirs, &ours);
        let reason = ours.transition.and_then(|change| change.reason);
        self.early_failures += u64::from(reason == Some(OpenReason::EarlyProbeFailed));
        self.pure = pure;
        Ok(())
    }
}
