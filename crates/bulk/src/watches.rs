//! Hosts that deferred items wait for, and whether they may be asked earlier than they said: an
//! operator has closed the breaker, or another process closed it.

use std::collections::HashMap;

use docstokg_hub::{Host, HostWatch, Hub};

/// How many hosts are watched at a time. Items of others come back when they are due.
const MOST: usize = 1_024;

/// The hosts that are watched.
pub(crate) struct Watches {
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
    pub(crate) fn new(hub: Hub) -> Self {
        Self {
            hub,
            hosts: HashMap::new(),
        }
    }

    /// Watches a host that an item waits for, and the source on whose behalf.
    pub(crate) fn add(&mut self, host: &str, source: Option<&str>) {
        if self.hosts.contains_key(host) || self.hosts.len() >= MOST {
            return;
        }
        let Ok(name) = Host::parse(host) else { return };
        let mut watches = vec![self.hub.watch(&name)];
        watches.extend(source.map(|source| self.hub.watch_resolver(source)));
        let was_open = is_open(&watches);
        self.hosts
            .insert(host.to_owned(), Watched { watches, was_open });
    }

    /// Returns the hosts that are open no more, and stops watching them.
    pub(crate) fn reopened(&mut self) -> Vec<String> {
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

    /// Stops watching hosts that no item waits for any more.
    pub(crate) fn keep(&mut self, is_waited_for: impl Fn(&str) -> bool) {
        self.hosts.retain(|host, _| is_waited_for(host));
    }
}

fn is_open(watches: &[HostWatch]) -> bool {
    watches.iter().any(|watch| watch.open_until().is_some())
}
