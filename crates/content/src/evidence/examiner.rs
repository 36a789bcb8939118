//! Looks into files beside the run: few at a time, each for a bounded time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::{Runtime, before};
use tokio::sync::{Semaphore, oneshot};

use super::inside::{Inside, look_inside};

/// How many files are looked into at once.
const AT_ONCE: usize = 2;
/// The longest that a file is looked into, the wait for others included.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The name of the threads. A parser that panics in one has read nothing, which is recorded; it need not be shown.
pub const THREAD_NAME: &str = "pdf-examination";

/// Looks into files.
pub(crate) struct Examiner {
    runtime: Arc<dyn Runtime>,
    free: Arc<Semaphore>,
}

impl Examiner {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { runtime, free: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Looks into a file. One that takes too long has said nothing; the thread that still reads it keeps its place, so that
    /// files which never end cost two threads and no more.
    pub(crate) async fn look(&self, path: &Path) -> Inside {
        if !self.runtime.can_stall() {
            // Simulated time has no threads to wait for.
            return look_inside(path);
        }
        let until = self.runtime.boot() + TIME_LIMIT;
        let Some(Ok(place)) = before(&*self.runtime, until, Arc::clone(&self.free).acquire_owned()).await else { return Inside::default() };
        let (tell, told) = oneshot::channel();
        let path = path.to_owned();
        let started = std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || {
            // Whoever asked may have given up.
            let _ = tell.send(look_inside(&path));
            drop(place);
        });
        match started {
            Ok(_) => before(&*self.runtime, until, told).await.and_then(Result::ok).unwrap_or_default(),
            Err(_) => Inside::default(),
        }
    }
}
