//! The progress of a run: what has been counted, what it waits for, and the token that cancels it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use docstokg_hub::{RequestGroup, Transfer};
use docstokg_policy::time::Timestamp;
use parking_lot::Mutex;

use crate::deferral::{Deferral, HostDeferrals, WaitingFor};
use crate::lane::WorkLaneKey;

/// The progress of a run. Written by the run, read by the display.
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

/// A file that a run works on.
#[derive(Debug)]
pub struct ActiveFile {
    /// The name of its item.
    pub name: String,
    /// How far its download is.
    pub transfer: Arc<Transfer>,
    phase: Mutex<&'static str>,
}

impl ActiveFile {
    /// Returns what is done with it: `downloading`, or what its job calls it.
    #[must_use]
    pub fn phase(&self) -> &'static str {
        *self.phase.lock()
    }

    /// Says what is done with it.
    pub fn set_phase(&self, phase: &'static str) {
        *self.phase.lock() = phase;
    }
}

/// What has been counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Items that are queued, active or ended, those of earlier runs in this directory included.
    pub items: u64,
    /// Whether all inputs have been read.
    pub all_read: bool,
    /// Items with a file.
    pub done: u64,
    /// Items without.
    pub failed: u64,
    /// Lines that name no item.
    pub bad_lines: u64,
    /// Lines that name an item that is there already.
    pub duplicates: u64,
    /// Items that had ended before this run.
    pub already: u64,
    /// Files of this run.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that do not say whose they are.
    pub unconfirmed: u64,
    /// Items that are deferred.
    pub deferred: u64,
    /// Why items have no file, and how many.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl RunProgress {
    /// Shows a file as long as the returned value lives.
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

    /// Lists the files that are worked on, the largest first.
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

    /// Changes what has been counted.
    pub fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.counters.lock());
    }

    /// Returns what has been counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.lock().clone()
    }

    /// Returns the bytes of the files of this run.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.counters.lock().bytes
    }

    /// Asks the run to finish the requests that are on the wire and to end: no step is started any
    /// more, and what only waits goes back into the queue.
    pub fn cancel(&self) {
        self.requests.cancel();
    }

    /// Tells whether the run was asked to end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.requests.is_cancelled()
    }

    /// Returns the group of all requests of the run.
    #[must_use]
    pub const fn requests(&self) -> &Arc<RequestGroup> {
        &self.requests
    }

    /// Counts a deferred item.
    pub(crate) fn defer(&self, deferral: &Deferral) {
        self.waits.lock().add(deferral);
        self.count(|counters| counters.deferred += 1);
    }

    /// A deferred item is claimed again.
    pub(crate) fn resume(&self, deferral: &Deferral) {
        self.waits.lock().remove(deferral);
        self.count(|counters| counters.deferred = counters.deferred.saturating_sub(1));
    }

    /// All deferred items are claimed again.
    pub(crate) fn resume_all(&self) {
        self.waits.lock().clear();
        self.count(|counters| counters.deferred = 0);
    }

    /// Tells whether an item waits for a host.
    pub(crate) fn waits_for(&self, host: &str) -> bool {
        self.waits.lock().contains(host)
    }

    /// Lists the hosts that items wait for, the one that is due first first.
    #[must_use]
    pub fn waiting(&self) -> Vec<WaitingFor> {
        self.waits.lock().list()
    }

    /// Lists the hosts that items wait for, and how many of them are due when.
    pub(crate) fn dues(&self) -> Vec<(String, Vec<(Timestamp, u64)>)> {
        self.waits.lock().dues()
    }

    /// Records whether nothing is left to do but to wait.
    pub(crate) fn set_only_waiting(&self, only: bool) {
        self.only_waiting.store(only, Ordering::Release);
    }

    /// Tells whether nothing is left to do but to wait.
    #[must_use]
    pub fn is_only_waiting(&self) -> bool {
        self.only_waiting.load(Ordering::Acquire)
    }

    /// Records when the run will have ended, as far as is known.
    pub(crate) fn set_end(&self, end: Option<Timestamp>) {
        *self.end.lock() = end;
    }

    /// Returns the time until the run will have ended, as far as is known by now: from the limits
    /// and what is used of them, the pace so far, and what is deferred. `None` while that depends on
    /// when a host that is down is back.
    #[must_use]
    pub fn remaining_time(&self, now: Timestamp) -> Option<Duration> {
        let end = *self.end.lock();
        end.filter(|_| self.counters.lock().all_read)
            .map(|end| end.since(now))
    }

    /// Counts where the first request of an item would go, in a dry run.
    pub fn plan(&self, lane: WorkLaneKey) {
        *self.planned.lock().entry(lane).or_default() += 1;
    }

    /// Returns how many items of a dry run would go where first.
    #[must_use]
    pub fn planned(&self) -> BTreeMap<WorkLaneKey, u64> {
        self.planned.lock().clone()
    }

    /// Ends the run: the machine has no network.
    pub fn go_offline(&self) {
        self.offline.store(true, Ordering::Release);
        self.cancel();
    }

    pub(crate) fn is_offline(&self) -> bool {
        self.offline.load(Ordering::Acquire)
    }

    /// Leaves a sentence for the user, which the display prints when it draws next.
    pub fn notify(&self, text: impl Into<String>) {
        self.notices.lock().push(text.into());
    }

    /// Takes the sentences that were left.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        std::mem::take(&mut self.notices.lock())
    }

    /// Lists what would be fetched for an item, in a run that fetches no file.
    pub fn list(&self, name: &str, url: String) {
        self.listed.lock().push((name.to_owned(), url));
    }

    /// Takes what was listed: names and URLs.
    #[must_use]
    pub fn listed(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.listed.lock())
    }
}
