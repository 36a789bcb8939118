//! Stores a response of the origin in the cache while its reader reads the body.

use std::sync::Arc;

use bytes::Bytes;
use docstokg_policy::freshness::{
    CacheExchange, ExchangeTimes, OriginResponse, ReuseDecision, StorageDecision, StoredResponse,
    invalidates, reuse, storable,
};
use docstokg_stores::cache::{self, NewEntry, ResponseWriter, VariantHash};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, SET_COOKIE};
use http::{HeaderMap, Method};
use parking_lot::Mutex;

use super::flights::{FlightEnd, LedFlight};
use super::key::KeySpace;
use super::plan::{CachePlan, CacheStoreResult, ExchangeProgress};
use super::{ResponseCache, encode, key};
use crate::clock::{BootInstant, Timestamp};
use crate::exchange::HopContext;
use crate::redact::redact;
use crate::response::ResponseHead;

/// Maximum announced length of a body that other requests wait for while it is read, in bytes.
const MAX_AWAITED_BODY_BYTES: u64 = 1 << 20;

/// A response that is stored while its body is read.
pub(crate) struct StoringResponse {
    writer: ResponseWriter,
    stored: Box<StoredResponse>,
    length: u64,
    /// The [`CacheStoreResult`] of this response once it is stored.
    result: CacheStoreResult,
    progress: Arc<Mutex<ExchangeProgress>>,
    /// The flight that the end of the body ends, if the attempt itself ends before the body.
    flight: Option<LedFlight>,
}

impl StoringResponse {
    /// Takes over the flight in which other requests wait for the response, if they can use it.
    ///
    /// Requests do not wait for a body of more than [`MAX_AWAITED_BODY_BYTES`]. If they are sent
    /// themselves, their own bodies begin at once.
    pub(crate) fn lead(&mut self, plan: &CachePlan, announced: Option<u64>) {
        if self.result != CacheStoreResult::Fresh {
            return;
        }
        self.flight = plan.flight.lock().take();
        if announced.is_some_and(|length| length > MAX_AWAITED_BODY_BYTES) {
            self.release(FlightEnd::Failed);
        }
    }

    /// Writes a piece of the body.
    pub(crate) async fn write(&mut self, piece: &Bytes) {
        self.length += piece.len() as u64;
        self.writer.write(piece).await;
        if !self.writer.is_open() {
            self.release(FlightEnd::Uncacheable);
        } else if self.length > MAX_AWAITED_BODY_BYTES {
            self.release(FlightEnd::Failed);
        }
    }

    /// Drops the response because its body broke off, and ends the flight, so that no request waits
    /// for it.
    pub(crate) fn fail(mut self) {
        self.release(FlightEnd::Failed);
    }

    fn release(&mut self, end: FlightEnd) {
        if let Some(flight) = self.flight.take() {
            flight.end(end);
        }
    }

    /// Stores the response after the end of its body. Returns whether that succeeded.
    pub(crate) async fn commit(self) -> bool {
        let is_whole = self.stored.is_whole(self.length);
        let is_stored = is_whole && self.writer.commit().await == cache::StoreOutcome::Yes;
        let kept = if is_stored {
            self.result
        } else {
            CacheStoreResult::Failed
        };
        self.progress.lock().kept = kept;
        if let Some(flight) = self.flight {
            flight.end(match kept {
                CacheStoreResult::Fresh => FlightEnd::Stored,
                _ => FlightEnd::Failed,
            });
        }
        is_stored
    }
}

/// The form of a response body: encoded as the origin sent it, or decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// The encoded form in which the origin sent the body.
    AsSent,
    /// The decoded form. Header fields that describe the encoded form do not apply to it.
    Decoded,
}

impl ResponseCache {
    /// Begins to store a response. Returns `None` if the response must not be stored, or if it only
    /// confirms a stored one.
    pub(crate) fn keep<D>(
        &self,
        plan: &CachePlan,
        context: &HopContext<'_, D>,
        head: &ResponseHead,
        coding: Coding,
    ) -> Option<StoringResponse> {
        let times = plan.progress.lock().times?;
        if plan.is_confirmed_by(head) {
            return None;
        }
        let cache = self.stored.as_ref()?;
        let headers = described(&head.headers, coding);
        // A response that sets cookies is not stored, because a response from the cache would not
        // set them, and later pages may need them.
        let sets_cookies = context.request.jar().is_some() && headers.contains_key(SET_COOKIE);
        let response = OriginResponse {
            status: head.status,
            headers: &headers,
        };
        let exchange = CacheExchange {
            request: plan.question.request(),
            response,
            times,
        };
        let stored = match storable(exchange, &plan.question.rules, &key::hash) {
            StorageDecision::Store(stored) if !sets_cookies => stored,
            StorageDecision::Store(_) => return None,
            StorageDecision::No(why) => {
                plan.progress.lock().kept = CacheStoreResult::Not(why);
                return None;
            }
        };
        let again = reuse(
            plan.question.request(),
            Some(&stored),
            &plan.question.rules,
            self.runtime.wall(),
        );
        let new = NewEntry {
            key: plan.question.key,
            variant: VariantHash::new(stored.variant().digest().0),
            metadata: encode(&stored)?,
            url: redact(&context.target.url),
            host: context.target.host.as_str().to_owned(),
            since: plan.since,
        };
        Some(StoringResponse {
            writer: cache.store.begin_put(new),
            stored,
            length: 0,
            result: match again {
                ReuseDecision::Fresh { .. } => CacheStoreResult::Fresh,
                _ => CacheStoreResult::Stale,
            },
            progress: Arc::clone(&plan.progress),
            flight: None,
        })
    }

    /// Records the [`ExchangeTimes`] of an exchange in the plan, on the wall clock.
    pub(crate) fn note_exchange(&self, plan: &CachePlan, sent: BootInstant, answered: BootInstant) {
        let (now, wall) = (self.runtime.boot(), self.runtime.wall());
        let at = |instant: BootInstant| {
            let ago = i64::try_from(now.since(instant).as_micros()).unwrap_or(i64::MAX);
            Timestamp::from_micros(wall.as_micros().saturating_sub(ago))
        };
        plan.note_times(ExchangeTimes {
            sent: at(sent),
            received: at(answered),
        });
    }

    /// Drops the stored responses that an unsafe request invalidates (RFC 9111 section 4.4).
    pub(crate) async fn invalidate<D>(&self, context: &HopContext<'_, D>, head: &ResponseHead) {
        let Some(cache) = &self.stored else { return };
        let method: &Method = &context.hop.method;
        if method == Method::GET || method == Method::HEAD {
            return;
        }
        for url in invalidates(method, head.status, &head.headers, &context.target.url) {
            for space in KeySpace::ALL {
                // The result is ignored, because the store itself reports its failures.
                let _ = cache.store.invalidate(&space.key(&url)).await;
            }
        }
    }
}

/// Returns the header fields that describe the body in the form in which it is stored.
fn described(headers: &HeaderMap, coding: Coding) -> HeaderMap {
    let mut headers = headers.clone();
    if coding == Coding::Decoded {
        headers.remove(CONTENT_ENCODING);
        headers.remove(CONTENT_LENGTH);
    }
    headers
}
