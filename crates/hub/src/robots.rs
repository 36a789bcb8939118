//! The robots.txt of sites (RFC 9309). Each file is read once a day, and obeyed on every hop.
//!
//! Only requests with [`RobotsPolicy::Obey`] read and obey robots.txt. The request for the file
//! passes breaker and limits of its host like any other, but is not checked against the file. Rules
//! are kept in memory for at most a day. A site whose file cannot be read gets no requests for a
//! while. A crawl delay becomes another window among the hop's costs. So it applies to all
//! processes together and to every retry.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use docstokg_policy::classify::Fault;
use docstokg_policy::host::Host;
use docstokg_policy::retry::StopReason;
use docstokg_policy::robots::{LIMIT_BYTES, Robots, RobotsRuling};
use docstokg_policy::role::Role;
use parking_lot::Mutex;
use url::Url;

use crate::admission::BudgetSetKey;
use crate::clock::{BootInstant, BoxFuture, before};
use crate::error::{ErrorKind, FetchError, StatedBy};
use crate::event::EventKind;
use crate::exchange::{DeliveredBody, ToMemory};
use crate::fetch::FinalResponse;
use crate::flight::{FlightRole, FlightTable};
use crate::hub::HubParts;
use crate::journey::{Journey, RequestTrack};
use crate::redirect::Hop;
use crate::request::{Provenance, Request, RobotsPolicy};
use crate::target::RoutedHop;

/// The product token by which a robots.txt names this client.
const AGENT: &str = "docstokg";
/// Maximum age at which the rules of a file are used without reading it again (RFC 9309 section
/// 2.4).
const MAX_AGE: Duration = Duration::from_secs(86_400);
/// The usual time without requests to a site whose file cannot be read. The site may demand a
/// longer one.
const UNREAD_AGE: Duration = Duration::from_secs(30);
/// Maximum size of a file that is received, decoded, in bytes. The parser reads less than that.
const MAX_BODY_BYTES: u64 = 16 * LIMIT_BYTES as u64;
/// Maximum number of sites whose rules are in memory. Beyond it, the least recently used ones are
/// dropped.
const MAX_SITES: usize = 16_384;

/// The rules of the sites of a hub, as far as they are known.
#[derive(Default)]
pub(crate) struct RobotsGate {
    sites: Mutex<HashMap<RobotsOrigin, Arc<RobotsSite>>>,
    /// The requests for files that are in flight, so that each file is requested once.
    flights: FlightTable<RobotsOrigin, ()>,
}

/// Scheme, host and port of a site.
type RobotsOrigin = Arc<str>;

#[derive(Default)]
struct RobotsSite {
    known: Mutex<Option<KnownRules>>,
    /// The time at which a request last used the entry, in microseconds of the boot clock.
    used: AtomicU64,
}

#[derive(Clone)]
struct KnownRules {
    rules: SiteRules,
    until: BootInstant,
}

#[derive(Clone)]
enum SiteRules {
    AllowAll,
    Listed(Arc<Robots>),
    /// The site responds, but not with its rules. A later request for the file may succeed.
    Unread {
        why: Arc<str>,
        wait: Duration,
        until: BootInstant,
    },
    /// The response cannot be used as rules, and waiting does not change that.
    Unusable {
        why: Arc<str>,
    },
    /// The site's name has no address, or its certificate is invalid. Waiting does not change that.
    Unreachable {
        fault: Fault,
        message: Arc<str>,
    },
}

impl RobotsSite {
    /// Returns the [`SiteRules`] of the site; `None` if they are unknown or too old.
    fn rules(&self, now: BootInstant) -> Option<SiteRules> {
        let known = self.known.lock();
        let known = known.as_ref().filter(|known| known.until > now)?;
        Some(known.rules.clone())
    }

    /// Returns the wait that followed the last failure to read the file; zero if it did not fail.
    fn waited(&self) -> Duration {
        match self.known.lock().as_ref().map(|known| &known.rules) {
            Some(SiteRules::Unread { wait, .. }) => *wait,
            _ => Duration::ZERO,
        }
    }
}

impl RobotsGate {
    /// Returns the [`RobotsSite`] of an origin. If there are too many, drops the least recently
    /// used half.
    fn site(&self, origin: &RobotsOrigin, now: BootInstant) -> Arc<RobotsSite> {
        let mut sites = self.sites.lock();
        if sites.len() >= MAX_SITES && !sites.contains_key(origin) {
            let used_at = |site: &Arc<RobotsSite>| site.used.load(Ordering::Relaxed);
            let mut used: Vec<u64> = sites.values().map(used_at).collect();
            let middle = used.len() / 2;
            let (_, median, _) = used.select_nth_unstable(middle);
            sites.retain(|_, site| Arc::strong_count(site) > 1 || used_at(site) > *median);
        }
        let site = Arc::clone(sites.entry(Arc::clone(origin)).or_default());
        site.used.store(now.as_micros(), Ordering::Relaxed);
        site
    }

    /// Returns the crawl delay of a host; `None` if it has none or if its rules are unknown at
    /// `now`.
    pub(crate) fn crawl_delay_of(&self, host: &Host, now: BootInstant) -> Option<Duration> {
        let sites = self.sites.lock();
        let delay = |scheme: &str| {
            let origin: RobotsOrigin = format!("{scheme}://{host}").into();
            match sites.get(&origin)?.rules(now)? {
                SiteRules::Listed(robots) => crawl_delay(&robots),
                _ => None,
            }
        };
        delay("https").max(delay("http"))
    }

    /// Deletes the remembered failure to read the robots.txt of a host, because its breaker was
    /// closed or its block ended early. If a request for the file is in flight, waits for its end
    /// first, because its failure would be from before that, too.
    pub(crate) async fn forget_failure(&self, host: &str) {
        for scheme in ["http", "https"] {
            let origin: RobotsOrigin = format!("{scheme}://{host}").into();
            if let Some(ending) = self.flights.ending(&origin) {
                ending.wait().await;
            }
            let site = self.sites.lock().get(&origin).map(Arc::clone);
            if let Some(site) = site {
                let mut known = site.known.lock();
                *known = known.take().filter(|known| {
                    matches!(known.rules, SiteRules::AllowAll | SiteRules::Listed(_))
                });
            }
        }
    }
}

fn crawl_delay(robots: &Robots) -> Option<Duration> {
    robots.crawl_delay(AGENT).filter(|delay| !delay.is_zero())
}

impl RobotsGate {
    /// Checks that robots.txt allows the hop, and adds the crawl delay of the site to the costs of
    /// the hop.
    ///
    /// If https is tried for an http URL, the robots.txt of the http URL is checked first, because
    /// the site may not serve https.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Disallowed`] if the file does not allow the URL, and
    /// [`ErrorKind::RobotsUnread`] if the file cannot be read.
    pub(crate) async fn obey(
        &self,
        hub: &HubParts,
        target: &mut RoutedHop,
        (hop, request): (&Hop, &Request),
        track: &RequestTrack,
    ) -> Result<(), ErrorKind> {
        let RobotsPolicy::Obey { exempt } = &request.robots else {
            return Ok(());
        };
        if exempt.contains(&target.host) {
            return Ok(());
        }
        let stated = hop.or_else.as_ref().unwrap_or(&target.url);
        let mut judged = self.judge_url(hub, stated, target, request, track).await;
        if judged.is_err() && hop.or_else.is_some() {
            judged = self
                .judge_url(hub, &target.url, target, request, track)
                .await;
        }
        let crawl_delay = judged?;
        track.note(&target.host, target.role, || EventKind::Robots {
            crawl_delay,
        });
        if crawl_delay.is_some() {
            target.route.site = hub.admission.registry.lane(&BudgetSetKey {
                crawl_delay,
                ..target.route.site.key.clone()
            });
        }
        Ok(())
    }

    /// Checks that robots.txt allows a URL. Returns the crawl delay of the site; `None` if it has
    /// none.
    async fn judge_url(
        &self,
        hub: &HubParts,
        url: &Url,
        target: &RoutedHop,
        request: &Request,
        track: &RequestTrack,
    ) -> Result<Option<Duration>, ErrorKind> {
        let host = &target.host;
        match self.rules_of_site(hub, url, host, request, track).await? {
            SiteRules::AllowAll => Ok(None),
            SiteRules::Listed(robots) if robots.allows(AGENT, &path_and_query(url)) => {
                Ok(crawl_delay(&robots))
            }
            SiteRules::Listed(_) => Err(ErrorKind::Disallowed { host: host.clone() }),
            SiteRules::Unread { why, until, .. } => Err(ErrorKind::RobotsUnread {
                host: host.clone(),
                why: why.to_string(),
                retry_in: Some(until.since(hub.runtime.boot())),
            }),
            SiteRules::Unusable { why } => Err(ErrorKind::RobotsUnread {
                host: host.clone(),
                why: why.to_string(),
                retry_in: None,
            }),
            SiteRules::Unreachable { fault, message } => Err(ErrorKind::Fault {
                host: host.clone(),
                fault,
                cause: format!("{message} (request for robots.txt)").into(),
            }),
        }
    }

    /// Returns the rules of a site. If they are unknown, requests the file. An error is returned
    /// only if it is not due to the site, and is not remembered.
    async fn rules_of_site(
        &self,
        hub: &HubParts,
        url: &Url,
        host: &Host,
        request: &Request,
        track: &RequestTrack,
    ) -> Result<SiteRules, ErrorKind> {
        let origin: RobotsOrigin = format!("{}://{host}", url.scheme()).into();
        let site = self.site(&origin, hub.runtime.boot());
        loop {
            if let Some(rules) = site.rules(hub.runtime.boot()) {
                return Ok(rules);
            }
            let flight = match self.flights.join(&origin) {
                FlightRole::Lead(flight) => flight,
                FlightRole::Follow(ending) => {
                    let ended = before(&*hub.runtime, track.deadline, ending.wait());
                    let Some(ended) = request.unless_cancelled(ended).await else {
                        return Err(ErrorKind::Cancelled { host: host.clone() });
                    };
                    let during = "while its robots.txt was requested";
                    ended.ok_or_else(|| track.deadline_error(host, during))?;
                    continue;
                }
            };
            // Another request may have read the file after the rules were looked up and before this
            // flight began.
            if let Some(rules) = site.rules(hub.runtime.boot()) {
                return Ok(rules);
            }
            let waited = site.waited();
            let found = request_robots(hub, url, request, track, waited).await?;
            let rules = found.rules.clone();
            *site.known.lock() = Some(found);
            drop(flight);
            return Ok(rules);
        }
    }
}

async fn request_robots(
    hub: &HubParts,
    url: &Url,
    request: &Request,
    track: &RequestTrack,
    waited: Duration,
) -> Result<KnownRules, ErrorKind> {
    let mut file = url.clone();
    file.set_path("/robots.txt");
    file.set_query(None);
    file.set_fragment(None);
    let asking = Request {
        patience: request.patience,
        rate_wait: request.rate_wait,
        provenance: provenance_of(url, request),
        retry_wait: request.retry_wait,
        group: request.group.clone(),
        cache: request.cache,
        is_solo: true,
        deadline: Some(track.deadline.since(hub.runtime.boot())),
        ..Request::get(file)
    };
    let asking = asking.role(Role::Landing).max_body(MAX_BODY_BYTES);
    match boxed_journey(hub, &asking).await {
        Ok(arrived) => Ok(read_robots(hub, arrived, waited)),
        Err(error) => robots_failure(hub, error, waited),
    }
}

fn read_robots(hub: &HubParts, arrived: FinalResponse<Bytes>, waited: Duration) -> KnownRules {
    let FinalResponse {
        head,
        body,
        mut track,
    } = arrived;
    let journey = track.end(None);
    let now = hub.runtime.boot();
    match (RobotsRuling::from_status(Some(head.status)), body) {
        (RobotsRuling::Parse, DeliveredBody::Body(body)) => KnownRules {
            rules: SiteRules::Listed(Arc::new(Robots::parse(&body))),
            until: now + MAX_AGE,
        },
        (RobotsRuling::DisallowForNow, _) => {
            let why = format!("it answered {}", head.status);
            unread(hub, &journey, waited, why)
        }
        _ => KnownRules {
            rules: SiteRules::AllowAll,
            until: now + MAX_AGE,
        },
    }
}

/// Converts a failure that is due to the site to rules, and returns other failures as errors.
///
/// A refusal by the hub's own breaker or limiter is not due to the site. Neither is a deadline, a
/// lack of network, or an address that this request must not reach.
fn robots_failure(
    hub: &HubParts,
    error: FetchError,
    waited: Duration,
) -> Result<KnownRules, ErrorKind> {
    let rules = match error.kind {
        kind @ (ErrorKind::Fault {
            fault: Fault::NoRoute | Fault::OpenFiles,
            ..
        }
        | ErrorKind::BreakerOpen(_)
        | ErrorKind::RateLimited(_)
        | ErrorKind::Store { .. }
        | ErrorKind::Deadline { .. }
        | ErrorKind::Cancelled { .. }
        | ErrorKind::Internal { .. }) => return Err(kind),
        ErrorKind::Fault {
            fault: fault @ (Fault::Dns | Fault::Tls),
            cause,
            ..
        } => SiteRules::Unreachable {
            fault,
            message: cause.as_str().into(),
        },
        ErrorKind::Fault { cause, .. } => {
            let why = format!("the site cannot be reached: {}", cause.as_str());
            return Ok(unread(hub, &error.journey, waited, why));
        }
        other => SiteRules::Unusable {
            why: other.to_string().into(),
        },
    };
    let until = hub.runtime.boot() + UNREAD_AGE;
    Ok(KnownRules { rules, until })
}

/// Returns the [`KnownRules`] of a site whose file could not be read. They include when the file is
/// requested again: when the site demands, otherwise with the probe of its breaker, otherwise after
/// growing waits.
fn unread(hub: &HubParts, journey: &Journey, waited: Duration, why: String) -> KnownRules {
    let own = (waited * 2).min(UNREAD_AGE);
    let wait = match &journey.host_failure {
        Some(failure) if failure.stated_by == StatedBy::Server => failure.wait,
        Some(failure) => failure.wait.min(UNREAD_AGE).max(own),
        None => UNREAD_AGE,
    };
    let mut until = hub.runtime.boot() + wait;
    if let Some(stated) = journey.stopped.and_then(StopReason::until) {
        until = until.max(stated);
    }
    let why = why.into();
    KnownRules {
        rules: SiteRules::Unread { why, wait, until },
        until,
    }
}

/// Sends the request for robots.txt. The future is boxed, because it is part of the future of
/// another request and would contain itself.
fn boxed_journey<'a>(
    hub: &'a HubParts,
    request: &'a Request,
) -> BoxFuture<'a, Result<FinalResponse<Bytes>, FetchError>> {
    Box::pin(hub.journey(request, &ToMemory))
}

/// Returns the [`Provenance`] of a URL. The user supplied the host of the request itself, but not
/// the hosts of its redirects.
fn provenance_of(url: &Url, request: &Request) -> Provenance {
    // A host includes its port here: another port of the same machine is another host.
    let is_requested = match (Host::of(url), Host::of(&request.url)) {
        (Ok(host), Ok(requested)) => host == requested,
        _ => false,
    };
    if is_requested || request.provenance == Provenance::Untrusted {
        request.provenance
    } else {
        Provenance::Discovered
    }
}

fn path_and_query(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}
