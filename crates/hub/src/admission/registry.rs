//! The gates of a hub, made when asked for. One that nobody uses holds nothing that the store does
//! not: it may go.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

use docstokg_policy::host::Host;
use docstokg_policy::rate::Window;
use docstokg_policy::role::Role;
use docstokg_policy::site::Cost;
use docstokg_policy::windows::Windows;
use docstokg_stores::memory::MemoryStore;
use docstokg_stores::{BudgetKey, SiteKey, StateStore};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use super::lease::Heartbeat;
use super::round_trip::RoundTrip;
use super::seen::Seen;
use super::{Gate, Lane, LaneKey, Line, News, Rules};
use crate::clock::{BootInstant, Clock, Runtime, Timestamp};
use crate::config::{BudgetLimits, Config, SiteConfig, network_key, resolver_key};

/// How many gates there must be before the first look for unused ones.
const FIRST_SWEEP: usize = 1_024;

/// The clock of a runtime, for a store.
pub(crate) struct RuntimeClock(pub(crate) Arc<dyn Runtime>);

impl Clock for RuntimeClock {
    fn boot(&self) -> BootInstant {
        self.0.boot()
    }

    fn wall(&self) -> Timestamp {
        self.0.wall()
    }
}

impl Gate {
    /// Returns a lane for a role that charges nothing: it passes the breaker only.
    fn beside(&self, host: &Host, role: Role, rules: impl FnOnce() -> Arc<Rules>) -> Arc<Lane> {
        self.lane_or(
            |key| key.role == role,
            |_| {
                let key = LaneKey {
                    host: host.clone(),
                    role,
                    kind: None,
                    service: None,
                    free: true,
                    crawl_delay: None,
                };
                let (costs, slots) = (Box::default(), Box::default());
                Lane {
                    key,
                    costs,
                    weighted: 0,
                    rules: rules(),
                    slots,
                    line: Line::default(),
                    closes: AtomicBool::new(false),
                    answers: AtomicU32::new(0),
                }
            },
        )
    }

    /// Returns the lane that is wanted, made beside the others where it is missing.
    fn lane_or(
        &self,
        is_wanted: impl Fn(&LaneKey) -> bool,
        make: impl FnOnce(&[Arc<Lane>]) -> Lane,
    ) -> Arc<Lane> {
        let mut lanes = self.lanes.lock();
        if let Some(lane) = lanes.iter().find(|lane| is_wanted(&lane.key)) {
            return Arc::clone(lane);
        }
        let lane = Arc::new(make(&lanes));
        lanes.reserve_exact(1);
        lanes.push(Arc::clone(&lane));
        lane
    }
}

/// Finds the gate and lane of a request.
pub(crate) struct Registry {
    config: Arc<Config>,
    pub(crate) store: Arc<dyn StateStore>,
    runtime: Arc<dyn Runtime>,
    pub(crate) news: Arc<News>,
    /// The breakers of this process's own network, where the store is shared: its troubles are
    /// nobody else's.
    network: Option<MemoryStore>,
    sites: HashMap<Host, (SiteKey, Arc<SiteConfig>)>,
    gates: RwLock<Gates>,
    rules: Mutex<RulesCache>,
    common_slots: Mutex<HashMap<(SiteKey, BudgetKey), Arc<Semaphore>>>,
}

#[derive(Default)]
struct Gates {
    by_site: HashMap<SiteKey, Arc<Gate>>,
    next_sweep: usize,
}

/// What most lanes have in common, made once: the rules and windows of hosts that config does not
/// name.
#[derive(Default)]
struct RulesCache {
    rules: HashMap<(Option<Host>, Role), Arc<Rules>>,
    windows: HashMap<(Option<Host>, Role), Arc<Windows>>,
}

impl Registry {
    pub(crate) fn new(
        config: &Arc<Config>,
        store: Arc<dyn StateStore>,
        runtime: Arc<dyn Runtime>,
        news: News,
    ) -> Self {
        let joined = config.sites.iter().flat_map(|site| {
            let shared = Arc::new(site.clone());
            site.hosts
                .iter()
                .map(move |host| (host.clone(), (shared.key(), Arc::clone(&shared))))
        });
        Self {
            config: Arc::clone(config),
            network: store
                .is_shared()
                .then(|| MemoryStore::new(Arc::new(RuntimeClock(Arc::clone(&runtime))))),
            store,
            runtime,
            news: Arc::new(news),
            sites: joined.collect(),
            gates: RwLock::default(),
            rules: Mutex::default(),
            common_slots: Mutex::default(),
        }
    }

    /// Returns how many gates there are.
    pub(crate) fn len(&self) -> usize {
        self.gates.read().by_site.len()
    }

    /// Returns the gate and lane for a host and role.
    pub(crate) fn lane(&self, key: &LaneKey) -> (Arc<Gate>, Arc<Lane>) {
        let gate = match self.sites.get(&key.host) {
            Some((site, _)) => self.gate(&*self.store, site, || Arc::clone(site)),
            None => self.gate(&*self.store, key.host.as_str(), || key.host.shared()),
        };
        let lane = gate.lane_or(
            |other| other == key,
            |lanes| self.build_lane(key.clone(), &gate, lanes),
        );
        (gate, lane)
    }

    /// Returns the gate of a resolver.
    pub(crate) fn resolver_gate(&self, name: &str) -> Arc<Gate> {
        let site = resolver_key(name);
        self.gate(&*self.store, &site, || Arc::clone(&site))
    }

    /// Returns the gate and lane of a resolver: a breaker without budgets.
    pub(crate) fn resolver_lane(
        &self,
        name: &Arc<str>,
        host: &Host,
        role: Role,
    ) -> (Arc<Gate>, Arc<Lane>) {
        let gate = self.resolver_gate(name);
        let lane = gate.beside(host, role, || {
            let breaker = self.config.breakers.of_resolver(name);
            Arc::new(Rules {
                breaker: Arc::clone(&breaker.policy),
                isolated: false,
                classifier: Arc::clone(&breaker.classifier),
                adaptive: None,
                max_delay: Duration::ZERO,
            })
        });
        (gate, lane)
    }

    /// Returns the gate and lane of this process's own way to a host, where the store is shared: a
    /// breaker that failures of our own network open, for this process alone.
    pub(crate) fn network_lane(&self, host: &Host, role: Role) -> Option<(Arc<Gate>, Arc<Lane>)> {
        let own = self.network.as_ref()?;
        let site = format!("network:{host}");
        let shown = || {
            Some((
                Arc::clone(&self.store),
                network_key(host, &docstokg_stores::process::signature()),
            ))
        };
        let gate = self.gate_shown(own, &site, || site.as_str().into(), shown);
        let lane = gate.beside(host, role, || {
            self.rules_of(&LaneKey {
                host: host.clone(),
                role,
                kind: None,
                service: None,
                free: true,
                crawl_delay: None,
            })
        });
        Some((gate, lane))
    }

    fn gate(&self, store: &dyn StateStore, site: &str, key: impl FnOnce() -> SiteKey) -> Arc<Gate> {
        self.gate_shown(store, site, key, || None)
    }

    fn gate_shown(
        &self,
        store: &dyn StateStore,
        site: &str,
        key: impl FnOnce() -> SiteKey,
        shown: impl FnOnce() -> Option<(Arc<dyn StateStore>, SiteKey)>,
    ) -> Arc<Gate> {
        if let Some(gate) = self.gates.read().by_site.get(site) {
            return Arc::clone(gate);
        }
        let mut gates = self.gates.write();
        if let Some(gate) = gates.by_site.get(site) {
            return Arc::clone(gate);
        }
        if gates.by_site.len() >= gates.next_sweep.max(FIRST_SWEEP) {
            gates
                .by_site
                .retain(|_, gate| Arc::strong_count(gate) > 1 || gate.is_used());
            gates.next_sweep = gates.by_site.len() * 2;
        }
        let key = key();
        let gate = Arc::new(Gate {
            site: store.site(&key),
            key: Arc::clone(&key),
            runtime: Arc::clone(&self.runtime),
            shared: store.is_shared(),
            remote: store.is_remote(),
            round_trip: RoundTrip::default(),
            lanes: Mutex::default(),
            heartbeat: Heartbeat::default(),
            seen: Seen::default(),
            blocked_at: AtomicU64::new(0),
            news: Arc::clone(&self.news),
            shown: shown(),
        });
        gates.by_site.insert(key, Arc::clone(&gate));
        gate
    }

    fn build_lane(&self, key: LaneKey, gate: &Gate, lanes: &[Arc<Lane>]) -> Lane {
        let (site, name) = (&*gate.site, &gate.key);
        let limits = self.config.limits.of(&key.host, key.role);
        let known = self
            .config
            .limits
            .hosts
            .contains_key(&key.host)
            .then(|| key.host.clone());
        let windows = {
            let mut cache = self.rules.lock();
            let windows = cache.windows.entry((known, key.role));
            Arc::clone(windows.or_insert_with(|| {
                Arc::new(Windows::new(
                    limits.rates.value.clone(),
                    self.config.limits.guard,
                ))
            }))
        };
        let mut costs = vec![Cost {
            budget: site.budget(&BudgetKey::Role(key.host.clone(), key.role)),
            weight: 1,
            windows,
            slots: limits.max_concurrent.value.filter(|_| limits.shared_slots),
        }];
        let mut slots = Vec::new();
        if let Some(most) = limits.max_concurrent.value {
            // Lanes of one host and role differ in what they charge; their slots are the same.
            let sibling = lanes
                .iter()
                .find(|lane| lane.key.host == key.host && lane.key.role == key.role);
            let semaphore = sibling.and_then(|lane| lane.slots.first()).cloned();
            slots.push(semaphore.unwrap_or_else(|| Arc::new(Semaphore::new(most.get() as usize))));
        }
        let mut shared = |budget: BudgetKey, limits: &BudgetLimits| {
            let windows = Arc::new(Windows::new(
                limits.rates.value.clone(),
                self.config.limits.guard,
            ));
            let slots_of = limits.max_concurrent.value.filter(|_| limits.shared_slots);
            costs.push(Cost {
                budget: site.budget(&budget),
                weight: 1,
                windows,
                slots: slots_of,
            });
            if let Some(most) = limits.max_concurrent.value {
                let mut common = self.common_slots.lock();
                let semaphore = common
                    .entry((Arc::clone(name), budget))
                    .or_insert_with(|| Arc::new(Semaphore::new(most.get() as usize)));
                slots.push(Arc::clone(semaphore));
            }
        };
        if let (Some(kind), Some(host)) = (&key.kind, self.config.limits.hosts.get(&key.host))
            && let Some(limits) = host.kinds.get(kind)
        {
            shared(BudgetKey::Kind(key.host.clone(), Arc::clone(kind)), limits);
        }
        if let Some(service) = &key.service
            && let Some(limits) = self.config.limits.services.get(service)
        {
            shared(BudgetKey::Service(Arc::clone(service)), limits);
        }
        if let Some(common) = self
            .sites
            .get(&key.host)
            .and_then(|(_, site)| site.common.as_ref())
        {
            shared(BudgetKey::Common, common);
        }
        if key.free {
            // No token, but slots like everybody.
            costs.retain(|cost| cost.slots.is_some());
            for cost in &mut costs {
                cost.weight = 0;
            }
        }
        let weighted = costs.len();
        if let Some(per) = key.crawl_delay {
            costs.push(Cost {
                budget: site.budget(&BudgetKey::CrawlDelay(key.host.clone())),
                weight: 1,
                windows: Arc::new(Windows::new(
                    [Window {
                        limit: NonZeroU32::MIN,
                        per,
                    }],
                    self.config.limits.guard,
                )),
                slots: None,
            });
        }
        let rules = self.rules_of(&key);
        Lane {
            key,
            costs: costs.into(),
            weighted,
            rules,
            slots: slots.into(),
            line: Line::default(),
            closes: AtomicBool::new(false),
            answers: AtomicU32::new(0),
        }
    }

    fn rules_of(&self, key: &LaneKey) -> Arc<Rules> {
        let configured = self.config.limits.hosts.contains_key(&key.host)
            || self.config.breakers.hosts.contains_key(&key.host);
        let known = configured.then(|| key.host.clone());
        let mut cache = self.rules.lock();
        let rules = cache.rules.entry((known, key.role)).or_insert_with(|| {
            let limits = self.config.limits.of(&key.host, key.role);
            let breaker = self.config.breakers.of(&key.host);
            let own = breaker.roles[key.role.index()].as_ref();
            Arc::new(Rules {
                breaker: Arc::clone(own.unwrap_or(&breaker.policy)),
                isolated: own.is_some(),
                classifier: Arc::clone(&breaker.classifier),
                adaptive: self.config.limits.adaptive,
                max_delay: limits.max_delay.value,
            })
        });
        Arc::clone(rules)
    }
}
