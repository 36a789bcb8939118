//! The history of a budget: the instants at which permits were used.
//!
//! Windows of up to [`EXACT_LIMIT`] share one [`PermitRing`] of exact instants. Each larger window
//! has a [`BucketRing`] of at most [`COARSE_BUCKETS`] buckets. A bucket has the instant of its
//! latest permit, so it leaves the window late and never early. This costs a thousandth of the
//! rate, and no window is ever exceeded.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rate::Window;
use crate::time::BootInstant;
use crate::windows::id_of;

/// The limit of the largest window whose permits are recorded one by one.
pub const EXACT_LIMIT: u32 = 4_096;
/// The largest number of buckets in which a larger window records its permits.
pub const COARSE_BUCKETS: u32 = 1_024;

/// The instants of the latest permits, oldest first.
///
/// ```
/// use std::time::Duration;
/// use docstokg_policy::ring::PermitRing;
/// use docstokg_policy::time::BootInstant;
///
/// let at = |seconds: u64| BootInstant::from_micros(seconds * 1_000_000);
/// let mut ring = PermitRing::default();
/// for second in [1, 2, 9] {
///     ring.push(at(second), 1, 10);
/// }
/// assert_eq!(ring.count_within(Duration::from_secs(5), at(10)), 1);
/// assert_eq!(ring.back(3), Some(at(1)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct PermitRing {
    permits: VecDeque<BootInstant>,
}

impl PermitRing {
    /// Returns the instant of the `k`-th latest permit (1 is the latest), if recorded.
    #[inline]
    #[must_use]
    pub fn back(&self, k: u32) -> Option<BootInstant> {
        let index = self.permits.len().checked_sub(k as usize)?;
        self.permits.get(index).copied()
    }

    /// Records `weight` permits at `at`, and keeps no more than `keep` permits.
    #[inline]
    pub fn push(&mut self, at: BootInstant, weight: u32, keep: u32) {
        let at = self.permits.back().map_or(at, |latest| at.max(*latest));
        if self.permits.capacity() == 0 {
            // Most hosts receive one request, so the first permit allocates space for one instant.
            self.permits.reserve_exact(weight.min(keep) as usize);
        }
        if keep == 0 {
            return;
        }
        if weight == 1 && self.permits.len() < keep as usize {
            self.permits.push_back(at);
            return;
        }
        for _ in 0..weight {
            if self.permits.len() >= keep as usize {
                self.permits.pop_front();
            }
            self.permits.push_back(at);
        }
    }

    /// Removes `weight` permits at `at`, as far as they are still recorded.
    pub fn take_back(&mut self, at: BootInstant, weight: u32) {
        let end = self.permits.partition_point(|used| *used <= at);
        let start = self.permits.partition_point(|used| *used < at);
        let start = start.max(end.saturating_sub(weight as usize));
        self.permits.drain(start..end);
    }

    /// Returns the recorded instants, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = BootInstant> {
        self.permits.iter().copied()
    }

    /// Replaces the recorded instants.
    pub fn restore(&mut self, permits: Vec<BootInstant>) {
        self.permits = permits.into();
    }

    /// Returns the latest recorded instant.
    #[must_use]
    pub fn latest(&self) -> Option<BootInstant> {
        self.permits.back().copied()
    }

    /// Returns how many permits at `now` are younger than `width`.
    #[must_use]
    pub fn count_within(&self, width: Duration, now: BootInstant) -> usize {
        self.permits.len() - self.permits.partition_point(|used| *used + width <= now)
    }
}

/// The permits of one large window, in [`Bucket`]s.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BucketRing {
    window: Window,
    /// The width in microseconds, guard included.
    width: u64,
    /// The identifier of the window, in 64 bits.
    id: u64,
    #[serde(skip)]
    buckets: VecDeque<Bucket>,
    #[serde(skip)]
    total: u64,
    /// The number of permits in a full bucket.
    share: u32,
}

/// A group of permits of a large window that count as used together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    latest: BootInstant,
    count: u32,
}

impl Bucket {
    /// Moves the bucket to another clock.
    pub(crate) fn moved(self, shift: &dyn Fn(BootInstant) -> BootInstant) -> Self {
        Self {
            latest: shift(self.latest),
            ..self
        }
    }
}

impl BucketRing {
    /// Creates the empty history of a [`Window`].
    #[must_use]
    pub fn new(window: Window, width: u64) -> Self {
        Self {
            window,
            width,
            id: id_of(&window),
            buckets: VecDeque::new(),
            total: 0,
            share: window.limit.get().div_ceil(COARSE_BUCKETS),
        }
    }

    /// Returns the identifier of the window.
    #[inline]
    #[must_use]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the time for which permits are recorded, in microseconds.
    pub(crate) fn width(&self) -> u64 {
        self.width
    }

    /// Extends the recorded time to at least `width` microseconds.
    pub fn widen(&mut self, width: u64) {
        self.width = self.width.max(width);
    }

    /// Returns the buckets, oldest first.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.buckets.iter().copied()
    }

    /// Replaces the recorded buckets.
    pub fn restore(&mut self, buckets: Vec<Bucket>) {
        self.total = buckets.iter().map(|bucket| u64::from(bucket.count)).sum();
        self.buckets = buckets.into();
    }

    /// Returns the [`Window`] of this history.
    #[must_use]
    pub fn window(&self) -> Window {
        self.window
    }

    /// Returns the assumed instant of the `k`-th latest permit, which is never earlier than its
    /// use.
    #[inline]
    #[must_use]
    pub fn back(&self, k: u32) -> Option<BootInstant> {
        let from_oldest = (self.total + 1)
            .checked_sub(u64::from(k))
            .filter(|rank| *rank > 0)?;
        let mut seen = 0;
        self.buckets.iter().find_map(|bucket| {
            seen += u64::from(bucket.count);
            (seen >= from_oldest).then_some(bucket.latest)
        })
    }

    /// Records `weight` permits at `at`, and drops those that have left the window.
    #[inline]
    pub fn push(&mut self, at: BootInstant, weight: u32) {
        while let Some(oldest) = self
            .buckets
            .front()
            .filter(|bucket| bucket.latest.plus_micros(self.width) <= at)
        {
            self.total -= u64::from(oldest.count);
            self.buckets.pop_front();
        }
        if weight == 0 {
            return;
        }
        self.total += u64::from(weight);
        let share = self.share;
        match self.buckets.back_mut() {
            Some(last) if last.count < share => {
                last.latest = last.latest.max(at);
                last.count += weight;
            }
            last => {
                let latest = last.map_or(at, |last| last.latest.max(at));
                if self.buckets.capacity() == 0 {
                    self.buckets.reserve_exact(1);
                }
                self.buckets.push_back(Bucket {
                    latest,
                    count: weight,
                });
            }
        }
    }

    /// Removes `weight` permits at `at`, as far as their bucket is still recorded.
    pub fn take_back(&mut self, at: BootInstant, weight: u32) {
        let index = self.buckets.partition_point(|bucket| bucket.latest < at);
        if let Some(bucket) = self.buckets.get_mut(index) {
            let taken = bucket.count.min(weight);
            bucket.count -= taken;
            self.total -= u64::from(taken);
            if bucket.count == 0 {
                self.buckets.remove(index);
            }
        }
    }

    /// Returns the latest recorded instant.
    #[must_use]
    pub fn latest(&self) -> Option<BootInstant> {
        self.buckets.back().map(|bucket| bucket.latest)
    }

    /// Returns how many permits at `now` count as younger than `width`.
    #[must_use]
    pub fn count_within(&self, width: Duration, now: BootInstant) -> u64 {
        self.buckets
            .iter()
            .filter(|bucket| bucket.latest + width > now)
            .map(|bucket| u64::from(bucket.count))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn at(micros: u64) -> BootInstant {
        BootInstant::from_micros(micros)
    }

    #[test]
    fn the_ring_counts_from_the_latest_and_forgets_the_oldest() {
        let mut ring = PermitRing::default();
        for second in 1..=5 {
            ring.push(at(second), 1, 3);
        }
        assert_eq!(
            [1, 2, 3, 4].map(|k| ring.back(k)),
            [Some(at(5)), Some(at(4)), Some(at(3)), None]
        );
        ring.push(at(2), 1, 3);
        assert_eq!(ring.back(1), Some(at(5)), "history never goes back");
    }

    #[test]
    fn a_permit_taken_back_leaves_its_neighbours() {
        let mut ring = PermitRing::default();
        for instant in [1, 2, 2, 2, 3] {
            ring.push(at(instant), 1, 9);
        }
        ring.take_back(at(2), 2);
        assert_eq!(
            [1, 2, 3, 4].map(|k| ring.back(k)),
            [Some(at(3)), Some(at(2)), Some(at(1)), None]
        );
        ring.take_back(at(7), 1);
        assert_eq!(ring.back(3), Some(at(1)));
    }

    #[test]
    fn a_large_window_stays_small_and_never_forgets_early() {
        let window = Window::new(
            NonZeroU32::new(1_000_000).unwrap(),
            Duration::from_secs(86_400),
        );
        let mut coarse = BucketRing::new(window, 86_400_000_000);
        for permit in 0..1_000_000u64 {
            coarse.push(at(permit * 1_000), 1);
        }
        assert!(
            coarse.buckets.len() <= COARSE_BUCKETS as usize + 1,
            "{}",
            coarse.buckets.len()
        );
        let oldest = coarse.back(1_000_000).unwrap();
        assert!(
            oldest >= at(0) && oldest <= at(1_000 * 1_000),
            "late by at most a thousandth: {oldest:?}"
        );
        assert_eq!(coarse.back(1_000_001), None);
        assert_eq!(coarse.back(1), Some(at(999_999_000)));
    }
}
