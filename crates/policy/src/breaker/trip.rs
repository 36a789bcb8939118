//! The data of a breaker that is open, blocked or half-open, and of its earlier failures.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::OpenReason;
use crate::role::Role;
use crate::time::BootInstant;

/// The lease of a probe, which ends by release, result or expiry.
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

/// The data of a breaker that is open, blocked or half-open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TripState {
    /// The end of the open that follows from failures, not from a block; in the past once
    /// half-open.
    pub(super) open_until: BootInstant,
    pub(super) reason: OpenReason,
    pub(super) block: Option<HostBlock>,
    pub(super) half_open: bool,
    pub(super) leases: Vec<ProbeLease>,
    /// The process or operator that opened the breaker, for display.
    pub(super) by: Option<Arc<str>>,
}

impl TripState {
    /// Creates the data of an open, or of a [`HostBlock`].
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

    /// Returns the [`OpenReason`] of the block or of the open after failures, whichever lasts
    /// longer.
    pub(super) fn reason(&self) -> &OpenReason {
        match &self.block {
            Some(block) if block.until >= self.open_until => &block.reason,
            _ => &self.reason,
        }
    }
}

/// The data of earlier failures of a breaker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FailureHistory {
    /// The number of opens in a row.
    pub(super) opens: u32,
    /// The number of times in a row that a server requested more than the configured reset.
    pub(super) outlasted: u32,
    pub(super) learned_reset: Duration,
    /// The instant of the last close. While open or half-open, the instant at which the outage
    /// first opened the breaker; zero if early probes do not apply.
    pub(super) turned_at: BootInstant,
    pub(super) failed_at: BootInstant,
    pub(super) throttled_at: BootInstant,
    pub(super) recent: VecDeque<BootInstant>,
}
