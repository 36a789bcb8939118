//! A scripted origin: its limits, its outages, its responses.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::rate::{Window, parse_rates};
use docstokg_policy::retry_after::format_http_date;
use docstokg_policy::time::{BootInstant, Timestamp};
use parking_lot::Mutex;

use crate::ledger::{Arrival, Ledger};
use crate::reply::{BodyFraming, Piece, ScriptedReply};

/// The response of an origin to too many requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttle {
    /// Status 429, without a time.
    Silent,
    /// Status 429 with `Retry-After` in seconds, rounded up, until the window is free again.
    Seconds,
    /// Status 429 with `Retry-After` as a date.
    Date,
    /// Status 429 with `Retry-After` of this many seconds, for any window.
    Fixed(u64),
}

/// A time during which an origin is unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Start and end, after the start of the simulation.
    pub during: Range<Duration>,
    /// The response during the outage.
    pub reply: ScriptedReply,
}

type Handler = Arc<dyn Fn(&Arrival, usize) -> ScriptedReply + Send + Sync>;

/// A limit for paths with a prefix, in an [`OriginScript`].
struct PathBudget {
    prefix: String,
    window: Window,
    accepted: VecDeque<BootInstant>,
}

/// The script of one host: its limits, its outages, its responses.
///
/// ```
/// use docstokg_origin_sim::{Arrival, OriginScript, ScriptedReply, SimulatedWeb};
/// use docstokg_policy::time::{BootInstant, Timestamp};
///
/// let start = BootInstant::from_micros(0);
/// let origin = OriginScript::new("api.example").limit("1/SECOND");
/// let origin = origin.route("/work", [ScriptedReply::ok("found")]);
/// let web = SimulatedWeb::new([origin], start);
/// let send = || web.ask(Arrival::get("api.example", "/work", start), Timestamp::from_micros(0));
/// assert_eq!(send().map(|reply| reply.status), Some(200));
/// assert_eq!(send().map(|reply| reply.status), Some(429), "the second within a second");
/// ```
pub struct OriginScript {
    pub(crate) host: String,
    budgets: Vec<PathBudget>,
    throttle: Throttle,
    outages: Vec<Outage>,
    pub(crate) latency: Duration,
    pub(crate) dial_delay: Duration,
    routes: HashMap<String, Vec<ScriptedReply>>,
    handler: Option<Handler>,
    seen: HashMap<String, usize>,
}

impl OriginScript {
    /// Creates a host with status 200 and an empty object as every response.
    #[must_use]
    pub fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            budgets: Vec::new(),
            throttle: Throttle::Seconds,
            outages: Vec::new(),
            latency: Duration::ZERO,
            dial_delay: Duration::ZERO,
            routes: HashMap::new(),
            handler: None,
            seen: HashMap::new(),
        }
    }

    /// Limits requests: `10/SECOND+500/HOUR`. Further requests get status 429.
    ///
    /// # Panics
    /// If the text is not a rate.
    #[must_use]
    pub fn limit(self, rates: &str) -> Self {
        self.limit_under("", rates)
    }

    /// Limits requests for paths with a prefix, in addition to the limit for all.
    ///
    /// # Panics
    /// If the text is not a rate.
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "a script with a wrong rate is a wrong test"
    )]
    pub fn limit_under(mut self, prefix: &str, rates: &str) -> Self {
        self.budgets.retain(|budget| budget.prefix != prefix);
        let windows = parse_rates(rates).expect("a rate").into_iter();
        self.budgets.extend(windows.map(|window| PathBudget {
            prefix: prefix.to_owned(),
            window,
            accepted: VecDeque::new(),
        }));
        self
    }

    /// Sets the [`Throttle`] of the origin.
    #[must_use]
    pub fn throttle(mut self, throttle: Throttle) -> Self {
        self.throttle = throttle;
        self
    }

    /// Adds an outage, in which every response is `reply`.
    #[must_use]
    pub fn outage(mut self, during: Range<Duration>, reply: ScriptedReply) -> Self {
        self.outages.push(Outage { during, reply });
        self
    }

    /// Sets the time before a response begins.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Sets the time before a new connection is accepted.
    #[must_use]
    pub fn dial_delay(mut self, delay: Duration) -> Self {
        self.dial_delay = delay;
        self
    }

    /// Sets the responses for a path, one after the other; the last one is repeated.
    #[must_use]
    pub fn route(mut self, path: &str, replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        self.routes
            .insert(path.to_owned(), replies.into_iter().collect());
        self
    }

    /// Sets the handler for paths without a route. The handler receives the request and the number
    /// of earlier requests for its path.
    #[must_use]
    pub fn handler(
        mut self,
        handler: impl Fn(&Arrival, usize) -> ScriptedReply + Send + Sync + 'static,
    ) -> Self {
        self.handler = Some(Arc::new(handler));
        self
    }

    /// Decides on the response to a request that arrives now.
    fn answer(
        &mut self,
        arrival: &Arrival,
        since_start: Duration,
        now: BootInstant,
        wall: Timestamp,
    ) -> ScriptedReply {
        if let Some(outage) = self
            .outages
            .iter()
            .find(|outage| outage.during.contains(&since_start))
        {
            return outage.reply.clone();
        }
        if let Some(free) = self.take(&arrival.path, now) {
            let wait = free.since(now);
            let reply = ScriptedReply::status(429).body("Rate exceeded.");
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            return match self.throttle {
                Throttle::Silent => reply,
                Throttle::Seconds => reply.header("retry-after", &seconds.to_string()),
                Throttle::Date => reply.header(
                    "retry-after",
                    &format_http_date(wall + Duration::from_secs(seconds + 1)),
                ),
                Throttle::Fixed(seconds) => reply.header("retry-after", &seconds.to_string()),
            };
        }
        let before = self.seen.entry(arrival.path.clone()).or_default();
        let nth = *before;
        *before += 1;
        match (self.routes.get(&arrival.path), &self.handler) {
            (Some(replies), _) => replies
                .get(nth.min(replies.len().saturating_sub(1)))
                .cloned()
                .unwrap_or_else(|| ScriptedReply::status(404)),
            (None, Some(handler)) => handler(arrival, nth),
            (None, None) => ScriptedReply::ok("{}"),
        }
    }

    /// Counts a request in the sliding windows, or returns the instant at which a permit is free.
    fn take(&mut self, path: &str, now: BootInstant) -> Option<BootInstant> {
        let mut free = now;
        for PathBudget {
            window, accepted, ..
        } in self
            .budgets
            .iter_mut()
            .filter(|budget| path.starts_with(&budget.prefix))
        {
            while accepted
                .front()
                .is_some_and(|first| *first + window.per <= now)
            {
                accepted.pop_front();
            }
            if accepted.len() >= window.limit.get() as usize
                && let Some(first) = accepted.front()
            {
                free = free.max(*first + window.per);
            }
        }
        if free > now {
            return Some(free);
        }
        for budget in self
            .budgets
            .iter_mut()
            .filter(|budget| path.starts_with(&budget.prefix))
        {
            budget.accepted.push_back(now);
        }
        None
    }
}

/// All origins of a scenario, with their common [`Ledger`].
#[derive(Clone)]
pub struct SimulatedWeb {
    pub(crate) origins: Arc<HashMap<String, Mutex<OriginScript>>>,
    ledger: Ledger,
    start: BootInstant,
}

/// The decision of an origin about a request.
pub(crate) struct ServedReply {
    pub(crate) number: usize,
    pub(crate) reply: ScriptedReply,
    pub(crate) latency: Duration,
}

impl SimulatedWeb {
    /// Joins origins; `start` is the zero of the times of their outages.
    #[must_use]
    pub fn new(origins: impl IntoIterator<Item = OriginScript>, start: BootInstant) -> Self {
        let origins = origins
            .into_iter()
            .map(|origin| (origin.host.clone(), Mutex::new(origin)))
            .collect();
        Self {
            origins: Arc::new(origins),
            ledger: Ledger::default(),
            start,
        }
    }

    /// Returns the host that a request to `named` is for: the host of that name, or the only host.
    pub(crate) fn host_for(&self, named: &str) -> Option<String> {
        let only = || {
            self.origins
                .keys()
                .next()
                .filter(|_| self.origins.len() == 1)
        };
        self.origins
            .get_key_value(named)
            .map(|(known, _)| known)
            .or_else(only)
            .cloned()
    }

    /// Returns the [`Ledger`] of all arrivals.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Records a request at its instant, and returns the response at once, without sockets or
    /// latency. Returns `None` for an unknown host.
    #[must_use]
    pub fn ask(&self, arrival: Arrival, wall: Timestamp) -> Option<ScriptedReply> {
        let at = arrival.at;
        let served = self.serve(arrival, wall)?;
        self.ledger.ended(served.number, at);
        Some(served.reply)
    }

    /// Records a request, and returns the [`ServedReply`] to send. Returns `None` for an unknown
    /// host.
    pub(crate) fn serve(&self, mut arrival: Arrival, wall: Timestamp) -> Option<ServedReply> {
        let mut origin = self.origins.get(&arrival.host)?.lock();
        let now = arrival.at;
        let reply = origin.answer(&arrival, now.since(self.start), now, wall);
        arrival.status = if reply.dead.is_some() {
            0
        } else {
            reply.status
        };
        let asked = reply.headers.iter().find(|(name, _)| name == "retry-after");
        let wait = asked.and_then(|(_, value)| {
            docstokg_policy::retry_after::parse_retry_after(value, None, wall)
        });
        // Only 429 and 503 apply to the whole host; a 202 applies to one file.
        arrival.retry_not_before = wait
            .filter(|_| matches!(reply.status, 429 | 503))
            .map(|wait| now + wait);
        let latency = origin.latency + reply.delay;
        Some(ServedReply {
            number: self.ledger.arrived(arrival),
            reply,
            latency,
        })
    }
}

impl ScriptedReply {
    /// Returns true if the response breaks off before its end.
    #[must_use]
    pub fn breaks_off(&self) -> bool {
        self.dead.is_some()
            || self.framing == BodyFraming::Verbatim
            || self
                .pieces
                .iter()
                .any(|piece| matches!(piece, Piece::Cut | Piece::Reset | Piece::Endless(..)))
    }
}
