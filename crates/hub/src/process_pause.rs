//! Stalls: times in which this process, or the whole machine, stood still.
//!
//! The origin counts arrivals. A request that was granted just before a stall arrives after it,
//! closer to those granted later than its stamp says. While requests are out, a watch ticks; when a
//! tick comes late, whatever was on its way meanwhile is stamped anew once its answer is there.
//! Without stalls nothing is stamped twice, and no rate is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::clock::{BootInstant, Runtime};

/// How often the watch ticks.
const TICK: Duration = Duration::from_millis(4);
/// How late a tick must be to be a stall. Timers are late by a millisecond or two; the guard of the
/// windows covers that.
const LATE: Duration = Duration::from_millis(4);

/// The watch of a hub.
#[derive(Default)]
pub(crate) struct ProcessPauses {
    out: AtomicUsize,
    watching: AtomicBool,
    /// When the latest stall ended, in microseconds.
    ended: AtomicU64,
}

/// A request on its way. Counts as out until it is dropped.
pub(crate) struct Out<'a> {
    pauses: &'a ProcessPauses,
    since: BootInstant,
}

impl ProcessPauses {
    /// A request leaves; its grant is from `since`.
    pub(crate) fn leave<'a>(
        self: &'a Arc<Self>,
        runtime: &Arc<dyn Runtime>,
        since: BootInstant,
    ) -> Option<Out<'a>> {
        if !runtime.can_stall() {
            return None;
        }
        self.out.fetch_add(1, Ordering::AcqRel);
        if !self.watching.swap(true, Ordering::AcqRel) {
            let (pauses, watch) = (Arc::clone(self), Arc::clone(runtime));
            runtime.spawn(Box::pin(async move { pauses.watch(&*watch).await }));
        }
        Some(Out {
            pauses: self,
            since,
        })
    }

    async fn watch(&self, runtime: &dyn Runtime) {
        loop {
            let due = runtime.boot() + TICK;
            runtime.sleep_until(due).await;
            let now = runtime.boot();
            if now.since(due) >= LATE {
                self.ended.store(now.as_micros(), Ordering::Release);
            }
            if self.out.load(Ordering::Acquire) == 0 {
                self.watching.store(false, Ordering::Release);
                // Somebody may have left between the two: then one of us goes on.
                if self.out.load(Ordering::Acquire) == 0
                    || self.watching.swap(true, Ordering::AcqRel)
                {
                    return;
                }
            }
        }
    }
}

impl Out<'_> {
    /// Tells whether there was a stall while the request was on its way.
    pub(crate) fn met_a_pause(&self) -> bool {
        BootInstant::from_micros(self.pauses.ended.load(Ordering::Acquire)) >= self.since
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        self.pauses.out.fetch_sub(1, Ordering::AcqRel);
    }
}
