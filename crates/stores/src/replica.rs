//! One process's copy of a site that several processes share, and how it is kept up to date.
//!
//! What is shared is a record of three parts. The HEAD is everything but the history of grants:
//! breakers, reservations, slots; a few hundred bytes, written whole when it has changed. The PAGE
//! is the history of every budget as it was once. The LOG is what was spent and taken back since
//! then: an `enter` that goes at once appends sixteen bytes to it and writes nothing else. When the
//! log is full, a new page takes its place.
//!
//! A copy that is behind reads the part it lacks; one that is up to date reads nothing.

use std::sync::Arc;

use docstokg_policy::breaker::Breaker;
use docstokg_policy::budget::{Budget, Change, FirstLayout, History};
use docstokg_policy::extension::Extensions;
use docstokg_policy::role::Role;
use docstokg_policy::site::Site;
use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::handle::SiteView;

/// The length of one change in the log.
pub(crate) const ENTRY: usize = 16;

/// How far a record, or a copy of it, has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Counts the pages.
    pub(crate) page: u64,
    /// Counts the heads.
    pub(crate) head: u64,
    /// The changes in the log.
    pub(crate) logged: usize,
}

/// What is written in one step. All of it counts, or none.
pub(crate) struct Commit<'a> {
    /// The head, if it has changed.
    pub(crate) head: Option<&'a [u8]>,
    /// A new page, if the log is full: the log is empty after it.
    pub(crate) page: Option<&'a [u8]>,
    /// What is added to the log.
    pub(crate) log: &'a [u8],
    /// Until when the host is left alone, and why, with a head that has changed; for people who
    /// read the record.
    pub(crate) open: Option<(BootInstant, String)>,
}

/// The record of a site, held under its lock.
pub(crate) trait Record {
    /// What can go wrong while it is read or written.
    type Error: From<Corrupt>;

    /// Returns how many changes the log holds before a page takes their place, once the position is
    /// known.
    fn log_entries(&self) -> usize;

    /// Returns how far it has come.
    fn position(&mut self) -> Result<Position, Self::Error>;

    /// Reads the head.
    fn head(&mut self) -> Result<Vec<u8>, Self::Error>;

    /// Reads the page.
    fn page(&mut self) -> Result<Vec<u8>, Self::Error>;

    /// Reads the log from the `from`-th change on.
    fn log(&mut self, from: usize) -> Result<Vec<u8>, Self::Error>;

    /// Writes, and returns how far it has come.
    fn write(&mut self, commit: &Commit<'_>) -> Result<Position, Self::Error>;
}

/// A record that does not mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of the site is garbled")]
pub(crate) struct Corrupt;

/// The names of the budgets that a handle has given out indices for. A child process starts with
/// those of its parent.
pub(crate) type Names = Arc<Mutex<Vec<String>>>;

/// The copy of a site in this process.
pub(crate) struct Replica {
    site: Site,
    /// The names of the budgets, in the order of this process.
    names: Vec<String>,
    /// The place in this process of each budget of the record.
    order: Vec<usize>,
    /// How far the copy has come; `None` if nothing of it can be trusted.
    position: Option<Position>,
    head: Vec<u8>,
    scratch: Vec<u8>,
    /// The room in which pages are written.
    page: Vec<u8>,
    who: Arc<str>,
}

#[derive(Serialize)]
struct HeadRef<'a> {
    breaker: &'a Breaker,
    isolated: &'a [(Role, Breaker)],
    budgets: Vec<(&'a str, &'a Budget)>,
    extensions: &'a Extensions,
}

#[derive(Deserialize)]
struct Head {
    breaker: Breaker,
    isolated: Vec<(Role, Breaker)>,
    budgets: Vec<(String, Budget)>,
    extensions: Extensions,
}

/// The head as the first layout of the stores wrote it.
#[derive(Deserialize)]
struct FirstHead {
    breaker: Breaker,
    isolated: Vec<(Role, Breaker)>,
    budgets: Vec<(String, FirstLayout)>,
}

/// Rewrites a head of the first layout as one of this layout. Page and log are the same in both.
pub(crate) fn from_first_layout(head: &[u8]) -> Result<Vec<u8>, Corrupt> {
    if head.is_empty() {
        return Ok(Vec::new());
    }
    let FirstHead {
        breaker,
        isolated,
        budgets,
    } = postcard::from_bytes(head).map_err(|_| Corrupt)?;
    let budgets: Vec<(String, Budget)> = budgets
        .into_iter()
        .map(|(name, first)| (name, Budget::from(first)))
        .collect();
    let budgets = budgets
        .iter()
        .map(|(name, budget)| (name.as_str(), budget))
        .collect();
    let head = HeadRef {
        breaker: &breaker,
        isolated: &isolated,
        budgets,
        extensions: &Extensions::default(),
    };
    postcard::to_allocvec(&head).map_err(|_| Corrupt)
}

impl Replica {
    /// Starts an empty copy. Reservations and passes are named from `first` on, which no other
    /// process uses; `who` signs opens.
    pub(crate) fn new(first: u64, who: Arc<str>) -> Self {
        let mut site = Site::default();
        site.number_from(first);
        Self {
            site,
            names: Vec::new(),
            order: Vec::new(),
            position: None,
            head: Vec::new(),
            scratch: Vec::new(),
            page: Vec::new(),
            who,
        }
    }

    /// Starts an empty copy that knows these budgets by their indices.
    pub(crate) fn naming(names: &Names) -> Self {
        let mut replica = Self::new(crate::process::first_name(), crate::process::signature());
        for name in &*names.lock() {
            replica.budget(name);
        }
        replica
    }

    /// Returns the index of a budget, and remembers it for a child process.
    pub(crate) fn name(&mut self, names: &Names, name: &str) -> usize {
        let place = self.budget(name);
        // In between may lie budgets that other processes have named.
        names.lock().clone_from(&self.names);
        place
    }

    /// Returns the index of a budget in this process.
    pub(crate) fn budget(&mut self, name: &str) -> usize {
        if let Some(place) = self.names.iter().position(|known| known == name) {
            return place;
        }
        self.names.push(name.to_owned());
        self.site.ensure_budgets(self.names.len());
        self.names.len() - 1
    }

    /// Runs one step on the record: brings the copy up to date, decides, and writes what has
    /// changed.
    pub(crate) fn run<R: Record, T>(
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
    fn try_run<R: Record, T>(
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
        for (place, budget) in self.order.iter().enumerate() {
            self.site.budgets_mut()[*budget]
                .drain_journal(|change| self.scratch.extend_from_slice(&entry(place, change)));
        }
        if !touched && self.scratch.is_empty() {
            return Ok(done);
        }
        let full = position.logged + self.scratch.len() / ENTRY > record.log_entries();
        let head = if touched {
            self.site.sign(&self.who);
            Some(self.encode_head()).filter(|head| *head != self.head)
        } else {
            None
        };
        if head.is_none() && self.scratch.is_empty() {
            return Ok(done);
        }
        if full {
            self.encode_page();
        }
        let page = full.then_some(self.page.as_slice());
        let log: &[u8] = if full { &[] } else { &self.scratch };
        let open = if head.is_some() { self.open() } else { None };
        self.position = Some(record.write(&Commit {
            head: head.as_deref(),
            page,
            log,
            open,
        })?);
        if let Some(head) = head {
            self.head = head;
        }
        Ok(done)
    }

    /// Copies the state for somebody who wants to look at it.
    pub(crate) fn view(&self, now: BootInstant) -> SiteView {
        SiteView {
            site: self.site.clone(),
            budgets: self.names.clone(),
            now,
        }
    }

    /// Reads what is new in the record. Returns whether this process has budgets that the record
    /// does not know.
    #[cold]
    fn catch_up<R: Record>(
        &mut self,
        record: &mut R,
        position: Position,
    ) -> Result<bool, R::Error> {
        let known = self
            .position
            .filter(|known| known.page == position.page && known.logged <= position.logged);
        if known.is_none_or(|known| known.head != position.head) {
            self.head = record.head()?;
            self.decode_head()?;
        }
        let from = if let Some(known) = known {
            known.logged
        } else {
            let page = record.page()?;
            self.decode_page(&page)?;
            0
        };
        if from < position.logged {
            let log = record.log(from)?;
            self.replay(&log)?;
        }
        self.position = Some(position);
        let grown = self.order.len() < self.names.len();
        for place in 0..self.names.len() {
            if !self.order.contains(&place) {
                self.site.budgets_mut()[place].keep_journal();
                self.order.push(place);
            }
        }
        Ok(grown)
    }

    fn open(&self) -> Option<(BootInstant, String)> {
        let (until, reason) = self.site.breaker().open_until(BootInstant::ZERO)?;
        Some((until, reason.to_string()))
    }

    fn encode_head(&self) -> Vec<u8> {
        let (breaker, isolated) = self.site.breakers();
        let budgets = self
            .order
            .iter()
            .map(|place| (self.names[*place].as_str(), &self.site.budgets()[*place]))
            .collect();
        // Writing to memory does not fail, and every type of the head can be written.
        postcard::to_allocvec(&HeadRef {
            breaker,
            isolated,
            budgets,
            extensions: self.site.extensions(),
        })
        .unwrap_or_default()
    }

    fn decode_head(&mut self) -> Result<(), Corrupt> {
        self.order.clear();
        if self.head.is_empty() {
            self.site.set_breakers(Breaker::default(), Vec::new());
            self.site.set_extensions(Extensions::default());
            for budget in self.site.budgets_mut() {
                *budget = Budget::default();
            }
            return Ok(());
        }
        let head: Head = match postcard::from_bytes(&self.head) {
            Ok(head) => head,
            // A process of the version before this one may still be running and writing.
            Err(_) => postcard::from_bytes(&from_first_layout(&self.head)?).map_err(|_| Corrupt)?,
        };
        self.site.set_breakers(head.breaker, head.isolated);
        self.site.set_extensions(head.extensions);
        for (name, theirs) in head.budgets {
            let place = self.budget(&name);
            let mine = &mut self.site.budgets_mut()[place];
            mine.adopt(theirs);
            mine.keep_journal();
            self.order.push(place);
        }
        Ok(())
    }

    #[cold]
    fn encode_page(&mut self) {
        let histories: Vec<History> = self
            .order
            .iter()
            .map(|place| self.site.budgets()[*place].history())
            .collect();
        let mut room = std::mem::take(&mut self.page);
        room.clear();
        self.page = postcard::to_extend(&histories, room).unwrap_or_default();
    }

    fn decode_page(&mut self, page: &[u8]) -> Result<(), Corrupt> {
        let mut histories: Vec<History> = if page.is_empty() {
            Vec::new()
        } else {
            postcard::from_bytes(page).map_err(|_| Corrupt)?
        };
        // A budget that was named after the page was written has no history in it.
        histories.resize_with(self.order.len().max(histories.len()), History::default);
        for (place, history) in self.order.iter().zip(histories) {
            self.site.budgets_mut()[*place].restore(history);
        }
        Ok(())
    }

    fn replay(&mut self, log: &[u8]) -> Result<(), Corrupt> {
        for bytes in log.chunks_exact(ENTRY) {
            let (place, change) = read_entry(bytes).ok_or(Corrupt)?;
            let place = *self.order.get(place).ok_or(Corrupt)?;
            self.site.budgets_mut()[place].replay(change);
        }
        Ok(())
    }

    /// Forgets how far the copy has come: the record is another one.
    pub(crate) fn distrust(&mut self) {
        self.position = None;
    }

    /// Brings the copy up to date.
    pub(crate) fn read<R: Record>(&mut self, record: &mut R) -> Result<(), R::Error> {
        let position = record.position()?;
        self.catch_up(record, position)?;
        Ok(())
    }

    /// Moves every instant of the copy to the clock of this start of the machine, and writes it as
    /// the record.
    pub(crate) fn rebase<R: Record>(
        &mut self,
        record: &mut R,
        shift: &dyn Fn(BootInstant) -> BootInstant,
        now: BootInstant,
    ) -> Result<(), R::Error> {
        record.position()?;
        self.site.rebase(shift, now);
        let head = self.encode_head();
        self.encode_page();
        self.position = Some(record.write(&Commit {
            head: Some(&head),
            page: Some(&self.page),
            log: &[],
            open: self.open(),
        })?);
        self.head = head;
        Ok(())
    }
}

/// Writes a change: instant, weight, budget, kind.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a site has a handful of budgets"
)]
fn entry(place: usize, change: Change) -> [u8; ENTRY] {
    let (kind, weight, at) = match change {
        Change::Spent { weight, at } => (0, weight, at),
        Change::TakenBack { weight, at } => (1, weight, at),
    };
    let mut bytes = [0; ENTRY];
    bytes[..8].copy_from_slice(&at.as_micros().to_le_bytes());
    bytes[8..12].copy_from_slice(&weight.to_le_bytes());
    bytes[12..14].copy_from_slice(&(place as u16).to_le_bytes());
    bytes[14] = kind;
    bytes
}

fn read_entry(bytes: &[u8]) -> Option<(usize, Change)> {
    let at = BootInstant::from_micros(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?));
    let weight = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?);
    let place = u16::from_le_bytes(bytes.get(12..14)?.try_into().ok()?);
    let change = match bytes.get(14)? {
        0 => Change::Spent { weight, at },
        1 => Change::TakenBack { weight, at },
        _ => return None,
    };
    Some((usize::from(place), change))
}
