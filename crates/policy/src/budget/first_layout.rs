//! A budget as the first layout of the stores recorded it, for stores that an earlier version
//! wrote.

use serde::Deserialize;

use super::{Budget, Reservation, SlotLease, Stage, Wait};
use crate::adaptive::Counts;
use crate::ring::Coarse;
use crate::time::BootInstant;
use crate::windows::Multiplier;

/// A recorded budget of the first layout. Its reservations had no positions.
#[derive(Deserialize)]
pub struct FirstLayout {
    keep: u32,
    coarse: Vec<Coarse>,
    reservations: Vec<FirstReservation>,
    slots: Vec<SlotLease>,
    multiplier: Multiplier,
    counts: Option<Box<Counts>>,
    #[expect(clippy::box_collection, reason = "as it is kept in the budget")]
    waits: Option<Box<Vec<Wait>>>,
}

#[derive(Deserialize)]
struct FirstReservation {
    id: u64,
    at: BootInstant,
    weight: u32,
    expires: BootInstant,
    stage: Stage,
}

impl From<FirstLayout> for Budget {
    /// Keeps everything but the reservations of requests that waited: they have no position, and
    /// ask again.
    fn from(first: FirstLayout) -> Self {
        let FirstLayout {
            keep,
            coarse,
            reservations,
            slots,
            multiplier,
            counts,
            waits,
        } = first;
        let sent = reservations
            .into_iter()
            .filter(|reservation| reservation.stage == Stage::Sent);
        let sent = sent.map(
            |FirstReservation {
                 id,
                 at,
                 weight,
                 expires,
                 stage,
             }| Reservation {
                id,
                position: 0,
                at,
                weight,
                expires,
                stage,
            },
        );
        Self {
            keep,
            coarse,
            reservations: sent.collect(),
            slots,
            multiplier,
            counts,
            waits,
            ..Self::default()
        }
    }
}
