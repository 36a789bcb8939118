//! The record of a site in mapped memory, twice: one half counts, the other is written and then
//! made to count.
//!
//! A process that is killed between two instructions leaves the half that counts as it was. What is
//! added to the log lies behind the entries that count until one word, the number of them, says
//! otherwise.

use std::sync::atomic::Ordering::{Relaxed, Release};

use docstokg_policy::time::BootInstant;

use super::arena::{Arena, Class, Refused, block};
use super::sys::Segment;
use crate::replica::{Commit, Corrupt, ENTRY, Position, Record};

/// The places of things in one half.
mod half {
    pub(super) const AREA: usize = 0;
    pub(super) const CLASS: usize = 8;
    pub(super) const HEAD_SLOT: usize = 16;
    pub(super) const HEAD_LENGTH: usize = 24;
    pub(super) const PAGE_SLOT: usize = 32;
    pub(super) const PAGE_LENGTH: usize = 40;
    pub(super) const HEAD_NUMBER: usize = 48;
    pub(super) const PAGE_NUMBER: usize = 56;
    pub(super) const LOGGED: usize = 64;
}

/// What one half says.
#[derive(Clone, Copy)]
struct Half {
    area: u64,
    class: Class,
    head_slot: usize,
    head_length: usize,
    page_slot: usize,
    page_length: usize,
    position: Position,
}

/// The record of a site whose lock is held.
pub(super) struct Mapped<'a> {
    arena: &'a Arena,
    segment: &'a Segment,
    place: usize,
    now: BootInstant,
    active: usize,
    /// How far it has come, as read last.
    position: Position,
    half: Option<Half>,
}

impl<'a> Mapped<'a> {
    pub(super) fn new(
        arena: &'a Arena,
        segment: &'a Segment,
        place: usize,
        now: BootInstant,
    ) -> Self {
        Self {
            arena,
            segment,
            place,
            now,
            active: 0,
            position: Position::default(),
            half: None,
        }
    }

    #[inline]
    fn word(&self, half: usize, at: usize) -> u64 {
        self.segment
            .word(self.place + block::RECORDS + block::RECORD * half + at)
            .load(Relaxed)
    }

    fn set(&self, half: usize, at: usize, value: u64) {
        self.segment
            .word(self.place + block::RECORDS + block::RECORD * half + at)
            .store(value, Relaxed);
    }

    /// Reads the half that counts, and checks that it means something.
    fn read_half(&mut self) -> Result<Half, Refused> {
        let active = self.segment.word(self.place + block::ACTIVE).load(Relaxed);
        self.active = usize::from(active == 1);
        let number = |at| usize::try_from(self.word(self.active, at)).unwrap_or(usize::MAX);
        let half = Half {
            area: self.word(self.active, half::AREA),
            class: Class(number(half::CLASS)),
            head_slot: number(half::HEAD_SLOT),
            head_length: number(half::HEAD_LENGTH),
            page_slot: number(half::PAGE_SLOT),
            page_length: number(half::PAGE_LENGTH),
            position: Position {
                page: self.word(self.active, half::PAGE_NUMBER),
                head: self.word(self.active, half::HEAD_NUMBER),
                logged: number(half::LOGGED),
            },
        };
        let sound = half.class.0 <= Class::LARGEST.0
            && half.head_slot < 2
            && half.page_slot < 2
            && half.head_length <= half.class.head()
            && half.page_length <= half.class.page()
            && half.position.logged <= half.class.log_entries();
        if !sound || active > 1 {
            return Err(Corrupt.into());
        }
        self.half = Some(half);
        Ok(half)
    }

    fn current(&mut self) -> Result<Half, Refused> {
        self.half.map_or_else(|| self.read_half(), Ok)
    }

    fn read_at(&self, half: Half, within: usize, length: usize) -> Result<Vec<u8>, Refused> {
        let (segment, place) = self.arena.at(half.area)?;
        Ok(segment.read(place + within, length))
    }

    /// Makes the other half count.
    fn flip(&mut self, half: Half) {
        let other = 1 - self.active;
        let Position { page, head, logged } = half.position;
        let words = [
            (half::AREA, half.area),
            (half::CLASS, half.class.0 as u64),
            (half::HEAD_SLOT, half.head_slot as u64),
            (half::HEAD_LENGTH, half.head_length as u64),
            (half::PAGE_SLOT, half.page_slot as u64),
            (half::PAGE_LENGTH, half.page_length as u64),
            (half::HEAD_NUMBER, head),
            (half::PAGE_NUMBER, page),
            (half::LOGGED, logged as u64),
        ];
        for (at, value) in words {
            self.set(other, at, value);
        }
        // Everything above is written before this, also for whoever inherits the lock.
        self.segment
            .word(self.place + block::ACTIVE)
            .store(other as u64, Release);
        (self.active, self.half) = (other, Some(half));
    }

    /// Moves the record to a larger area, where all of it is written anew.
    #[cold]
    fn grow(
        &mut self,
        half: Half,
        head: &[u8],
        page: &[u8],
        log: &[u8],
        class: Class,
    ) -> Result<Half, Refused> {
        let directory = self.arena.lock()?;
        let area = self.arena.take_area(class)?;
        let (segment, place) = self.arena.at(area)?;
        segment.write(place + head_at(class, 0), head);
        segment.write(place + page_at(class, 0), page);
        segment.write(place + log_at(class, 0), log);
        let position = Position {
            logged: log.len() / ENTRY,
            ..half.position
        };
        let grown = Half {
            area,
            class,
            head_slot: 0,
            head_length: head.len(),
            page_slot: 0,
            page_length: page.len(),
            position,
        };
        self.flip(grown);
        self.arena.free_area(half.class, half.area)?;
        drop(directory);
        Ok(grown)
    }
}

const fn head_at(class: Class, slot: usize) -> usize {
    slot * class.head()
}

const fn page_at(class: Class, slot: usize) -> usize {
    2 * class.head() + slot * class.page()
}

const fn log_at(class: Class, slot: usize) -> usize {
    2 * class.head() + 2 * class.page() + slot * class.log()
}

impl From<Corrupt> for Refused {
    fn from(_: Corrupt) -> Self {
        Self::Damaged("the record of a site in it is garbled")
    }
}

impl Record for Mapped<'_> {
    type Error = Refused;

    #[inline]
    fn log_entries(&self) -> usize {
        Class(usize::try_from(self.word(self.active, half::CLASS)).unwrap_or(usize::MAX))
            .log_entries()
    }

    /// Reads no more than it is asked for: a copy that is up to date needs nothing else.
    #[inline]
    fn position(&mut self) -> Result<Position, Refused> {
        self.active = usize::from(self.segment.word(self.place + block::ACTIVE).load(Relaxed) == 1);
        let logged = usize::try_from(self.word(self.active, half::LOGGED)).unwrap_or(usize::MAX);
        self.position = Position {
            page: self.word(self.active, half::PAGE_NUMBER),
            head: self.word(self.active, half::HEAD_NUMBER),
            logged,
        };
        Ok(self.position)
    }

    fn head(&mut self) -> Result<Vec<u8>, Refused> {
        let half = self.current()?;
        self.read_at(half, head_at(half.class, half.head_slot), half.head_length)
    }

    fn page(&mut self) -> Result<Vec<u8>, Refused> {
        let half = self.current()?;
        self.read_at(half, page_at(half.class, half.page_slot), half.page_length)
    }

    fn log(&mut self, from: usize) -> Result<Vec<u8>, Refused> {
        let half = self.current()?;
        let length = half.position.logged.saturating_sub(from) * ENTRY;
        self.read_at(
            half,
            log_at(half.class, half.page_slot) + from * ENTRY,
            length,
        )
    }

    #[inline]
    fn write(&mut self, commit: &Commit<'_>) -> Result<Position, Refused> {
        self.segment
            .word(self.place + block::USED)
            .store(self.now.as_micros(), Relaxed);
        if commit.head.is_none() && commit.page.is_none() {
            return self.append(commit.log);
        }
        self.replace(commit)
    }
}

impl Mapped<'_> {
    /// Adds to the log of the half that counts, whose position has been read. Reads no more of it
    /// than that takes.
    #[inline]
    fn append(&mut self, log: &[u8]) -> Result<Position, Refused> {
        let mut position = self.position;
        let number = |at| usize::try_from(self.word(self.active, at)).unwrap_or(usize::MAX);
        let (class, slot) = (Class(number(half::CLASS)), number(half::PAGE_SLOT));
        let logged = position.logged.saturating_add(log.len() / ENTRY);
        if class.0 > Class::LARGEST.0 || slot > 1 || logged > class.log_entries() {
            return Err(Corrupt.into());
        }
        let (segment, place) = self.arena.at(self.word(self.active, half::AREA))?;
        segment.write_words(place + log_at(class, slot) + position.logged * ENTRY, log);
        position.logged = logged;
        let count = self
            .segment
            .word(self.place + block::RECORDS + block::RECORD * self.active + half::LOGGED);
        count.store(logged as u64, Release);
        Ok(position)
    }

    /// Writes a head, a page or both into the places that do not count, and makes them count.
    #[cold]
    fn replace(&mut self, commit: &Commit<'_>) -> Result<Position, Refused> {
        let mut half = self.current()?;
        if commit.head.is_some() {
            let until = commit
                .open
                .as_ref()
                .map_or(0, |(until, _)| until.as_micros());
            self.segment
                .word(self.place + block::OPEN_UNTIL)
                .store(until, Relaxed);
        }
        half.position.head += u64::from(commit.head.is_some());
        half.position.page += u64::from(commit.page.is_some());
        let (head_length, page_length) = (
            commit.head.map_or(half.head_length, <[u8]>::len),
            commit.page.map_or(half.page_length, <[u8]>::len),
        );
        let class = Class::for_lengths(head_length, page_length)
            .ok_or(Refused::Damaged("the record of a site has outgrown it"))?;
        if class.0 > half.class.0 {
            let head = commit
                .head
                .map_or_else(|| self.head(), |head| Ok(head.to_vec()))?;
            let page = commit
                .page
                .map_or_else(|| self.page(), |page| Ok(page.to_vec()))?;
            let mut log = if commit.page.is_some() {
                Vec::new()
            } else {
                self.log(0)?
            };
            log.extend_from_slice(commit.log);
            return Ok(self.grow(half, &head, &page, &log, class)?.position);
        }
        let (segment, place) = self.arena.at(half.area)?;
        if let Some(head) = commit.head {
            half.head_slot = 1 - half.head_slot;
            half.head_length = head.len();
            segment.write(place + head_at(half.class, half.head_slot), head);
        }
        if let Some(page) = commit.page {
            half.page_slot = 1 - half.page_slot;
            half.page_length = page.len();
            half.position.logged = 0;
            segment.write(place + page_at(half.class, half.page_slot), page);
        }
        segment.write(
            place + log_at(half.class, half.page_slot) + half.position.logged * ENTRY,
            commit.log,
        );
        half.position.logged += commit.log.len() / ENTRY;
        self.flip(half);
        Ok(half.position)
    }
}
