//! Processes killed between two instructions, over and over.

use std::time::{Duration, Instant};

use docstokg_stores::StateStore;
use docstokg_stores::conformance::arrive;

use crate::worker::{PATIENCE, StoreWorker, WorkerClient};

/// Kills a number of processes that use a store without pause, and checks after each that it
/// answers and has exceeded no window.
#[expect(
    clippy::disallowed_methods,
    reason = "processes are killed in real time"
)]
pub(crate) fn kill(location: &str, store: &dyn StateStore, times: u64) {
    let client = WorkerClient::new(store, "hammer", "300/SECOND+2000/HOUR", Some(3));
    let mut workers: Vec<StoreWorker> = (0..2)
        .map(|_| StoreWorker::start("hammer", location, "hammer"))
        .collect();
    for round in 0..times {
        workers[0].hear("holding");
        // Not a random instant, but one that differs each time; what the victim does then is random
        // enough.
        std::thread::sleep(Duration::from_micros(
            500 + 1_777 * (round % 24) + 13 * round,
        ));
        workers[0].kill();
        workers.remove(0);
        let start = Instant::now();
        let _ = client.enter();
        assert!(
            start.elapsed() < PATIENCE,
            "{location}: wedged after kill {round}"
        );
        let view = arrive(client.site.view());
        let windows = &client.costs[0].windows;
        for window in windows.list() {
            let used = view.site.budgets()[0].used(windows, window, view.now);
            assert!(
                used <= u64::from(window.limit.get()),
                "{location}: {used} in {window} after kill {round}"
            );
        }
        workers.push(StoreWorker::start("hammer", location, "hammer"));
    }
}
