//! What a run is made of, and what it knows about works: their lanes, how much of each is in hand,
//! what was written down.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, Runtime};
use docstokg_hub::{CookieJar, Host, Hub, RobotsPolicy, Role};
use parking_lot::Mutex;
use url::Url;

use super::flow::RunError;
use super::lanes::{Bounds, LaneName};
use super::network::Network;
use super::{Board, Deferral, Options, Parts};
use crate::artifact::Fetcher;
use crate::digest::Fingerprint;
use crate::evidence::Examiner;
use crate::hub_web::HubWeb;
use crate::identifier::Identifier;
use crate::layout::{Shelves, Unfinished};
use crate::manifest::{Lines, Scribe};
use crate::pursuit::{Aims, Pursuit, Step, Waited};
use crate::queue::{Item, Queue};
use crate::reason::{Reason, Setback};
use crate::resolver::settings::Settings;
use crate::resolver::{
    LandingPage, Resolver, ResolverId, all, arxiv, crossref, europe_pmc, landing, openalex, pmc,
    unpaywall, wayback,
};
use crate::work::Work;

/// The lane of works whose first step is not known yet.
pub(crate) const START: &str = "start";
/// The lane of works whose input lines have to be read again.
pub(super) const LOST: &str = "input needed";
/// A work in hand.
pub(crate) struct Held {
    pub(crate) id: i64,
    pub(crate) work_id: String,
    pub(crate) pursuit: Box<Pursuit>,
    pub(crate) step: Step,
    /// Its input line has not been read again.
    pub(crate) lost: bool,
    /// Its end is in the file already.
    pub(crate) ended: bool,
}

/// A run.
pub struct Engine {
    pub(crate) hub: Hub,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) queue: Queue,
    pub(crate) options: Options,
    pub(crate) board: Arc<Board>,
    pub(crate) aims: Aims,
    pub(crate) resolvers: Vec<Arc<dyn Resolver>>,
    pub(crate) landing: LandingPage,
    pub(crate) web: HubWeb,
    pub(crate) fetcher: Fetcher,
    pub(crate) scribe: Scribe,
    pub(crate) lines: Lines,
    /// Works whose names must not be written down.
    pub(crate) hidden: Mutex<HashMap<[u8; 16], Work>>,
    /// URLs that gave a file, and whose.
    pub(crate) fetched: Mutex<HashMap<Fingerprint, i64>>,
    pub(crate) spent: std::sync::atomic::AtomicU64,
    /// Where files go.
    pub(crate) shelves: Shelves,
    /// When the file system was last asked how much room it has.
    pub(crate) looked: Mutex<Option<BootInstant>>,
    /// When the run began: in seconds since 1970, and on the boot clock.
    begun: (f64, BootInstant),
    pub(crate) network: Network,
    settings: Arc<Settings>,
}

impl Engine {
    /// Puts a run together. `manifest.jsonl` is made anew from what the queue knows.
    ///
    /// # Errors
    /// The queue or the manifest cannot be read or written.
    pub async fn new(parts: Parts) -> Result<Arc<Self>, RunError> {
        let Parts {
            hub,
            runtime,
            queue,
            settings,
            options,
            run_id,
            board,
            reachability,
        } = parts;
        let begun = (runtime.wall().as_secs_f64(), runtime.boot());
        let lines = Lines::begin(&options.out.join("manifest.jsonl"), &queue).await?;
        let services = settings
            .endpoints
            .all()
            .into_iter()
            .filter_map(|url| Host::of(url).ok());
        let exempt = services
            .chain(
                settings
                    .text_mining_hosts()
                    .into_iter()
                    .filter_map(|host| Host::parse(host).ok()),
            )
            .collect();
        let robots = if options.ignore_robots {
            RobotsPolicy::Ignore
        } else {
            RobotsPolicy::Obey {
                exempt: Arc::new(exempt),
            }
        };
        let fetched = queue.owners().await?;
        let cookies = options.cookies.then(|| Arc::new(CookieJar::new()));
        let certain = settings
            .endpoints
            .all()
            .into_iter()
            .filter_map(|url| url.host_str().map(str::to_owned))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        Ok(Arc::new(Self {
            web: HubWeb::new(hub.clone(), robots.clone()).with_cookies(cookies.clone()),
            fetcher: Fetcher {
                hub: hub.clone(),
                runtime: Arc::clone(&runtime),
                robots,
                settings: Arc::clone(&settings),
                role: options.role,
                min_pdf_bytes: options.min_pdf_bytes,
                untrusted_input: options.untrusted_input,
                in_flight: Mutex::default(),
                left: Unfinished::in_directory(&options.out).names(),
                cookies,
                examiner: Examiner::new(Arc::clone(&runtime)),
            },
            resolvers: all(&settings),
            landing: LandingPage::new(Arc::clone(&settings)),
            aims: Aims {
                kinds: options.kinds.clone(),
                choice: options.choice.clone(),
                max_attempts: options.max_attempts,
            },
            scribe: Scribe {
                run_id: run_id.into(),
                dry_run: options.rehearsal == super::Rehearsal::DryRun,
            },
            lines,
            hub,
            runtime,
            queue,
            options,
            board,
            hidden: Mutex::default(),
            fetched: Mutex::new(fetched),
            spent: std::sync::atomic::AtomicU64::new(0),
            shelves: Shelves::default(),
            looked: Mutex::default(),
            begun,
            network: Network::new(reachability, certain),
            settings,
        }))
    }

    /// Returns the time in seconds since 1970, as it was when the run began and has gone on since,
    /// whatever becomes of the wall clock meanwhile.
    pub(crate) fn now(&self) -> f64 {
        self.begun.0 + self.runtime.boot().since(self.begun.1).as_secs_f64()
    }

    /// Returns the lane of a step.
    pub(crate) fn lane(&self, pursuit: &Pursuit, step: &Step) -> LaneName {
        let of_host = |url: &Url, role: Role| match Host::of(url) {
            Ok(host) => format!("{}|{role}", self.hub.config().site_key(&host)).into(),
            Err(_) => START.into(),
        };
        match step {
            Step::Fetch(place) => pursuit.place(*place).map_or_else(
                || START.into(),
                |location| of_host(&location.url, self.options.role),
            ),
            Step::Read(place) => pursuit.place(*place).map_or_else(
                || START.into(),
                |location| of_host(&location.url, Role::Landing),
            ),
            Step::Resolve(landing::ID) => {
                match (&pursuit.work.identifiers.url, &pursuit.work.identifiers.doi) {
                    (Some(url), _) => of_host(url, Role::Landing),
                    // Who registered a DOI is who publishes it, nearly always: its page is not
                    // known before doi.org has been asked.
                    (None, Some(doi)) => format!("landing of {}", doi.prefix()).into(),
                    (None, None) => START.into(),
                }
            }
            Step::Resolve(name) => format!("resolver {name}").into(),
            Step::Wait(_) | Step::End => START.into(),
        }
    }

    /// Returns the host that a resolver asks.
    pub(crate) fn host_of_resolver(&self, resolver: ResolverId) -> String {
        let endpoints = &self.settings.endpoints;
        let url = match resolver {
            openalex::ID => &endpoints.openalex,
            unpaywall::ID => &endpoints.unpaywall,
            crossref::ID => &endpoints.crossref,
            arxiv::ID => &endpoints.arxiv,
            pmc::ID => &endpoints.pmc_id_converter,
            europe_pmc::ID => &endpoints.europe_pmc,
            wayback::ID => &endpoints.wayback,
            _ => &endpoints.doi,
        };
        Host::of(url).map_or_else(|_| resolver.to_string(), |host| host.to_string())
    }

    /// Returns the host that a step goes to.
    pub(crate) fn host_of(&self, held: &Held) -> Option<String> {
        let of_place = |place: usize| {
            held.pursuit
                .place(place)
                .and_then(|location| location.url.host_str())
                .map(str::to_owned)
        };
        match held.step {
            Step::Fetch(place) | Step::Read(place) => of_place(place),
            Step::Resolve(landing::ID) if held.pursuit.work.identifiers.url.is_some() => held
                .pursuit
                .work
                .identifiers
                .url
                .as_ref()
                .and_then(Url::host_str)
                .map(str::to_owned),
            Step::Resolve(name) => Some(self.host_of_resolver(name)),
            Step::Wait(_) | Step::End => None,
        }
    }

    /// Says what a work that waits until `at` is deferred for.
    pub(crate) fn deferral(&self, pursuit: &Pursuit, at: f64) -> Deferral {
        let (host, why) = match pursuit.waits_for(at) {
            Some((waited, setback)) => {
                let host = match waited {
                    Waited::For(url) => {
                        Host::of(url).map_or_else(|_| String::new(), |host| host.to_string())
                    }
                    Waited::Asking(resolver) => self.host_of_resolver(resolver),
                };
                (host, setback.map(why_deferred))
            }
            None => (String::new(), None),
        };
        let host = if host.is_empty() {
            "its host".to_owned()
        } else {
            host
        };
        Deferral {
            host,
            until: at,
            why: why.unwrap_or_else(|| "retry later".to_owned()),
        }
    }

    /// Returns how long the limits make these works of a lane take at least; `None` where no limit
    /// is known.
    pub(crate) fn least_time(&self, lane: &str, works: u64) -> Option<Duration> {
        let (host, role, batch) = if let Some(name) = lane.strip_prefix("resolver ") {
            (
                Host::parse(&self.host_of_resolver(ResolverId::stored(name))).ok()?,
                Role::Metadata,
                self.bounds(lane).batch,
            )
        } else {
            let (site, role) = lane.rsplit_once('|')?;
            (Host::parse(site).ok()?, role.parse().ok()?, 1)
        };
        let requests = works.div_ceil(batch as u64);
        let windows = &self.hub.config().limits.of(&host, role).rates.value;
        let of_window = |window: &docstokg_hub::policy::rate::Window| {
            let full = requests.saturating_sub(1) / u64::from(window.limit.get());
            window
                .per
                .saturating_mul(u32::try_from(full).unwrap_or(u32::MAX))
        };
        windows.iter().map(of_window).max()
    }

    /// Returns how long the limits make works that were rehearsed take at least; `None` where no
    /// limit is known.
    #[must_use]
    pub fn least_time_of_rehearsed(&self) -> Option<Duration> {
        self.board
            .rehearsed()
            .iter()
            .filter_map(|(lane, works)| self.least_time(lane, *works))
            .max()
    }

    /// Returns how much a lane may have in hand: a little more than its site answers at once, so
    /// that its line never runs dry.
    pub(crate) fn bounds(&self, lane: &str) -> Bounds {
        if matches!(lane, START | LOST) {
            return Bounds { most: 64, batch: 1 };
        }
        if let Some(name) = lane.strip_prefix("resolver ") {
            let batch = self
                .resolvers
                .iter()
                .find(|resolver| resolver.id().as_str() == name)
                .map_or(1, |resolver| resolver.batch().max(1));
            return Bounds {
                most: if batch > 1 { 4 } else { 32 },
                batch,
            };
        }
        if lane.starts_with("landing of ") {
            return Bounds { most: 8, batch: 1 };
        }
        let (site, role) = lane.rsplit_once('|').unwrap_or((lane, "artifact"));
        let role: Role = role.parse().unwrap_or(Role::Artifact);
        let most = Host::parse(site).ok().and_then(|host| {
            self.hub
                .config()
                .limits
                .of(&host, role)
                .max_concurrent
                .value
        });
        Bounds {
            most: most.map_or(64, |most| (2 * most.get() as usize).clamp(4, 128)),
            batch: 1,
        }
    }

    /// Takes a work in hand: what was written down about it, or what its name says. `None` for a
    /// row that nobody can read.
    pub(crate) fn hold(&self, item: Item) -> Option<Held> {
        let written = item
            .progress
            .as_deref()
            .and_then(|text| serde_json::from_str::<Pursuit>(text).ok());
        let given = if item.hidden {
            self.hidden.lock().get(&item.key_hash).cloned()
        } else {
            None
        };
        let lost = item.hidden && given.is_none();
        let mut pursuit = match written {
            Some(pursuit) => pursuit,
            None => Pursuit::new(
                given.or_else(|| Identifier::parse(&item.work_id).ok().map(Work::new))?,
            ),
        };
        pursuit.attempts = pursuit.attempts.max(item.attempts);
        if let Some(deferral) = pursuit.deferral.take() {
            self.board.take_up(&deferral);
        }
        let step = if lost {
            pursuit.end_by(Reason::InputNeeded, "its URL carries a credential and was not kept; give the input again with --retry-failed");
            Step::End
        } else {
            self.next(&pursuit)
        };
        let mut held = Held {
            id: item.id,
            work_id: item.work_id,
            pursuit: Box::new(pursuit),
            step,
            lost,
            ended: false,
        };
        self.bound(&mut held);
        Some(held)
    }

    pub(crate) fn next(&self, pursuit: &Pursuit) -> Step {
        pursuit.next(&self.aims, &self.resolvers, self.now())
    }
}

/// Says in a few words why something is deferred.
fn why_deferred(setback: &Setback) -> String {
    let detail = setback.detail.as_str();
    let known = [
        ("name resolution failed", "name resolution failed"),
        ("could not be resolved", "name resolution failed"),
        ("no connection could be made", "connection failed"),
        ("(retry-after)", "the host asked for no requests"),
        ("(cli-open", "paused by an operator"),
    ];
    match setback.reason {
        Reason::Offline => "no network".to_owned(),
        reason => known
            .iter()
            .find(|(mark, _)| detail.contains(mark))
            .map_or_else(
                || reason.sentence().to_owned(),
                |(_, why)| (*why).to_owned(),
            ),
    }
}
