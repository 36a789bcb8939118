//! Readers that may panic on what others wrote: what they were reading is then unreadable, and the
//! run goes on.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Reads something; returns `None` if that panicked. The caller reports it as unreadable, so the
/// panic itself need not be shown.
pub fn contained<T>(read: impl FnOnce() -> T) -> Option<T> {
    let outer = IS_CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(read)).ok();
    IS_CONTAINED.set(outer);
    result
}

/// Tells whether a panic of this thread is one that [`contained`] returns from.
#[must_use]
pub fn is_contained() -> bool {
    IS_CONTAINED.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_panics_has_read_nothing_and_the_next_panic_is_shown() {
        let nested = contained(|| {
            let inner: Option<()> = contained(|| panic!("a fault"));
            (inner, is_contained())
        });
        assert_eq!(nested, Some((None, true)));
        assert!(!is_contained());
        assert_eq!(contained(|| -> bool { panic!("a fault") }), None);
        assert!(!is_contained());
    }
}
