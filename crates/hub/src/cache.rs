//! The response cache. It is looked up before breaker and limiter, and updated after the response.
//!
//! The rules are those of [`docstokg_policy::freshness`]; responses are stored in a [`CacheStore`].
//!
//! - [`look_up`] finds a response, or makes a [`CachePlan`] for the response of the origin.
//! - [`store_response`] stores that response while its body is read, and [`validate`] processes a
//!   304.
//! - [`flights`] makes concurrent requests for the same response wait for one of them.
//!
//! The hub stores bodies decoded, without `Content-Encoding` and without the encoded length.
//! Requests for a range and resumed downloads bypass the cache. Responses to relayed requests are
//! stored as sent, in their own key space; requests for a range of them are served from the cache.
//! Without a configured cache, no code of this module runs.

mod flights;
mod key;
mod lease;
mod look_up;
mod plan;
mod serve;
mod store_response;
mod validate;

use std::sync::Arc;

use docstokg_policy::freshness::StoredResponse;
use docstokg_policy::role::Role;
use docstokg_stores::cache::{CacheEntry, CacheStore, Holder};
use http::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use flights::CacheFlights;
pub(crate) use look_up::CacheLookup;
pub(crate) use plan::CachePlan;
pub(crate) use serve::ServeFailure;
pub(crate) use store_response::{Coding, StoringResponse};
pub(crate) use validate::ValidatedResponse;

use crate::clock::Runtime;
use crate::config::Config;
use crate::request_headers::DefaultHeaders;

/// The cache of a hub. Without a store, every request is sent.
pub(crate) struct ResponseCache {
    stored: Option<StoredResponses>,
    config: Arc<Config>,
    runtime: Arc<dyn Runtime>,
    headers: Arc<DefaultHeaders>,
}

impl ResponseCache {
    pub(crate) fn new(
        stored: Option<StoredResponses>,
        config: &Arc<Config>,
        runtime: &Arc<dyn Runtime>,
        headers: &Arc<DefaultHeaders>,
    ) -> Self {
        Self {
            stored,
            config: Arc::clone(config),
            runtime: Arc::clone(runtime),
            headers: Arc::clone(headers),
        }
    }

    /// Returns the [`CacheStore`], if one is configured.
    pub(crate) fn store(&self) -> Option<&CacheStore> {
        self.stored.as_ref().map(|stored| &stored.store)
    }

    /// Takes a slot for a validation in the background, if one is free.
    pub(crate) fn background_slot(&self) -> Option<OwnedSemaphorePermit> {
        let background = &self.stored.as_ref()?.background;
        Arc::clone(background).try_acquire_owned().ok()
    }
}

/// The store of a cache, with the flights of requests that wait for its responses.
pub(crate) struct StoredResponses {
    store: CacheStore,
    flights: CacheFlights,
    holder: Holder,
    sharing: Sharing,
    /// The slots for validations in the background, which limit their number.
    background: Arc<Semaphore>,
    /// The header fields of a request that adds none of its own, as the cache compares them.
    /// Indexed by role.
    plain_fields: [Arc<HeaderMap>; 3],
}

/// The set of processes that use a cache store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Only this process uses the store.
    Process,
    /// The store is a directory that other processes may use too.
    Processes,
}

impl StoredResponses {
    /// Creates the cache over a [`CacheStore`], with at most `background` validations in the
    /// background at once.
    pub(crate) fn new(
        store: CacheStore,
        sharing: Sharing,
        background: usize,
        headers: &DefaultHeaders,
    ) -> Self {
        let plain = |role| {
            let mut fields = headers.of(role).clone();
            key::set_identity(&mut fields, role, &[], &[]);
            Arc::new(fields)
        };
        Self {
            store,
            flights: CacheFlights::default(),
            holder: Holder::unique(),
            sharing,
            background: Arc::new(Semaphore::new(background)),
            plain_fields: Role::ALL.map(plain),
        }
    }
}

/// A stored response that was selected for a request.
#[derive(Clone)]
pub(crate) struct StoredAnswer {
    entry: Arc<CacheEntry>,
    stored: Arc<StoredResponse>,
}

/// Decodes the metadata of a [`CacheEntry`]. Returns `None`, which counts as a miss, if that fails.
fn decode(metadata: &[u8]) -> Option<StoredResponse> {
    serde_json::from_slice(metadata).ok()
}

/// Encodes a [`StoredResponse`] as the metadata of an entry.
fn encode(stored: &StoredResponse) -> Option<bytes::Bytes> {
    serde_json::to_vec(stored).ok().map(Into::into)
}
