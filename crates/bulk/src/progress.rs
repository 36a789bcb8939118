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
    /// The progress of the download.
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
    /// the same directory.
    pub items: u64,
    /// All inputs have been read.
    pub all_read: bool,
    /// The number of items with a file.
    pub done: u64,
    /// The number of finished items without a file.
    pub failed: u64,
    /// The number of input lines that do not name an item.
    pub bad_lines: u64,
    /// The number of input lines whose item is already known.
    pub duplicates: u64,
    /// The number of items that were finished before this run.
    pub already: u64,
    /// The number of files that this run has obtained.
    pub files: u64,
    /// The size of the files that this run has obtained, in bytes.
    pub bytes: u64,
    /// The number of PDFs of this run without evidence that they belong to their item.
    pub unconfirmed: u64,
    /// The number of deferred items.
    pub deferred: u64,
    /// The number of items without a file, by reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl RunProgress {
    /// Shows a file in the display until the returned [`ActiveFile`] is dropped.
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

    /// Returns the files that are being worked on, the largest first.
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

    /// Returns the size of the files that this run has obtained, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.counters.lock().bytes
    }

    /// Cancels the run. Requests on the wire are finished, and no further step is started. Requests
    /// that still wait for admission are dropped, and their items return to the queue.
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

    /// Counts an item as deferred.
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

    /// Lists the hosts that deferred items wait for, in the order of their earliest due time.
    #[must_use]
    pub fn waiting(&self) -> Vec<WaitingFor> {
        self.waits.lock().list()
    }

    /// Lists the hosts that items wait for, with the due times and numbers of items.
    pub(crate) fn dues(&self) -> Vec<(String, Vec<(Timestamp, u64)>)> {
        self.waits.lock().dues()
    }

    /// Records whether the run is only waiting: no step is active or can be started now.
    pub(crate) fn set_only_waiting(&self, only: bool) {
        self.only_waiting.store(only, Ordering::Release);
    }

    /// Returns whether the run is only waiting: no step is active or can be started now.
    #[must_use]
    pub fn is_only_waiting(&self) -> bool {
        self.only_waiting.load(Ordering::Acquire)
    }

    /// Records the expected end of the run; `None` if it is not known.
    pub(crate) fn set_end(&self, end: Option<Timestamp>) {
        *self.end.lock() = end;
    }

    /// Returns the expected remaining time of the run, computed from rate limits, the current pace
    /// and deferred items. `None` while the time depends on a host that is down.
    #[must_use]
    pub fn remaining_time(&self, now: Timestamp) -> Option<Duration> {
        let end = *self.end.lock();
        end.filter(|_| self.counters.lock().all_read)
            .map(|end| end.since(now))
    }

    /// Counts an item of a dry run under the lane of its first request.
    pub fn plan(&self, lane: WorkLaneKey) {
        *self.planned.lock().entry(lane).or_default() += 1;
    }

    /// Returns the number of items of a dry run for each lane, by the first request of the item.
    #[must_use]
    pub fn planned(&self) -> BTreeMap<WorkLaneKey, u64> {
        self.planned.lock().clone()
    }

    /// Records that the machine has no network, which ends the run.
    pub fn go_offline(&self) {
        self.offline.store(true, Ordering::Release);
        self.cancel();
    }

    pub(crate) fn is_offline(&self) -> bool {
        self.offline.load(Ordering::Acquire)
    }

    /// Adds a message for the user. The display prints the message with its next update.
    pub fn notify(&self, text: impl Into<String>) {
        self.notices.lock().push(text.into());
    }

    /// Removes and returns the messages for the user.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        std::mem::take(&mut self.notices.lock())
    }

    /// Adds the URL of a file that was found for an item, in a run that only lists URLs.
    pub fn list(&self, name: &str, url: String) {
        self.listed.lock().push((name.to_owned(), url));
    }

    /// Removes and returns the URLs added by [`RunProgress::list`], each with the name of its item.
    #[must_use]
    pub fn listed(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.listed.lock())
    }
}
