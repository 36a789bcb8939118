//! The hosts of deferred items, watched for an early end of their pause: an operator or another
//! process may close the breaker.

use std::collections::HashMap;
use std::time::Duration;

use docstokg_hub::clock::Timestamp;
use docstokg_hub::{Host, HostWatch, Hub};

use crate::job::AwaitedHost;

/// Maximum number of hosts that are watched at a time. Items of other hosts come back when they are
/// due.
const MAX_WATCHED_HOSTS: usize = 1_024;
/// Maximum number of items of a paused host that come back to probe it.
const MAX_PROBERS: usize = 8;
/// The additional delay of all other items, if the breaker is not seen to close.
const OPEN_BREAKER_RETRY_DELAY: Duration = Duration::from_secs(300);

/// The watched hosts.
pub(crate) struct Watches {
    hub: Hub,
    hosts: HashMap<String, WatchedHost>,
}

struct WatchedHost {
    watches: Vec<HostWatch>,
    /// A breaker of the host was seen open. A closed breaker does not end a wait for another
    /// reason.
    was_paused: bool,
    /// The items that come back when the pause may be over.
    probers: Probers,
}

/// The items that come back when the pause of a host may be over, to probe it. The breaker admits
/// few probes, so the other items rest until the breaker is closed.
#[derive(Clone, Copy, Default)]
struct Probers {
    items: usize,
    /// The time at which these items come back.
    due: Timestamp,
}

impl Probers {
    /// Returns the time at which an item comes back that may be tried at `until`.
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

    /// Watches the host of an [`AwaitedHost`], and the source on whose behalf an item waits.
    pub(crate) fn add(&mut self, awaited: &AwaitedHost) {
        self.insert(awaited, false);
    }

    /// Watches again a host that was paused when an item began to wait, and was back before the
    /// item was in the file. Returns whether the host was watched again: then all its items come
    /// back.
    pub(crate) fn add_missed(&mut self, awaited: &AwaitedHost) -> bool {
        self.insert(awaited, true)
    }

    /// Watches the host of an [`AwaitedHost`], unless it is watched already.
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

    /// Returns the time at which an item comes back that may be tried at `until`. That is `until`,
    /// or later if enough other items probe the host first.
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

    /// Stops watching hosts without waiting items.
    pub(crate) fn keep(&mut self, is_waited_for: impl Fn(&str) -> bool) {
        self.hosts.retain(|host, _| is_waited_for(host));
    }
}

/// Tells whether any [`HostWatch`] has a breaker that is open, or has not yet found its host to be
/// back.
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
