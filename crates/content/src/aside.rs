//! Work that keeps a processor busy, done beside the runtime: other works of the run go on meanwhile, and a parser that
//! panics fails one work and not the run.

use tokio::sync::Semaphore;

/// How much of it is done at once: a page that is made to cost takes tens of megabytes while it is read.
static TURNS: Semaphore = Semaphore::const_new(2);

/// Does something on a thread for such work; `None` if it panicked. Without a runtime, as in a simulation, it is done here.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            // It is never closed.
            let _turn = TURNS.acquire().await;
            runtime.spawn_blocking(work).await.ok()
        }
        Err(_) => std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok(),
    }
}
