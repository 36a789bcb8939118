//! Remote JSON-LD contexts for commands that read files. Most files need none, so a hub is built
//! only for the first context.

use std::sync::{Arc, OnceLock};

use docstokg_ontology::contexts::HubContexts;
use docstokg_ontology::format::ContextLoader;

use crate::arguments::GlobalArguments;
use crate::configuration::LoadedConfig;
use crate::exit::CommandFailure;
use crate::session::{self, TaskThreads};

/// Loads contexts through a hub, which is built on first use.
pub(super) struct LazyContexts {
    make: Box<dyn Fn() -> Result<HubRuntime, CommandFailure> + Send + Sync>,
    network: OnceLock<Result<HubRuntime, String>>,
}

/// A hub, and the runtime that its requests run on.
struct HubRuntime {
    contexts: HubContexts,
    _runtime: tokio::runtime::Runtime,
}

impl LazyContexts {
    /// Stores the parts from which a hub can be built.
    pub(super) fn new(global: &GlobalArguments, loaded: &LoadedConfig) -> Self {
        let config = loaded.config.clone();
        let gate = Arc::clone(&loaded.ontology.gate);
        let global = global.clone();
        let make = move || {
            let runtime = session::start_runtime(TaskThreads::Two)?;
            let hub = session::connect(&global, config.clone())?;
            let contexts = HubContexts::new(hub, Arc::clone(&gate), runtime.handle().clone());
            Ok(HubRuntime {
                contexts,
                _runtime: runtime,
            })
        };
        Self {
            make: Box::new(make),
            network: OnceLock::new(),
        }
    }
}

impl ContextLoader for LazyContexts {
    fn load(&self, url: &str) -> Result<Vec<u8>, String> {
        let make = || (self.make)().map_err(|failure| failure.message());
        match self.network.get_or_init(make) {
            Ok(network) => network.contexts.load(url),
            Err(why) => Err(why.clone()),
        }
    }
}
