//! The state of a single key: its windows, its state in the store, and the queue of its callers.
//!
//! A pull of ontologies uses the same budget through the hub: the budget of the service at the site
//! of the host. So programs that share a store also share the budget. The cooldown of a key is kept
//! at a separate site of the store, so that it delays the key and not the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, Runtime};
use docstokg_policy::breaker::{BreakerPolicy, OpenReason};
use docstokg_policy::rate::Window;
use docstokg_policy::site::{
    AdmissionDecision as Answered, AdmissionRequest, AdmissionResult, BudgetCost, LanePolicy,
    Patience, Permit, QueuePosition, Refusal, RefusalReason,
};
use docstokg_policy::windows::Windows;
use docstokg_stores::{BudgetKey, SiteHandle, SiteKey, SiteView, StateStore, StoreError};
use tokio::sync::Mutex;

use super::error::{AcquireError, Hint};
use super::key::ServiceKey;
use super::rate::short;

/// Wait before a caller tries again to get a slot, while all slots are in use by other callers.
const SLOT_RETRY: Duration = Duration::from_millis(25);

/// A [`ServiceKey`] with its windows, its handles to the store, and its waiting callers.
pub(super) struct KeyEntry {
    pub(super) key: ServiceKey,
    /// The windows in the text form of events, such as `8/s`.
    pub(super) rates: Arc<[String]>,
    /// The windows; `None` if the key has no limit.
    pub(super) windows: Option<Arc<Windows>>,
    site: Arc<dyn SiteHandle>,
    budget: usize,
    cooldown: Arc<dyn SiteHandle>,
    policy: Arc<LanePolicy>,
    /// The lock that waiting callers queue for, first come first served. Only its holder has a
    /// reservation in the store.
    queue: Mutex<()>,
    /// The total weight of the waiting callers.
    waiting: AtomicU32,
}

/// The way to a permit: with or without a wait.
enum PermitPath {
    /// The permit was acquired without a wait.
    AtOnce,
    /// The permit was acquired after a wait. A cooldown of the key may have begun during the wait.
    AfterWait(Permit),
}

impl KeyEntry {
    pub(super) fn new(
        key: ServiceKey,
        windows: Option<&[Window]>,
        store: &dyn StateStore,
        site: &SiteKey,
    ) -> Self {
        // The origin counts requests when they arrive, which is a little after their permit.
        let guard = Duration::from_millis(10);
        let site = store.site(site);
        let budget = site.budget(&BudgetKey::Service(Arc::clone(key.service())));
        Self {
            rates: windows.unwrap_or_default().iter().map(short).collect(),
            windows: windows.map(|list| Arc::new(Windows::new(list, guard))),
            cooldown: store.site(&format!("service:{key}").into()),
            site,
            budget,
            key,
            policy: Arc::new(LanePolicy::new(BreakerPolicy::default())),
            queue: Mutex::new(()),
            waiting: AtomicU32::new(0),
        }
    }

    /// Checks that a weight is positive and fits into every window.
    pub(super) fn check_weight(&self, weight: u32) -> Result<(), AcquireError> {
        if weight == 0 {
            return Err(AcquireError::NoWeight);
        }
        let limit = self
            .windows
            .as_ref()
            .map(|windows| windows.largest_weight());
        match limit {
            Some(limit) if weight > limit => Err(AcquireError::Weight {
                key: self.key.clone(),
                weight,
                limit,
            }),
            _ => Ok(()),
        }
    }

    /// Blocks the key for `length`, and returns `None`. If a cooldown is in force that lasts at
    /// least as long, nothing changes, and its remaining time is returned.
    pub(super) async fn begin_cooldown(
        &self,
        length: Duration,
    ) -> Result<Option<Duration>, StoreError> {
        let in_force = self.cooldown_left().await?;
        if let Some(left) = in_force.filter(|left| *left >= length) {
            return Ok(Some(left));
        }
        self.cooldown.block(length, &OpenReason::RetryAfter).await?;
        Ok(None)
    }

    /// Returns the remaining time of the key's cooldown; `None` if no cooldown is in force.
    pub(super) async fn cooldown_left(&self) -> Result<Option<Duration>, StoreError> {
        let view = self.cooldown.view().await?;
        Ok(view.open_until().map(|(until, _)| until.since(view.now)))
    }

    /// Returns the [`SiteView`] of the host's site.
    pub(super) async fn view(&self) -> Result<SiteView, StoreError> {
        self.site.view().await
    }

    /// Returns each [`Window`] with its number of permits in use, and the time until a request of
    /// weight 1 may be sent.
    pub(super) fn usage(&self, view: &SiteView) -> (Vec<(Window, u64)>, Duration) {
        let Some(windows) = &self.windows else {
            return (Vec::new(), Duration::ZERO);
        };
        let budget = view.site.budgets().get(self.budget);
        let used = |window: &Window| budget.map_or(0, |b| b.used(windows, window, view.now));
        let list = windows.list();
        let costs = self.costs(1);
        let ask = AdmissionRequest::at_once(&costs, Arc::clone(&self.policy));
        let mut site = view.site.clone();
        site.ensure_budgets(self.budget + 1);
        let eligible_in = match site.enter(&ask, view.now).entry {
            Answered::Refused(refusal) => refusal.until.since(view.now),
            _ => Duration::ZERO,
        };
        (
            list.iter().map(|window| (*window, used(window))).collect(),
            eligible_in,
        )
    }

    fn costs(&self, weight: u32) -> Vec<BudgetCost> {
        let cost = |windows: &Arc<Windows>| BudgetCost {
            budget: self.budget,
            weight,
            windows: Arc::clone(windows),
            slots: None,
        };
        self.windows.iter().map(cost).collect()
    }

    /// Acquires a permit without a wait, or returns the error that says when to try again.
    pub(super) async fn acquire_now(
        &self,
        weight: u32,
        runtime: &dyn Runtime,
    ) -> Result<(), AcquireError> {
        if let Some(left) = self.cooldown_left().await? {
            return Err(self.exceeded(None, left, Some(Hint::Cooldown)));
        }
        let costs = self.costs(weight);
        let waiting = self.waiting.load(Ordering::Acquire);
        let queue_position = match waiting {
            0 => QueuePosition::Head,
            ahead => QueuePosition::Behind(ahead),
        };
        let ask = AdmissionRequest {
            queue_position,
            ..AdmissionRequest::at_once(&costs, Arc::clone(&self.policy))
        };
        let entered = self.site.enter(&ask).await?;
        match entered.entry {
            Answered::Go(permit) => {
                self.release_probe(&ask, &permit).await;
                Ok(())
            }
            Answered::Refused(refusal) => Err(self.refused(&refusal, waiting, runtime.boot())),
            Answered::Queue { .. } => {
                Err(self.exceeded(None, Duration::ZERO, Some(Hint::Queue(waiting))))
            }
            // The store never decides that a caller must wait if the caller does not want to wait.
            _ => Err(self.exceeded(None, Duration::ZERO, None)),
        }
    }

    /// Acquires a permit, however long the wait.
    pub(super) async fn acquire_later(
        &self,
        weight: u32,
        runtime: &dyn Runtime,
    ) -> Result<(), AcquireError> {
        let _turn = if let Ok(turn) = self.queue.try_lock() {
            turn
        } else {
            let _counted = WaitingCaller::count(self, weight);
            self.queue.lock().await
        };
        let costs = self.costs(weight);
        let ask = AdmissionRequest {
            latest: BootInstant::FAR,
            patience: Patience::Wait,
            asked: runtime.boot(),
            ..AdmissionRequest::at_once(&costs, Arc::clone(&self.policy))
        };
        loop {
            self.wait_for_cooldown(weight, runtime).await?;
            match self.enter(&ask, weight, runtime).await? {
                PermitPath::AtOnce => return Ok(()),
                PermitPath::AfterWait(permit) => {
                    if self.cooldown_left().await?.is_none() {
                        return Ok(());
                    }
                    // The cooldown began while this caller slept: release the permit and wait
                    // again.
                    self.site.leave(&ask, permit.id, Some(permit.stamp)).await?;
                }
            }
        }
    }

    /// Sleeps until no cooldown is in force.
    async fn wait_for_cooldown(
        &self,
        weight: u32,
        runtime: &dyn Runtime,
    ) -> Result<(), AcquireError> {
        while let Some(left) = self.cooldown_left().await? {
            let _counted = WaitingCaller::count(self, weight);
            runtime.sleep_until(runtime.boot() + left).await;
        }
        Ok(())
    }

    /// Repeats an [`AdmissionRequest`] until it is admitted. Between two attempts, the call sleeps
    /// until the time that the store's decision names.
    async fn enter(
        &self,
        ask: &AdmissionRequest,
        weight: u32,
        runtime: &dyn Runtime,
    ) -> Result<PermitPath, AcquireError> {
        let mut reservation = StoreReservation {
            site: &*self.site,
            ask,
            id: None,
        };
        let mut counted = None;
        loop {
            let entered: AdmissionResult = match reservation.id {
                Some(id) => self.site.confirm(ask, id).await?,
                None => self.site.enter(ask).await?,
            };
            let wake = match entered.entry {
                Answered::Go(permit) => {
                    reservation.id = None;
                    self.release_probe(ask, &permit).await;
                    return Ok(match counted {
                        None => PermitPath::AtOnce,
                        Some(_) => PermitPath::AfterWait(permit),
                    });
                }
                Answered::Wait(reserved) => {
                    reservation.id = Some(reserved.id);
                    reserved.at
                }
                Answered::WaitForSlot { id, .. } => {
                    reservation.id = Some(id);
                    runtime.boot() + SLOT_RETRY
                }
                Answered::Queue { at } | Answered::WaitForBreaker { until: at, .. } => {
                    reservation.id = None;
                    at
                }
                Answered::Refused(refusal) => {
                    reservation.id = None;
                    return Err(self.refused(&refusal, 0, runtime.boot()));
                }
            };
            counted.get_or_insert_with(|| WaitingCaller::count(self, weight));
            runtime.sleep_until(wake).await;
        }
    }

    /// Releases the permit if it is for a probe of the breaker. The facade never learns the result
    /// of the request, so the request cannot be the probe.
    async fn release_probe(&self, ask: &AdmissionRequest, permit: &Permit) {
        if permit.probe {
            let _ = self.site.leave(ask, permit.id, None).await;
        }
    }

    fn refused(&self, refusal: &Refusal, waiting: u32, now: BootInstant) -> AcquireError {
        let left = refusal.until.since(now);
        match &refusal.reason {
            RefusalReason::Rate { window } => {
                let hint = (waiting > 0).then_some(Hint::Queue(waiting));
                self.exceeded(*window, left, hint)
            }
            RefusalReason::Open { .. } | RefusalReason::Slots => {
                self.exceeded(None, left, Some(Hint::HostPaused))
            }
        }
    }

    fn exceeded(
        &self,
        window: Option<Window>,
        retry_in: Duration,
        hint: Option<Hint>,
    ) -> AcquireError {
        AcquireError::Exceeded {
            key: self.key.clone(),
            window,
            retry_in,
            hint,
        }
    }
}

/// Adds the weight of a caller to the waiting weight of a [`KeyEntry`], until dropped.
struct WaitingCaller<'a>(&'a KeyEntry, u32);

impl<'a> WaitingCaller<'a> {
    fn count(entry: &'a KeyEntry, weight: u32) -> Self {
        entry.waiting.fetch_add(weight, Ordering::AcqRel);
        Self(entry, weight)
    }
}

impl Drop for WaitingCaller<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(self.1, Ordering::AcqRel);
    }
}

/// A reservation in the store, which is released if its caller stops waiting.
struct StoreReservation<'a> {
    site: &'a dyn SiteHandle,
    ask: &'a AdmissionRequest,
    id: Option<u64>,
}

impl Drop for StoreReservation<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            drop(self.site.leave(self.ask, id, None));
        }
    }
}
