//! Groups of requests. The waiting requests of a group are counted, and can be cancelled together.

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

/// A group of requests that belong together, such as those of a bulk run.
///
/// A request of the group may wait for a rate limit, a slot, a breaker, a retry or a robots.txt.
/// The group counts the waiting requests, so that a scheduler can start others in their place.
/// Cancelling the group ends the waiting requests; a request in flight is completed.
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
    /// The number of remaining requests, by site and role.
    backlog: Mutex<HashMap<(SiteKey, Role), u32>>,
    /// Maximum time after a host fell silent in which its requests are retried.
    retry_limit: OnceLock<Duration>,
}

impl RequestGroup {
    /// Limits retries: a request ends if its next retry would be later than `limit` after its host
    /// fell silent. Only the first call has an effect.
    pub fn bound_retries(&self, limit: Duration) {
        let _ = self.retry_limit.set(limit);
    }

    /// Returns the limit of [`RequestGroup::bound_retries`], if set.
    pub(crate) fn retry_limit(&self) -> Option<Duration> {
        self.retry_limit.get().copied()
    }

    /// Cancels the group: its requests end if they wait now, or when they begin to wait.
    pub fn cancel(&self) {
        self.cancellation.cancel();
    }

    /// Returns whether the group was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Returns the number of waiting requests.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Sets the number of requests that the group will still send to a site, including the current
    /// one.
    ///
    /// Even pacing spreads requests over a long window if it has fewer tokens left than that
    /// number. Zero removes the entry, because a run may visit a million sites.
    pub fn set_backlog(&self, site: SiteKey, role: Role, requests: u32) {
        let mut backlog = self.backlog.lock();
        if requests == 0 {
            backlog.remove(&(site, role));
        } else {
            backlog.insert((site, role), requests);
        }
    }

    /// Returns the number of requests that the group will still send to a site; zero if it is
    /// unknown.
    pub(crate) fn backlog(&self, site: &SiteKey, role: Role) -> u32 {
        let backlog = self.backlog.lock();
        backlog
            .get(&(SiteKey::clone(site), role))
            .copied()
            .unwrap_or(0)
    }

    /// Waits until another request of the group begins to wait. Returns at once if that has
    /// happened since the last call.
    pub async fn more_wait(&self) {
        self.more_wait.notified().await;
    }

    /// Waits for the future `wait` on behalf of a request, which counts as waiting meanwhile.
    /// Returns `None` if the group is cancelled first.
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

/// A guard that counts a request as waiting until dropped.
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
