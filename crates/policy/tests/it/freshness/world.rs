//! A cache made of the pure functions in the order of a request's life, without sockets and clocks.

use std::collections::HashMap;

use docstokg_policy::freshness::{
    CacheExchange, CacheRequest, ExchangeTimes, FreshnessRules, FromHead, OriginResponse,
    ReuseDecision, ServedPart, StaleUse, StorageDecision, StoredResponse, Update, Validators,
    answer, freshen_from_head, invalidates, is_hop_by_hop, is_stale_if_error_status, reuse, select,
    storable, update,
};
use docstokg_policy::time::Timestamp;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use super::hash;

/// A request with its URL.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
}

impl Ask {
    fn view(&self) -> CacheRequest<'_> {
        CacheRequest {
            method: &self.method,
            headers: &self.headers,
        }
    }
}

/// What a client receives.
#[derive(Clone, Debug)]
pub(crate) struct CachedReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl CachedReply {
    fn of_status(status: StatusCode) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            body: Vec::new(),
        }
    }
}

/// What the cache asks. None is a broken connection.
pub(crate) trait Origin {
    fn respond(&mut self, ask: &Ask, now: &mut Timestamp) -> Option<CachedReply>;
}

/// A stored response in its persisted form, with its body.
struct Entry {
    persisted: Vec<u8>,
    body: Vec<u8>,
}

impl Entry {
    fn new(stored: &StoredResponse, body: Vec<u8>) -> Self {
        let persisted = postcard::to_allocvec(stored).expect("a stored response is persisted");
        Self { persisted, body }
    }

    fn stored(&self) -> StoredResponse {
        postcard::from_bytes(&self.persisted).expect("a stored response is read back")
    }
}

/// The cache.
pub(crate) struct Cache {
    pub(crate) rules: FreshnessRules,
    entries: HashMap<Url, Vec<Entry>>,
}

impl Cache {
    pub(crate) fn new(rules: FreshnessRules) -> Self {
        Self {
            rules,
            entries: HashMap::new(),
        }
    }

    /// Answers a request, as the hub's request lifecycle does.
    pub(crate) fn fetch(
        &mut self,
        ask: &Ask,
        origin: &mut dyn Origin,
        now: &mut Timestamp,
    ) -> CachedReply {
        let variants: Vec<_> = self.variants(&ask.url).iter().map(Entry::stored).collect();
        let chosen =
            select(ask.view(), &variants, &hash).map(|position| variants[position].clone());
        match reuse(ask.view(), chosen.as_ref(), &self.rules, *now) {
            ReuseDecision::Fresh { .. } => self.serve(ask, chosen.as_ref(), *now),
            ReuseDecision::Stale {
                may_serve,
                validators,
                ..
            } if may_serve.at_once(*now) => {
                let reply = self.serve(ask, chosen.as_ref(), *now);
                if may_serve
                    .while_revalidate_until
                    .is_some_and(|until| *now < until)
                {
                    self.forward(ask, (chosen, validators, StaleUse::default()), origin, now);
                }
                reply
            }
            ReuseDecision::Stale {
                may_serve,
                validators,
                ..
            } => self.forward(ask, (chosen, validators, may_serve), origin, now),
            ReuseDecision::Revalidate { validators, .. } => {
                self.forward(ask, (chosen, validators, StaleUse::default()), origin, now)
            }
            ReuseDecision::Miss | ReuseDecision::Bypass(_) => {
                let nothing = (None, Validators::default(), StaleUse::default());
                self.forward(ask, nothing, origin, now)
            }
            ReuseDecision::OnlyIfCachedFailure => {
                CachedReply::of_status(StatusCode::GATEWAY_TIMEOUT)
            }
        }
    }

    fn variants(&self, url: &Url) -> &[Entry] {
        self.entries.get(url).map_or(&[], Vec::as_slice)
    }

    fn serve(&self, ask: &Ask, stored: Option<&StoredResponse>, now: Timestamp) -> CachedReply {
        let stored = stored.expect("only a stored response is served");
        let variants = self.variants(&ask.url).iter();
        let mut same = variants.filter(|entry| entry.stored().variant() == stored.variant());
        let body = same
            .next()
            .expect("a stored response has a body")
            .body
            .clone();
        reply_of(ask, stored, &body, now)
    }

    fn forward(
        &mut self,
        ask: &Ask,
        (chosen, validators, may_serve): (Option<StoredResponse>, Validators, StaleUse),
        origin: &mut dyn Origin,
        now: &mut Timestamp,
    ) -> CachedReply {
        let mut conditional = ask.clone();
        validators.apply(&mut conditional.headers);
        let sent = *now;
        let reply = origin.respond(&conditional, now);
        let failed = reply
            .as_ref()
            .is_none_or(|reply| is_stale_if_error_status(reply.status));
        if failed && may_serve.on_error(*now) {
            return self.serve(ask, chosen.as_ref(), *now);
        }
        let Some(reply) = reply else {
            return CachedReply::of_status(StatusCode::BAD_GATEWAY);
        };
        let received = *now;
        let exchange = CacheExchange {
            request: ask.view(),
            response: OriginResponse {
                status: reply.status,
                headers: &reply.headers,
            },
            times: ExchangeTimes { sent, received },
        };
        let is_ours = reply.status == StatusCode::NOT_MODIFIED && !validators.is_empty();
        if let (true, Some(stored)) = (is_ours, &chosen) {
            let updated = update(stored, exchange, &self.rules, &hash);
            return match self.apply(ask, stored, updated, *now) {
                Some(reply) => reply,
                None => self.forward(ask, (None, Validators::default(), may_serve), origin, now),
            };
        }
        self.keep(ask, chosen.as_ref(), exchange, &reply.body);
        let mut reply = reply;
        let names: Vec<_> = reply
            .headers
            .keys()
            .filter(|name| is_hop_by_hop(name))
            .cloned()
            .collect();
        for name in names {
            reply.headers.remove(name);
        }
        reply
    }

    /// Applies what a 304 says. None where the origin has to be asked again.
    fn apply(
        &mut self,
        ask: &Ask,
        stored: &StoredResponse,
        updated: Update,
        now: Timestamp,
    ) -> Option<CachedReply> {
        let body = self.remove(&ask.url, stored);
        match updated {
            Update::Freshened(renewed) => {
                let reply = reply_of(ask, &renewed, &body, now);
                self.insert(&ask.url, &renewed, body);
                Some(reply)
            }
            Update::Forget(renewed, _) => Some(reply_of(ask, &renewed, &body, now)),
            Update::Mismatch => None,
        }
    }

    /// Stores, freshens or removes, as an answer of the origin demands.
    fn keep(
        &mut self,
        ask: &Ask,
        chosen: Option<&StoredResponse>,
        exchange: CacheExchange<'_>,
        body: &[u8],
    ) {
        let (status, headers) = (exchange.response.status, exchange.response.headers);
        for url in invalidates(&ask.method, status, headers, &ask.url) {
            self.entries.remove(&url);
        }
        if let Some(stored) = chosen {
            match freshen_from_head(stored, exchange, &self.rules, &hash) {
                FromHead::Freshened(renewed) => {
                    let body = self.remove(&ask.url, stored);
                    self.insert(&ask.url, &renewed, body);
                }
                FromHead::Outdated => drop(self.remove(&ask.url, stored)),
                FromHead::Nothing => {}
            }
        }
        if let StorageDecision::Store(stored) = storable(exchange, &self.rules, &hash)
            && stored.is_whole(body.len() as u64)
        {
            self.insert(&ask.url, &stored, body.to_vec());
        }
        assert!(
            invalidates(&Method::GET, status, headers, &ask.url).is_empty(),
            "a safe method changes nothing"
        );
    }

    fn insert(&mut self, url: &Url, stored: &StoredResponse, body: Vec<u8>) {
        let variants = self.entries.entry(url.clone()).or_default();
        let digest = stored.variant().digest();
        variants.retain(|entry| entry.stored().variant().digest() != digest);
        variants.push(Entry::new(stored, body));
    }

    fn remove(&mut self, url: &Url, stored: &StoredResponse) -> Vec<u8> {
        let Some(variants) = self.entries.get_mut(url) else {
            return Vec::new();
        };
        let same = |entry: &Entry| entry.stored().variant() == stored.variant();
        let position = variants.iter().position(same);
        position.map_or_else(Vec::new, |position| variants.remove(position).body)
    }
}

fn reply_of(ask: &Ask, stored: &StoredResponse, body: &[u8], now: Timestamp) -> CachedReply {
    let answer = answer(ask.view(), stored, body.len() as u64);
    let (status, headers) = stored.head(answer, stored.age(now));
    let body = match answer {
        ServedPart::Whole => body.to_vec(),
        ServedPart::Part { range, .. } => {
            let bounds = usize::try_from(range.first).expect("small")
                ..=usize::try_from(range.last).expect("small");
            body[bounds].to_vec()
        }
        ServedPart::HeadOnly | ServedPart::NotModified | ServedPart::Unsatisfiable { .. } => {
            Vec::new()
        }
    };
    CachedReply {
        status,
        headers,
        body,
    }
}
