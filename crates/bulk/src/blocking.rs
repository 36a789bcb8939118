//! Work that keeps a processor busy, done beside the runtime: other items of the run go on
//! meanwhile, and a parser that panics fails one item and not the run.

use std::sync::LazyLock;

use tokio::sync::Semaphore;

/// As much is done at once as there are processors: more would only make each take longer, and hold
/// more memory.
static BLOCKING_PERMITS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from)));

/// Does something on a thread for such work; `None` if it panicked. Without a runtime, as in a
/// simulation, it is done here.
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
