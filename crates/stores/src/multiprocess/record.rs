//! The record of a site in mapped memory, as two halves: a change is written to the inactive half,
//! which then becomes active.
//!
//! A process that is killed between two instructions leaves the active half unchanged. New entries
//! of the log count only when one word, the number of entries, includes them.

use std::sync::atomic::Ordering::{Relaxed, Release};

use docstokg_policy::time::BootInstant;

use super::arena::{Arena, ArenaError, SizeClass, block};
use super::sys::Segment;
use crate::record_copy::{Commit, CorruptRecord, LOG_ENTRY_BYTES, RecordPosition, SiteRecord};

/// The offsets of fields in one half.
mod half {
    pub(super) const AREA: usize = 0;
    pub(super) const CLASS: usize = 8;
    pub(super) const HEADER_SLOT: usize = 16;
    pub(super) const HEADER_LENGTH: usize = 24;
    pub(super) const SNAPSHOT_SLOT: usize = 32;
    pub(super) const SNAPSHOT_LENGTH: usize = 40;
    pub(super) const HEADER_NUMBER: usize = 48;
    pub(super) const SNAPSHOT_NUMBER: usize = 56;
    pub(super) const LOGGED: usize = 64;
}

/// The fields of one half.
#[derive(Clone, Copy)]
struct RecordHalf {
    area: u64,
    class: SizeClass,
    header_slot: usize,
    header_length: usize,
    snapshot_slot: usize,
    snapshot_length: usize,
    position: RecordPosition,
}

/// The record of a site, while its lock is held.
pub(super) struct MappedRecord<'a> {
    arena: &'a Arena,
    segment: &'a Segment,
    base: usize,
    now: BootInstant,
    active: usize,
    /// The [`RecordPosition`], as last read.
    position: RecordPosition,
    half: Option<RecordHalf>,
}

impl<'a> MappedRecord<'a> {
    pub(super) fn new(
        arena: &'a Arena,
        segment: &'a Segment,
        base: usize,
        now: BootInstant,
    ) -> Self {
        Self {
            arena,
            segment,
            base,
            now,
            active: 0,
            position: RecordPosition::default(),
            half: None,
        }
    }

    #[inline]
    fn word(&self, half: usize, at: usize) -> u64 {
        self.segment
            .word(self.base + block::RECORDS + block::RECORD * half + at)
            .load(Relaxed)
    }

    fn set(&self, half: usize, at: usize, value: u64) {
        self.segment
            .word(self.base + block::RECORDS + block::RECORD * half + at)
            .store(value, Relaxed);
    }

    /// Reads the active [`RecordHalf`], and checks that its fields are valid.
    fn read_half(&mut self) -> Result<RecordHalf, ArenaError> {
        let active = self.segment.word(self.base + block::ACTIVE).load(Relaxed);
        self.active = usize::from(active == 1);
        let number = |at| usize::try_from(self.word(self.active, at)).unwrap_or(usize::MAX);
        let half = RecordHalf {
            area: self.word(self.active, half::AREA),
            class: SizeClass(number(half::CLASS)),
            header_slot: number(half::HEADER_SLOT),
            header_length: number(half::HEADER_LENGTH),
            snapshot_slot: number(half::SNAPSHOT_SLOT),
            snapshot_length: number(half::SNAPSHOT_LENGTH),
            position: RecordPosition {
                snapshot: self.word(self.active, half::SNAPSHOT_NUMBER),
                header: self.word(self.active, half::HEADER_NUMBER),
                logged: number(half::LOGGED),
            },
        };
        let sound = half.class.0 <= SizeClass::LARGEST.0
            && half.header_slot < 2
            && half.snapshot_slot < 2
            && half.header_length <= half.class.header()
            && half.snapshot_length <= half.class.snapshot()
            && half.position.logged <= half.class.log_entries();
        if !sound || active > 1 {
            return Err(CorruptRecord.into());
        }
        self.half = Some(half);
        Ok(half)
    }

    fn current(&mut self) -> Result<RecordHalf, ArenaError> {
        self.half.map_or_else(|| self.read_half(), Ok)
    }

    fn read_at(
        &self,
        half: RecordHalf,
        within: usize,
        length: usize,
    ) -> Result<Vec<u8>, ArenaError> {
        let (segment, base) = self.arena.at(half.area)?;
        Ok(segment.read(base + within, length))
    }

    /// Makes the other [`RecordHalf`] active.
    fn flip(&mut self, half: RecordHalf) {
        let other = 1 - self.active;
        let RecordPosition {
            snapshot,
            header,
            logged,
        } = half.position;
        let words = [
            (half::AREA, half.area),
            (half::CLASS, half.class.0 as u64),
            (half::HEADER_SLOT, half.header_slot as u64),
            (half::HEADER_LENGTH, half.header_length as u64),
            (half::SNAPSHOT_SLOT, half.snapshot_slot as u64),
            (half::SNAPSHOT_LENGTH, half.snapshot_length as u64),
            (half::HEADER_NUMBER, header),
            (half::SNAPSHOT_NUMBER, snapshot),
            (half::LOGGED, logged as u64),
        ];
        for (at, value) in words {
            self.set(other, at, value);
        }
        // Release: all writes above are visible before this one, also to a process that recovers
        // the lock.
        self.segment
            .word(self.base + block::ACTIVE)
            .store(other as u64, Release);
        (self.active, self.half) = (other, Some(half));
    }

    /// Moves the record to a larger area, and writes all of it there.
    #[cold]
    fn grow(
        &mut self,
        half: RecordHalf,
        header: &[u8],
        snapshot: &[u8],
        log: &[u8],
        class: SizeClass,
    ) -> Result<RecordHalf, ArenaError> {
        let directory = self.arena.lock()?;
        let area = self.arena.take_area(class)?;
        let (segment, base) = self.arena.at(area)?;
        segment.write(base + header_at(class, 0), header);
        segment.write(base + snapshot_at(class, 0), snapshot);
        segment.write(base + log_at(class, 0), log);
        let position = RecordPosition {
            logged: log.len() / LOG_ENTRY_BYTES,
            ..half.position
        };
        let grown = RecordHalf {
            area,
            class,
            header_slot: 0,
            header_length: header.len(),
            snapshot_slot: 0,
            snapshot_length: snapshot.len(),
            position,
        };
        self.flip(grown);
        self.arena.free_area(half.class, half.area)?;
        drop(directory);
        Ok(grown)
    }
}

const fn header_at(class: SizeClass, slot: usize) -> usize {
    slot * class.header()
}

const fn snapshot_at(class: SizeClass, slot: usize) -> usize {
    2 * class.header() + slot * class.snapshot()
}

const fn log_at(class: SizeClass, slot: usize) -> usize {
    2 * class.header() + 2 * class.snapshot() + slot * class.log()
}

impl From<CorruptRecord> for ArenaError {
    fn from(_: CorruptRecord) -> Self {
        Self::Damaged("the record of a site in it is corrupt")
    }
}

impl SiteRecord for MappedRecord<'_> {
    type Error = ArenaError;

    #[inline]
    fn log_entries(&self) -> usize {
        SizeClass(usize::try_from(self.word(self.active, half::CLASS)).unwrap_or(usize::MAX))
            .log_entries()
    }

    /// Reads only the [`RecordPosition`], because a current copy needs nothing else.
    #[inline]
    fn position(&mut self) -> Result<RecordPosition, ArenaError> {
        self.active = usize::from(self.segment.word(self.base + block::ACTIVE).load(Relaxed) == 1);
        let logged = usize::try_from(self.word(self.active, half::LOGGED)).unwrap_or(usize::MAX);
        self.position = RecordPosition {
            snapshot: self.word(self.active, half::SNAPSHOT_NUMBER),
            header: self.word(self.active, half::HEADER_NUMBER),
            logged,
        };
        Ok(self.position)
    }

    fn header(&mut self) -> Result<Vec<u8>, ArenaError> {
        let half = self.current()?;
        self.read_at(
            half,
            header_at(half.class, half.header_slot),
            half.header_length,
        )
    }

    fn snapshot(&mut self) -> Result<Vec<u8>, ArenaError> {
        let half = self.current()?;
        self.read_at(
            half,
            snapshot_at(half.class, half.snapshot_slot),
            half.snapshot_length,
        )
    }

    fn log(&mut self, from: usize) -> Result<Vec<u8>, ArenaError> {
        let half = self.current()?;
        let length = half.position.logged.saturating_sub(from) * LOG_ENTRY_BYTES;
        self.read_at(
            half,
            log_at(half.class, half.snapshot_slot) + from * LOG_ENTRY_BYTES,
            length,
        )
    }

    #[inline]
    fn write(&mut self, commit: &Commit<'_>) -> Result<RecordPosition, ArenaError> {
        self.segment
            .word(self.base + block::USED)
            .store(self.now.as_micros(), Relaxed);
        if commit.header.is_none() && commit.snapshot.is_none() {
            return self.append(commit.log);
        }
        self.replace(commit)
    }
}

impl MappedRecord<'_> {
    /// Appends to the log of the active half, whose [`RecordPosition`] has been read. Reads no
    /// other part.
    #[inline]
    fn append(&mut self, log: &[u8]) -> Result<RecordPosition, ArenaError> {
        let mut position = self.position;
        let number = |at| usize::try_from(self.word(self.active, at)).unwrap_or(usize::MAX);
        let (class, slot) = (SizeClass(number(half::CLASS)), number(half::SNAPSHOT_SLOT));
        let logged = position.logged.saturating_add(log.len() / LOG_ENTRY_BYTES);
        if class.0 > SizeClass::LARGEST.0 || slot > 1 || logged > class.log_entries() {
            return Err(CorruptRecord.into());
        }
        let (segment, base) = self.arena.at(self.word(self.active, half::AREA))?;
        segment.write_words(
            base + log_at(class, slot) + position.logged * LOG_ENTRY_BYTES,
            log,
        );
        position.logged = logged;
        let count = self
            .segment
            .word(self.base + block::RECORDS + block::RECORD * self.active + half::LOGGED);
        count.store(logged as u64, Release);
        Ok(position)
    }

    /// Writes a header, a snapshot or both into the inactive slots, and makes them active.
    #[cold]
    fn replace(&mut self, commit: &Commit<'_>) -> Result<RecordPosition, ArenaError> {
        let mut half = self.current()?;
        if commit.header.is_some() {
            let until = commit
                .open
                .as_ref()
                .map_or(0, |(until, _)| until.as_micros());
            self.segment
                .word(self.base + block::OPEN_UNTIL)
                .store(until, Relaxed);
        }
        half.position.header += u64::from(commit.header.is_some());
        half.position.snapshot += u64::from(commit.snapshot.is_some());
        let (header_length, snapshot_length) = (
            commit.header.map_or(half.header_length, <[u8]>::len),
            commit.snapshot.map_or(half.snapshot_length, <[u8]>::len),
        );
        let class = SizeClass::for_lengths(header_length, snapshot_length)
            .ok_or(ArenaError::Damaged("the record of a site has outgrown it"))?;
        if class.0 > half.class.0 {
            let header = commit
                .header
                .map_or_else(|| self.header(), |header| Ok(header.to_vec()))?;
            let snapshot = commit
                .snapshot
                .map_or_else(|| self.snapshot(), |snapshot| Ok(snapshot.to_vec()))?;
            let mut log = if commit.snapshot.is_some() {
                Vec::new()
            } else {
                self.log(0)?
            };
            log.extend_from_slice(commit.log);
            return Ok(self.grow(half, &header, &snapshot, &log, class)?.position);
        }
        let (segment, base) = self.arena.at(half.area)?;
        if let Some(header) = commit.header {
            half.header_slot = 1 - half.header_slot;
            half.header_length = header.len();
            segment.write(base + header_at(half.class, half.header_slot), header);
        }
        if let Some(snapshot) = commit.snapshot {
            half.snapshot_slot = 1 - half.snapshot_slot;
            half.snapshot_length = snapshot.len();
            half.position.logged = 0;
            segment.write(base + snapshot_at(half.class, half.snapshot_slot), snapshot);
        }
        segment.write(
            base + log_at(half.class, half.snapshot_slot) + half.position.logged * LOG_ENTRY_BYTES,
            commit.log,
        );
        half.position.logged += commit.log.len() / LOG_ENTRY_BYTES;
        self.flip(half);
        Ok(half.position)
    }
}
