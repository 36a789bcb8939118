//! A scheduler tick: due items come back, steps are started, and the end of the run is detected.

use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::Host;
use docstokg_hub::clock::Timestamp;

use super::schedule::Schedule;
use super::{RunEnd, RunError};
use crate::deferral::WaitingFor;
use crate::job::Job;
use crate::lane::WorkLaneKey;
use crate::lanes::ScheduleAction;
use crate::remaining::{HostBacklog, LaneQueue};

/// Maximum number of due items that one query claims.
const DUE_AT_A_TIME: usize = 200;
/// Minimum interval between two forecasts.
const ESTIMATE_INTERVAL: Duration = Duration::from_secs(1);

impl<J: Job> Schedule<J> {
    /// Starts all possible steps. Returns the [`RunEnd`], if the run has ended.
    pub(super) async fn tick(&mut self) -> Result<Option<RunEnd>, RunError> {
        if self.are_bytes_spent() {
            self.run.context.progress.cancel();
        }
        if self.run.context.progress.is_cancelled() {
            return self.wind_down().await;
        }
        if self.run.context.connectivity.take_restored() {
            self.missed_by_replan = self.deferring;
            self.replan().await?;
        }
        if std::mem::take(&mut self.must_replan) {
            self.replan().await?;
        }
        if std::mem::take(&mut self.has_breaker_changed) {
            self.resume_reopened().await?;
        }
        self.estimate();
        let now = self.run.context.clock.now();
        if self.due.is_some_and(|due| due <= now) && self.has_free_worker() {
            self.claim_due().await?;
        }
        while self.has_free_worker() {
            match self.lanes.next() {
                Some(ScheduleAction::Start(lane, items)) => self.start(lane, items),
                Some(ScheduleAction::Load(lane, most)) => self.load(lane, most),
                Some(ScheduleAction::List(after, most)) => self.list(after, most),
                None => break,
            }
        }
        if self.all_read && self.active == 0 && self.pending == 0 && self.lanes.is_idle() {
            return self.wait_or_end().await;
        }
        self.run.context.progress.set_only_waiting(false);
        Ok(None)
    }

    fn are_bytes_spent(&self) -> bool {
        let most = self.run.limits.max_bytes;
        most.is_some_and(|most| self.run.context.progress.bytes() >= most)
    }

    /// Stores items that have not been started in the file. Returns the [`RunEnd`] once the last
    /// active step has ended.
    async fn wind_down(&mut self) -> Result<Option<RunEnd>, RunError> {
        for (lane, item) in self.lanes.drain() {
            self.put_back(item, lane);
        }
        if self.active > 0 || self.pending > 0 {
            return Ok(None);
        }
        let left = self.run.context.queue.counts().await?.left();
        Ok(Some(if left == 0 && self.all_read {
            RunEnd::Complete
        } else if self.run.context.progress.is_offline() {
            RunEnd::Offline { left }
        } else if self.are_bytes_spent() {
            RunEnd::BytesSpent { left }
        } else {
            RunEnd::Stopped { left }
        }))
    }

    /// Decides what to do when no step can be started: wait for deferred items, or end the run.
    async fn wait_or_end(&mut self) -> Result<Option<RunEnd>, RunError> {
        let Some(due) = self.due else {
            // The counts in memory may be wrong, so check the file.
            if self.run.context.queue.backlog(None, 1).await?.is_empty() {
                return Ok(Some(RunEnd::Complete));
            }
            self.lanes.list_again();
            return Ok(None);
        };
        let now = self.run.context.clock.now();
        if self.is_worth_waiting(now) {
            self.run.context.progress.set_only_waiting(true);
            return Ok(None);
        }
        let left = self.run.context.queue.counts().await?.left();
        let due_in = due.since(now);
        Ok(Some(RunEnd::Deferred { left, due_in }))
    }

    /// Returns whether to continue to wait: the network, or a host that items wait for, may be back
    /// within the maximum wait.
    fn is_worth_waiting(&self, now: Timestamp) -> bool {
        let max_wait = self.run.limits.max_wait;
        let lost_since = self.run.context.connectivity.lost_since();
        if lost_since.is_some_and(|since| now.since(since) > max_wait) {
            return false;
        }
        let is_worth = |waiting: &WaitingFor| {
            let served_ago = self.served_ago(&waiting.host);
            self.silences
                .is_worth_waiting(waiting, served_ago, max_wait, now)
        };
        self.run.context.progress.waiting().iter().any(is_worth)
    }

    /// Returns the time since a host last responded to this process; `None` if it never did.
    pub(super) fn served_ago(&self, host: &str) -> Option<Duration> {
        let served = self.run.context.hub.last_served(&Host::parse(host).ok()?)?;
        Some(self.run.context.clock.runtime().boot().since(served))
    }

    /// Returns for how long every request of this process to a host has failed; zero if the last
    /// request succeeded.
    pub(super) fn failing_for(&self, host: &str) -> Duration {
        let context = &self.run.context;
        let host = Host::parse(host).ok();
        let since = host.and_then(|host| context.hub.silent_since(&host));
        since.map_or(Duration::ZERO, |since| {
            context.clock.runtime().boot().since(since)
        })
    }

    /// Queues all deferred items again at once, because the network is back.
    async fn replan(&mut self) -> Result<(), RunError> {
        let items = self.run.context.queue.replan::<J::State>().await?;
        if items > 0 {
            self.run.context.progress.resume_all();
            self.due = self.run.context.queue.next_due().await?;
            self.stored(&WorkLaneKey::Start, items);
        }
        Ok(())
    }

    /// Queues again the deferred items of hosts whose pause has ended earlier than expected.
    async fn resume_reopened(&mut self) -> Result<(), RunError> {
        for host in self.watches.reopened() {
            if let Ok(name) = Host::parse(&host) {
                self.run.context.hub.forget_robots_failure(&name).await;
                let site = self.run.context.hub.config().site_key(&name);
                let now = self.run.context.clock.runtime().boot();
                self.paces.lock().note_back(&site, now);
            }
            let resumed = self.run.context.queue.reopen::<J::State>(host).await?;
            for deferral in &resumed {
                self.run.context.progress.resume(deferral);
            }
            if !resumed.is_empty() {
                self.due = self.run.context.queue.next_due().await?;
                self.stored(&WorkLaneKey::Start, resumed.len() as u64);
            }
        }
        let progress = &self.run.context.progress;
        self.watches.keep(|host| progress.waits_for(host));
        Ok(())
    }

    /// Starts a forecast of the run's end, unless the last began less than [`ESTIMATE_INTERVAL`]
    /// ago.
    fn estimate(&mut self) {
        let now = self.run.context.clock.runtime().boot();
        let is_recent = |last| now.since(last) < ESTIMATE_INTERVAL;
        // A further reference to the paces means that an earlier forecast is still running, perhaps
        // because it waits for a slow store.
        if self.estimated.is_some_and(is_recent) || Arc::strong_count(&self.paces) > 1 {
            return;
        }
        self.estimated = Some(now);
        let queues = self.lanes.queues().filter(|(_, requests, _)| *requests > 0);
        let queue = |(key, requests, items): (&WorkLaneKey, u64, u64)| LaneQueue {
            site: self.run.job.site(key),
            key: key.clone(),
            requests,
            items,
        };
        let queues: Vec<LaneQueue> = queues.map(queue).collect();
        let waits = self.backlogs();
        let (run, paces) = (Arc::clone(&self.run), Arc::clone(&self.paces));
        self.run.context.clock.runtime().spawn(Box::pin(async move {
            run.forecast(&queues, waits, &paces, now).await;
        }));
    }

    /// Returns the deferred items of each host, with the time for which the host has been silent.
    fn backlogs(&self) -> Vec<HostBacklog> {
        let now = self.run.context.clock.now();
        let backlog = |(host, dues): (String, Vec<(Timestamp, u64)>)| {
            let served_ago = self.served_ago(&host);
            let silent_for = self.silences.silent_for(&host, served_ago, now);
            HostBacklog {
                has_served: served_ago.is_some_and(|served_ago| served_ago <= silent_for),
                host,
                dues,
                silent_for,
            }
        };
        let dues = self.run.context.progress.dues();
        dues.into_iter().map(backlog).collect()
    }

    /// Claims deferred items that are due.
    async fn claim_due(&mut self) -> Result<(), RunError> {
        let now = self.run.context.clock.now();
        let items = self.run.context.queue.claim_due(now, DUE_AT_A_TIME).await?;
        self.due = self.run.context.queue.next_due().await?;
        for item in items {
            if let Some(item) = self.run.activate(item) {
                self.place(item);
            }
        }
        Ok(())
    }
}
