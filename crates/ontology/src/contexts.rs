//! Remote JSON-LD contexts, loaded through the hub: within the limits of their hosts, and only from
//! addresses that the gate allows.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use docstokg_hub::{Hub, RateWait, Request, Role};
use http::HeaderValue;
use http::header::ACCEPT;
use parking_lot::Mutex;
use url::Url;

use crate::format::ContextLoader;
use crate::gate::UrlGate;

/// The largest context.
const MAX_CONTEXT: u64 = 4 << 20;
/// The longest that a context is waited for.
const CONTEXT_TIMEOUT: Duration = Duration::from_secs(120);

/// A context, or why there is none, once it was asked for.
type Loaded = OnceLock<Result<Vec<u8>, String>>;

/// Loads contexts through a hub, each once.
pub struct HubContexts {
    hub: Hub,
    gate: Arc<UrlGate>,
    runtime: tokio::runtime::Handle,
    loaded: Mutex<HashMap<String, Arc<Loaded>>>,
}

impl HubContexts {
    /// Makes a loader that is called on threads beside this runtime.
    #[must_use]
    pub fn new(hub: Hub, gate: Arc<UrlGate>, runtime: tokio::runtime::Handle) -> Self {
        Self {
            hub,
            gate,
            runtime,
            loaded: Mutex::default(),
        }
    }

    async fn fetch(&self, url: &str) -> Result<Vec<u8>, String> {
        let url = Url::parse(url).map_err(|error| format!("this is not a URL: {error}"))?;
        let url = self.gate.check(&url).map_err(|error| error.to_string())?;
        let request = Request::get(url)
            .role(Role::Metadata)
            .discovered()
            .header(
                ACCEPT,
                HeaderValue::from_static("application/ld+json, application/json;q=0.9"),
            )
            .max_body(MAX_CONTEXT)
            .rate_wait(RateWait::Deadline)
            .deadline(CONTEXT_TIMEOUT)
            .redirect_gate(self.gate.for_redirects());
        let answer = self
            .hub
            .fetch(request)
            .await
            .map_err(|error| error.sentence())?;
        if !answer.head.status.is_success() {
            return Err(format!(
                "its host answered with status {}",
                answer.head.status.as_u16()
            ));
        }
        Ok(answer.body.to_vec())
    }
}

impl ContextLoader for HubContexts {
    fn load(&self, url: &str) -> Result<Vec<u8>, String> {
        let loaded = Arc::clone(self.loaded.lock().entry(url.to_owned()).or_default());
        // Other threads that want the same context wait here for the one that asks.
        loaded
            .get_or_init(|| self.runtime.block_on(self.fetch(url)))
            .clone()
    }
}
