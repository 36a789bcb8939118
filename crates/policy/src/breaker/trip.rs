//! What a breaker remembers while it is open, blocked or half-open, and of earlier failures.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::OpenReason;
use crate::role::Role;
use crate::time::BootInstant;

/// The lease of a probe. Released, settled or expired; never lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProbeLease {
    pub(super) id: u64,
    pub(super) role: Role,
    pub(super) expires: BootInstant,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostBlock {
    pub(super) until: BootInstant,
    pub(super) reason: OpenReason,
}

/// What a breaker that is not plainly closed remembers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TripState {
    /// The end of the inferred open; in the past once half-open.
    pub(super) open_until: BootInstant,
    pub(super) reason: OpenReason,
    pub(super) block: Option<HostBlock>,
    pub(super) half_open: bool,
    pub(super) leases: Vec<ProbeLease>,
    /// Which process or operator opened it, for display.
    pub(super) by: Option<Arc<str>>,
}

impl TripState {
    /// Starts an open, or a block.
    pub(super) fn new(
        open_until: BootInstant,
        reason: OpenReason,
        block: Option<HostBlock>,
    ) -> Self {
        Self {
            open_until,
            reason,
            block,
            half_open: false,
            leases: Vec::new(),
            by: None,
        }
    }

    pub(super) fn until(&self) -> BootInstant {
        self.block
            .as_ref()
            .map_or(self.open_until, |block| block.until.max(self.open_until))
    }

    /// Returns the reason of whichever lasts longer, the block or the inferred open.
    pub(super) fn reason(&self) -> &OpenReason {
        match &self.block {
            Some(block) if block.until >= self.open_until => &block.reason,
            _ => &self.reason,
        }
    }
}

/// What a breaker that has failed before remembers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FailureHistory {
    /// Opens in a row.
    pub(super) opens: u32,
    /// How often in a row a server asked for more than the configured reset.
    pub(super) outlasted: u32,
    pub(super) learned_reset: Duration,
    /// When it closed last; while it is open or half-open, when the outage opened it first, or
    /// zero where early probes do not apply.
    pub(super) turned_at: BootInstant,
    pub(super) failed_at: BootInstant,
    pub(super) throttled_at: BootInstant,
    pub(super) recent: VecDeque<BootInstant>,
}
