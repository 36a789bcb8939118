//! One site as two processes make it from its log on a server, and as the pure functions make it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::adaptive::AdaptivePolicy;
use docstokg_policy::breaker::{BreakerPolicy, OpenReason, RollingWindow};
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::host::Host;
use docstokg_policy::host_model::learned::{LearnMode, LearnPolicy};
use docstokg_policy::pacing::Pacing;
use docstokg_policy::rate::parse_rates;
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AdmissionResult, AttemptResult, BudgetCost, LanePolicy,
    Patience, Permit, QueuePosition, ReservedSlot, Site,
};
use docstokg_policy::time::{BootInstant, Clock};
use docstokg_policy::windows::Windows;
use docstokg_stores::conformance::arrive;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::{BudgetKey, SiteHandle, process};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::event::{Event, Rules};
use crate::clock::ManualClock;

// What happens to a permit.
mod permits;

const OUTCOMES: [AttemptMeaning; 4] = [
    AttemptMeaning::Success,
    AttemptMeaning::Failure,
    AttemptMeaning::Neutral,
    AttemptMeaning::Throttled,
];

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A site on a server and as one value, and what its requests hold.
pub(super) struct World<'a> {
    /// Where a process that was not there before finds the site.
    store: &'a RedisStore,
    key: String,
    steps: u32,
    clock: Arc<ManualClock>,
    pure: Site,
    /// Two processes that share the site.
    processes: [Arc<dyn SiteHandle>; 2],
    /// Which of them acts.
    acting: usize,
    learn: Option<LearnPolicy>,
    lanes: Option<[Arc<str>; 3]>,
    pub(super) costs: Vec<BudgetCost>,
    breaker: BreakerPolicy,
    adaptive: Option<AdaptivePolicy>,
    isolated: Option<usize>,
    pub(super) reserved: Vec<(u64, Role, u32, usize)>,
    pub(super) permits: Vec<(Permit, Role, u32, usize)>,
    /// How many early probes have failed.
    pub(super) early_failures: u64,
    /// How many steps something was learned, and quotas were stated.
    pub(super) known: [u64; 2],
}

impl<'a> World<'a> {
    pub(super) fn new(
        stores: [&'a RedisStore; 2],
        clock: &Arc<ManualClock>,
        key: &str,
        rules: &Rules,
    ) -> Self {
        let processes = stores.map(|store| store.site_on_own_time(&key.into()));
        let keys = budget_keys();
        let cost = |index: usize| BudgetCost {
            budget: processes.each_ref().map(|site| site.budget(&keys[index]))[0],
            weight: 1,
            windows: Arc::new(Windows::paced(
                parse_rates(rules.rates[index]).expect("rates"),
                Duration::from_millis(10),
                if rules.paced {
                    Pacing::Even
                } else {
                    Pacing::Burst
                },
            )),
            slots: rules.slots[index].and_then(NonZeroU32::new),
        };
        let costs = vec![cost(0), cost(1)];
        let mut pure = Site::default();
        pure.ensure_budgets(2);
        let rolling = RollingWindow {
            threshold_failures: NonZeroU32::new(3).expect("three"),
            within: seconds(8),
            cooldown: seconds(4),
        };
        let breaker = BreakerPolicy {
            fail_max: NonZeroU32::new(rules.fail_max).expect("some"),
            reset: seconds(2),
            reset_ceiling: seconds(9),
            retry_after_cap: seconds(5),
            window: rules.rolling.then_some(rolling),
            throttle_block: rules.throttle_block.then_some(seconds(1)),
            one_failure_per_epoch: rules.adaptive,
            early_probes: rules.early_probes,
            shadow: rules.shadow,
            ..BreakerPolicy::default()
        };
        let adaptive = rules.adaptive.then(|| AdaptivePolicy {
            window: seconds(3),
            ..AdaptivePolicy::default()
        });
        let clock = Arc::clone(clock);
        let (reserved, permits) = (Vec::new(), Vec::new());
        Self {
            store: stores[0],
            key: key.to_owned(),
            steps: 0,
            clock,
            pure,
            processes,
            acting: 0,
            learn: rules.learn.map(|rate| LearnPolicy {
                mode: match parse_rates(rate) {
                    Ok(rates) => LearnMode::UpTo(rates[0]),
                    Err(_) => LearnMode::Tighten,
                },
                slowest: seconds(20),
            }),
            lanes: rules
                .stated
                .then(|| Role::ALL.map(|role| Arc::from(role.as_str()))),
            costs,
            breaker,
            adaptive,
            isolated: rules.isolated,
            reserved,
            permits,
            early_failures: 0,
            known: [0; 2],
        }
    }

    fn costs(&self, weight: u32) -> Vec<BudgetCost> {
        self.costs
            .iter()
            .map(|cost| BudgetCost {
                weight,
                ..cost.clone()
            })
            .collect()
    }

    fn ask(&self, costs: &[BudgetCost], role: Role) -> AdmissionRequest {
        let now = self.clock.boot();
        let policy = LanePolicy {
            isolated: self.isolated == Some(role.index()),
            // The other process does not adapt its rate.
            adaptive: self.adaptive.filter(|_| self.acting == 0),
            learn: self.learn,
            ..LanePolicy::new(self.breaker.clone())
        };
        let lanes = self.lanes.as_ref();
        AdmissionRequest {
            role,
            deadline: now + seconds(60),
            asked: now,
            quota_lane: lanes.map(|lanes| Arc::clone(&lanes[role.index()])),
            ..AdmissionRequest::at_once(costs, policy)
        }
    }

    fn site(&self) -> &dyn SiteHandle {
        &*self.processes[self.acting]
    }

    /// Lets the pure functions give the same id.
    fn same_id(&mut self, entered: &AdmissionResult) {
        if let AdmissionDecision::Go(Permit { id, .. })
        | AdmissionDecision::Wait(ReservedSlot { id, .. })
        | AdmissionDecision::WaitForSlot { id, .. } = &entered.entry
        {
            self.pure.number_from(id - 1);
        }
    }

    fn keep(&mut self, entered: &AdmissionResult, role: Role, weight: u32) {
        match &entered.entry {
            AdmissionDecision::Go(permit) => {
                let held = (permit.clone(), role, weight, self.acting);
                self.permits.push(held);
            }
            AdmissionDecision::Wait(ReservedSlot { id, .. })
            | AdmissionDecision::WaitForSlot { id, .. } => {
                self.reserved.push((*id, role, weight, self.acting));
            }
            _ => {}
        }
    }

    /// Applies one event on the server and to the value, and compares answers and states.
    pub(super) fn step(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match event.clone() {
            Event::Advance { micros } => self.clock.advance(micros),
            Event::Enter { ahead, weight, .. } => {
                // Chosen by what a run has at random.
                self.acting = (self.permits.len() + ahead.unwrap_or(weight) as usize) % 2;
                self.enter(event)?;
            }
            Event::Confirm { which } if which < self.reserved.len() => self.confirm(which)?,
            Event::LeaveReserved { which } if which < self.reserved.len() => {
                let (id, role, weight, holder) = self.reserved.remove(which);
                self.acting = holder;
                self.leave(id, None, role, weight)?;
            }
            Event::GiveBack { which } if which < self.permits.len() => {
                let (permit, role, weight, holder) = self.permits.remove(which);
                self.acting = holder;
                self.leave(permit.id, Some(permit.stamp), role, weight)?;
            }
            Event::Hold { which, longest_ms } if which < self.permits.len() => {
                self.hold(which, Duration::from_millis(longest_ms));
            }
            Event::Sent { which, longest_ms } if which < self.permits.len() => {
                self.sent(which, Duration::from_millis(longest_ms))?;
            }
            Event::Stamp { which } if which < self.permits.len() => self.stamp(which),
            Event::Headers { which, outcome } if which < self.permits.len() => {
                self.settle_headers(which, OUTCOMES[outcome])?;
            }
            Event::Settle {
                which,
                outcome,
                retry_after_ms,
                percent,
            } if which < self.permits.len() => {
                let report = AttemptResult {
                    outcome: OUTCOMES[outcome],
                    retry_after: retry_after_ms.map(Duration::from_millis),
                    sent: self.permits[which].0.at,
                    wants_retry: percent % 3 > 0,
                    maybe_refused: percent % 4 == 0,
                };
                self.settle(which, &report, f64::from(percent) / 100.0)?;
            }
            Event::State { which, quota, .. } if which < self.permits.len() => {
                self.state_quotas(which, &quota)?;
            }
            Event::Forget => {
                let ours = self.pure.forget_learned();
                prop_assert_eq!(arrive(self.site().forget_learned()), ours);
            }
            Event::ForgetAdaptation => {
                let ours = self.pure.forget_adaptation();
                prop_assert_eq!(arrive(self.site().forget_adaptation()), ours);
            }
            Event::Renew => self.renew()?,
            Event::Block { millis } => self.block(Duration::from_millis(millis))?,
            Event::Unblock => {
                let now = self.clock.boot();
                prop_assert_eq!(arrive(self.site().unblock()), self.pure.unblock(now));
            }
            _ => {}
        }
        self.pure.sign(&process::signature());
        let theirs = arrive(self.site().view());
        prop_assert_eq!(state(&theirs.site), state(&self.pure), "after {:?}", event);
        self.steps += 1;
        if self.steps.is_multiple_of(8) {
            let newcomer = self.store.site_on_own_time(&self.key.as_str().into());
            for key in budget_keys() {
                newcomer.budget(&key);
            }
            let theirs = arrive(newcomer.view());
            prop_assert_eq!(state(&theirs.site), state(&self.pure), "read anew");
        }
        self.known[0] += u64::from(self.pure.learned().is_some());
        self.known[1] += u64::from(self.pure.quotas().is_some());
        Ok(())
    }

    fn enter(&mut self, event: &Event) -> Result<(), TestCaseError> {
        let Event::Enter {
            role,
            weight,
            patient,
            latest_ms,
            ahead,
            halves,
            backlog,
        } = *event
        else {
            return Ok(());
        };
        let now = self.clock.boot();
        // No more than every window can ever permit.
        let largest = self.costs.iter().map(|cost| cost.windows.largest_weight());
        let weight = weight.min(largest.min().unwrap_or(1));
        let (role, costs) = (Role::ALL[role], self.costs(weight));
        let ask = AdmissionRequest {
            latest: latest_ms.map_or(BootInstant::FAR, |millis| {
                now + Duration::from_millis(millis)
            }),
            patience: if patient {
                Patience::Wait
            } else {
                Patience::Refuse
            },
            queue_position: match ahead {
                None => QueuePosition::Head,
                Some(0) => QueuePosition::Overlapping,
                Some(ahead) => QueuePosition::Behind(ahead - 1),
            },
            jitter_sample: f64::from(halves) / 2.0,
            backlog,
            ..self.ask(&costs, role)
        };
        let theirs = arrive(self.site().enter(&ask));
        self.same_id(&theirs);
        let mut pure = self.pure.clone();
        let ours = pure.enter(&ask, now);
        prop_assert_eq!(&theirs, &ours);
        self.pure = pure;
        self.keep(&ours, role, weight);
        Ok(())
    }

    fn confirm(&mut self, which: usize) -> Result<(), TestCaseError> {
        let (id, role, weight, holder) = self.reserved.remove(which);
        self.acting = holder;
        let (costs, now) = (self.costs(weight), self.clock.boot());
        let ask = AdmissionRequest {
            latest: BootInstant::FAR,
            ..self.ask(&costs, role)
        };
        let theirs = arrive(self.site().confirm(&ask, id));
        self.same_id(&theirs);
        let mut pure = self.pure.clone();
        let ours = pure.confirm(&ask, id, now);
        prop_assert_eq!(&theirs, &ours);
        self.pure = pure;
        self.keep(&ours, role, weight);
        Ok(())
    }

    fn leave(
        &mut self,
        id: u64,
        spent: Option<BootInstant>,
        role: Role,
        weight: u32,
    ) -> Result<(), TestCaseError> {
        let costs = self.costs(weight);
        let mut pure = self.pure.clone();
        let ask = self.ask(&costs, role);
        let theirs = arrive(self.site().leave(&ask, id, spent));
        prop_assert_eq!(theirs, pure.leave(&ask, id, spent));
        self.pure = pure;
        Ok(())
    }

    fn renew(&mut self) -> Result<(), TestCaseError> {
        let ids: Vec<u64> = self.permits.iter().map(|(permit, ..)| permit.id).collect();
        let now = self.clock.boot();
        prop_assert_eq!(
            arrive(self.site().renew(&ids, seconds(20))),
            self.pure.renew(&ids, seconds(20), now)
        );
        Ok(())
    }

    fn block(&mut self, length: Duration) -> Result<(), TestCaseError> {
        let now = self.clock.boot();
        let reason = OpenReason::Operator("a word".into());
        prop_assert_eq!(
            arrive(self.site().block(length, &reason)),
            self.pure.block(now + length, &reason, now)
        );
        Ok(())
    }
}

fn budget_keys() -> [BudgetKey; 2] {
    let host = Host::parse("a.example").expect("a host");
    [BudgetKey::Role(host, Role::Metadata), BudgetKey::Common]
}

/// Writes a state as JSON, to be compared. Breakers that were never used do not count.
fn state(site: &Site) -> Value {
    let (breaker, isolated) = site.breakers();
    let mut isolated: Vec<Value> = isolated
        .iter()
        .map(|(role, own)| json!([role.as_str(), own]))
        .collect();
    isolated.sort_by_key(|own| own[0].as_str().unwrap_or_default().to_owned());
    let budgets: Vec<Value> = site
        .budgets()
        .iter()
        .map(|budget| json!([budget, budget.history()]))
        .collect();
    json!({
        "breaker": breaker,
        "isolated": isolated,
        "budgets": budgets,
        "retries": site.retries().spent(),
        "learned": site.learned(),
        "quotas": site.quotas(),
    })
}
