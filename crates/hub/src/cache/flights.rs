//! Flights within a process: requests for the same thing wait for the first of them.
//!
//! A leader shares what it stored and nothing else. Its refusal, deadline or cancellation is its
//! own: the next waiter leads. An answer that cannot be reused, or an origin that fails, releases
//! all waiters at once; the first of these is remembered, so that the next requests do not wait.
//! A flight ends with its hop, so that flights that redirect into each other do not wait for each
//! other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docstokg_stores::cache::CacheKey;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::lease::Lease;
use crate::clock::BootInstant;

/// How long requests do not wait for each other after an answer that cannot be reused.
pub(super) const UNCACHEABLE: Duration = Duration::from_secs(60);
/// How many such keys are remembered.
const MAX_UNCACHEABLE: usize = 4_096;

/// How a flight ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlightEnd {
    /// What it brought is stored and fresh.
    Stored,
    /// What it brought answers no other request.
    Uncacheable,
    /// The origin failed.
    Failed,
    /// The leader gave up for reasons of its own.
    Abandoned,
}

type Ending = watch::Receiver<Option<FlightEnd>>;

/// The flights of a process.
#[derive(Default)]
pub(crate) struct Flights {
    active: Arc<Mutex<HashMap<CacheKey, Ending>>>,
    uncacheable: Mutex<HashMap<CacheKey, BootInstant>>,
}

/// The part of a request in a flight.
pub(super) enum Joined {
    /// It asks the origin.
    Lead(LedFlight),
    /// It waits for the end.
    Follow(Ending),
    /// There is no flight, because answers are not reusable.
    Alone,
}

impl Flights {
    /// Joins the flight of a key, or begins it.
    pub(super) fn join(&self, key: CacheKey, now: BootInstant) -> Joined {
        if self.is_uncacheable(&key, now) {
            return Joined::Alone;
        }
        let mut active = self.active.lock();
        if let Some(ending) = active.get(&key) {
            return Joined::Follow(ending.clone());
        }
        let (sender, ending) = watch::channel(None);
        active.insert(key, ending);
        Joined::Lead(LedFlight {
            key,
            end: FlightEnd::Abandoned,
            sender,
            active: Arc::clone(&self.active),
            lease: None,
        })
    }

    /// Remembers that answers for a key cannot be reused.
    pub(super) fn remember_uncacheable(&self, key: CacheKey, now: BootInstant) {
        let mut known = self.uncacheable.lock();
        if known.len() >= MAX_UNCACHEABLE {
            known.retain(|_, until| now < *until);
        }
        if known.len() < MAX_UNCACHEABLE {
            known.insert(key, now + UNCACHEABLE);
        }
    }

    fn is_uncacheable(&self, key: &CacheKey, now: BootInstant) -> bool {
        let mut known = self.uncacheable.lock();
        match known.get(key) {
            Some(until) if now < *until => true,
            Some(_) => {
                known.remove(key);
                false
            }
            None => false,
        }
    }
}

/// A flight that a request leads. It ends when this is dropped.
pub(super) struct LedFlight {
    pub(super) key: CacheKey,
    end: FlightEnd,
    sender: watch::Sender<Option<FlightEnd>>,
    active: Arc<Mutex<HashMap<CacheKey, Ending>>>,
    /// The same flight among processes.
    pub(super) lease: Option<Lease>,
}

impl LedFlight {
    /// Ends the flight.
    pub(super) fn end(mut self, end: FlightEnd) {
        self.end = end;
    }
}

impl Drop for LedFlight {
    fn drop(&mut self) {
        // Other processes first: a waiter of this one that leads next claims the lease anew.
        drop(self.lease.take());
        self.active.lock().remove(&self.key);
        self.sender.send_replace(Some(self.end));
    }
}

/// Waits for the end of a flight.
pub(super) async fn ended(mut ending: Ending) -> FlightEnd {
    match ending.wait_for(Option::is_some).await {
        Ok(end) => end.unwrap_or(FlightEnd::Abandoned),
        Err(_) => FlightEnd::Abandoned,
    }
}
