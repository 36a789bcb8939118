use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::host_model::learned::LearnPolicy;
use docstokg_policy::rate::{Window, parse_rates};
use docstokg_policy::site::{AdmissionRequest, BudgetCost, LanePolicy};
use docstokg_policy::time::BootInstant;
use docstokg_policy::windows::Windows;

pub(crate) fn at(millis: u64) -> BootInstant {
    BootInstant::from_micros(1_000_000_000 + millis * 1_000)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn windows(rates: &str) -> Vec<Window> {
    parse_rates(rates).expect("rates")
}

pub(crate) fn cost(budget: usize, weight: u32, list: &[Window], guard: Duration) -> BudgetCost {
    BudgetCost {
        budget,
        weight,
        windows: Arc::new(Windows::new(list, guard)),
        slots: None,
    }
}

/// A question without patience: go now or be refused.
pub(crate) fn ask(costs: &[BudgetCost], breaker: &BreakerPolicy) -> AdmissionRequest {
    AdmissionRequest::at_once(costs, LanePolicy::new(breaker.clone()))
}

/// The policy of a lane that learns limits.
pub(crate) fn learning(breaker: &BreakerPolicy, learn: LearnPolicy) -> LanePolicy {
    LanePolicy {
        learn: Some(learn),
        ..LanePolicy::new(breaker.clone())
    }
}
