//! The response cache: looked up before the breaker and the limiter, updated after the answer.
//!
//! What may be stored and reused is decided in `docstokg_policy::freshness`; responses live in a
//! `docstokg_stores::cache::CacheStore`. Here both meet a hop: `look_up` finds an answer or makes
//! a [`Plan`] for the origin's, `keep` stores that while its body is read, `validate` takes a 304,
//! `flights` makes concurrent requests for the same thing wait for one of them.
//!
//! Bodies are stored as the hub decodes them, and the headers say so: `Content-Encoding` and the
//! length of the encoded body are not kept. Requests for a range, and downloads that resume, go to
//! the origin. Those of relayed requests are stored as they were sent, and apart; ranges of them are
//! served. Without a configured cache nothing here runs.

mod flights;
mod keep;
mod key;
mod lease;
mod look_up;
mod plan;
mod serve;
mod validate;

use std::sync::Arc;

use docstokg_policy::freshness::Stored;
use docstokg_policy::role::Role;
use docstokg_stores::cache::{CacheStore, Entry, Holder};
use http::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use flights::Flights;
pub(crate) use keep::{Coding, Keeping};
pub(crate) use look_up::Found;
pub(crate) use plan::Plan;
pub(crate) use serve::Unserved;
pub(crate) use validate::Concluded;

use crate::outgoing::DefaultHeaders;

/// The cache of a hub.
pub(crate) struct HttpCache {
    pub(crate) store: CacheStore,
    flights: Flights,
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

impl HttpCache {
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
            flights: Flights::default(),
            holder: Holder::unique(),
            sharing,
            background: Arc::new(Semaphore::new(background)),
            plain_fields: Role::ALL.map(plain),
        }
    }
}

impl HttpCache {
    /// Takes a slot for a validation in the background, if one is free.
    pub(crate) fn background_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.background).try_acquire_owned().ok()
    }
}

/// A stored response that was chosen for a request.
#[derive(Clone)]
pub(crate) struct StoredAnswer {
    entry: Arc<Entry>,
    stored: Arc<Stored>,
}

/// Reads the metadata of an entry; what does not decode is a miss.
fn decode(metadata: &[u8]) -> Option<Stored> {
    serde_json::from_slice(metadata).ok()
}

/// Writes the metadata of an entry.
fn encode(stored: &Stored) -> Option<bytes::Bytes> {
    serde_json::to_vec(stored).ok().map(Into::into)
}
