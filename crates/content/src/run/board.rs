//! Where a run can be watched.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::waits::{Deferral, WaitingFor, Waits};
use crate::reason::Reason;

/// How a run stands. Written by the run, read by whoever shows it.
#[derive(Default)]
pub struct Board {
    tally: Mutex<Tally>,
    stopping: AtomicBool,
    winding_down: AtomicBool,
    changed: Notify,
    notices: Mutex<Vec<String>>,
    waits: Mutex<Waits>,
    offline: AtomicBool,
    only_waiting: AtomicBool,
    backlog: Mutex<Option<Duration>>,
    rehearsed: Mutex<BTreeMap<String, u64>>,
    listed: Mutex<Vec<(String, String)>>,
}

/// What has been counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Works that are queued, in hand or ended, those of earlier runs in this directory included.
    pub works: u64,
    /// Whether all inputs have been read.
    pub all_read: bool,
    /// Works with a file.
    pub done: u64,
    /// Works without.
    pub failed: u64,
    /// Lines that name no work.
    pub bad_lines: u64,
    /// Lines that name a work that is there already.
    pub duplicates: u64,
    /// Works that had their file before this run.
    pub already: u64,
    /// Files of this run.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Works that are deferred until a time.
    pub deferred: u64,
    /// Why works have no file, and how many.
    pub reasons: BTreeMap<Reason, u64>,
}

impl Board {
    /// Changes what has been counted.
    pub fn count(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.tally.lock());
    }

    /// Returns what has been counted.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally.lock().clone()
    }

    /// Asks the run to finish what is in flight and to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wind_down();
    }

    /// Starts nothing more: what only waits goes back into the queue.
    pub(super) fn wind_down(&self) {
        self.winding_down.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    pub(super) fn is_winding_down(&self) -> bool {
        self.winding_down.load(Ordering::Acquire)
    }

    /// Waits until the run winds down.
    pub(super) fn wound_down(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Tells whether the run was asked to end.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Notes what a work is deferred for.
    pub(super) fn defer(&self, deferral: &Deferral) {
        self.waits.lock().add(deferral);
        self.count(|tally| tally.deferred += 1);
    }

    /// Notes that a deferred work is taken up again.
    pub(super) fn take_up(&self, deferral: &Deferral) {
        self.waits.lock().remove(deferral);
        self.count(|tally| tally.deferred = tally.deferred.saturating_sub(1));
    }

    /// Notes that all deferred works are taken up again.
    pub(super) fn take_all_up(&self) {
        self.waits.lock().clear();
        self.count(|tally| tally.deferred = 0);
    }

    /// Lists the hosts that works wait for, those that are due first first.
    #[must_use]
    pub fn waiting(&self) -> Vec<WaitingFor> {
        self.waits.lock().list()
    }

    /// Returns when the last deferred work is due, in seconds since 1970.
    #[must_use]
    pub fn last_due(&self) -> Option<f64> {
        self.waits.lock().last_due()
    }

    /// Notes whether nothing is left to do but to wait.
    pub(super) fn set_only_waiting(&self, only: bool) {
        self.only_waiting.store(only, Ordering::Release);
    }

    /// Tells whether nothing is left to do but to wait.
    #[must_use]
    pub fn is_only_waiting(&self) -> bool {
        self.only_waiting.load(Ordering::Acquire)
    }

    /// Notes how long the limits make what is queued take at least.
    pub(super) fn set_backlog(&self, least: Option<Duration>) {
        *self.backlog.lock() = least;
    }

    /// Returns how long the limits make what is queued take at least, where that is known.
    #[must_use]
    pub fn backlog(&self) -> Option<Duration> {
        *self.backlog.lock()
    }

    /// Notes where the first request of a work would go.
    pub(super) fn rehearse(&self, lane: &str) {
        *self.rehearsed.lock().entry(lane.to_owned()).or_default() += 1;
    }

    /// Returns how many works would go where first.
    #[must_use]
    pub fn rehearsed(&self) -> BTreeMap<String, u64> {
        self.rehearsed.lock().clone()
    }

    /// Ends the run: the machine has no network.
    pub(super) fn go_offline(&self) {
        self.offline.store(true, Ordering::Release);
        self.wind_down();
    }

    pub(super) fn is_offline(&self) -> bool {
        self.offline.load(Ordering::Acquire)
    }

    /// Leaves a sentence for a person, who is told between two drawings of the screen.
    pub fn say(&self, text: &str) {
        self.tell(text.to_owned());
    }

    /// Leaves a sentence for a person.
    pub(super) fn tell(&self, text: String) {
        self.notices.lock().push(text);
    }

    /// Takes the sentences that were left.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        std::mem::take(&mut self.notices.lock())
    }

    pub(super) fn list(&self, work_id: &str, url: String) {
        self.listed.lock().push((work_id.to_owned(), url));
    }

    /// Takes the places that were listed.
    #[must_use]
    pub fn listed(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.listed.lock())
    }
}
