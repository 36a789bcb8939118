//! Runs processor-bound work on other threads than those of the runtime, so that other items of the
//! run continue in the meantime. A parser that panics there fails its item, not the run.

use std::sync::LazyLock;

use tokio::sync::Semaphore;

/// The permits for processor-bound functions, one for each processor. Running more processor-bound
/// functions at the same time would not be faster, and would use more memory.
static BLOCKING_PERMITS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from)));

/// Runs a function on a thread for processor-bound work. Returns `None` if the function panicked.
/// If there is no runtime, as in a simulation, the function runs on the caller's thread.
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
