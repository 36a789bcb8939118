//! The construction of an admission queue: its budgets, slots and rules.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use docstokg_config::SourcedValue;
use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::host::Host;
use docstokg_policy::host_model::learned::{LearnMode, LearnPolicy};
use docstokg_policy::pacing::Pacing;
use docstokg_policy::rate::Window;
use docstokg_policy::role::Role;
use docstokg_policy::site::{BudgetCost, LanePolicy};
use docstokg_policy::windows::Windows;
use docstokg_stores::BudgetKey;
use tokio::sync::Semaphore;

use super::super::{AdmissionRules, BudgetSetKey, LaneState, SiteAdmission};
use super::AdmissionRegistry;
use crate::config::{BudgetLimits, LearnSetting};

/// Rules and windows that many queues share, built once. The key `None` is for all hosts that the
/// configuration does not name.
#[derive(Default)]
pub(super) struct RulesCache {
    rules: HashMap<(Option<Host>, Role), Arc<AdmissionRules>>,
    windows: HashMap<(Option<Host>, Role), Arc<Windows>>,
}

/// The costs and slots of a queue under construction.
#[derive(Default)]
struct AdmissionCosts {
    costs: Vec<BudgetCost>,
    slots: Vec<Arc<Semaphore>>,
}

impl AdmissionRegistry {
    pub(super) fn build_lane(
        &self,
        key: BudgetSetKey,
        site: &SiteAdmission,
        lanes: &[Arc<LaneState>],
    ) -> LaneState {
        let mut parts = AdmissionCosts::default();
        self.add_role(&mut parts, &key, site, lanes);
        self.add_shared(&mut parts, &key, site);
        if key.free {
            // A free request spends no tokens of the windows, but takes slots like every other.
            parts.costs.retain(|cost| cost.slots.is_some());
            for cost in &mut parts.costs {
                cost.weight = 0;
            }
        }
        if let Some(delay) = key.crawl_delay {
            parts.costs.push(self.crawl_delay(&key.host, delay, site));
        }
        let rules = self.rules_of(&key);
        LaneState::new(key, parts.costs.into(), rules, parts.slots.into())
    }

    /// Adds the budget of the host and role, with its slots.
    fn add_role(
        &self,
        parts: &mut AdmissionCosts,
        key: &BudgetSetKey,
        site: &SiteAdmission,
        lanes: &[Arc<LaneState>],
    ) {
        let limits = self.config.limits.of(&key.host, key.role);
        parts.costs.push(BudgetCost {
            budget: site
                .handle
                .budget(&BudgetKey::Role(key.host.clone(), key.role)),
            weight: 1,
            windows: self.windows_of(key),
            slots: limits.max_concurrent.value.filter(|_| limits.shared_slots),
        });
        if let Some(most) = limits.max_concurrent.value {
            // Queues of one host and role may differ in their costs, but share the slots of the
            // role.
            let sibling = lanes
                .iter()
                .find(|lane| lane.key.host == key.host && lane.key.role == key.role);
            let semaphore = sibling.and_then(|lane| lane.slots.first()).cloned();
            let own = || Arc::new(Semaphore::new(most.get() as usize));
            parts.slots.push(semaphore.unwrap_or_else(own));
        }
    }

    /// Adds the budgets that the request shares with other hosts and roles: those of its kind, its
    /// service and its joined site.
    fn add_shared(&self, parts: &mut AdmissionCosts, key: &BudgetSetKey, site: &SiteAdmission) {
        let config = &self.config.limits;
        if let (Some(kind), Some(host)) = (&key.kind, config.hosts.get(&key.host))
            && let Some(limits) = host.kinds.get(kind)
        {
            let budget = BudgetKey::Kind(key.host.clone(), Arc::clone(kind));
            self.add_budget(parts, budget, limits, site);
        }
        if let Some(service) = &key.service
            && let Some(limits) = config.services.get(service)
        {
            let budget = BudgetKey::Service(Arc::clone(service));
            self.add_budget(parts, budget, limits, site);
        }
        let joined = self.joined.get(&key.host);
        if let Some(common) = joined.and_then(|(_, site)| site.common.as_ref()) {
            self.add_budget(parts, BudgetKey::Common, common, site);
        }
    }

    fn add_budget(
        &self,
        parts: &mut AdmissionCosts,
        budget: BudgetKey,
        limits: &BudgetLimits,
        site: &SiteAdmission,
    ) {
        let rates = limits.rates.value.clone();
        parts.costs.push(BudgetCost {
            budget: site.handle.budget(&budget),
            weight: 1,
            windows: Arc::new(self.windows(rates, limits.pacing.as_ref())),
            slots: limits.max_concurrent.value.filter(|_| limits.shared_slots),
        });
        if let Some(most) = limits.max_concurrent.value {
            let mut common = self.common_slots.lock();
            let semaphore = common
                .entry((Arc::clone(&site.key), budget))
                .or_insert_with(|| Arc::new(Semaphore::new(most.get() as usize)));
            parts.slots.push(Arc::clone(semaphore));
        }
    }

    /// Returns the [`BudgetCost`] of a crawl delay: one request per `per`, for all roles together.
    fn crawl_delay(&self, host: &Host, per: Duration, site: &SiteAdmission) -> BudgetCost {
        let window = Window {
            limit: NonZeroU32::MIN,
            per,
        };
        BudgetCost {
            budget: site.handle.budget(&BudgetKey::CrawlDelay(host.clone())),
            weight: 1,
            windows: Arc::new(Windows::new([window], self.config.limits.guard)),
            slots: None,
        }
    }

    /// Returns the [`Windows`] of `rates`. `pacing` says how they are spread; without it, the
    /// pacing of the run applies.
    fn windows(&self, rates: Vec<Window>, pacing: Option<&SourcedValue<Pacing>>) -> Windows {
        let limits = &self.config.limits;
        let pacing = pacing.map_or(limits.pacing, |set| set.value);
        Windows::paced(rates, limits.guard, pacing)
    }

    /// Returns the [`LearnPolicy`] of a host; `None` if its limits are not learned.
    fn learn_of(&self, host: &Host) -> Option<LearnPolicy> {
        let limits = &self.config.limits;
        let mode = match limits.learn_of(host) {
            LearnSetting::Off => return None,
            LearnSetting::Tighten => LearnMode::Tighten,
            LearnSetting::UpTo(ceiling) => LearnMode::UpTo(ceiling),
        };
        let slowest = limits.slowest_learned;
        Some(LearnPolicy { mode, slowest })
    }

    fn windows_of(&self, key: &BudgetSetKey) -> Arc<Windows> {
        let limits = &self.config.limits;
        let known = limits.hosts.contains_key(&key.host);
        let known = known.then(|| key.host.clone());
        let mut cache = self.rules.lock();
        let windows = cache.windows.entry((known, key.role)).or_insert_with(|| {
            let pacing = limits.of(&key.host, key.role).pacing.as_ref();
            Arc::new(self.windows(limits.windows_of(&key.host, key.role), pacing))
        });
        Arc::clone(windows)
    }

    pub(super) fn rules_of(&self, key: &BudgetSetKey) -> Arc<AdmissionRules> {
        let configured = self.config.limits.hosts.contains_key(&key.host)
            || self.config.breakers.hosts.contains_key(&key.host);
        let known = configured.then(|| key.host.clone());
        let mut cache = self.rules.lock();
        let rules = cache.rules.entry((known, key.role)).or_insert_with(|| {
            let limits = self.config.limits.of(&key.host, key.role);
            let breaker = self.config.breakers.of(&key.host);
            let own = breaker.roles[key.role.index()].as_ref();
            let learn = self.learn_of(&key.host);
            let policy = own.unwrap_or(&breaker.policy);
            let adaptive = self.config.limits.adaptive_of(Some(&key.host)).copied();
            let policy = if learn.is_some() || adaptive.is_some() {
                let mut policy = BreakerPolicy::clone(policy);
                // Of several refusals at the same time, only the first is new information about the
                // limit.
                policy.one_failure_per_epoch = true;
                if learn.is_some() {
                    // With two probes at once, the second would exceed the limit that is being
                    // learned.
                    policy.trial_calls = policy.trial_calls.map(|calls| calls.min(1));
                }
                Arc::new(policy)
            } else {
                Arc::clone(policy)
            };
            let policy = LanePolicy {
                isolated: own.is_some(),
                adaptive,
                learn,
                ..LanePolicy::new(policy)
            };
            Arc::new(AdmissionRules {
                policy: Arc::new(policy),
                headers: self.config.limits.headers_of(&key.host),
                classifier: Arc::clone(&breaker.classifier),
                max_delay: limits.max_delay.value,
                credits: limits.credits.get(),
                kind_credits: self.config.limits.kind_credits(&key.host),
            })
        });
        Arc::clone(rules)
    }
}
