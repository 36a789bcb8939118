//! Execution of processor-bound work beside the runtime. Other items of the run continue in the
//! meantime, and a parser that panics fails one item and not the run.

use std::sync::LazyLock;

use tokio::sync::Semaphore;

/// The permits for processor-bound work, one for each processor: more concurrent work would only
/// take longer and use more memory.
static BLOCKING_PERMITS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from)));

/// Runs a function on a thread for processor-bound work. Returns `None` if the function panicked.
/// Without a runtime, as in a simulation, the function runs on the caller's thread.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            let _turn = BLOCKING_PERMITS.acquire().await.ok()?;
            runtime.spawn_blocking(work).await.ok()
        }
        Err(_) => std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok(),
    }
}
