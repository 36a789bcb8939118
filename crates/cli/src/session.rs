//! A command that sends requests, from its configuration to its end.
//!
//! A session has the async runtime, the signals, the store, the hub with its observers, and the
//! record of the run.

use std::future::Future;
use std::sync::Arc;

use anyhow::Context;
use docstokg_bulk::connectivity::Reachability;
use docstokg_bulk::progress::RunProgress;
use docstokg_hub::config::Config;
use docstokg_hub::event::Observer;
use docstokg_hub::stores::StateStore;
use docstokg_hub::transport::wire::WireOptions;
use docstokg_hub::{Hub, HubBuilder};
use tokio::runtime::{Builder, Runtime};

use crate::arguments::GlobalArguments;
use crate::configuration::LoadedConfig;
use crate::exit::CommandFailure;
use crate::interrupts::Interrupts;
use crate::telemetry::{self, MetricsReader, RunRecording};
use crate::view::ProgressView;
use crate::{network, state};

/// Maximum number of concurrent name resolutions of a bulk run. Each occupies a thread, and the
/// wait of a request for a resolution counts against its timeout.
const MAX_LOOKUPS: usize = 256;

/// The threads that the tasks of a command run on.
#[derive(Clone, Copy)]
pub(crate) enum TaskThreads {
    /// The thread of the command.
    Caller,
    /// Two threads, as many as a bulk run keeps busy.
    Two,
    /// A thread for each core.
    PerCore,
}

/// Starts an async runtime.
pub(crate) fn start_runtime(threads: TaskThreads) -> Result<Runtime, CommandFailure> {
    let mut builder = match threads {
        TaskThreads::Caller => Builder::new_current_thread(),
        TaskThreads::Two | TaskThreads::PerCore => Builder::new_multi_thread(),
    };
    if let TaskThreads::Two = threads {
        builder.worker_threads(2).max_blocking_threads(MAX_LOOKUPS);
    }
    let runtime = builder.enable_all().build();
    Ok(runtime.context("the async runtime cannot be started")?)
}

/// Runs the store operations of a command.
pub(crate) fn block_on<T>(
    work: impl Future<Output = Result<T, CommandFailure>>,
) -> Result<T, CommandFailure> {
    start_runtime(TaskThreads::Caller)?.block_on(work)
}

/// The resources of a command that sends requests.
pub(crate) struct Session<'a> {
    global: &'a GlobalArguments,
    /// The configuration that applies.
    pub(crate) loaded: LoadedConfig,
    /// The runtime that the requests run on.
    pub(crate) runtime: Runtime,
    /// The signals since the session was opened.
    pub(crate) interrupts: Interrupts,
    /// The state that processes share.
    pub(crate) store: Arc<dyn StateStore>,
    wire: WireOptions,
}

impl<'a> Session<'a> {
    /// Takes the signals over, and opens the store.
    pub(crate) fn open(
        global: &'a GlobalArguments,
        loaded: LoadedConfig,
        threads: TaskThreads,
    ) -> Result<Self, CommandFailure> {
        let interrupts = Interrupts::take()?;
        let runtime = start_runtime(threads)?;
        let store = state::open(global, &loaded.config)?;
        Ok(Self {
            global,
            loaded,
            runtime,
            interrupts,
            store,
            wire: global.wire()?,
        })
    }

    /// Begins the record of a run.
    pub(crate) fn record(
        &self,
        command: &str,
        reader: MetricsReader,
    ) -> Result<RunRecording, CommandFailure> {
        telemetry::begin(self.global, command, &self.loaded, &self.store, reader)
    }

    /// Returns the check of local connectivity, if there is one.
    pub(crate) fn reachability(&self) -> Option<Arc<dyn Reachability>> {
        network::reachability(&self.wire.connect_to)
    }

    /// Builds the hub with a [`Config`] that may differ from that of the session.
    pub(crate) fn hub(
        &self,
        config: Config,
        observers: [Option<Arc<dyn Observer>>; 2],
    ) -> Result<Hub, CommandFailure> {
        let (store, wire) = (Arc::clone(&self.store), self.wire.clone());
        let observers = observers.into_iter().flatten();
        build_hub(self.global, config, store, wire, observers)
    }

    /// Displays a bulk run until it ends, or until the second interrupt. The first interrupt only
    /// cancels the run. Then the hub is closed.
    pub(crate) fn show_run<T>(
        self,
        view: &ProgressView,
        hub: &Hub,
        progress: &Arc<RunProgress>,
        run: impl Future<Output = T>,
    ) -> Option<T> {
        let stop = stop_at_interrupts(self.interrupts, progress);
        let outcome = self.runtime.block_on(async {
            let outcome = view.show(hub, progress, run, stop).await;
            // The last changes must reach the store before the process ends. If they do not, its
            // leases expire.
            let _ = hub.close().await;
            outcome
        });
        // After the second interrupt the process does not wait for active tasks.
        self.runtime.shutdown_background();
        outcome
    }
}

/// Opens the store and builds a hub whose requests are not recorded.
pub(crate) fn connect(global: &GlobalArguments, config: Config) -> Result<Hub, CommandFailure> {
    let store = state::open(global, &config)?;
    build_hub(global, config, store, global.wire()?, None)
}

/// Builds a hub whose files are in the state directory, and which reports the notices of its parts
/// to the user.
pub(crate) fn build_hub(
    global: &GlobalArguments,
    config: Config,
    store: Arc<dyn StateStore>,
    wire: WireOptions,
    observers: impl IntoIterator<Item = Arc<dyn Observer>>,
) -> Result<Hub, CommandFailure> {
    let builder = Hub::builder(config)
        .store(store)
        .state_dir(state::directory(global)?)
        .notice(state::notice(global))
        .wire(wire);
    let built = observers
        .into_iter()
        .fold(builder, HubBuilder::observer)
        .build();
    built.map_err(|error| CommandFailure::Usage(error.to_string()))
}

/// Ends at the second interrupt; the first interrupt only cancels the run.
async fn stop_at_interrupts(mut interrupts: Interrupts, progress: &RunProgress) {
    interrupts.next().await;
    progress.cancel();
    progress.notify(
        "finishing current downloads; interrupt again to stop now (nothing is lost either way)",
    );
    interrupts.next().await;
}
