//! A process's copy of a site that several processes share, and its synchronisation.
//!
//! A record has three parts:
//!
//! - The header is all state except the history of permits: breakers, reservations, slots. A header
//!   has a few hundred bytes and is written whole when it has changed.
//! - The snapshot is the history of every budget at one time.
//! - The log contains the changes since then. An `enter` that goes at once appends sixteen bytes
//!   and writes nothing else. If the log is full, a new snapshot replaces snapshot and log.
//!
//! An outdated copy reads only the parts that it lacks; a current copy reads only the position.

use std::sync::Arc;

use docstokg_policy::breaker::Breaker;
use docstokg_policy::budget::{Budget, History};
use docstokg_policy::extension::Extensions;
use docstokg_policy::site::Site;
use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;

use crate::handle::SiteView;

mod image;
mod layout;

pub(crate) use image::SiteImage;
pub(crate) use layout::LOG_ENTRY_BYTES;
use layout::{HeaderRef, RecordHeader, entry, read_entry};

/// The version of a record, or of a copy of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordPosition {
    /// The number of snapshots so far.
    pub(crate) snapshot: u64,
    /// The number of headers so far.
    pub(crate) header: u64,
    /// The number of changes in the log.
    pub(crate) logged: usize,
}

/// The writes of one operation, which take effect together.
pub(crate) struct Commit<'a> {
    /// The header, if it has changed.
    pub(crate) header: Option<&'a [u8]>,
    /// A new snapshot, if the log is full; the log is empty after it.
    pub(crate) snapshot: Option<&'a [u8]>,
    /// The entries to append to the log.
    pub(crate) log: &'a [u8],
    /// The end and the reason of the current open, for operators who read the record. Present only
    /// with a header that has changed.
    pub(crate) open: Option<(BootInstant, String)>,
}

/// The record of a site, while its lock is held.
pub(crate) trait SiteRecord {
    /// The error of a read or a write.
    type Error: From<CorruptRecord>;

    /// Returns the number of changes in a full log. The position must have been read before.
    fn log_entries(&self) -> usize;

    /// Returns the current [`RecordPosition`].
    fn position(&mut self) -> Result<RecordPosition, Self::Error>;

    /// Reads the header.
    fn header(&mut self) -> Result<Vec<u8>, Self::Error>;

    /// Reads the snapshot.
    fn snapshot(&mut self) -> Result<Vec<u8>, Self::Error>;

    /// Reads the log from the `from`-th change on.
    fn log(&mut self, from: usize) -> Result<Vec<u8>, Self::Error>;

    /// Writes a [`Commit`], and returns the new position.
    fn write(&mut self, commit: &Commit<'_>) -> Result<RecordPosition, Self::Error>;
}

/// A record that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of the site is corrupt")]
pub(crate) struct CorruptRecord;

/// The names of the budgets whose indices a handle has returned. A child process starts with the
/// names of its parent.
pub(crate) type BudgetNames = Arc<Mutex<Vec<String>>>;

/// The copy of a site in this process.
pub(crate) struct Replica {
    site: Site,
    /// The names of the budgets, in the order of this process.
    names: Vec<String>,
    /// The index in this process of each budget of the record.
    order: Vec<usize>,
    /// The [`RecordPosition`] of the copy; `None` if the copy may be wrong.
    position: Option<RecordPosition>,
    header: Vec<u8>,
    scratch: Vec<u8>,
    /// The buffer in which snapshots are encoded.
    snapshot: Vec<u8>,
    who: Arc<str>,
}

impl Replica {
    /// Creates an empty copy. Reservations and permits are numbered from `first` on, in a range of
    /// this process alone. Breakers that open are recorded as opened by `who`.
    pub(crate) fn new(first: u64, who: Arc<str>) -> Self {
        let mut site = Site::default();
        site.number_from(first);
        Self {
            site,
            names: Vec::new(),
            order: Vec::new(),
            position: None,
            header: Vec::new(),
            scratch: Vec::new(),
            snapshot: Vec::new(),
            who,
        }
    }

    /// Creates an empty copy in which the budgets have the indices of `names`.
    pub(crate) fn naming(names: &BudgetNames) -> Self {
        let mut replica = Self::new(crate::process::first_name(), crate::process::signature());
        for name in &*names.lock() {
            replica.budget(name);
        }
        replica
    }

    /// Returns the index of a budget, and records its name for a child process.
    pub(crate) fn name(&mut self, names: &BudgetNames, name: &str) -> usize {
        let index = self.budget(name);
        // Other processes may have added budgets in between.
        names.lock().clone_from(&self.names);
        index
    }

    /// Returns the index of a budget in this process, which is added if necessary.
    pub(crate) fn budget(&mut self, name: &str) -> usize {
        if let Some(index) = self.names.iter().position(|known| known == name) {
            return index;
        }
        self.names.push(name.to_owned());
        self.site.ensure_budgets(self.names.len());
        self.names.len() - 1
    }

    /// Runs one operation on the [`SiteRecord`]: updates the copy, decides, and writes the changes.
    pub(crate) fn run<R: SiteRecord, T>(
        &mut self,
        record: &mut R,
        step: impl FnOnce(&mut Site) -> T,
    ) -> Result<T, R::Error> {
        let done = self.try_run(record, step);
        if done.is_err() {
            self.position = None;
        }
        done
    }

    #[inline]
    fn try_run<R: SiteRecord, T>(
        &mut self,
        record: &mut R,
        step: impl FnOnce(&mut Site) -> T,
    ) -> Result<T, R::Error> {
        let position = record.position()?;
        let grown = if self.position == Some(position) && self.order.len() == self.names.len() {
            false
        } else {
            self.catch_up(record, position)?
        };
        let done = step(&mut self.site);
        let touched = self.site.take_touched() | grown;
        self.scratch.clear();
        for (index, budget) in self.order.iter().enumerate() {
            self.site.budgets_mut()[*budget]
                .drain_journal(|change| self.scratch.extend_from_slice(&entry(index, change)));
        }
        if !touched && self.scratch.is_empty() {
            return Ok(done);
        }
        let full = position.logged + self.scratch.len() / LOG_ENTRY_BYTES > record.log_entries();
        let header = if touched {
            self.site.sign(&self.who);
            Some(self.encode_header()).filter(|header| *header != self.header)
        } else {
            None
        };
        if header.is_none() && self.scratch.is_empty() {
            return Ok(done);
        }
        if full {
            self.encode_snapshot();
        }
        let snapshot = full.then_some(self.snapshot.as_slice());
        let log: &[u8] = if full { &[] } else { &self.scratch };
        let open = if header.is_some() { self.open() } else { None };
        self.position = Some(record.write(&Commit {
            header: header.as_deref(),
            snapshot,
            log,
            open,
        })?);
        if let Some(header) = header {
            self.header = header;
        }
        Ok(done)
    }

    /// Copies the state for display.
    pub(crate) fn view(&self, now: BootInstant) -> SiteView {
        SiteView {
            site: self.site.clone(),
            budgets: self.names.clone(),
            now,
        }
    }

    /// Reads the changes in the [`SiteRecord`]. Returns whether this process has budgets that the
    /// record does not contain.
    #[cold]
    fn catch_up<R: SiteRecord>(
        &mut self,
        record: &mut R,
        position: RecordPosition,
    ) -> Result<bool, R::Error> {
        let known = self
            .position
            .filter(|known| known.snapshot == position.snapshot && known.logged <= position.logged);
        if known.is_none_or(|known| known.header != position.header) {
            self.header = record.header()?;
            self.decode_header()?;
        }
        let from = if let Some(known) = known {
            known.logged
        } else {
            let snapshot = record.snapshot()?;
            self.decode_snapshot(&snapshot)?;
            0
        };
        if from < position.logged {
            let log = record.log(from)?;
            self.replay(&log)?;
        }
        self.position = Some(position);
        let grown = self.order.len() < self.names.len();
        for index in 0..self.names.len() {
            if !self.order.contains(&index) {
                self.site.budgets_mut()[index].keep_journal();
                self.order.push(index);
            }
        }
        Ok(grown)
    }

    /// Returns the end and the reason of the longest open, of the host or of a single role.
    pub(crate) fn open(&self) -> Option<(BootInstant, String)> {
        let (breaker, isolated) = self.site.breakers();
        let of_roles = isolated.iter().filter_map(|(role, breaker)| {
            let (until, reason) = breaker.open_until(BootInstant::ZERO)?;
            Some((until, format!("{reason} ({role} alone)")))
        });
        let of_host = breaker.open_until(BootInstant::ZERO);
        of_roles
            .chain(of_host.map(|(until, reason)| (until, reason.to_string())))
            .max_by_key(|(until, _)| *until)
    }

    fn encode_header(&self) -> Vec<u8> {
        self.header_of(&self.site)
    }

    /// Encodes the header of a [`Site`] with the same budgets.
    fn header_of(&self, site: &Site) -> Vec<u8> {
        let (breaker, isolated) = site.breakers();
        let budgets = self
            .order
            .iter()
            .map(|index| (self.names[*index].as_str(), &site.budgets()[*index]))
            .collect();
        // A write to memory does not fail, and every type of the header can be encoded.
        postcard::to_allocvec(&HeaderRef {
            breaker,
            isolated,
            budgets,
            extensions: &site.extensions(),
        })
        .unwrap_or_default()
    }

    fn decode_header(&mut self) -> Result<(), CorruptRecord> {
        self.order.clear();
        if self.header.is_empty() {
            self.site.set_breakers(Breaker::default(), Vec::new());
            self.site.set_extensions(Extensions::default());
            for budget in self.site.budgets_mut() {
                *budget = Budget::default();
            }
            return Ok(());
        }
        let header: RecordHeader = postcard::from_bytes(&self.header).map_err(|_| CorruptRecord)?;
        self.site.set_breakers(header.breaker, header.isolated);
        self.site.set_extensions(header.extensions);
        for (name, theirs) in header.budgets {
            let index = self.budget(&name);
            let budget = &mut self.site.budgets_mut()[index];
            budget.adopt(theirs);
            budget.keep_journal();
            self.order.push(index);
        }
        Ok(())
    }

    #[cold]
    fn encode_snapshot(&mut self) {
        let histories: Vec<History> = self
            .order
            .iter()
            .map(|index| self.site.budgets()[*index].history())
            .collect();
        let mut buffer = std::mem::take(&mut self.snapshot);
        buffer.clear();
        self.snapshot = postcard::to_extend(&histories, buffer).unwrap_or_default();
    }

    fn decode_snapshot(&mut self, snapshot: &[u8]) -> Result<(), CorruptRecord> {
        let mut histories: Vec<History> = if snapshot.is_empty() {
            Vec::new()
        } else {
            postcard::from_bytes(snapshot).map_err(|_| CorruptRecord)?
        };
        // A budget that was added after the snapshot has no history in it.
        histories.resize_with(self.order.len().max(histories.len()), History::default);
        for (index, history) in self.order.iter().zip(histories) {
            self.site.budgets_mut()[*index].restore(history);
        }
        Ok(())
    }

    fn replay(&mut self, log: &[u8]) -> Result<(), CorruptRecord> {
        for bytes in log.chunks_exact(LOG_ENTRY_BYTES) {
            let (index, change) = read_entry(bytes).ok_or(CorruptRecord)?;
            let index = *self.order.get(index).ok_or(CorruptRecord)?;
            self.site.budgets_mut()[index].replay(change);
        }
        Ok(())
    }

    /// Marks the copy as outdated, because another record has replaced its record.
    pub(crate) fn distrust(&mut self) {
        self.position = None;
    }

    /// Updates the copy.
    pub(crate) fn read<R: SiteRecord>(&mut self, record: &mut R) -> Result<(), R::Error> {
        let position = record.position()?;
        self.catch_up(record, position)?;
        Ok(())
    }

    /// Moves every instant of the copy to the clock of this boot, and writes the copy as the
    /// [`SiteRecord`].
    pub(crate) fn rebase<R: SiteRecord>(
        &mut self,
        record: &mut R,
        shift: &dyn Fn(BootInstant) -> BootInstant,
        now: BootInstant,
    ) -> Result<(), R::Error> {
        record.position()?;
        self.site.rebase(shift, now);
        let header = self.encode_header();
        self.encode_snapshot();
        self.position = Some(record.write(&Commit {
            header: Some(&header),
            snapshot: Some(&self.snapshot),
            log: &[],
            open: self.open(),
        })?);
        self.header = header;
        Ok(())
    }
}
