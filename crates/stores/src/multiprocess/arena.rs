//! The mapped file: its header, the directory of sites, and the room that is given out.
//!
//! The file grows by whole segments and never shrinks. A site is a block of fixed size that never
//! moves, with its lock in it, and an area for its record that is replaced by a larger one when the
//! record outgrows it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::sys::{Held, MUTEX, Segment};
use crate::hash::fnv;
use crate::replica::ENTRY;

/// The length of a segment.
pub(super) const SEGMENT: usize = 1 << 20;
/// The most segments: a gigabyte, more sites than anybody asks at once.
const MOST_SEGMENTS: usize = 1 << 10;
/// The version of the layout.
pub(super) const VERSION: u64 = 4;
/// How many changes the log of a small site holds.
const LOG_ENTRIES: usize = 128;
/// The class from which on logs grow no more.
const LONGEST_LOG: usize = 3;
const MAGIC: u64 = u64::from_le_bytes(*b"DTKGSHM\0");
const BUCKETS: usize = 4_096;
/// How long a holder of a lock that lives may take: its steps take microseconds.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// The places of things in the header.
pub(super) mod header {
    pub(in super::super) const MAGIC: usize = 0;
    pub(in super::super) const VERSION: usize = 8;
    pub(in super::super) const BOOT_ID: usize = 16;
    pub(in super::super) const BOOT_ID_LENGTH: usize = 64;
    pub(in super::super) const ANCHOR_BOOT: usize = 80;
    pub(in super::super) const ANCHOR_WALL: usize = 88;
    pub(in super::super) const LOCK: usize = 96;
    pub(in super::super) const NEXT_FREE: usize = 160;
    pub(in super::super) const FREE_AREAS: usize = 168;
    pub(in super::super) const FREE_BLOCKS: usize = 256;
    pub(in super::super) const BUCKETS: usize = 512;
    pub(in super::super) const END: usize = 512 + 8 * super::BUCKETS;
}

/// The places of things in the block of a site.
pub(super) mod block {
    use super::MUTEX;

    pub(in super::super) const LOCK: usize = 0;
    pub(in super::super) const GENERATION: usize = MUTEX;
    pub(in super::super) const NEXT: usize = MUTEX + 8;
    pub(in super::super) const KEY_LENGTH: usize = MUTEX + 16;
    pub(in super::super) const ACTIVE: usize = MUTEX + 24;
    pub(in super::super) const USED: usize = MUTEX + 32;
    pub(in super::super) const OPEN_UNTIL: usize = MUTEX + 40;
    pub(in super::super) const RECORDS: usize = MUTEX + 48;
    pub(in super::super) const RECORD: usize = 72;
    pub(in super::super) const KEY: usize = RECORDS + 2 * RECORD;
    pub(in super::super) const LENGTH: usize = 512;
    pub(in super::super) const LONGEST_KEY: usize = LENGTH - KEY;
}

/// The room of an area: two heads, two pages and two logs, each doubled with the class; logs up to
/// a length.
#[derive(Clone, Copy)]
pub(super) struct Class(pub(super) usize);

impl Class {
    pub(super) const LARGEST: Self = Self(9);

    pub(super) const fn head(self) -> usize {
        256 << self.0
    }

    pub(super) const fn page(self) -> usize {
        512 << self.0
    }

    /// Returns how many changes the log holds: the longer a page takes to write, the less often it
    /// is written.
    pub(super) const fn log_entries(self) -> usize {
        LOG_ENTRIES
            << if self.0 < LONGEST_LOG {
                self.0
            } else {
                LONGEST_LOG
            }
    }

    pub(super) const fn log(self) -> usize {
        self.log_entries() * ENTRY
    }

    pub(super) const fn area(self) -> usize {
        2 * (self.head() + self.page() + self.log())
    }

    /// Returns the smallest class that holds a head and a page of these lengths.
    pub(super) fn for_lengths(head: usize, page: usize) -> Option<Self> {
        (0..=Self::LARGEST.0)
            .map(Self)
            .find(|class| class.head() >= head && class.page() >= page)
    }
}

/// The mapped file.
pub(super) struct Arena {
    path: PathBuf,
    file: File,
    segments: Box<[OnceLock<Segment>]>,
}

/// A file that is not what it should be.
#[derive(Debug)]
pub(super) enum Refused {
    /// The system says so.
    Io(io::Error),
    /// It has not been written by this program, or has been cut.
    Damaged(&'static str),
    /// Another version wrote it.
    Version(u64),
    /// The whole room is taken.
    Full,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Arena {
    /// Makes a file with nothing in it. Nobody else may know of it yet.
    pub(super) fn create(path: &Path, boot_id: &str, anchor: (u64, i64)) -> Result<Self, Refused> {
        crate::private::make_file(path)?;
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let arena = Self::over(path, file);
        let first = arena.segment(0)?;
        first.make_mutex(header::LOCK)?;
        first
            .word(header::NEXT_FREE)
            .store(header::END as u64, Relaxed);
        first.word(header::MAGIC).store(MAGIC, Relaxed);
        first.word(header::VERSION).store(VERSION, Relaxed);
        arena.sign(boot_id, anchor)?;
        Ok(arena)
    }

    /// Opens a file that is there, after a look at what it is.
    pub(super) fn open(path: &Path) -> Result<Self, Refused> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let length = file.metadata()?.len();
        if length < SEGMENT as u64 || !length.is_multiple_of(SEGMENT as u64) {
            return Err(Refused::Damaged("it has been cut, or is something else"));
        }
        let arena = Self::over(path, file);
        let first = arena.segment(0)?;
        if first.word(header::MAGIC).load(Relaxed) != MAGIC {
            return Err(Refused::Damaged("it is something else"));
        }
        match first.word(header::VERSION).load(Relaxed) {
            VERSION => {}
            other => return Err(Refused::Version(other)),
        }
        if first.word(header::NEXT_FREE).load(Relaxed) > length {
            return Err(Refused::Damaged("it has been cut"));
        }
        Ok(arena)
    }

    fn over(path: &Path, file: File) -> Self {
        Self {
            path: path.to_owned(),
            file,
            segments: (0..MOST_SEGMENTS).map(|_| OnceLock::new()).collect(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the start of the machine that the instants in the file belong to, and its anchor in
    /// wall time.
    pub(super) fn boot(&self) -> Result<(String, (u64, i64)), Refused> {
        let first = self.segment(0)?;
        let id = first.read(header::BOOT_ID, header::BOOT_ID_LENGTH);
        let id = String::from_utf8_lossy(&id)
            .trim_end_matches('\0')
            .to_owned();
        Ok((
            id,
            (
                first.word(header::ANCHOR_BOOT).load(Relaxed),
                first.word(header::ANCHOR_WALL).load(Relaxed).cast_signed(),
            ),
        ))
    }

    /// Writes the start of the machine that the instants belong to from now on.
    pub(super) fn sign(&self, boot_id: &str, anchor: (u64, i64)) -> Result<(), Refused> {
        let first = self.segment(0)?;
        let mut id = [0; header::BOOT_ID_LENGTH];
        let length = boot_id.len().min(id.len());
        id[..length].copy_from_slice(&boot_id.as_bytes()[..length]);
        first.word(header::ANCHOR_BOOT).store(anchor.0, Relaxed);
        first
            .word(header::ANCHOR_WALL)
            .store(anchor.1.cast_unsigned(), Relaxed);
        first.write(header::BOOT_ID, &id);
        Ok(())
    }

    /// Returns a segment, which is mapped at its first use.
    #[inline]
    fn segment(&self, number: usize) -> Result<&Segment, Refused> {
        match self.segments.get(number).and_then(OnceLock::get) {
            Some(segment) => Ok(segment),
            None => self.map(number),
        }
    }

    #[cold]
    fn map(&self, number: usize) -> Result<&Segment, Refused> {
        let place = self.segments.get(number).ok_or(Refused::Full)?;
        let segment = Segment::map(&self.file, (number * SEGMENT) as u64, SEGMENT)?;
        Ok(place.get_or_init(|| segment))
    }

    /// Returns the segment that an offset lies in, and its place there.
    #[inline]
    pub(super) fn at(&self, offset: u64) -> Result<(&Segment, usize), Refused> {
        let offset = usize::try_from(offset).map_err(|_| Refused::Full)?;
        Ok((self.segment(offset / SEGMENT)?, offset % SEGMENT))
    }

    /// Takes the lock of the directory.
    pub(super) fn lock(&self) -> Result<Held<'_>, Refused> {
        Ok(self.segment(0)?.mutex(header::LOCK).lock(PATIENCE)?)
    }

    /// Finds the block of a site. The caller holds the directory's lock.
    pub(super) fn find(&self, key: &str) -> Result<Option<u64>, Refused> {
        let mut offset = self.segment(0)?.word(bucket(key)).load(Relaxed);
        while offset != 0 {
            let (segment, place) = self.at(offset)?;
            if key_at(segment, place) == key.as_bytes() {
                return Ok(Some(offset));
            }
            offset = segment.word(place + block::NEXT).load(Relaxed);
        }
        Ok(None)
    }

    /// Lists the sites, with the places of their blocks. The caller holds the directory's lock.
    pub(super) fn list(&self) -> Result<Vec<(String, u64)>, Refused> {
        let mut sites = Vec::new();
        for number in 0..BUCKETS {
            let mut offset = self
                .segment(0)?
                .word(header::BUCKETS + 8 * number)
                .load(Relaxed);
            while offset != 0 {
                let (segment, place) = self.at(offset)?;
                sites.push((
                    String::from_utf8_lossy(&key_at(segment, place)).into_owned(),
                    offset,
                ));
                offset = segment.word(place + block::NEXT).load(Relaxed);
            }
        }
        Ok(sites)
    }

    /// Makes the block of a site. The caller holds the directory's lock and has found none.
    pub(super) fn add(&self, key: &str) -> Result<u64, Refused> {
        if key.len() > block::LONGEST_KEY {
            return Err(Refused::Damaged("the name of the site is too long for it"));
        }
        let first = self.segment(0)?;
        let list = first.word(header::FREE_BLOCKS);
        let offset = match list.load(Relaxed) {
            0 => {
                let offset = self.take(block::LENGTH)?;
                let (segment, place) = self.at(offset)?;
                segment.make_mutex(place + block::LOCK)?;
                offset
            }
            // The lock of a block is made once: somebody with an old place may still be waiting for
            // it.
            free => {
                let (segment, place) = self.at(free)?;
                list.store(segment.word(place + block::NEXT).load(Relaxed), Relaxed);
                free
            }
        };
        let area = self.take_area(Class(0))?;
        let (segment, place) = self.at(offset)?;
        let held = segment.mutex(place + block::LOCK).lock(PATIENCE)?;
        segment.write(place + block::ACTIVE, &[0; block::LENGTH - block::ACTIVE]);
        segment
            .word(place + block::GENERATION)
            .fetch_add(1, Relaxed);
        segment
            .word(place + block::KEY_LENGTH)
            .store(key.len() as u64, Relaxed);
        segment.write(place + block::KEY, key.as_bytes());
        segment.word(place + block::RECORDS).store(area, Relaxed);
        drop(held);
        let bucket = first.word(bucket(key));
        segment
            .word(place + block::NEXT)
            .store(bucket.load(Relaxed), Relaxed);
        bucket.store(offset, Relaxed);
        Ok(offset)
    }

    /// Drops the sites that nobody has used since `before`, and that are open. The caller holds the
    /// directory's lock.
    pub(super) fn sweep(&self, before: u64, now: u64) -> Result<(), Refused> {
        for (key, offset) in self.list()? {
            let (segment, place) = self.at(offset)?;
            // Whoever is at it right now uses it.
            let Ok(held) = segment.mutex(place + block::LOCK).lock(Duration::ZERO) else {
                continue;
            };
            let word = |at: usize| segment.word(place + at).load(Relaxed);
            if word(block::USED) >= before || word(block::OPEN_UNTIL) >= now {
                continue;
            }
            // Whoever still has the place of the block sees by this that it is another's now.
            segment
                .word(place + block::GENERATION)
                .fetch_add(1, Relaxed);
            self.unlink(&key, offset)?;
            let record = block::RECORDS + block::RECORD * usize::from(word(block::ACTIVE) == 1);
            let (area, class) = (word(record), usize::try_from(word(record + 8)).unwrap_or(0));
            drop(held);
            if class <= Class::LARGEST.0 {
                self.free_area(Class(class), area)?;
            }
            let list = self.segment(0)?.word(header::FREE_BLOCKS);
            segment
                .word(place + block::NEXT)
                .store(list.load(Relaxed), Relaxed);
            list.store(offset, Relaxed);
        }
        Ok(())
    }

    /// Returns how many segments there are.
    pub(super) fn segments_used(&self) -> Result<usize, Refused> {
        Ok(
            usize::try_from(self.segment(0)?.word(header::NEXT_FREE).load(Relaxed))
                .unwrap_or(0)
                .div_ceil(SEGMENT),
        )
    }

    fn unlink(&self, key: &str, offset: u64) -> Result<(), Refused> {
        let (segment, place) = self.at(offset)?;
        let next = segment.word(place + block::NEXT).load(Relaxed);
        let mut link = (self.segment(0)?, bucket(key));
        loop {
            let here = link.0.word(link.1).load(Relaxed);
            if here == offset {
                link.0.word(link.1).store(next, Relaxed);
                return Ok(());
            }
            if here == 0 {
                return Ok(());
            }
            let (segment, place) = self.at(here)?;
            link = (segment, place + block::NEXT);
        }
    }

    /// Takes room for a record. The caller holds the directory's lock.
    pub(super) fn take_area(&self, class: Class) -> Result<u64, Refused> {
        let list = self.segment(0)?.word(header::FREE_AREAS + 8 * class.0);
        match list.load(Relaxed) {
            0 => self.take(class.area()),
            free => {
                let (segment, place) = self.at(free)?;
                list.store(segment.word(place).load(Relaxed), Relaxed);
                Ok(free)
            }
        }
    }

    /// Gives back room that nobody refers to. The caller holds the directory's lock.
    pub(super) fn free_area(&self, class: Class, area: u64) -> Result<(), Refused> {
        let list = self.segment(0)?.word(header::FREE_AREAS + 8 * class.0);
        let (segment, place) = self.at(area)?;
        segment.word(place).store(list.load(Relaxed), Relaxed);
        list.store(area, Relaxed);
        Ok(())
    }

    /// Takes room that was never used.
    fn take(&self, length: usize) -> Result<u64, Refused> {
        let next = self.segment(0)?.word(header::NEXT_FREE);
        let mut offset = usize::try_from(next.load(Relaxed))
            .map_err(|_| Refused::Full)?
            .next_multiple_of(64);
        if offset % SEGMENT + length > SEGMENT {
            offset = offset.next_multiple_of(SEGMENT);
        }
        // The segment is there before anybody is told of room in it.
        self.segment(offset / SEGMENT)?;
        next.store((offset + length) as u64, Relaxed);
        Ok(offset as u64)
    }
}

/// Reads the key of the block at a place.
fn key_at(segment: &Segment, place: usize) -> Vec<u8> {
    let length =
        usize::try_from(segment.word(place + block::KEY_LENGTH).load(Relaxed)).unwrap_or(0);
    segment.read(place + block::KEY, length.min(block::LONGEST_KEY))
}

/// Returns the place of the bucket of a key.
fn bucket(key: &str) -> usize {
    header::BUCKETS + 8 * usize::try_from(fnv(key.as_bytes()) % BUCKETS as u64).unwrap_or(0)
}
