//! Warnings: each kind of trouble is reported once per store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The kind of trouble with the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheTrouble {
    /// The cache cannot be used: every look-up is a miss, and no response is stored.
    Unusable,
    /// The index was damaged or of another version. The file was moved aside, and the cache starts
    /// empty.
    IndexReplaced,
    /// The index is unavailable at the moment, so look-ups are misses.
    IndexFailed,
    /// A stored response was damaged or missing, and was dropped.
    EntryDamaged,
    /// A response could not be stored.
    NotStored,
}

/// A warning for the user.
#[derive(Clone, Debug)]
pub struct CacheWarning {
    /// The kind of [`CacheTrouble`].
    pub trouble: CacheTrouble,
    /// The description of the event, its location and the action for the user.
    pub text: String,
}

impl fmt::Display for CacheWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// A function that receives warnings, on any thread.
pub type WarningObserver = Arc<dyn Fn(&CacheWarning) + Send + Sync>;

/// The log of warnings, which reports each kind of [`CacheTrouble`] once.
pub(super) struct WarningLog {
    observer: Option<WarningObserver>,
    reported: AtomicU8,
}

impl WarningLog {
    pub(super) fn new(observer: Option<WarningObserver>) -> Self {
        Self {
            observer,
            reported: AtomicU8::new(0),
        }
    }

    /// Reports [`CacheTrouble`], unless its kind was reported before.
    pub(super) fn report(&self, trouble: CacheTrouble, text: impl FnOnce() -> String) {
        let bit = 1 << trouble as u8;
        if self.reported.fetch_or(bit, Ordering::AcqRel) & bit == 0
            && let Some(observer) = &self.observer
        {
            observer(&CacheWarning {
                trouble,
                text: text(),
            });
        }
    }
}
