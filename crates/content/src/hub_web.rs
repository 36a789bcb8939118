//! The hub as the web that resolvers ask; pages made for people are requested as robots.txt allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
pub(crate) use docstokg_bulk::patience::patient;
use docstokg_bulk::run_context::RunContext;
use docstokg_hub::{
    CookieJar, Disposition, Head, Journey, Request, RequestGroup, RobotsPolicy, SpooledBody,
};
use docstokg_policy::role::Role;

use crate::bot_challenge;
use crate::web::{Answer, Ask, BoxFuture, RequestFailure, Web};

/// Asks through the hub.
#[derive(Clone)]
pub struct HubWeb {
    context: RunContext,
    robots: RobotsPolicy,
    requests: Option<Arc<RequestGroup>>,
    /// A request of this web was cancelled: what a resolver makes of the rest is not an answer.
    was_cancelled: Arc<AtomicBool>,
    cookies: Option<Arc<CookieJar>>,
}

impl HubWeb {
    /// Makes the web of a run; `robots` holds for pages and files, not for metadata.
    #[must_use]
    pub fn new(context: RunContext, robots: RobotsPolicy) -> Self {
        Self {
            context,
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

    fn answer(
        &self,
        head: Head,
        body: Bytes,
        spooled: Option<SpooledBody>,
        journey: &Journey,
    ) -> Answer {
        self.context.connectivity.note_response(journey);
        Answer {
            status: head.status,
            headers: head.headers,
            body,
            spooled: spooled.map(Arc::new),
            url: head.url,
            disposition: journey.disposition(),
        }
    }
}

impl Web for HubWeb {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, RequestFailure>> {
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
                let spooled = self.context.hub.fetch_spooled(request, keep).await;
                spooled.map(|spooled| {
                    let beginning = spooled.body.beginning().clone();
                    let (head, body) = (spooled.head, Some(spooled.body));
                    self.answer(head, beginning, body, &spooled.journey)
                })
            } else {
                let fetched = self.context.hub.fetch(request).await;
                fetched
                    .map(|fetched| self.answer(fetched.head, fetched.body, None, &fetched.journey))
            };
            match answered {
                Ok(answer) => Ok(answer),
                Err(error) => {
                    let disposition = self.context.connectivity.judge(&error).await;
                    if disposition == Disposition::Cancelled {
                        self.was_cancelled.store(true, Ordering::Release);
                    }
                    Err(RequestFailure::of_error(&error, disposition))
                }
            }
        })
    }
}
