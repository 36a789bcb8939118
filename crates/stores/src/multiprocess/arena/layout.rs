//! The layout of the file: the offsets of its fields, and the size classes of areas.

use super::super::sys::{MUTEX_BYTES, MutexPlace};
use crate::record_copy::LOG_ENTRY_BYTES;

/// The number of changes in the log of a small site.
const LOG_ENTRIES: usize = 128;
/// The class from which all logs have the same length.
const MAX_LOG_CLASS: usize = 3;

pub(super) const BUCKETS: usize = 4_096;

/// The offsets of fields in the header of the file.
pub(super) mod header {
    use super::{MUTEX_BYTES, MutexPlace};

    pub(in super::super::super) const MAGIC: usize = 0;
    pub(in super::super::super) const VERSION: usize = 8;
    pub(in super::super::super) const BOOT_ID: usize = 16;
    pub(in super::super::super) const BOOT_ID_LENGTH: usize = 64;
    pub(in super::super::super) const ANCHOR_BOOT: usize = 80;
    pub(in super::super::super) const ANCHOR_WALL: usize = 88;
    pub(in super::super::super) const LOCK: MutexPlace = MutexPlace {
        lock: 96,
        yield_until: 96 + MUTEX_BYTES,
    };
    pub(in super::super::super) const NEXT_FREE: usize = 160;
    pub(in super::super::super) const FREE_AREAS: usize = 168;
    pub(in super::super::super) const FREE_BLOCKS: usize = 256;
    pub(in super::super::super) const BUCKETS: usize = 512;
    pub(in super::super::super) const END: usize = 512 + 8 * super::BUCKETS;
}

/// The offsets of fields in the block of a site.
pub(in super::super) mod block {
    use super::{MUTEX_BYTES, MutexPlace};

    pub(in super::super::super) const LOCK: MutexPlace = MutexPlace {
        lock: 0,
        yield_until: LENGTH - 8,
    };
    pub(in super::super::super) const GENERATION: usize = MUTEX_BYTES;
    pub(in super::super::super) const NEXT: usize = MUTEX_BYTES + 8;
    pub(in super::super::super) const KEY_LENGTH: usize = MUTEX_BYTES + 16;
    pub(in super::super::super) const ACTIVE: usize = MUTEX_BYTES + 24;
    pub(in super::super::super) const USED: usize = MUTEX_BYTES + 32;
    pub(in super::super::super) const OPEN_UNTIL: usize = MUTEX_BYTES + 40;
    pub(in super::super::super) const RECORDS: usize = MUTEX_BYTES + 48;
    pub(in super::super::super) const RECORD: usize = 72;
    pub(in super::super::super) const KEY: usize = RECORDS + 2 * RECORD;
    pub(in super::super::super) const LENGTH: usize = 512;
    pub(in super::super::super) const LONGEST_KEY: usize = LENGTH - 8 - KEY;
}

/// The size class of an area: two headers, two snapshots and two logs. Each size doubles with the
/// class, but logs do not grow beyond [`MAX_LOG_CLASS`].
#[derive(Clone, Copy)]
pub(in super::super) struct SizeClass(pub(in super::super) usize);

impl SizeClass {
    pub(in super::super) const LARGEST: Self = Self(9);

    pub(in super::super) const fn header(self) -> usize {
        256 << self.0
    }

    pub(in super::super) const fn snapshot(self) -> usize {
        512 << self.0
    }

    /// Returns the number of changes in a full log. A longer log means fewer snapshots, which take
    /// longer to write in larger classes.
    pub(in super::super) const fn log_entries(self) -> usize {
        LOG_ENTRIES
            << if self.0 < MAX_LOG_CLASS {
                self.0
            } else {
                MAX_LOG_CLASS
            }
    }

    pub(in super::super) const fn log(self) -> usize {
        self.log_entries() * LOG_ENTRY_BYTES
    }

    pub(in super::super) const fn area(self) -> usize {
        2 * (self.header() + self.snapshot() + self.log())
    }

    /// Returns the smallest class for a header and a snapshot of these lengths.
    pub(in super::super) fn for_lengths(header: usize, snapshot: usize) -> Option<Self> {
        (0..=Self::LARGEST.0)
            .map(Self)
            .find(|class| class.header() >= header && class.snapshot() >= snapshot)
    }
}
