//! Remote JSON-LD contexts for commands that read files: most files have none, so that a hub is
//! made when the first one is asked for.

use std::sync::{Arc, OnceLock};

use docstokg_hub::Hub;
use docstokg_ontology::contexts::HubContexts;
use docstokg_ontology::format::ContextLoader;

use crate::arguments::Global;
use crate::configuration::Loaded;
use crate::exit::Failure;
use crate::state;

/// Loads contexts through a hub that is made when it is needed.
pub(super) struct LazyContexts {
    make: Box<dyn Fn() -> Result<Network, String> + Send + Sync>,
    network: OnceLock<Result<Network, String>>,
}

/// A hub and the runtime that its requests run on.
struct Network {
    contexts: HubContexts,
    _runtime: tokio::runtime::Runtime,
}

impl LazyContexts {
    /// Keeps what a hub is made of.
    pub(super) fn new(global: &Global, loaded: &Loaded) -> Self {
        let mut config = loaded.config.clone();
        loaded.ontology.apply_to(&mut config);
        let gate = Arc::clone(&loaded.ontology.gate);
        let global = global.clone();
        let make = move || -> Result<Network, String> {
            let text = |failure: Failure| match failure {
                Failure::Usage(message) => message,
                Failure::Failed(error) => format!("{error:#}"),
                Failure::Config(problems) => problems.to_string(),
            };
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .map_err(|error| error.to_string())?;
            let hub = Hub::builder(config.clone())
                .wire(global.wire().map_err(text)?)
                .store(state::open(&global, &config).map_err(text)?)
                .build()
                .map_err(|error| error.to_string())?;
            let contexts = HubContexts::new(hub, Arc::clone(&gate), runtime.handle().clone());
            Ok(Network {
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
        match self.network.get_or_init(|| (self.make)()) {
            Ok(network) => network.contexts.load(url),
            Err(why) => Err(why.clone()),
        }
    }
}
