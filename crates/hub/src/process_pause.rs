//! Process pauses: times in which this process, or the whole machine, stood still.
//!
//! The origin counts arrivals. A request that was permitted just before a pause arrives after it,
//! closer to those permitted later than its stamp says. While requests are out, a watch ticks; when
//! a tick comes late, whatever was on its way meanwhile is stamped anew once its answer is there.
//! Without pauses nothing is stamped twice, and no rate is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::clock::{BootInstant, Runtime};

/// How often the watch ticks.
const TICK: Duration = Duration::from_millis(4);
/// How late a tick must be to count as a pause. Timers are late by a millisecond or two; the guard
/// of the windows covers that.
const MIN_LATENESS: Duration = Duration::from_millis(4);

/// The watch of a hub.
#[derive(Default)]
pub(crate) struct ProcessPauses {
    out: AtomicUsize,
    watching: AtomicBool,
    /// When the latest pause ended, in microseconds.
    ended: AtomicU64,
}

/// A request on its way. Counts as out until it is dropped.
pub(crate) struct RequestOut<'a> {
    pauses: &'a ProcessPauses,
    since: BootInstant,
}

impl ProcessPauses {
    /// A request leaves; its permit is from `since`.
    pub(crate) fn leave<'a>(
        self: &'a Arc<Self>,
        runtime: &Arc<dyn Runtime>,
        since: BootInstant,
    ) -> Option<RequestOut<'a>> {
        if !runtime.can_pause() {
            return None;
        }
        self.out.fetch_add(1, Ordering::AcqRel);
        if !self.watching.swap(true, Ordering::AcqRel) {
            let (pauses, watch) = (Arc::clone(self), Arc::clone(runtime));
            runtime.spawn(Box::pin(async move { pauses.watch(&*watch).await }));
        }
        Some(RequestOut {
            pauses: self,
            since,
        })
    }

    async fn watch(&self, runtime: &dyn Runtime) {
        loop {
            let due = runtime.boot() + TICK;
            runtime.sleep_until(due).await;
            let now = runtime.boot();
            if now.since(due) >= MIN_LATENESS {
                self.ended.store(now.as_micros(), Ordering::Release);
            }
            if self.out.load(Ordering::Acquire) == 0 {
                self.watching.store(false, Ordering::Release);
                // A request may have left between the two: then one of the two watches continues.
                if self.out.load(Ordering::Acquire) == 0
                    || self.watching.swap(true, Ordering::AcqRel)
                {
                    return;
                }
            }
        }
    }
}

impl RequestOut<'_> {
    /// Returns whether there was a pause while the request was on its way.
    pub(crate) fn met_a_pause(&self) -> bool {
        BootInstant::from_micros(self.pauses.ended.load(Ordering::Acquire)) >= self.since
    }
}

impl Drop for RequestOut<'_> {
    fn drop(&mut self) {
        self.pauses.out.fetch_sub(1, Ordering::AcqRel);
    }
}
