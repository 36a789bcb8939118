//! Reservations: the places held by requests that wait for a budget, and by those that are
//! dialling.

use serde::{Deserialize, Serialize};

use crate::time::BootInstant;

/// A place held in a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reservation {
    /// The name of its holder, the same in every budget that the holder charges.
    pub(crate) id: u64,
    /// Its position among those that wait, the same in every budget. Smaller goes first; kept until
    /// it goes or is gone.
    pub(crate) position: u64,
    /// The instant that its holder was told to come back at.
    pub(crate) at: BootInstant,
    /// How much it will use.
    pub(crate) weight: u32,
    /// When it is over without a sign of its holder.
    pub(crate) expires: BootInstant,
    /// What its holder does.
    pub(crate) stage: Stage,
}

/// What the holder of a reservation does, and so what becomes of it when its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// It waits. When its time is over its holder is gone, and the place is free.
    Waiting,
    /// Its request is dialling or has left: it counts as used now, and when its time is over as
    /// used then.
    Sent,
}

impl Reservation {
    /// Tells whether its holder waits.
    pub(crate) fn is_waiting(&self) -> bool {
        self.stage == Stage::Waiting
    }
}
