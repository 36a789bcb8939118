//! The mapped file: its header, the directory of sites, and the allocation of space.
//!
//! The file grows by whole segments and never shrinks. A site has a block of fixed size that never
//! moves and contains its lock. The site's record has an area, which is replaced by a larger one if
//! necessary.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::sys::{Segment, SharedMutexGuard};
mod directory;
mod layout;

use layout::header;
pub(super) use layout::{SizeClass, block};

/// The length of a segment in bytes.
pub(super) const SEGMENT_BYTES: usize = 1 << 20;
/// The maximum number of segments: a gigabyte, for more sites than a machine uses at once.
const MAX_SEGMENTS: usize = 1 << 10;
/// The version of the layout.
pub(super) const ARENA_LAYOUT_VERSION: u64 = 4;
const ARENA_MAGIC: u64 = u64::from_le_bytes(*b"DTKGSHM\0");
/// The longest wait for the holder of a lock, whose operations take microseconds.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// The mapped file.
pub(super) struct Arena {
    path: PathBuf,
    file: File,
    segments: Box<[OnceLock<Segment>]>,
}

/// The reason why the file cannot be used.
#[derive(Debug)]
pub(super) enum ArenaError {
    /// The system reports an error.
    Io(io::Error),
    /// Another program wrote the file, or the file was truncated.
    Damaged(&'static str),
    /// Another version of the program wrote the file.
    Version(u64),
    /// All space is used.
    Full,
}

impl From<io::Error> for ArenaError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Arena {
    /// Creates an empty file. No other process may have its path yet.
    pub(super) fn create(
        path: &Path,
        boot_id: &str,
        anchor: (u64, i64),
    ) -> Result<Self, ArenaError> {
        crate::private::make_file(path)?;
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let arena = Self::over(path, file);
        let first = arena.segment(0)?;
        first.make_mutex(0, header::LOCK)?;
        first
            .word(header::NEXT_FREE)
            .store(header::END as u64, Relaxed);
        first.word(header::MAGIC).store(ARENA_MAGIC, Relaxed);
        first
            .word(header::VERSION)
            .store(ARENA_LAYOUT_VERSION, Relaxed);
        arena.sign(boot_id, anchor)?;
        Ok(arena)
    }

    /// Opens an existing file, after a check of its header.
    pub(super) fn open(path: &Path) -> Result<Self, ArenaError> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let length = file.metadata()?.len();
        if length < SEGMENT_BYTES as u64 || !length.is_multiple_of(SEGMENT_BYTES as u64) {
            return Err(ArenaError::Damaged("it has been cut, or is something else"));
        }
        let arena = Self::over(path, file);
        let first = arena.segment(0)?;
        if first.word(header::MAGIC).load(Relaxed) != ARENA_MAGIC {
            return Err(ArenaError::Damaged("it is something else"));
        }
        match first.word(header::VERSION).load(Relaxed) {
            ARENA_LAYOUT_VERSION => {}
            other => return Err(ArenaError::Version(other)),
        }
        if first.word(header::NEXT_FREE).load(Relaxed) > length {
            return Err(ArenaError::Damaged("it has been cut"));
        }
        Ok(arena)
    }

    fn over(path: &Path, file: File) -> Self {
        Self {
            path: path.to_owned(),
            file,
            segments: (0..MAX_SEGMENTS).map(|_| OnceLock::new()).collect(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the identifier of the boot to which the instants in the file belong, and the anchor
    /// of that boot: an instant and its wall time.
    pub(super) fn boot(&self) -> Result<(String, (u64, i64)), ArenaError> {
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

    /// Writes the boot to which the instants belong from now on, with its anchor.
    pub(super) fn sign(&self, boot_id: &str, anchor: (u64, i64)) -> Result<(), ArenaError> {
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

    /// Returns a [`Segment`], which is mapped at its first use.
    #[inline]
    fn segment(&self, number: usize) -> Result<&Segment, ArenaError> {
        match self.segments.get(number).and_then(OnceLock::get) {
            Some(segment) => Ok(segment),
            None => self.map(number),
        }
    }

    #[cold]
    fn map(&self, number: usize) -> Result<&Segment, ArenaError> {
        let cell = self.segments.get(number).ok_or(ArenaError::Full)?;
        let segment = Segment::map(&self.file, (number * SEGMENT_BYTES) as u64, SEGMENT_BYTES)?;
        Ok(cell.get_or_init(|| segment))
    }

    /// Returns the [`Segment`] of an offset in the file, and the offset within that segment.
    #[inline]
    pub(super) fn at(&self, offset: u64) -> Result<(&Segment, usize), ArenaError> {
        let offset = usize::try_from(offset).map_err(|_| ArenaError::Full)?;
        Ok((
            self.segment(offset / SEGMENT_BYTES)?,
            offset % SEGMENT_BYTES,
        ))
    }

    /// Takes the lock of the directory.
    pub(super) fn lock(&self) -> Result<SharedMutexGuard<'_>, ArenaError> {
        Ok(self.segment(0)?.mutex(0, header::LOCK).lock(LOCK_TIMEOUT)?)
    }

    /// Returns the number of segments in use.
    pub(super) fn segments_used(&self) -> Result<usize, ArenaError> {
        Ok(
            usize::try_from(self.segment(0)?.word(header::NEXT_FREE).load(Relaxed))
                .unwrap_or(0)
                .div_ceil(SEGMENT_BYTES),
        )
    }

    /// Allocates space for a record. The caller holds the directory's lock.
    pub(super) fn take_area(&self, class: SizeClass) -> Result<u64, ArenaError> {
        let list = self.segment(0)?.word(header::FREE_AREAS + 8 * class.0);
        match list.load(Relaxed) {
            0 => self.take(class.area()),
            free => {
                let (segment, base) = self.at(free)?;
                list.store(segment.word(base).load(Relaxed), Relaxed);
                Ok(free)
            }
        }
    }

    /// Frees space that is no longer referenced. The caller holds the directory's lock.
    pub(super) fn free_area(&self, class: SizeClass, area: u64) -> Result<(), ArenaError> {
        let list = self.segment(0)?.word(header::FREE_AREAS + 8 * class.0);
        let (segment, base) = self.at(area)?;
        segment.word(base).store(list.load(Relaxed), Relaxed);
        list.store(area, Relaxed);
        Ok(())
    }

    /// Allocates space that was never used.
    fn take(&self, length: usize) -> Result<u64, ArenaError> {
        let next = self.segment(0)?.word(header::NEXT_FREE);
        let mut offset = usize::try_from(next.load(Relaxed))
            .map_err(|_| ArenaError::Full)?
            .next_multiple_of(64);
        if offset % SEGMENT_BYTES + length > SEGMENT_BYTES {
            offset = offset.next_multiple_of(SEGMENT_BYTES);
        }
        // The segment is mapped before an offset in it is published.
        self.segment(offset / SEGMENT_BYTES)?;
        next.store((offset + length) as u64, Relaxed);
        Ok(offset as u64)
    }
}
