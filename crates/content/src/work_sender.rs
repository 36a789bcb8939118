//! The sender of resolvers' requests through the hub. robots.txt applies to pages made for people.

use std::sync::Arc;

use docstokg_bulk::run_context::RunContext;
use docstokg_hub::{CookieJar, RequestGroup, RobotsPolicy};
use docstokg_lookup::driver::{BoxFuture, RequestSender};
use docstokg_lookup::hub_sender::{HubSender, PageRules};
use docstokg_lookup::message::{LookupRequest, LookupResponse};

use crate::bot_challenge;
use crate::request_failure::RequestFailure;

/// Sends the requests of resolvers through a [`HubSender`].
#[derive(Clone)]
pub struct WorkSender(HubSender);

impl WorkSender {
    /// Creates the sender of a run. `robots` applies to pages and files, not to metadata.
    #[must_use]
    pub fn new(context: RunContext, robots: RobotsPolicy) -> Self {
        Self(HubSender::new(context).with_pages(PageRules {
            robots,
            cookies: None,
            is_final: bot_challenge::is_one,
        }))
    }

    /// Returns the same sender with a [`CookieJar`] for pages.
    #[must_use]
    pub fn with_cookies(self, cookies: Option<Arc<CookieJar>>) -> Self {
        Self(self.0.with_cookies(cookies))
    }

    /// Returns the same sender for one step, whose requests belong to a [`RequestGroup`].
    #[must_use]
    pub fn in_group(&self, requests: Arc<RequestGroup>) -> Self {
        Self(self.0.in_group(requests))
    }

    /// Returns the same sender for a work of an input that others wrote.
    #[must_use]
    pub fn distrusting(self, is_untrusted: bool) -> Self {
        Self(self.0.distrusting(is_untrusted))
    }

    /// Tells whether a request was cancelled.
    #[must_use]
    pub fn was_cancelled(&self) -> bool {
        self.0.was_cancelled()
    }
}

impl RequestSender for WorkSender {
    type Failure = RequestFailure;

    fn send(
        &self,
        request: LookupRequest,
    ) -> BoxFuture<'_, Result<LookupResponse, RequestFailure>> {
        Box::pin(async move {
            let sent = self.0.send(request).await;
            sent.map_err(|failed| RequestFailure::of_error(&failed.error, failed.disposition))
        })
    }
}
