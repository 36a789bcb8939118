//! Reservations of requests that wait for a budget, or that connect.

use serde::{Deserialize, Serialize};

use crate::time::BootInstant;

/// A reservation in a [`Budget`](crate::budget::Budget).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reservation {
    /// The identifier of the holder, equal in every budget of the request.
    pub(crate) id: u64,
    /// The position among waiting requests, equal in every budget. Smaller positions go first. A
    /// request keeps its position until it is sent or gives up.
    pub(crate) position: u64,
    /// The instant at which the holder confirms the reservation.
    pub(crate) at: BootInstant,
    /// The weight of the request.
    pub(crate) weight: u32,
    /// The instant at which the reservation expires, unless the holder confirms it.
    pub(crate) expires: BootInstant,
    /// The [`ReservationStage`] of the holder.
    pub(crate) stage: ReservationStage,
}

/// The stage of a reservation's holder, which decides the effect of expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ReservationStage {
    /// The holder waits. A reservation that expires in this stage is dropped, because its holder
    /// has ended.
    Waiting,
    /// The request connects or was sent. Until it expires, the reservation counts as a use at the
    /// present instant. At expiry, the use is recorded at the instant of expiry.
    Sent,
}

impl Reservation {
    /// Returns whether the holder waits.
    pub(crate) fn is_waiting(&self) -> bool {
        self.stage == ReservationStage::Waiting
    }
}
