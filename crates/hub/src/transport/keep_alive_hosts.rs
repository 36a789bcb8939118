//! The hosts whose connections are kept open for the next request.
//!
//! A pool of connections to very many hosts would fill the memory and use up the file descriptors.
//! So only a bounded number of hosts keep their connections: the first ones that are still in use.
//! The connections of all other hosts are closed after each response.

use std::collections::HashMap;
use std::time::Duration;

use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;
use url::Url;

/// Maximum number of hosts whose connections are kept open.
const MAX_HOSTS: usize = 256;

/// The hosts whose connections are kept open, with the instants of their last requests.
pub(crate) struct KeepAliveHosts {
    hosts: Mutex<HashMap<String, BootInstant>>,
    /// The time for which an unused connection is kept.
    idle: Duration,
}

impl KeepAliveHosts {
    pub(crate) fn new(idle: Duration) -> Self {
        Self {
            hosts: Mutex::default(),
            idle,
        }
    }

    /// Returns whether the connection of a request at `now` is kept open.
    pub(crate) fn keeps(&self, url: &Url, now: BootInstant) -> bool {
        let mut hosts = self.hosts.lock();
        let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
        if let Some(asked) = hosts.get_mut(host) {
            *asked = now;
            return true;
        }
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, asked| now.since(*asked) < self.idle);
        }
        if hosts.len() >= MAX_HOSTS {
            return false;
        }
        hosts.insert(host.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn only_so_many_hosts_are_kept_and_an_unused_one_is_replaced() {
        let kept = KeepAliveHosts::new(Duration::from_secs(30));
        let url = |n: usize| Url::parse(&format!("http://h{n}.example/x")).unwrap();
        let at = |seconds| BootInstant::ZERO + Duration::from_secs(seconds);
        for n in 0..MAX_HOSTS {
            assert!(kept.keeps(&url(n), at(0)));
        }
        assert!(!kept.keeps(&url(MAX_HOSTS), at(1)), "no more are kept");
        assert!(kept.keeps(&url(3), at(20)), "a kept host stays kept");
        assert!(
            kept.keeps(&url(MAX_HOSTS), at(31)),
            "the others are not asked any more"
        );
        assert!(kept.keeps(&url(3), at(32)));
        assert_eq!(kept.hosts.lock().len(), 2);
    }
}
