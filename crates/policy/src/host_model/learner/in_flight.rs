//! The requests in flight, and the number of concurrent requests that a host admits.

use serde::{Deserialize, Serialize};

/// The number of concurrent requests up to which results are counted separately for each number.
const MAX_TOLD_APART: usize = 32;

/// The number of requests in flight, and their results by the number of concurrent requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InFlightCounts {
    count: u16,
    admitted: [u8; MAX_TOLD_APART],
    refused: [u8; MAX_TOLD_APART],
}

fn add_one(counts: &mut [u8; MAX_TOLD_APART], others: u16) {
    let slot = usize::from(others).min(MAX_TOLD_APART - 1);
    if counts[slot] == u8::MAX {
        for count in counts.iter_mut() {
            *count /= 2;
        }
    }
    counts[slot] += 1;
}

impl InFlightCounts {
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// Adds a request, and returns the number of others in flight.
    pub(super) fn send(&mut self) -> u16 {
        let others = self.count;
        self.count = self.count.saturating_add(1);
        others
    }

    pub(super) fn answer(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    pub(super) fn land_all(&mut self) {
        self.count = 0;
    }

    pub(super) fn admitted(&mut self, others: u16) {
        add_one(&mut self.admitted, others);
    }

    pub(super) fn refused(&mut self, others: u16) {
        add_one(&mut self.refused, others);
    }

    pub(super) fn forget(&mut self) {
        self.admitted = [0; MAX_TOLD_APART];
        self.refused = [0; MAX_TOLD_APART];
    }

    /// Returns the number of concurrent requests that the host admits, if that number alone
    /// separates refused from admitted requests.
    pub(super) fn cap(&self) -> Option<u16> {
        let least = (self.refused.iter())
            .position(|count| *count > 0)
            .filter(|k| *k >= 1)?;
        let refused: u32 = self.refused[least..].iter().map(|n| u32::from(*n)).sum();
        let admitted: u32 = self.admitted[least..].iter().map(|n| u32::from(*n)).sum();
        (refused >= 2 && admitted <= refused).then_some(least as u16)
    }
}
