//! Groups of requests: cancelled together while they wait, and counted while they do.

use std::collections::HashMap;
use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_policy::role::Role;
use docstokg_stores::SiteKey;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Requests that belong together, such as all those of a bulk run.
///
/// While a request only waits (for a rate, a slot, a breaker, a retry or a robots.txt) it holds
/// nothing: the group counts it, so that a scheduler does not take it for one that is busy, and
/// cancelling the group ends it without loss. A request that is on the wire is finished.
///
/// ```
/// use docstokg_hub::{Request, RequestGroup};
/// use std::sync::Arc;
/// # use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};
/// # let simulation = Simulation::exact();
/// # let (hub, web) = simulation.hub([OriginScript::new("a.example")]);
/// # simulation.block_on(async move {
/// let group = Arc::new(RequestGroup::default());
/// group.cancel();
/// let request = Request::get("http://a.example/".parse()?).in_group(Arc::clone(&group));
/// assert_eq!(hub.fetch(request).await.unwrap_err().kind.class(), "cancelled");
/// assert!(web.ledger().is_empty());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug, Default)]
pub struct RequestGroup {
    cancellation: CancellationToken,
    waiting: AtomicUsize,
    more_wait: Notify,
    /// How many requests are still to come, by site and role.
    backlog: Mutex<HashMap<(SiteKey, Role), u32>>,
    /// For how long a host may be silent before its requests are not retried any more.
    retry_limit: OnceLock<Duration>,
}

impl RequestGroup {
    /// Bounds retries: a request ends if its retry would come later than `limit` after the host fell
    /// silent. Only the first call has an effect.
    pub fn bound_retries(&self, limit: Duration) {
        let _ = self.retry_limit.set(limit);
    }

    /// Returns for how long a host may be silent before its requests are not retried any more, if the
    /// group bounds that.
    pub(crate) fn retry_limit(&self) -> Option<Duration> {
        self.retry_limit.get().copied()
    }

    /// Ends all requests that only wait, and those that are about to.
    pub fn cancel(&self) {
        self.cancellation.cancel();
    }

    /// Returns whether the group was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Returns how many requests only wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Says how many requests of the group are still to come at a site, this one included. Where
    /// requests are paced evenly, long windows are spread if they have less left than that. Zero
    /// forgets the site: a run may visit a million.
    pub fn set_backlog(&self, site: SiteKey, role: Role, requests: u32) {
        let mut backlog = self.backlog.lock();
        if requests == 0 {
            backlog.remove(&(site, role));
        } else {
            backlog.insert((site, role), requests);
        }
    }

    /// Returns how many requests are still to come; zero where that is not known.
    pub(crate) fn backlog(&self, site: &SiteKey, role: Role) -> u32 {
        let backlog = self.backlog.lock();
        backlog
            .get(&(SiteKey::clone(site), role))
            .copied()
            .unwrap_or(0)
    }

    /// Waits until another request starts to wait; at once if one has since this was last called.
    pub async fn more_wait(&self) {
        self.more_wait.notified().await;
    }

    /// Waits for `wait` on behalf of a request; `None` if the group is cancelled first.
    pub(crate) async fn wait<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        let mut wait = std::pin::pin!(self.cancellation.run_until_cancelled(wait));
        let mut counted = None;
        std::future::poll_fn(|context| {
            let polled = wait.as_mut().poll(context);
            if polled.is_pending() {
                counted.get_or_insert_with(|| CountedWait::new(self));
            }
            polled
        })
        .await
    }
}

/// A request that only waits, until this is dropped.
struct CountedWait<'a>(&'a RequestGroup);

impl<'a> CountedWait<'a> {
    fn new(group: &'a RequestGroup) -> Self {
        group.waiting.fetch_add(1, Ordering::AcqRel);
        group.more_wait.notify_one();
        Self(group)
    }
}

impl Drop for CountedWait<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_without_a_backlog_is_forgotten() {
        let group = RequestGroup::default();
        let site: SiteKey = "a.example".into();
        group.set_backlog(SiteKey::clone(&site), Role::Artifact, 2);
        assert_eq!(group.backlog(&site, Role::Artifact), 2);
        group.set_backlog(SiteKey::clone(&site), Role::Artifact, 0);
        assert_eq!(group.backlog(&site, Role::Artifact), 0);
        assert!(group.backlog.lock().is_empty());
    }
}
