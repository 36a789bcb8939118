//! Contains panics of functions that read foreign data, so that the data count as unreadable and
//! the run continues.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Calls `read`, and returns `None` if it panics. The panic message is suppressed, because the
/// caller reports the data as unreadable.
pub fn contained<T>(read: impl FnOnce() -> T) -> Option<T> {
    let outer = IS_CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(read)).ok();
    IS_CONTAINED.set(outer);
    result
}

/// Returns whether this thread is within a call of [`contained`], so that a panic message should
/// not be printed.
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
