//! Watches the hosts of deferred items, because their pause may end early: an operator or another
//! process may close the breaker.

use std::collections::HashMap;
use std::time::Duration;

use docstokg_hub::clock::Timestamp;
use docstokg_hub::{Host, HostWatch, Hub};

use crate::job::AwaitedHost;

/// Maximum number of hosts that are watched at a time. Items of other hosts are queued again only
/// when they are due.
const MAX_WATCHED_HOSTS: usize = 1_024;
/// Maximum number of items that are queued again to probe a paused host.
const MAX_PROBERS: usize = 8;
/// The additional delay of the items of a paused host that do not probe it. They are queued again
/// earlier if the breaker is seen to close.
const OPEN_BREAKER_RETRY_DELAY: Duration = Duration::from_secs(300);

/// The watched hosts.
pub(crate) struct Watches {
    hub: Hub,
    hosts: HashMap<String, WatchedHost>,
}

struct WatchedHost {
    watches: Vec<HostWatch>,
    /// True if a breaker of the host was seen open. Otherwise the items wait for another reason,
    /// which a closed breaker does not end.
    was_paused: bool,
    /// The items that probe the host when its pause may be over.
    probers: Probers,
}

/// The items that are queued again to probe a host when its pause may be over. The breaker admits
/// only a few probes, so the other items wait until the breaker is closed.
#[derive(Clone, Copy, Default)]
struct Probers {
    items: usize,
    /// The time at which the probing items are queued again.
    due: Timestamp,
}

impl Probers {
    /// Returns when to queue an item again that may be tried at `until`, and counts the item among
    /// the probing items if there are fewer than [`MAX_PROBERS`].
    fn place(&mut self, until: Timestamp, now: Timestamp) -> Timestamp {
        if self.due <= now {
            *self = Self {
                items: 0,
                due: until,
            };
        }
        if self.items < MAX_PROBERS {
            self.items += 1;
            return until;
        }
        until + OPEN_BREAKER_RETRY_DELAY
    }
}

impl Watches {
    pub(crate) fn new(hub: Hub) -> Self {
        Self {
            hub,
            hosts: HashMap::new(),
        }
    }

    /// Watches the host of an [`AwaitedHost`], and the source whose requests wait for the host.
    pub(crate) fn add(&mut self, awaited: &AwaitedHost) {
        self.insert(awaited, false);
    }

    /// Watches a host whose pause ended after an item began to wait and before the item was stored
    /// in the file. Returns true if the host was not watched: then the next call of
    /// [`Watches::reopened`] returns the host, and all its items are queued again.
    pub(crate) fn add_missed(&mut self, awaited: &AwaitedHost) -> bool {
        self.insert(awaited, true)
    }

    /// Watches the host of an [`AwaitedHost`]. Returns false if the host is watched already, or
    /// cannot be watched.
    fn insert(&mut self, awaited: &AwaitedHost, was_paused: bool) -> bool {
        let AwaitedHost { host, source, .. } = awaited;
        if self.hosts.contains_key(host) || self.hosts.len() >= MAX_WATCHED_HOSTS {
            return false;
        }
        let Ok(name) = Host::parse(host) else {
            return false;
        };
        let mut watches = vec![self.hub.watch(&name)];
        let source = source.as_deref();
        watches.extend(source.map(|source| self.hub.watch_resolver(source)));
        let entry = WatchedHost {
            watches,
            was_paused,
            probers: Probers::default(),
        };
        self.hosts.insert(host.clone(), entry);
        true
    }

    /// Returns when to queue an item again that may be tried at `until`. The time is later than
    /// `until` if the host is paused and enough other items probe it first.
    pub(crate) fn due(&mut self, host: &str, until: Timestamp, now: Timestamp) -> Timestamp {
        let Some(watched) = self.hosts.get_mut(host) else {
            return until;
        };
        watched.was_paused |= is_paused(&watched.watches);
        if watched.was_paused {
            watched.probers.place(until, now)
        } else {
            until
        }
    }

    /// Returns the hosts whose pause is over, and stops watching them.
    pub(crate) fn reopened(&mut self) -> Vec<String> {
        let mut reopened = Vec::new();
        self.hosts.retain(|host, watched| {
            let paused = is_paused(&watched.watches);
            let ended = watched.was_paused && !paused;
            watched.was_paused |= paused;
            if ended {
                reopened.push(host.clone());
            }
            !ended
        });
        reopened
    }

    /// Stops watching the hosts for which `is_waited_for` returns false.
    pub(crate) fn keep(&mut self, is_waited_for: impl Fn(&str) -> bool) {
        self.hosts.retain(|host, _| is_waited_for(host));
    }
}

/// Returns whether a breaker of any [`HostWatch`] is not closed: it is open, or probes have not yet
/// shown that the host is back.
fn is_paused(watches: &[HostWatch]) -> bool {
    watches.iter().any(|watch| !watch.is_closed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_items_of_a_paused_host_come_back_for_each_probe() {
        let at = |seconds: u32| Timestamp::from_secs_f64(f64::from(seconds));
        let mut probers = Probers::default();
        let mut place = |now: u32| {
            let placed = (0..20).map(|_| probers.place(at(now + 5), at(now)));
            placed.filter(|due| *due == at(now + 5)).count()
        };
        assert_eq!(place(100), MAX_PROBERS);
        assert_eq!(place(101), 0, "the others rest");
        assert_eq!(place(105), MAX_PROBERS, "the next probe has its own");
    }
}
