//! Hosts that end an HTTP/2 connection after a few requests.
//!
//! Many requests share an HTTP/2 connection. If the origin ends the connection, the requests that
//! it has not processed have to be sent again. If that happens to more requests than get a
//! response, requests to the host are sent one at a time over HTTP/1.1 instead. Then a connection
//! ends only after a response, so that no other request is affected.

use std::collections::HashMap;

use parking_lot::Mutex;
use url::Url;

/// Maximum number of hosts that are counted. Further hosts keep HTTP/2.
const MAX_HOSTS: usize = 4_096;
/// Minimum number of unprocessed requests at which they are compared with the responses.
const MIN_UNPROCESSED: u32 = 16;

/// The numbers of responses and of unprocessed requests, by host.
#[derive(Default)]
pub(super) struct Http1Hosts(Mutex<HashMap<String, StreamCounts>>);

#[derive(Clone, Copy, Default)]
struct StreamCounts {
    unprocessed: u32,
    answered: u32,
    one_by_one: bool,
}

fn key(url: &Url) -> &str {
    &url[url::Position::BeforeHost..url::Position::AfterPort]
}

impl Http1Hosts {
    /// Returns whether requests to the host of a URL are sent one at a time.
    pub(super) fn is_one_by_one(&self, url: &Url) -> bool {
        self.0
            .lock()
            .get(key(url))
            .is_some_and(|seen| seen.one_by_one)
    }

    /// Counts a response of a host. Only hosts that have left a request unprocessed are counted.
    pub(super) fn note_answer(&self, url: &Url) {
        if let Some(seen) = self.0.lock().get_mut(key(url)) {
            seen.answered = seen.answered.saturating_add(1);
        }
    }

    /// Counts a request that its host did not process.
    pub(super) fn note_unprocessed(&self, url: &Url) {
        let mut hosts = self.0.lock();
        if !hosts.contains_key(key(url)) && hosts.len() >= MAX_HOSTS {
            return;
        }
        let seen = hosts.entry(key(url).to_owned()).or_default();
        seen.unprocessed = seen.unprocessed.saturating_add(1);
        seen.one_by_one |= seen.unprocessed >= MIN_UNPROCESSED && seen.unprocessed > seen.answered;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn a_host_that_processes_few_requests_of_a_connection_gets_them_one_by_one() {
        let streams = Http1Hosts::default();
        let url = Url::parse("https://a.example/x").unwrap();
        for _ in 0..1_000 {
            streams.note_answer(&url);
        }
        assert!(
            streams.0.lock().is_empty(),
            "hosts that answer everything are not remembered"
        );
        for _ in 0..20 {
            streams.note_unprocessed(&url);
            streams.note_answer(&url);
            streams.note_answer(&url);
        }
        assert!(!streams.is_one_by_one(&url), "more answers than losses");
        for _ in 0..40 {
            streams.note_unprocessed(&url);
        }
        assert!(streams.is_one_by_one(&url));
        assert!(!streams.is_one_by_one(&Url::parse("https://b.example/x").unwrap()));
    }
}
