//! State in the memory of this process: the default of the library.
//!
//! Each site has its own lock. Idle sites without handles are dropped while new sites are created,
//! so that memory stays bounded in a run over many hosts.

use std::collections::HashMap;
use std::sync::Arc;

use docstokg_policy::site::{Site, SiteOperation, SiteResult};
use docstokg_policy::time::{BootInstant, Clock};
use docstokg_policy::windows::Windows;
use parking_lot::Mutex;

use crate::handle::{BudgetKey, SiteHandle, SiteKey, SiteView, StateStore, StoreReply};

/// The number of sites before the first sweep of idle sites.
const FIRST_SWEEP: usize = 1_024;

/// A store in the memory of this process.
///
/// ```
/// use std::sync::Arc;
/// use docstokg_stores::clock::SystemClock;
/// use docstokg_stores::memory::MemoryStore;
/// use docstokg_stores::{SiteKey, StateStore};
///
/// let store = MemoryStore::new(Arc::new(SystemClock));
/// let _site = store.site(&SiteKey::from("api.example"));
/// assert_eq!(store.len(), 1);
/// assert!(!store.is_shared());
/// ```
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    first: u64,
    sites: Mutex<MemorySites>,
}

struct MemorySites {
    by_key: HashMap<SiteKey, Arc<MemorySite>>,
    next_sweep: usize,
}

impl MemoryStore {
    /// Creates an empty store that reads the time from `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            first: 0,
            sites: Mutex::new(MemorySites {
                by_key: HashMap::new(),
                next_sweep: FIRST_SWEEP,
            }),
        }
    }

    /// Creates a store that numbers reservations and permits from `first` on.
    pub(crate) fn numbering_from(clock: Arc<dyn Clock>, first: u64) -> Self {
        Self {
            first,
            ..Self::new(clock)
        }
    }

    /// Returns the number of sites with state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sites.lock().by_key.len()
    }

    /// Returns whether no site has state.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl MemoryStore {
    pub(crate) fn memory_site(&self, key: &SiteKey) -> Arc<MemorySite> {
        let mut sites = self.sites.lock();
        if let Some(site) = sites.by_key.get(key) {
            return Arc::clone(site);
        }
        if sites.by_key.len() >= sites.next_sweep {
            sites
                .by_key
                .retain(|_, site| Arc::strong_count(site) > 1 || !site.is_idle());
            sites.next_sweep = (sites.by_key.len() * 2).max(FIRST_SWEEP);
        }
        let site = Arc::new(MemorySite {
            clock: Arc::clone(&self.clock),
            state: Mutex::default(),
        });
        site.state.lock().site.number_from(self.first);
        sites.by_key.insert(Arc::clone(key), Arc::clone(&site));
        site
    }
}

impl StateStore for MemoryStore {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        self.memory_site(key)
    }

    fn list(&self) -> StoreReply<Vec<SiteKey>> {
        StoreReply::now(self.sites.lock().by_key.keys().cloned().collect())
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn flush(&self) -> StoreReply<()> {
        StoreReply::now(())
    }
}

/// A site and its lock.
pub(crate) struct MemorySite {
    clock: Arc<dyn Clock>,
    state: Mutex<NamedSite>,
}

/// The state, and the names of its budgets.
#[derive(Default)]
struct NamedSite {
    site: Site,
    budgets: Vec<BudgetKey>,
}

impl MemorySite {
    /// Counts `weight` as used now, because another store permitted it.
    pub(crate) fn fill(&self, budget: usize, windows: &Windows, weight: u32) {
        self.step(|site, now| site.note_spent(budget, windows, weight, now));
    }

    /// Counts `weight` as used at an instant, because another store permitted it, or as a
    /// precaution.
    pub(crate) fn fill_at(&self, budget: usize, windows: &Windows, weight: u32, at: BootInstant) {
        self.step(|site, _| site.note_spent(budget, windows, weight, at));
    }

    /// Reverts a use at an instant that [`MemorySite::fill_at`] counted.
    pub(crate) fn empty_at(&self, budget: usize, weight: u32, at: BootInstant) {
        self.step(|site, _| site.note_unspent(budget, weight, at));
    }

    /// Returns the generation of the breaker.
    pub(crate) fn generation(&self) -> u32 {
        self.state.lock().site.breaker().generation()
    }

    fn is_idle(&self) -> bool {
        self.step(|site, now| site.is_idle(now))
    }

    /// Runs one step inside the critical section, with the time read there.
    #[inline]
    fn step<T>(&self, step: impl FnOnce(&mut Site, BootInstant) -> T) -> T {
        let mut state = self.state.lock();
        let now = self.clock.boot();
        step(&mut state.site, now)
    }
}

impl SiteHandle for MemorySite {
    fn budget(&self, key: &BudgetKey) -> usize {
        let mut state = self.state.lock();
        if let Some(index) = state.budgets.iter().position(|known| known == key) {
            return index;
        }
        state.budgets.reserve_exact(1);
        state.budgets.push(key.clone());
        let count = state.budgets.len();
        state.site.ensure_budgets(count);
        count - 1
    }

    fn apply(&self, operation: &SiteOperation<'_>) -> StoreReply<SiteResult> {
        StoreReply::now(self.step(|site, now| site.apply(operation, now)))
    }

    fn view(&self) -> StoreReply<SiteView> {
        let state = self.state.lock();
        let budgets = state.budgets.iter().map(ToString::to_string).collect();
        StoreReply::now(SiteView {
            site: state.site.clone(),
            budgets,
            now: self.clock.boot(),
        })
    }
}
