//! The context that the scheduler of a run and its job share.

use std::path::PathBuf;
use std::sync::Arc;

use docstokg_hub::Hub;
use docstokg_hub::clock::Runtime;

use crate::connectivity::{Connectivity, Reachability};
use crate::directory::Directory;
use crate::manifest::ManifestWriter;
use crate::progress::RunProgress;
use crate::queue::WorkQueue;
use crate::run_clock::RunClock;
use crate::scheduler::RunError;

/// The hub, clock, queue and progress of a run, which its scheduler and its
/// [`Job`](crate::job::Job) share. Cheap to clone.
#[derive(Clone)]
pub struct RunContext {
    /// The [`Hub`] that sends every request of the run.
    pub hub: Hub,
    /// The clock of the run, which also has the [`Runtime`] for sleeps and
    /// background tasks.
    pub clock: RunClock,
    /// The directory of the run.
    pub path: PathBuf,
    /// The queue of the directory.
    pub queue: WorkQueue,
    /// The manifest of the directory.
    pub manifest: ManifestWriter,
    /// The [`RunProgress`], which also cancels the run.
    pub progress: Arc<RunProgress>,
    /// The [`Connectivity`] of the machine.
    pub connectivity: Arc<Connectivity>,
    /// The name of the run.
    pub run_id: Arc<str>,
}

impl RunContext {
    /// Begins a run in a [`Directory`]. `manifest.jsonl` is rewritten from the queue.
    ///
    /// # Errors
    /// Returns a [`RunError`] if the queue or the manifest cannot be read or written.
    pub async fn begin(
        hub: &Hub,
        runtime: Arc<dyn Runtime>,
        directory: &Directory,
        progress: &Arc<RunProgress>,
        run_id: &str,
    ) -> Result<Self, RunError> {
        let Directory { path, queue, .. } = directory;
        let clock = RunClock::begin(runtime);
        Ok(Self {
            hub: hub.clone(),
            path: path.clone(),
            queue: queue.clone(),
            manifest: ManifestWriter::begin(&path.join("manifest.jsonl"), queue).await?,
            progress: Arc::clone(progress),
            connectivity: Arc::new(Connectivity::new(clock.clone(), None, Vec::new())),
            run_id: run_id.into(),
            clock,
        })
    }

    /// Lets the run check whether the network is available. `certain` are hosts that certainly
    /// exist.
    #[must_use]
    pub fn with_reachability(
        self,
        check: Option<Arc<dyn Reachability>>,
        certain: Vec<String>,
    ) -> Self {
        let connectivity = Connectivity::new(self.clock.clone(), check, certain);
        Self {
            connectivity: Arc::new(connectivity),
            ..self
        }
    }

    /// Cancels the run if this machine is offline and `host` is unreachable. Returns true if the
    /// run was cancelled: the caller then sends nothing and leaves its items unchanged.
    pub async fn stop_if_offline(&self, host: Option<&str>) -> bool {
        let Some(host) = host else {
            return false;
        };
        let is_offline = self.connectivity.is_offline_for(host).await;
        if is_offline {
            self.progress.go_offline();
        }
        is_offline
    }
}
