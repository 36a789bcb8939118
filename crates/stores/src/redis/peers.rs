//! The number of processes that share the server.

use std::collections::VecDeque;

use docstokg_policy::time::BootInstant;

use super::PEER_TIMEOUT;

/// The latest counts of processes, with their instants. The count decreases only if it has been
/// lower for [`PEER_TIMEOUT`]. An emptied server counts few processes, and new processes are not
/// counted yet.
#[derive(Default)]
pub(super) struct PeerCounts {
    first: Option<BootInstant>,
    recent: VecDeque<(BootInstant, u32)>,
}

impl PeerCounts {
    pub(super) fn note(&mut self, count: u32, now: BootInstant) {
        self.first.get_or_insert(now);
        self.recent.retain(|(at, _)| *at + PEER_TIMEOUT > now);
        self.recent.push_back((now, count));
    }

    pub(super) fn most(&self) -> Option<u32> {
        self.recent.iter().map(|(_, count)| *count).max()
    }

    pub(super) fn has_settled(&self, now: BootInstant) -> bool {
        self.first.is_some_and(|first| first + PEER_TIMEOUT <= now)
    }
}
