//! Pauses of the process: times in which this process, or the whole machine, did not run.
//!
//! The origin counts requests when they arrive. A request that was permitted just before a pause
//! arrives after it, closer to later requests than the instant of its permit says. While requests
//! are in flight, a watch therefore ticks. If a tick is late, the process was paused. The permits
//! of the requests that left during this tick or the previous one are then stamped again when their
//! responses arrive. Requests that left earlier were written to the network before the pause.
//! Without pauses, no permit is stamped again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Runtime;

/// The time between two ticks of the watch.
const PAUSE_CHECK_INTERVAL: Duration = Duration::from_millis(4);
/// Minimum lateness of a tick that counts as a pause. Timers are often late by a millisecond or
/// two; the guard of the windows is longer than that.
const MIN_LATENESS: Duration = Duration::from_millis(4);

/// The watch of a hub that detects pauses of the process.
#[derive(Default)]
pub(crate) struct ProcessPauses {
    out: AtomicUsize,
    watching: AtomicBool,
    departures: Mutex<Departures>,
}

/// The flags of requests that may not have been written to the network yet, by the tick in which
/// they left.
#[derive(Default)]
struct Departures {
    /// The flag of the requests that left after the last tick.
    current: PauseFlag,
    /// The flag of the requests that left between the last two ticks.
    previous: PauseFlag,
}

/// A flag that the requests of one tick share. It is set if the process paused before they were
/// certainly written to the network.
type PauseFlag = Arc<AtomicBool>;

/// A guard that counts a request as in flight until dropped.
pub(crate) struct RequestOut<'a> {
    pauses: &'a ProcessPauses,
    paused: PauseFlag,
}

impl ProcessPauses {
    /// Counts a request as in flight from now until the guard is dropped. Returns `None` if the
    /// [`Runtime`] cannot pause.
    pub(crate) fn leave<'a>(
        self: &'a Arc<Self>,
        runtime: &Arc<dyn Runtime>,
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
            paused: Arc::clone(&self.departures.lock().current),
        })
    }

    async fn watch(&self, runtime: &dyn Runtime) {
        loop {
            let due = runtime.boot() + PAUSE_CHECK_INTERVAL;
            runtime.sleep_until(due).await;
            self.tick(runtime.boot().since(due));
            if self.out.load(Ordering::Acquire) == 0 {
                self.watching.store(false, Ordering::Release);
                // A request may have left since the last check. Either this watch continues, or the
                // one that the request has started.
                if self.out.load(Ordering::Acquire) == 0
                    || self.watching.swap(true, Ordering::AcqRel)
                {
                    return;
                }
            }
        }
    }

    /// Ends a tick that is late by `lateness`.
    fn tick(&self, lateness: Duration) {
        let mut departures = self.departures.lock();
        if lateness >= MIN_LATENESS {
            departures.current.store(true, Ordering::Release);
            departures.previous.store(true, Ordering::Release);
        }
        departures.previous = std::mem::take(&mut departures.current);
    }
}

impl RequestOut<'_> {
    /// Returns whether the process paused before the request was certainly written to the network.
    pub(crate) fn met_a_pause(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }
}

impl Drop for RequestOut<'_> {
    fn drop(&mut self) {
        self.pauses.out.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TokioRuntime;

    const CALM: Duration = Duration::from_millis(1);
    const LATE: Duration = Duration::from_millis(30);

    #[tokio::test]
    async fn only_requests_that_have_just_left_meet_a_pause() {
        let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::default());
        let pauses = Arc::new(ProcessPauses::default());
        // This prevents a watch, so that only the test causes ticks.
        pauses.watching.store(true, Ordering::Release);
        let leave = || pauses.leave(&runtime).unwrap();
        let early = leave();
        pauses.tick(CALM);
        pauses.tick(CALM);
        let previous = leave();
        pauses.tick(CALM);
        let current = leave();
        pauses.tick(LATE);
        let later = leave();
        pauses.tick(CALM);
        assert!(!early.met_a_pause(), "it was on the wire before");
        assert!(previous.met_a_pause());
        assert!(current.met_a_pause());
        assert!(!later.met_a_pause(), "it left after the pause");
    }
}
