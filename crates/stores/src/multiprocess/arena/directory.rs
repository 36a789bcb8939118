//! The directory of sites: finding, adding, listing and dropping their blocks.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::layout::{BUCKETS, SizeClass, block, header};
use super::{Arena, ArenaError, LOCK_TIMEOUT, Segment};
use crate::hash::fnv;

/// Reads the key of the block at an offset.
fn key_at(segment: &Segment, base: usize) -> Vec<u8> {
    let length = usize::try_from(segment.word(base + block::KEY_LENGTH).load(Relaxed)).unwrap_or(0);
    segment.read(base + block::KEY, length.min(block::LONGEST_KEY))
}

/// Returns the offset of the bucket of a key.
fn bucket(key: &str) -> usize {
    header::BUCKETS + 8 * usize::try_from(fnv(key.as_bytes()) % BUCKETS as u64).unwrap_or(0)
}

impl Arena {
    /// Finds the block of a site. The caller holds the directory's lock.
    pub(in super::super) fn find(&self, key: &str) -> Result<Option<u64>, ArenaError> {
        let mut offset = self.segment(0)?.word(bucket(key)).load(Relaxed);
        while offset != 0 {
            let (segment, base) = self.at(offset)?;
            if key_at(segment, base) == key.as_bytes() {
                return Ok(Some(offset));
            }
            offset = segment.word(base + block::NEXT).load(Relaxed);
        }
        Ok(None)
    }

    /// Lists the sites, with the offsets of their blocks. The caller holds the directory's lock.
    pub(in super::super) fn list(&self) -> Result<Vec<(String, u64)>, ArenaError> {
        let mut sites = Vec::new();
        for number in 0..BUCKETS {
            let mut offset = self
                .segment(0)?
                .word(header::BUCKETS + 8 * number)
                .load(Relaxed);
            while offset != 0 {
                let (segment, base) = self.at(offset)?;
                sites.push((
                    String::from_utf8_lossy(&key_at(segment, base)).into_owned(),
                    offset,
                ));
                offset = segment.word(base + block::NEXT).load(Relaxed);
            }
        }
        Ok(sites)
    }

    /// Creates the block of a site. The caller holds the directory's lock, and has found no block.
    pub(in super::super) fn add(&self, key: &str) -> Result<u64, ArenaError> {
        if key.len() > block::LONGEST_KEY {
            return Err(ArenaError::Damaged(
                "the name of the site is too long for it",
            ));
        }
        let first = self.segment(0)?;
        let list = first.word(header::FREE_BLOCKS);
        let offset = match list.load(Relaxed) {
            0 => {
                let offset = self.take(block::LENGTH)?;
                let (segment, base) = self.at(offset)?;
                segment.make_mutex(base, block::LOCK)?;
                offset
            }
            // The lock of a block is created once, because a process with an old offset may still
            // be waiting for it.
            free => {
                let (segment, base) = self.at(free)?;
                list.store(segment.word(base + block::NEXT).load(Relaxed), Relaxed);
                free
            }
        };
        let area = self.take_area(SizeClass(0))?;
        let (segment, base) = self.at(offset)?;
        let guard = segment.mutex(base, block::LOCK).lock(LOCK_TIMEOUT)?;
        segment.write(base + block::ACTIVE, &[0; block::LENGTH - block::ACTIVE]);
        segment.word(base + block::GENERATION).fetch_add(1, Relaxed);
        segment
            .word(base + block::KEY_LENGTH)
            .store(key.len() as u64, Relaxed);
        segment.write(base + block::KEY, key.as_bytes());
        segment.word(base + block::RECORDS).store(area, Relaxed);
        drop(guard);
        let bucket = first.word(bucket(key));
        segment
            .word(base + block::NEXT)
            .store(bucket.load(Relaxed), Relaxed);
        bucket.store(offset, Relaxed);
        Ok(offset)
    }

    /// Drops the sites that were not used since `before`, unless they are blocked. The caller holds
    /// the directory's lock.
    pub(in super::super) fn sweep(&self, before: u64, now: u64) -> Result<(), ArenaError> {
        for (key, offset) in self.list()? {
            let (segment, base) = self.at(offset)?;
            // A site with a locked block is in use.
            let Ok(guard) = segment.mutex(base, block::LOCK).lock(Duration::ZERO) else {
                continue;
            };
            let word = |at: usize| segment.word(base + at).load(Relaxed);
            if word(block::USED) >= before || word(block::OPEN_UNTIL) >= now {
                continue;
            }
            // The generation shows a process with an old offset that the block belongs to another
            // site now.
            segment.word(base + block::GENERATION).fetch_add(1, Relaxed);
            self.unlink(&key, offset)?;
            let record = block::RECORDS + block::RECORD * usize::from(word(block::ACTIVE) == 1);
            let (area, class) = (word(record), usize::try_from(word(record + 8)).unwrap_or(0));
            drop(guard);
            if class <= SizeClass::LARGEST.0 {
                self.free_area(SizeClass(class), area)?;
            }
            let list = self.segment(0)?.word(header::FREE_BLOCKS);
            segment
                .word(base + block::NEXT)
                .store(list.load(Relaxed), Relaxed);
            list.store(offset, Relaxed);
        }
        Ok(())
    }

    fn unlink(&self, key: &str, offset: u64) -> Result<(), ArenaError> {
        let (segment, base) = self.at(offset)?;
        let next = segment.word(base + block::NEXT).load(Relaxed);
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
            let (segment, base) = self.at(here)?;
            link = (segment, base + block::NEXT);
        }
    }
}
