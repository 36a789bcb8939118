//! Storing an answer of the origin while its body is read: the second sink of the body.

use std::sync::Arc;

use bytes::Bytes;
use docstokg_policy::freshness::{
    Exchange, Response, Reuse, Stored, Storing, Times, invalidates, reuse, storable,
};
use docstokg_stores::cache::{self, NewEntry, VariantKey, Writer};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, SET_COOKIE};
use http::{HeaderMap, Method};
use parking_lot::Mutex;

use super::flights::{FlightEnd, LedFlight};
use super::key::Space;
use super::plan::{Kept, Plan, Progress};
use super::{ResponseCache, encode, key};
use crate::clock::{BootInstant, Timestamp};
use crate::exchange::Leg;
use crate::redact::redact;
use crate::response::Head;

/// The longest body that other requests wait for while it streams, in bytes.
const LONGEST_AWAITED: u64 = 1 << 20;

/// An answer that is stored while it is read.
pub(crate) struct Keeping {
    writer: Writer,
    stored: Box<Stored>,
    length: u64,
    /// What becomes of it when it is stored.
    result: Kept,
    progress: Arc<Mutex<Progress>>,
    /// The flight that ends with the body, where the attempt ends before it.
    flight: Option<LedFlight>,
}

impl Keeping {
    /// Takes over the flight that waits for the answer, if other requests can use it. They do not
    /// wait for a long body: their own would begin at once.
    pub(crate) fn lead(&mut self, plan: &Plan, announced: Option<u64>) {
        if self.result != Kept::Fresh {
            return;
        }
        self.flight = plan.flight.lock().take();
        if announced.is_some_and(|length| length > LONGEST_AWAITED) {
            self.release(FlightEnd::Failed);
        }
    }

    /// Takes a piece of the body.
    pub(crate) async fn write(&mut self, piece: &Bytes) {
        self.length += piece.len() as u64;
        self.writer.write(piece).await;
        if !self.writer.is_open() {
            self.release(FlightEnd::Uncacheable);
        } else if self.length > LONGEST_AWAITED {
            self.release(FlightEnd::Failed);
        }
    }

    /// The body broke off: nothing is stored, and all waiting requests are released.
    pub(crate) fn fail(mut self) {
        self.release(FlightEnd::Failed);
    }

    fn release(&mut self, end: FlightEnd) {
        if let Some(flight) = self.flight.take() {
            flight.end(end);
        }
    }

    /// Stores the answer: its body has ended. Returns whether it is stored.
    pub(crate) async fn commit(self) -> bool {
        let is_whole = self.stored.is_whole(self.length);
        let is_stored = is_whole && self.writer.commit().await == cache::Stored::Yes;
        let kept = if is_stored { self.result } else { Kept::Failed };
        self.progress.lock().kept = kept;
        if let Some(flight) = self.flight {
            flight.end(match kept {
                Kept::Fresh => FlightEnd::Stored,
                _ => FlightEnd::Failed,
            });
        }
        is_stored
    }
}

/// How the body of an answer arrives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// As it was sent.
    AsSent,
    /// Decoded: the headers that describe the encoded one are not of use.
    Decoded,
}

impl ResponseCache {
    /// Begins to store an answer, where that is allowed.
    pub(crate) fn keep<D>(
        &self,
        plan: &Plan,
        leg: &Leg<'_, D>,
        head: &Head,
        coding: Coding,
    ) -> Option<Keeping> {
        let times = plan.progress.lock().times?;
        if plan.is_confirmed_by(head) {
            return None;
        }
        let cache = self.stored.as_ref()?;
        let headers = described(&head.headers, coding);
        // The pages after this one may need the cookies that it sets.
        let sets_cookies = leg.request.jar().is_some() && headers.contains_key(SET_COOKIE);
        let response = Response {
            status: head.status,
            headers: &headers,
        };
        let exchange = Exchange {
            request: plan.question.request(),
            response,
            times,
        };
        let stored = match storable(exchange, &plan.question.rules, &key::hash) {
            Storing::Store(stored) if !sets_cookies => stored,
            Storing::Store(_) => return None,
            Storing::No(why) => {
                plan.progress.lock().kept = Kept::Not(why);
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
            variant: VariantKey::new(stored.variant().digest().0),
            metadata: encode(&stored)?,
            url: redact(&leg.target.url),
            host: leg.target.host.as_str().to_owned(),
            since: plan.since,
        };
        Some(Keeping {
            writer: cache.store.begin_put(new),
            stored,
            length: 0,
            result: match again {
                Reuse::Fresh { .. } => Kept::Fresh,
                _ => Kept::Stale,
            },
            progress: Arc::clone(&plan.progress),
            flight: None,
        })
    }

    /// Takes the times of an exchange, on the wall clock.
    pub(crate) fn note_exchange(&self, plan: &Plan, sent: BootInstant, answered: BootInstant) {
        let (now, wall) = (self.runtime.boot(), self.runtime.wall());
        let at = |instant: BootInstant| {
            let ago = i64::try_from(now.since(instant).as_micros()).unwrap_or(i64::MAX);
            Timestamp::from_micros(wall.as_micros().saturating_sub(ago))
        };
        plan.note_times(Times {
            sent: at(sent),
            received: at(answered),
        });
    }

    /// Drops what a request that changes something makes invalid (RFC 9111 section 4.4).
    pub(crate) async fn invalidate<D>(&self, leg: &Leg<'_, D>, head: &Head) {
        let Some(cache) = &self.stored else { return };
        let method: &Method = &leg.hop.method;
        if method == Method::GET || method == Method::HEAD {
            return;
        }
        for url in invalidates(method, head.status, &head.headers, &leg.target.url) {
            for space in Space::ALL {
                // The store reports its own trouble.
                let _ = cache.store.invalidate(&space.key(&url)).await;
            }
        }
    }
}

/// Returns the headers that describe the body as it is stored.
fn described(headers: &HeaderMap, coding: Coding) -> HeaderMap {
    let mut headers = headers.clone();
    if coding == Coding::Decoded {
        headers.remove(CONTENT_ENCODING);
        headers.remove(CONTENT_LENGTH);
    }
    headers
}
