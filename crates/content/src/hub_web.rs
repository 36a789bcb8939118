//! The hub as the web that resolvers ask; pages made for people are requested as robots.txt allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
pub(crate) use docstokg_bulk::patience::{PROBES_OUT, patient};
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::policy::site::RefusalReason;
use docstokg_hub::{
    CookieJar, ErrorKind, FetchError, Head, Hub, Request, RequestGroup, RobotsPolicy, SpooledBody,
};
use docstokg_policy::role::Role;

use crate::bot_challenge;
use crate::web::{Answer, Ask, BoxFuture, Web, WebError};

/// What a user can do about a robots.txt that cannot be read, and never will be.
pub(crate) const ROBOTS_OVERRIDE: &str = "--ignore-robots requests it all the same";

/// Asks through the hub.
#[derive(Clone)]
pub struct HubWeb {
    hub: Hub,
    robots: RobotsPolicy,
    requests: Option<Arc<RequestGroup>>,
    /// A request of this web was cancelled: what a resolver makes of the rest is not an answer.
    was_cancelled: Arc<AtomicBool>,
    cookies: Option<Arc<CookieJar>>,
}

impl HubWeb {
    /// Makes the web of a hub; `robots` holds for pages and files, not for metadata.
    #[must_use]
    pub fn new(hub: Hub, robots: RobotsPolicy) -> Self {
        Self {
            hub,
            robots,
            requests: None,
            was_cancelled: Arc::default(),
            cookies: None,
        }
    }

    /// Returns the same web, with a jar for the cookies of pages.
    #[must_use]
    pub fn with_cookies(self, cookies: Option<Arc<CookieJar>>) -> Self {
        Self { cookies, ..self }
    }

    /// Returns the same web for one step, whose requests belong to a group.
    #[must_use]
    pub fn in_group(&self, requests: Arc<RequestGroup>) -> Self {
        Self {
            requests: Some(requests),
            was_cancelled: Arc::default(),
            ..self.clone()
        }
    }

    /// Tells whether a request was cancelled.
    #[must_use]
    pub fn was_cancelled(&self) -> bool {
        self.was_cancelled.load(Ordering::Acquire)
    }
}

impl Web for HubWeb {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, WebError>> {
        Box::pin(async move {
            let mut request = patient(Request::get(ask.url))
                .role(ask.role)
                .resolver(ask.resolver.as_str());
            if ask.role != Role::Metadata {
                request = request
                    .discovered()
                    .robots(self.robots.clone())
                    .final_when(bot_challenge::is_one);
            }
            if let Some(jar) = self.cookies.as_ref().filter(|_| ask.role != Role::Metadata) {
                request = request.cookies(Arc::clone(jar));
            }
            if let Some(requests) = &self.requests {
                request = request.in_group(Arc::clone(requests));
            }
            if let Some(kind) = ask.kind {
                request = request.kind(kind);
            }
            if let Some(most) = ask.max_body {
                request = request.max_body(most);
            }
            for (name, value) in &ask.headers {
                request = request.header(name.clone(), value.clone());
            }
            for (name, value) in ask.secret_headers {
                request = request.secret_header(name, value);
            }
            let answered = if let Some(keep) = ask.keep_in_memory {
                let spooled = self.hub.fetch_spooled(request, keep).await;
                spooled.map(|spooled| {
                    let beginning = spooled.body.beginning().clone();
                    answer(spooled.head, beginning, Some(spooled.body))
                })
            } else {
                let fetched = self.hub.fetch(request).await;
                fetched.map(|fetched| answer(fetched.head, fetched.body, None))
            };
            answered.map_err(|error| {
                let is_cancelled = matches!(error.kind, ErrorKind::Cancelled { .. });
                self.was_cancelled.fetch_or(is_cancelled, Ordering::AcqRel);
                web_error(&error)
            })
        })
    }
}

fn answer(head: Head, body: Bytes, spooled: Option<SpooledBody>) -> Answer {
    Answer {
        status: head.status,
        headers: head.headers,
        body,
        spooled: spooled.map(Arc::new),
        url: head.url,
    }
}

fn web_error(error: &FetchError) -> WebError {
    let text = error.sentence();
    match &error.kind {
        ErrorKind::BreakerOpen(refused) => {
            // Half-open with its probes out: the probe result is due soon, whatever their leases
            // say.
            let probing = matches!(
                refused.refusal.reason,
                RefusalReason::Open { probing: true, .. }
            );
            let wait = if probing {
                PROBES_OUT
            } else {
                refused.cooldown_remaining
            };
            WebError::Refused {
                until_ms_from_now: Some(millis(wait)),
                breaker: true,
                text,
            }
        }
        ErrorKind::Disallowed { .. } => WebError::Disallowed { text },
        ErrorKind::RobotsUnread {
            retry_in: Some(wait),
            ..
        } => WebError::Refused {
            until_ms_from_now: Some(millis(*wait)),
            breaker: true,
            text,
        },
        ErrorKind::RobotsUnread { retry_in: None, .. } => WebError::RobotsUnread {
            text: format!("{text}; {ROBOTS_OVERRIDE}"),
        },
        ErrorKind::RateLimited(refused) => WebError::Refused {
            until_ms_from_now: Some(millis(refused.cooldown_remaining)),
            breaker: false,
            text,
        },
        ErrorKind::Deadline { .. }
        | ErrorKind::Fault {
            fault: Fault::Timeout,
            ..
        } => WebError::Timeout { text },
        ErrorKind::Fault {
            fault: Fault::NoRoute,
            cause,
            ..
        } if is_offline(cause.as_str()) => WebError::Offline { text },
        _ => WebError::Failed { text },
    }
}

/// Tells whether a fault of our own network is about the network: a lack of open files is not.
pub(crate) fn is_offline(message: &str) -> bool {
    !message.contains("open files")
}

pub(crate) fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX).max(1)
}
