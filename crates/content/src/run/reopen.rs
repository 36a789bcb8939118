//! Hosts that deferred works wait for, and whether they may be asked earlier than they said: an
//! operator has closed the breaker, or another process found the host well again.

use std::collections::HashMap;

use docstokg_hub::{Host, HostWatch, Hub};

use crate::resolver::ResolverId;

/// How many hosts are watched at a time. Works of others come back when they are due.
const MOST: usize = 1_024;

/// The hosts that are watched.
pub(super) struct Watches {
    hub: Hub,
    hosts: HashMap<String, Watched>,
}

struct Watched {
    watches: Vec<HostWatch>,
    /// Whether a breaker of it was seen open: a wait for another reason is not ended by one that is
    /// closed.
    was_open: bool,
}

impl Watches {
    pub(super) fn new(hub: Hub) -> Self {
        Self {
            hub,
            hosts: HashMap::new(),
        }
    }

    /// Watches a host that a work waits for, and the resolver on whose behalf.
    pub(super) fn add(&mut self, host: &str, resolver: Option<ResolverId>) {
        if self.hosts.contains_key(host) || self.hosts.len() >= MOST {
            return;
        }
        let Ok(name) = Host::parse(host) else { return };
        let mut watches = vec![self.hub.watch(&name)];
        watches.extend(resolver.map(|resolver| self.hub.watch_resolver(resolver.as_str())));
        let was_open = is_open(&watches);
        self.hosts
            .insert(host.to_owned(), Watched { watches, was_open });
    }

    /// Returns the hosts that are open no more, and stops watching them.
    pub(super) fn reopened(&mut self) -> Vec<String> {
        let mut reopened = Vec::new();
        self.hosts.retain(|host, watched| {
            let open = is_open(&watched.watches);
            let ended = watched.was_open && !open;
            watched.was_open |= open;
            if ended {
                reopened.push(host.clone());
            }
            !ended
        });
        reopened
    }

    /// Stops watching hosts that no work waits for any more.
    pub(super) fn keep(&mut self, is_waited_for: impl Fn(&str) -> bool) {
        self.hosts.retain(|host, _| is_waited_for(host));
    }
}

fn is_open(watches: &[HostWatch]) -> bool {
    watches.iter().any(|watch| watch.open_until().is_some())
}
