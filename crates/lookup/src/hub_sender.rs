//! The sender of look-ups' requests through the hub. robots.txt applies to pages made for people.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use docstokg_bulk::bulk_request::bulk_request;
use docstokg_bulk::run_context::RunContext;
use docstokg_hub::{
    CookieJar, Disposition, FetchError, IsFinal, Journey, RedirectGate, Request, RequestGroup,
    ResponseHead, RobotsPolicy, SpooledBody,
};
use docstokg_policy::role::Role;

use crate::message::{LookupRequest, LookupResponse};

/// Sends requests through the hub of a [`RunContext`].
#[derive(Clone)]
pub struct HubSender {
    context: RunContext,
    pages: Option<PageRules>,
    redirect_gate: Option<RedirectGate>,
    charges_services: bool,
    /// A list that other people wrote named the item.
    is_untrusted: bool,
    requests: Option<Arc<RequestGroup>>,
    /// A request of this sender was cancelled, so the outcome of the look-up does not count.
    was_cancelled: Arc<AtomicBool>,
}

/// The rules for requests of pages made for people.
#[derive(Clone)]
pub struct PageRules {
    /// The policy for robots.txt.
    pub robots: RobotsPolicy,
    /// The cookies that pages set, for their following pages.
    pub cookies: Option<Arc<CookieJar>>,
    /// Selects the responses that are final whatever their status.
    pub is_final: IsFinal,
}

/// A request without a response.
#[derive(Debug)]
pub struct SendFailure {
    /// The error of the request.
    pub error: Box<FetchError>,
    /// The action left to the caller, with the run's knowledge of the network.
    pub disposition: Disposition,
}

impl HubSender {
    /// Creates the sender of a run.
    #[must_use]
    pub fn new(context: RunContext) -> Self {
        Self {
            context,
            pages: None,
            redirect_gate: None,
            charges_services: false,
            is_untrusted: false,
            requests: None,
            was_cancelled: Arc::default(),
        }
    }

    /// Returns the same sender with [`PageRules`], which do not apply to metadata.
    #[must_use]
    pub fn with_pages(self, pages: PageRules) -> Self {
        Self {
            pages: Some(pages),
            ..self
        }
    }

    /// Returns the same sender with another [`CookieJar`] in its rules for pages.
    #[must_use]
    pub fn with_cookies(mut self, cookies: Option<Arc<CookieJar>>) -> Self {
        if let Some(pages) = &mut self.pages {
            pages.cookies = cookies;
        }
        self
    }

    /// Returns the same sender, which follows only redirects that the [`RedirectGate`] allows.
    #[must_use]
    pub fn with_redirect_gate(self, gate: RedirectGate) -> Self {
        Self {
            redirect_gate: Some(gate),
            ..self
        }
    }

    /// Returns the same sender for an item that an untrusted list may have named. Its pages do not
    /// lead into the private network.
    #[must_use]
    pub fn distrusting(self, is_untrusted: bool) -> Self {
        Self {
            is_untrusted,
            ..self
        }
    }

    /// Returns the same sender, whose requests also use the budget of the service named like their
    /// source.
    #[must_use]
    pub fn charging_services(self) -> Self {
        Self {
            charges_services: true,
            ..self
        }
    }

    /// Returns the same sender for one look-up, whose requests belong to a [`RequestGroup`].
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

    /// Sends a request.
    ///
    /// # Errors
    /// Returns a [`SendFailure`] if there is no response.
    pub async fn send(&self, request: LookupRequest) -> Result<LookupResponse, SendFailure> {
        let keep_in_memory = request.keep_in_memory;
        let request = self.hub_request(request);
        let hub = &self.context.hub;
        let sent = if let Some(keep) = keep_in_memory {
            let spooled = hub.fetch_spooled(request, keep).await;
            spooled.map(|spooled| {
                let beginning = spooled.body.beginning().clone();
                let (head, body) = (spooled.head, Some(spooled.body));
                self.response(head, beginning, body, &spooled.journey)
            })
        } else {
            let fetched = hub.fetch(request).await;
            fetched.map(|fetched| self.response(fetched.head, fetched.body, None, &fetched.journey))
        };
        match sent {
            Ok(response) => Ok(response),
            Err(error) => {
                let disposition = self.context.connectivity.judge(&error).await;
                if disposition == Disposition::Cancelled {
                    self.was_cancelled.store(true, Ordering::Release);
                }
                Err(SendFailure {
                    error: Box::new(error),
                    disposition,
                })
            }
        }
    }

    fn hub_request(&self, request: LookupRequest) -> Request {
        let mut sent = bulk_request(Request::get(request.url))
            .role(request.role)
            .resolver(request.source);
        if self.charges_services {
            sent = sent.service(request.source);
        }
        if let Some(pages) = self
            .pages
            .as_ref()
            .filter(|_| request.role != Role::Metadata)
        {
            sent = if self.is_untrusted {
                sent.untrusted()
            } else {
                sent.discovered()
            };
            sent = sent.robots(pages.robots.clone()).final_when(pages.is_final);
            if let Some(jar) = &pages.cookies {
                sent = sent.cookies(Arc::clone(jar));
            }
        }
        if let Some(gate) = &self.redirect_gate {
            sent = sent.redirect_gate(Arc::clone(gate));
        }
        if let Some(requests) = &self.requests {
            sent = sent.in_group(Arc::clone(requests));
        }
        if let Some(kind) = request.kind {
            sent = sent.kind(kind);
        }
        if let Some(most) = request.max_body {
            sent = sent.max_body(most);
        }
        for (name, value) in &request.headers {
            sent = sent.header(name.clone(), value.clone());
        }
        for (name, value) in request.secret_headers {
            sent = sent.secret_header(name, value);
        }
        sent
    }

    fn response(
        &self,
        head: ResponseHead,
        body: Bytes,
        spooled: Option<SpooledBody>,
        journey: &Journey,
    ) -> LookupResponse {
        self.context.connectivity.note_response(journey);
        LookupResponse {
            status: head.status,
            headers: head.headers,
            body,
            spooled: spooled.map(Arc::new),
            url: head.url,
            disposition: journey.disposition(),
        }
    }
}
