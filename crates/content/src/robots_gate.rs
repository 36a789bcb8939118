//! robots.txt in front of pages and files: asked once per site and day (again where very many sites
//! came in between), obeyed by every request (RFC 9309).
//!
//! APIs are not crawled and not asked. A site that cannot say is left alone for a while; its crawl
//! delay is a floor under whatever the limiter allows.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, Runtime};
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::policy::retry::StopReason;
use docstokg_hub::{Admission, ErrorKind, Host, Hub, Request};
use docstokg_policy::role::Role;
use parking_lot::Mutex;
use url::Url;

use crate::hub_web::{is_offline, patient};
use crate::robots::{LIMIT_BYTES, Robots, Ruling};

/// Our name in robots.txt.
const AGENT: &str = "docstokg";
/// How long a file is believed (section 2.4).
const DAY: Duration = Duration::from_secs(86_400);
/// How long a site that could not say is left alone.
const A_WHILE: Duration = Duration::from_secs(30);

/// How long to stay away at least when our own breaker kept the question back.
const A_MOMENT: Duration = Duration::from_secs(1);

/// The least that is waited for a turn.
const A_TICK: Duration = Duration::from_millis(1);
/// A wait for a turn that is not worth going away for.
const A_SHORT_WAIT: Duration = Duration::from_millis(500);
/// The longest that somebody waits at the door for a turn.
const AT_THE_DOOR: Duration = Duration::from_secs(10);
/// The longest that a redirect waits for its turn.
const REDIRECT_WAIT: Duration = Duration::from_secs(30);

/// How many sites are remembered; those asked about longest ago are asked again.
const MOST_SITES: usize = 16_384;

/// Whether a URL may be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It may, now.
    Granted,
    /// It may not.
    Denied {
        /// Why, for people.
        text: String,
    },
    /// Nobody answers there at all.
    Unreachable {
        /// Why, for people.
        text: String,
        /// The name could not be resolved.
        gone: bool,
    },
    /// This machine has no network for now.
    Offline {
        /// Why, for people.
        text: String,
    },
    /// Nobody knows, or it is not its turn yet; come back.
    Later {
        /// After how long.
        wait: Duration,
        /// Why, for people.
        text: String,
        /// It is only not its turn yet: the site is well.
        turn: bool,
    },
}

/// What a site said.
#[derive(Clone)]
struct Known {
    rules: Rules,
    until: BootInstant,
}

impl Known {
    /// Tells whether the site is to be left alone at `now`.
    fn is_no(&self, now: BootInstant) -> bool {
        matches!(self.rules, Rules::Nothing(_)) && self.until > now
    }
}

#[derive(Clone)]
enum Rules {
    All,
    Listed(Arc<Robots>),
    /// It cannot say for now.
    Nothing(String),
    /// Nobody answers there at all.
    Unreachable(String, bool),
    /// This machine has no network for now.
    Offline(String),
}

#[derive(Default)]
struct Site {
    /// Held while the file is fetched, so that it is fetched once.
    known: tokio::sync::Mutex<Option<Known>>,
    /// Whose turn is when, where there is a crawl delay.
    turns: Mutex<Turns>,
    /// Held by the one who waits because another process, or whoever came late, had the turn
    /// before.
    door: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Turns {
    /// When the site was last asked about.
    used: BootInstant,
    next: BootInstant,
    given: HashMap<String, BootInstant>,
}

impl Turns {
    /// Gives the next turn from an instant on.
    fn give(&mut self, from: BootInstant, delay: Duration) -> BootInstant {
        let at = self.next.max(from);
        self.next = at + delay;
        at
    }

    fn is_needed(&mut self, since: BootInstant, now: BootInstant) -> bool {
        self.given.retain(|_, at| *at > now);
        self.used > since || self.next > now
    }
}

/// Asks robots.txt of each site, and keeps to it.
pub struct RobotsGate {
    hub: Hub,
    runtime: Arc<dyn Runtime>,
    ignored: bool,
    exempt: HashSet<Host>,
    sites: Mutex<HashMap<String, Arc<Site>>>,
}

impl RobotsGate {
    /// Makes a gate; `exempt` are the hosts of APIs, and with `ignored` nobody is asked.
    #[must_use]
    pub fn new(hub: Hub, runtime: Arc<dyn Runtime>, exempt: HashSet<Host>, ignored: bool) -> Self {
        Self {
            hub,
            runtime,
            ignored,
            exempt,
            sites: Mutex::default(),
        }
    }

    /// Forgets that a host could not say: it may be asked again earlier than was thought.
    pub async fn reopen(&self, host: &str) {
        for scheme in ["http", "https"] {
            let site = self
                .sites
                .lock()
                .get(&format!("{scheme}://{host}"))
                .map(Arc::clone);
            if let Some(site) = site {
                let mut known = site.known.lock().await;
                *known = known
                    .take()
                    .filter(|known| !matches!(known.rules, Rules::Nothing(_)));
            }
        }
    }

    /// Waits for the turn that the site's crawl delay gives, and tells whether a URL may be asked
    /// for.
    ///
    /// `typed` is a URL that the user wrote: it may point into the own network.
    pub async fn may_ask(&self, url: &Url, typed: bool) -> Leave {
        let Ok(host) = Host::of(url) else {
            return Leave::Granted;
        };
        if self.ignored || self.exempt.contains(&host) {
            return Leave::Granted;
        }
        let site = self.site(format!("{}://{host}", url.scheme()));
        let known = self.known(&site, url, &host, typed).await;
        let robots = match known.rules {
            Rules::All => return Leave::Granted,
            Rules::Offline(text) => return Leave::Offline { text },
            Rules::Unreachable(text, gone) => return Leave::Unreachable { text, gone },
            Rules::Nothing(text) => {
                return Leave::Later {
                    wait: known.until.since(self.runtime.boot()),
                    text,
                    turn: false,
                };
            }
            Rules::Listed(robots) => robots,
        };
        let path = url.query().map_or_else(
            || url.path().to_owned(),
            |query| format!("{}?{query}", url.path()),
        );
        if !robots.allows(AGENT, &path) {
            return Leave::Denied {
                text: format!("the robots.txt of {host} does not allow this path"),
            };
        }
        if let Some(delay) = robots.crawl_delay(AGENT).filter(|delay| !delay.is_zero()) {
            let given = site.turns.lock().given.remove(url.as_str());
            // Turns are given ahead, and some are never taken: who comes when one is free and
            // nobody waits goes at once.
            if given.is_none()
                && site.door.try_lock().is_ok()
                && self.hub.turn(&host, delay).await.is_ok()
            {
                return Leave::Granted;
            }
            let now = self.runtime.boot();
            let at = {
                let mut turns = site.turns.lock();
                let at = given.unwrap_or_else(|| turns.give(now, delay));
                if at.since(now) > A_SHORT_WAIT {
                    // It comes back for its turn, and holds nothing until then.
                    turns.given.insert(url.as_str().to_owned(), at);
                }
                at
            };
            let wait = at.since(now);
            if wait > A_SHORT_WAIT {
                return later(&host, delay, wait);
            }
            self.runtime.sleep_until(at).await;
            return self.shared_turn(&site, url, &host, delay).await;
        }
        Leave::Granted
    }

    /// Takes the turn that has come in this process where no other process has taken it, and
    /// another one else.
    async fn shared_turn(&self, site: &Site, url: &Url, host: &Host, delay: Duration) -> Leave {
        // One waits at the door for what is left of the delay; whoever finds it taken gets the last
        // turn of this process.
        let door = site.door.try_lock();
        loop {
            let Err(wait) = self.hub.turn(host, delay).await else {
                return Leave::Granted;
            };
            if door.is_ok() && wait <= AT_THE_DOOR {
                self.runtime
                    .sleep_until(self.runtime.boot() + wait.max(A_TICK))
                    .await;
                continue;
            }
            let now = self.runtime.boot();
            let mut turns = site.turns.lock();
            let at = turns.give(now + wait, delay);
            turns.given.insert(url.as_str().to_owned(), at);
            return later(host, delay, at.since(now));
        }
    }

    /// Returns what is known of a site, and makes room where very many are.
    fn site(&self, name: String) -> Arc<Site> {
        let now = self.runtime.boot();
        let mut sites = self.sites.lock();
        if sites.len() >= MOST_SITES && !sites.contains_key(&name) {
            let mut used: Vec<BootInstant> =
                sites.values().map(|site| site.turns.lock().used).collect();
            let middle = used.len() / 2;
            let (_, median, _) = used.select_nth_unstable(middle);
            // Those in use stay, and those whose next turn has not come: it holds for whoever asks
            // next.
            let is_left_alone = |site: &Site| {
                site.known
                    .try_lock()
                    .is_ok_and(|known| known.as_ref().is_some_and(|known| known.is_no(now)))
            };
            sites.retain(|_, site| {
                Arc::strong_count(site) > 1
                    || is_left_alone(site)
                    || site.turns.lock().is_needed(*median, now)
            });
        }
        let site = Arc::clone(sites.entry(name).or_default());
        site.turns.lock().used = now;
        site
    }

    async fn known(&self, site: &Site, url: &Url, host: &Host, typed: bool) -> Known {
        let mut known = site.known.lock().await;
        if let Some(known) = known
            .as_ref()
            .filter(|known| known.until > self.runtime.boot())
        {
            return known.clone();
        }
        let mut file = url.clone();
        file.set_path("/robots.txt");
        file.set_query(None);
        file.set_fragment(None);
        let mut request = patient(Request::get(file))
            .role(Role::Landing)
            .max_body(16 * LIMIT_BYTES as u64);
        if !typed {
            request = request.discovered();
        }
        let answer = self.hub.fetch(request).await;
        let now = self.runtime.boot();
        let unread = |why: String| format!("the robots.txt of {host} cannot be read: {why}");
        let found = match answer {
            Ok(answer) => match Ruling::from_status(Some(answer.head.status)) {
                Ruling::Parse => Known {
                    rules: Rules::Listed(Arc::new(Robots::parse(&answer.body))),
                    until: now + DAY,
                },
                Ruling::AllowAll => Known {
                    rules: Rules::All,
                    until: now + DAY,
                },
                Ruling::DisallowForNow => {
                    let wait = match answer.journey.stopped {
                        Some(StopReason::Deadline { until }) => until.since(now).max(A_WHILE),
                        _ => A_WHILE,
                    };
                    Known {
                        rules: Rules::Nothing(unread(format!(
                            "it answered {}",
                            answer.head.status
                        ))),
                        until: now + wait,
                    }
                }
            },
            Err(error) => {
                let gone = matches!(
                    error.kind,
                    ErrorKind::Fault {
                        fault: Fault::Dns,
                        ..
                    }
                );
                // Our own breaker or limiter kept it back: nothing was learned.
                let refused = error
                    .kind
                    .refused()
                    .map(|refused| refused.cooldown_remaining.max(A_MOMENT));
                if let ErrorKind::Fault {
                    fault: Fault::NoRoute,
                    message,
                    ..
                } = &error.kind
                    && is_offline(message)
                {
                    // Nothing was learned about the site: ask again with the next request.
                    return Known {
                        rules: Rules::Offline(error.to_string()),
                        until: now,
                    };
                }
                let text = unread(error.to_string());
                let rules = if refused.is_some() {
                    Rules::Nothing(text)
                } else {
                    Rules::Unreachable(text, gone)
                };
                Known {
                    rules,
                    until: now + refused.unwrap_or(A_WHILE),
                }
            }
        };
        *known = Some(found.clone());
        found
    }
}

fn later(host: &Host, delay: Duration, wait: Duration) -> Leave {
    Leave::Later {
        wait,
        text: format!(
            "the robots.txt of {host} asks for {} s between requests",
            delay.as_secs_f64()
        ),
        turn: true,
    }
}

impl Admission for RobotsGate {
    fn judge<'a>(
        &'a self,
        url: &'a Url,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(async move {
            loop {
                match self.may_ask(url, false).await {
                    Leave::Granted => return Ok(()),
                    Leave::Later { wait, .. } if wait <= REDIRECT_WAIT && !wait.is_zero() => {
                        self.runtime.sleep_until(self.runtime.boot() + wait).await;
                    }
                    Leave::Denied { text }
                    | Leave::Unreachable { text, .. }
                    | Leave::Offline { text }
                    | Leave::Later { text, .. } => {
                        return Err(text);
                    }
                }
            }
        })
    }
}
