//! The response cache: looked up before the breaker and the limiter, updated after the answer.
//!
//! What may be stored and reused is decided in `docstokg_policy::freshness`; responses live in a
//! `docstokg_stores::cache::CacheStore`. Here both meet a hop: `look_up` finds an answer or makes
//! a [`CachePlan`] for the origin's, `store_response` stores that while its body is read,
//! `validate` takes a 304, `flights` makes concurrent requests for the same thing wait for one of
//! them.
//!
//! Bodies are stored as the hub decodes them, and the headers say so: `Content-Encoding` and the
//! length of the encoded body are not kept. Requests for a range, and downloads that resume, go to
//! the origin. Those of relayed requests are stored as they were sent, and apart; ranges of them are
//! served. Without a configured cache nothing here runs.

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

/// The cache of a hub; without a store it does nothing.
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

    /// Returns the store of responses, where one is configured.
    pub(crate) fn store(&self) -> Option<&CacheStore> {
        self.stored.as_ref().map(|stored| &stored.store)
    }

    /// Takes a slot for a validation in the background, if one is free.
    pub(crate) fn background_slot(&self) -> Option<OwnedSemaphorePermit> {
        let background = &self.stored.as_ref()?.background;
        Arc::clone(background).try_acquire_owned().ok()
    }
}

/// The store of a cache, and the requests that wait for each other's responses.
pub(crate) struct StoredResponses {
    store: CacheStore,
    flights: CacheFlights,
    holder: Holder,
    sharing: Sharing,
    /// Bounds validations in the background.
    background: Arc<Semaphore>,
    /// The fields of requests without any of their own, as the cache sees them, by role.
    plain_fields: [Arc<HeaderMap>; 3],
}

/// Whether other processes use the same store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// It is this process's own.
    Process,
    /// It is a directory.
    Processes,
}

impl StoredResponses {
    /// Uses a store.
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

/// A stored response that was chosen for a request.
#[derive(Clone)]
pub(crate) struct StoredAnswer {
    entry: Arc<CacheEntry>,
    stored: Arc<StoredResponse>,
}

/// Reads the metadata of an entry; what does not decode is a miss.
fn decode(metadata: &[u8]) -> Option<StoredResponse> {
    serde_json::from_slice(metadata).ok()
}

/// Writes the metadata of an entry.
fn encode(stored: &StoredResponse) -> Option<bytes::Bytes> {
    serde_json::to_vec(stored).ok().map(Into::into)
}
