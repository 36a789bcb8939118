//! Reservations of requests that wait for a budget, and of those that are dialling.

use serde::{Deserialize, Serialize};

use crate::time::BootInstant;

/// A reservation in a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reservation {
    /// The identifier of its holder, the same in every budget of the request.
    pub(crate) id: u64,
    /// Its position among those that wait, the same in every budget. Smaller goes first; kept until
    /// it goes or is gone.
    pub(crate) position: u64,
    /// The instant at which its holder is to confirm it.
    pub(crate) at: BootInstant,
    /// How much it will use.
    pub(crate) weight: u32,
    /// When it expires unless its holder confirms it.
    pub(crate) expires: BootInstant,
    /// What its holder does.
    pub(crate) stage: ReservationStage,
}

/// What the holder of a reservation does; decides what expiry means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ReservationStage {
    /// It waits. A reservation that expires in this stage is dropped: its holder is gone.
    Waiting,
    /// Its request is dialling or has been sent: it counts as used now, and when it expires as
    /// used at that instant.
    Sent,
}

impl Reservation {
    /// Returns whether its holder waits.
    pub(crate) fn is_waiting(&self) -> bool {
        self.stage == ReservationStage::Waiting
    }
}
