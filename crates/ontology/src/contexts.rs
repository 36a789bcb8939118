//! Loads remote JSON-LD contexts through the hub.
//!
//! The rate limits of their hosts apply. Only URLs that the [`UrlGate`] allows are loaded.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use docstokg_hub::{Hub, RateWait, Request, Role};
use http::HeaderValue;
use http::header::ACCEPT;
use parking_lot::Mutex;
use url::Url;

use crate::format::ContextLoader;
use crate::url_check::UrlGate;

/// Maximum size of one context, in bytes.
const MAX_CONTEXT: u64 = 4 << 20;
/// Maximum number of contexts that one run loads. Real ontologies name a few; without a limit, a
/// file could cause any number of requests.
const MAX_CONTEXTS: usize = 64;
/// Maximum size of all contexts of a run, in bytes: they stay in memory.
const MAX_TOTAL: u64 = 32 << 20;
/// Maximum wait for a context.
const CONTEXT_TIMEOUT: Duration = Duration::from_secs(120);

/// A loaded context, or the reason for its failed load; empty until the load has ended.
type LoadedContext = OnceLock<Result<Vec<u8>, String>>;

/// Loads each remote context once through a [`Hub`], within the limits of a run. Implements
/// [`ContextLoader`].
pub struct HubContexts {
    hub: Hub,
    gate: Arc<UrlGate>,
    runtime: tokio::runtime::Handle,
    contexts: Mutex<ContextStore>,
}

/// The contexts of a run, within [`MAX_CONTEXTS`] and [`MAX_TOTAL`].
#[derive(Default)]
struct ContextStore {
    loaded: HashMap<String, Arc<LoadedContext>>,
    bytes: u64,
}

impl ContextStore {
    /// Returns the entry of a context, or an error if [`MAX_CONTEXTS`] is reached.
    fn place(&mut self, url: &str) -> Result<Arc<LoadedContext>, String> {
        if let Some(known) = self.loaded.get(url) {
            return Ok(Arc::clone(known));
        }
        if self.loaded.len() >= MAX_CONTEXTS {
            return Err(format!("a run loads at most {MAX_CONTEXTS} contexts"));
        }
        Ok(Arc::clone(self.loaded.entry(url.to_owned()).or_default()))
    }

    /// Counts the bytes of a received context, or returns an error if [`MAX_TOTAL`] is exceeded.
    fn count(&mut self, bytes: usize) -> Result<(), String> {
        let total = self.bytes.saturating_add(bytes as u64);
        if total > MAX_TOTAL {
            let most = MAX_TOTAL >> 20;
            return Err(format!("a run loads at most {most} MiB of contexts"));
        }
        self.bytes = total;
        Ok(())
    }
}

impl HubContexts {
    /// Creates a loader that sends its requests on `runtime`. The loader blocks its callers, so
    /// they must run on threads outside of `runtime`.
    #[must_use]
    pub fn new(hub: Hub, gate: Arc<UrlGate>, runtime: tokio::runtime::Handle) -> Self {
        Self {
            hub,
            gate,
            runtime,
            contexts: Mutex::default(),
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
        self.contexts.lock().count(answer.body.len())?;
        Ok(answer.body.to_vec())
    }
}

impl ContextLoader for HubContexts {
    fn load(&self, url: &str) -> Result<Vec<u8>, String> {
        let loaded = self.contexts.lock().place(url)?;
        // Other threads that need the same context wait here until the first thread has loaded it.
        loaded
            .get_or_init(|| self.runtime.block_on(self.fetch(url)))
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_loads_a_bounded_number_of_contexts_and_bytes() {
        let mut contexts = ContextStore::default();
        for number in 0..MAX_CONTEXTS {
            contexts.place(&format!("http://c/{number}")).unwrap();
        }
        assert!(contexts.place("http://c/0").is_ok(), "it is known");
        let refused = contexts.place("http://c/more").unwrap_err();
        assert!(refused.contains("at most 64 contexts"), "{refused}");
        for _ in 0..MAX_TOTAL / MAX_CONTEXT {
            contexts.count(4 << 20).unwrap();
        }
        assert!(contexts.count(1).is_err());
    }
}
