//! A pace that a host asks for itself, such as the crawl delay of its robots.txt: one request in so
//! much time, over all processes that share the store. Kept apart from the limits: both hold.

use docstokg_policy::site::{Entry, Patience, QueuePosition};

use super::{Gate, Lane, Terms};
use crate::clock::BootInstant;

impl Gate {
    /// Takes the next turn, or says from when on there is one.
    ///
    /// A store that does not answer refuses no turn: the limits have their own way with it.
    pub(crate) async fn take_turn(
        &self,
        lane: &Lane,
        jitter_sample: f64,
    ) -> Result<(), BootInstant> {
        let now = self.runtime.boot();
        let terms = Terms {
            asked: now,
            patience: Patience::Refuse,
            latest: now,
            deadline: now,
            jitter_sample,
            weight: 1,
        };
        let ask = lane.ask(&lane.costs, &terms, QueuePosition::Head);
        match self.site.enter(&ask).await.map(|entered| entered.entry) {
            Ok(Entry::Refused(refusal)) => Err(refusal.until),
            Ok(Entry::Wait(reserved)) => {
                // Whoever would have to wait comes back for its turn, and holds nothing until then.
                let _ = self.site.leave(&ask, reserved.id, None).await;
                Err(reserved.at)
            }
            _ => Ok(()),
        }
    }
}
