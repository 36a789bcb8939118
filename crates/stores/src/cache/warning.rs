//! Warnings: each kind of trouble is reported once per store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What is wrong with the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheTrouble {
    /// It cannot be used at all: every look-up is a miss and nothing is stored.
    Unusable,
    /// The index was damaged or of another version; it was set aside and started anew.
    IndexReplaced,
    /// The index does not answer for now: look-ups are misses.
    IndexFailed,
    /// A stored response was damaged or missing; it was dropped.
    EntryDamaged,
    /// A response could not be stored.
    NotStored,
}

/// A warning for the user.
#[derive(Clone, Debug)]
pub struct CacheWarning {
    /// What kind of trouble it is.
    pub trouble: CacheTrouble,
    /// What happened, where, and what to do.
    pub text: String,
}

impl fmt::Display for CacheWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Receives warnings, on any thread.
pub type WarningObserver = Arc<dyn Fn(&CacheWarning) + Send + Sync>;

/// Reports each kind of trouble once.
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

    /// Reports trouble, unless that kind has been reported.
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
