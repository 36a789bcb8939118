//! The sites of a hub, each created when a request first needs it.
//!
//! All lasting state of a site is in the store, so a site without requests may be dropped. Most
//! sites have one host. The configuration can join several hosts to one site.

mod build;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use docstokg_policy::site::LanePolicy;
use docstokg_stores::memory::MemoryStore;
use docstokg_stores::{BudgetKey, SiteKey, StateStore, StoreError};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use self::build::RulesCache;
use super::heartbeat::Heartbeat;
use super::round_trip::RoundTrip;
use super::{
    AdmissionQueue, AdmissionRules, BudgetSetKey, HostHealth, LaneState, SiteAdmission, SiteNews,
};
use crate::clock::Runtime;
use crate::config::{Config, SiteConfig, network_key, resolver_key};

/// Minimum number of sites in memory at which unused ones are searched for and dropped.
const FIRST_SWEEP: usize = 1_024;

/// Finds or creates the [`AdmissionQueue`] of a request.
pub(crate) struct AdmissionRegistry {
    config: Arc<Config>,
    pub(crate) store: Arc<dyn StateStore>,
    runtime: Arc<dyn Runtime>,
    pub(crate) news: Arc<SiteNews>,
    /// The store of the breakers of this process's local connectivity; `None` if the main store is
    /// not shared. A failure of local connectivity does not concern other processes.
    network: Option<MemoryStore>,
    /// The site of each host that belongs to a joined site, which [`SiteConfig`] describes.
    joined: HashMap<Host, (SiteKey, Arc<SiteConfig>)>,
    sites: RwLock<SiteTable>,
    rules: Mutex<RulesCache>,
    common_slots: Mutex<HashMap<(SiteKey, BudgetKey), Arc<Semaphore>>>,
}

#[derive(Default)]
struct SiteTable {
    by_key: HashMap<SiteKey, Arc<SiteAdmission>>,
    next_sweep: usize,
}

/// The store and key through which other processes see a breaker that only this process uses.
type LocalBreakerDisplay = Option<(Arc<dyn StateStore>, SiteKey)>;

impl AdmissionRegistry {
    pub(crate) fn new(
        config: &Arc<Config>,
        store: Arc<dyn StateStore>,
        runtime: Arc<dyn Runtime>,
        news: SiteNews,
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
                .then(|| MemoryStore::new(Arc::<dyn Runtime>::clone(&runtime))),
            store,
            runtime,
            news: Arc::new(news),
            joined: joined.collect(),
            sites: RwLock::default(),
            rules: Mutex::default(),
            common_slots: Mutex::default(),
        }
    }

    /// Returns the number of sites in memory.
    pub(crate) fn len(&self) -> usize {
        self.sites.read().by_key.len()
    }

    /// Returns the [`AdmissionQueue`] of a request, and creates the site and the queue if needed.
    pub(crate) fn lane(&self, key: &BudgetSetKey) -> AdmissionQueue {
        let site = match self.joined.get(&key.host) {
            Some((site, _)) => self.site(&*self.store, site, || Arc::clone(site)),
            None => self.site(&*self.store, key.host.as_str(), || key.host.shared()),
        };
        let state = site.lane_or(
            |other| other == key,
            |lanes| self.build_lane(key.clone(), &site, lanes),
        );
        AdmissionQueue::new(site, state)
    }

    /// Returns the [`SiteAdmission`] that has the breaker of a resolver.
    pub(crate) fn resolver_site(&self, name: &str) -> Arc<SiteAdmission> {
        let site = resolver_key(name);
        self.site(&*self.store, &site, || Arc::clone(&site))
    }

    /// Returns the [`AdmissionQueue`] of a resolver, which has a breaker but no budgets.
    pub(crate) fn resolver_lane(&self, name: &str, host: &Host, role: Role) -> AdmissionQueue {
        let site = self.resolver_site(name);
        let state = site.breaker_lane(host, role, || {
            let breaker = self.config.breakers.of_resolver(name);
            Arc::new(AdmissionRules {
                policy: Arc::new(LanePolicy::new(Arc::clone(&breaker.policy))),
                classifier: Arc::clone(&breaker.classifier),
                headers: None,
                max_delay: Duration::ZERO,
                credits: 1,
                kind_credits: Box::default(),
            })
        });
        AdmissionQueue::new(site, state)
    }

    /// Returns the [`AdmissionQueue`] for this process's own connection to a host; `None` if the
    /// store is not shared. Its breaker opens after failures of local connectivity, and only for
    /// this process.
    pub(crate) fn network_lane(&self, host: &Host, role: Role) -> Option<AdmissionQueue> {
        let own = self.network.as_ref()?;
        let name = format!("network:{host}");
        let shown = || {
            Some((
                Arc::clone(&self.store),
                network_key(host, &docstokg_stores::process::signature()),
            ))
        };
        let site = self.site_shown(own, &name, || name.as_str().into(), shown);
        let state = site.breaker_lane(host, role, || {
            let rules = self.rules_of(&BudgetSetKey::free(host, role));
            let policy = LanePolicy {
                learn: None,
                ..LanePolicy::clone(&rules.policy)
            };
            Arc::new(AdmissionRules {
                policy: Arc::new(policy),
                headers: None,
                ..AdmissionRules::clone(&rules)
            })
        });
        Some(AdmissionQueue::new(site, state))
    }

    /// Deletes the adaptive rates that this process has changed, at the end of its run.
    ///
    /// # Errors
    /// Returns the [`StoreError`] of the first site whose store fails.
    pub(crate) async fn forget_adaptation(&self) -> Result<(), StoreError> {
        let sites: Vec<_> = (self.sites.read().by_key.values())
            .filter(|site| site.has_adapted.swap(false, Ordering::Relaxed))
            .cloned()
            .collect();
        for site in sites {
            site.handle.forget_adaptation().await?;
        }
        Ok(())
    }

    fn site(
        &self,
        store: &dyn StateStore,
        name: &str,
        key: impl FnOnce() -> SiteKey,
    ) -> Arc<SiteAdmission> {
        self.site_shown(store, name, key, || None)
    }

    fn site_shown(
        &self,
        store: &dyn StateStore,
        name: &str,
        key: impl FnOnce() -> SiteKey,
        shown: impl FnOnce() -> LocalBreakerDisplay,
    ) -> Arc<SiteAdmission> {
        if let Some(site) = self.sites.read().by_key.get(name) {
            return Arc::clone(site);
        }
        let mut sites = self.sites.write();
        if let Some(site) = sites.by_key.get(name) {
            return Arc::clone(site);
        }
        sites.sweep();
        let key = key();
        let site = Arc::new(SiteAdmission {
            handle: store.site(&key),
            key: Arc::clone(&key),
            runtime: Arc::clone(&self.runtime),
            shared: store.is_shared(),
            remote: store.is_remote(),
            round_trip: RoundTrip::default(),
            lanes: Mutex::default(),
            heartbeat: Heartbeat::default(),
            health: HostHealth::default(),
            has_adapted: AtomicBool::new(false),
            news: Arc::clone(&self.news),
            shown: shown(),
        });
        sites.by_key.insert(key, Arc::clone(&site));
        site
    }
}

impl SiteTable {
    /// Drops the sites that no request uses, if the number of sites has doubled since the last
    /// time.
    fn sweep(&mut self) {
        if self.by_key.len() >= self.next_sweep.max(FIRST_SWEEP) {
            self.by_key
                .retain(|_, site| Arc::strong_count(site) > 1 || site.is_used());
            self.next_sweep = self.by_key.len() * 2;
        }
    }
}

impl SiteAdmission {
    /// Returns the queue of a host and role at a site that has a breaker but no budgets.
    fn breaker_lane(
        &self,
        host: &Host,
        role: Role,
        rules: impl FnOnce() -> Arc<AdmissionRules>,
    ) -> Arc<LaneState> {
        self.lane_or(
            |key| key.role == role,
            |_| {
                let key = BudgetSetKey::free(host, role);
                LaneState::new(key, Arc::default(), rules(), Box::default())
            },
        )
    }

    /// Returns the queue whose key `is_wanted` accepts. If no queue has such a key, creates one
    /// with `make`.
    fn lane_or(
        &self,
        is_wanted: impl Fn(&BudgetSetKey) -> bool,
        make: impl FnOnce(&[Arc<LaneState>]) -> LaneState,
    ) -> Arc<LaneState> {
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
