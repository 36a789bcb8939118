//! The progress of a run: its counters, its waits, and the token that cancels it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use docstokg_hub::{RequestGroup, Transfer};
use docstokg_policy::time::Timestamp;
use parking_lot::Mutex;

use crate::deferral::{Deferral, HostDeferrals, WaitingFor};
use crate::lane::WorkLaneKey;

/// The progress of a run. The run writes it, and the display reads it.
#[derive(Default)]
pub struct RunProgress {
    counters: Mutex<Counters>,
    requests: Arc<RequestGroup>,
    notices: Mutex<Vec<String>>,
    waits: Mutex<HostDeferrals>,
    offline: AtomicBool,
    only_waiting: AtomicBool,
    end: Mutex<Option<Timestamp>>,
    planned: Mutex<BTreeMap<WorkLaneKey, u64>>,
    listed: Mutex<Vec<(String, String)>>,
    files: Mutex<Vec<Weak<ActiveFile>>>,
}

/// A file that a run is working on.
#[derive(Debug)]
pub struct ActiveFile {
    /// The name of the item.
    pub name: String,
    /// The [`Transfer`] as the progress of the download.
    pub transfer: Arc<Transfer>,
    phase: Mutex<&'static str>,
}

impl ActiveFile {
    /// Returns the current phase: `downloading`, or a phase that the [`Job`](crate::job::Job) has
    /// set.
    #[must_use]
    pub fn phase(&self) -> &'static str {
        *self.phase.lock()
    }

    /// Sets the current phase.
    pub fn set_phase(&self, phase: &'static str) {
        *self.phase.lock() = phase;
    }
}

/// The counters of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of items that are queued, active or finished, including those of earlier runs in
    /// this directory.
    pub items: u64,
    /// All inputs have been read.
    pub all_read: bool,
    /// The number of items with a file.
    pub done: u64,
    /// The number of finished items without a file.
    pub failed: u64,
    /// The number of lines without an item.
    pub bad_lines: u64,
    /// The number of lines whose item is already known.
    pub duplicates: u64,
    /// The number of items that were finished before this run.
    pub already: u64,
    /// The number of files of this run.
    pub files: u64,
    /// The number of bytes of these files.
    pub bytes: u64,
    /// The number of these files without evidence of their origin.
    pub unconfirmed: u64,
    /// The number of deferred items.
    pub deferred: u64,
    /// The number of items without a file, by reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl RunProgress {
    /// Adds an [`ActiveFile`] to the display, until the returned value is dropped.
    pub fn work_on(&self, name: &str) -> Arc<ActiveFile> {
        let file = Arc::new(ActiveFile {
            name: name.to_owned(),
            transfer: Arc::default(),
            phase: Mutex::new("downloading"),
        });
        let mut files = self.files.lock();
        files.retain(|file| file.strong_count() > 0);
        files.push(Arc::downgrade(&file));
        file
    }

    /// Lists the [`ActiveFile`]s, the largest first.
    #[must_use]
    pub fn files(&self) -> Vec<Arc<ActiveFile>> {
        let files = self.files.lock();
        let mut files: Vec<_> = files.iter().filter_map(Weak::upgrade).collect();
        let size = |file: &ActiveFile| {
            let received = file.transfer.received();
            file.transfer.expected().unwrap_or(0).max(received)
        };
        files.sort_by_key(|file| std::cmp::Reverse(size(file)));
        files
    }

    /// Changes the [`Counters`].
    pub fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.counters.lock());
    }

    /// Returns the [`Counters`].
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.lock().clone()
    }

    /// Returns the bytes of the files of this run.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.counters.lock().bytes
    }

    /// Cancels the run. Requests on the wire are finished, and no further step is started. Requests
    /// that only wait are dropped, and their items return to the queue.
    pub fn cancel(&self) {
        self.requests.cancel();
    }

    /// Tells whether the run was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.requests.is_cancelled()
    }

    /// Returns the [`RequestGroup`] of all requests of the run.
    #[must_use]
    pub const fn requests(&self) -> &Arc<RequestGroup> {
        &self.requests
    }

    /// Counts the [`Deferral`] of an item.
    pub(crate) fn defer(&self, deferral: &Deferral) {
        self.waits.lock().add(deferral);
        self.count(|counters| counters.deferred += 1);
    }

    /// Subtracts a deferred item from the count, because it was claimed again.
    pub(crate) fn resume(&self, deferral: &Deferral) {
        self.waits.lock().remove(deferral);
        self.count(|counters| counters.deferred = counters.deferred.saturating_sub(1));
    }

    /// Resets the count of deferred items, because all were claimed again.
    pub(crate) fn resume_all(&self) {
        self.waits.lock().clear();
        self.count(|counters| counters.deferred = 0);
    }

    /// Tells whether an item waits for a host.
    pub(crate) fn waits_for(&self, host: &str) -> bool {
        self.waits.lock().contains(host)
    }

    /// Lists the hosts that items wait for, in the order of their earliest due time.
    #[must_use]
    pub fn waiting(&self) -> Vec<WaitingFor> {
        self.waits.lock().list()
    }

    /// Lists the hosts that items wait for, with the due times and numbers of items.
    pub(crate) fn dues(&self) -> Vec<(String, Vec<(Timestamp, u64)>)> {
        self.waits.lock().dues()
    }

    /// Records whether the run can only wait.
    pub(crate) fn set_only_waiting(&self, only: bool) {
        self.only_waiting.store(only, Ordering::Release);
    }

    /// Tells whether the run can only wait.
    #[must_use]
    pub fn is_only_waiting(&self) -> bool {
        self.only_waiting.load(Ordering::Acquire)
    }

    /// Records the expected end of the run, if known.
    pub(crate) fn set_end(&self, end: Option<Timestamp>) {
        *self.end.lock() = end;
    }

    /// Returns the expected time until the end of the run, from limits and their use, pace, and
    /// deferred items. `None` while the time depends on the return of a host that is down.
    #[must_use]
    pub fn remaining_time(&self, now: Timestamp) -> Option<Duration> {
        let end = *self.end.lock();
        end.filter(|_| self.counters.lock().all_read)
            .map(|end| end.since(now))
    }

    /// Counts the [`WorkLaneKey`] of the first request of an item, in a dry run.
    pub fn plan(&self, lane: WorkLaneKey) {
        *self.planned.lock().entry(lane).or_default() += 1;
    }

    /// Returns the number of items of a dry run, by the lane of their first request.
    #[must_use]
    pub fn planned(&self) -> BTreeMap<WorkLaneKey, u64> {
        self.planned.lock().clone()
    }

    /// Ends the run, because the machine has no network.
    pub fn go_offline(&self) {
        self.offline.store(true, Ordering::Release);
        self.cancel();
    }

    pub(crate) fn is_offline(&self) -> bool {
        self.offline.load(Ordering::Acquire)
    }

    /// Adds a message for the user, which the display prints with its next update.
    pub fn notify(&self, text: impl Into<String>) {
        self.notices.lock().push(text.into());
    }

    /// Removes and returns the messages for the user.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        std::mem::take(&mut self.notices.lock())
    }

    /// Lists the URL of a file for an item, in a run that fetches no files.
    pub fn list(&self, name: &str, url: String) {
        self.listed.lock().push((name.to_owned(), url));
    }

    /// Removes and returns the listed names and URLs.
    #[must_use]
    pub fn listed(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.listed.lock())
    }
}
