//! The pursuit of one work: what is known, what was tried, what comes next.
//!
//! Pure: the next step follows from what happened so far and from `now`. Places that promise a
//! wanted file come first, then pages that may name one, then the next resolver. A host that is
//! open or asks to wait puts its place aside, and the next source is tried meanwhile; only when
//! nothing else is left does the work wait. A pursuit is written down between steps, so that it can
//! be put aside and taken up by another process.

mod deferred;
mod kind;

use std::collections::BTreeSet;
use std::sync::Arc;

use docstokg_policy::canonical;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::location::{Location, Offers, best_first};
use crate::reason::{Reason, Setback, Stage, decisive};
use crate::resolver::landing::{self, NO_DOI, NO_PAGE};
use crate::resolver::order::{Choice, Plan, is_planned, order};
use crate::resolver::{Outcome, Resolver, ResolverId, europe_pmc, pmc, wayback};
use crate::run::Deferral;
use crate::work::{Work, is_public};
pub(crate) use deferred::Waited;
pub use kind::Kind;

/// How often a service that throttles is asked about one work.
const MOST_ANSWERS: u32 = 3;
/// How often a host may be found failing before it is given up.
pub(crate) const MOST_REFUSALS: u32 = 3;
/// A refusal of so many seconds is about a probe that is out.
const SHORT: f64 = 2.0;
/// One of so many means that several probes have failed in a row.
pub(crate) const HOPELESS: f64 = 240.0;
/// One of so many was stated by the server or an operator.
const STATED: f64 = 1_800.0;

/// The source that is asked when all others have failed.
pub(crate) const LAST_RESORT: ResolverId = wayback::ID;
/// The longest that a work waits for it, in seconds.
pub(crate) const LAST_RESORT_WAIT: f64 = 300.0;

/// How far to go for a work.
#[derive(Clone, Debug)]
pub struct Aims {
    /// The kinds wanted.
    pub kinds: BTreeSet<Kind>,
    /// Whom to ask.
    pub choice: Choice,
    /// The most requests for files and look-ups.
    pub max_attempts: u32,
}

/// One work on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pursuit {
    /// What is known about the work.
    pub work: Work,
    /// Whom it was asked of.
    asked: Vec<Asked>,
    /// Where its files may be.
    places: Vec<Place>,
    /// The kinds that are there.
    got: BTreeSet<Kind>,
    /// When its first step began, in seconds since 1970.
    #[serde(default)]
    pub begun: Option<f64>,
    /// Look-ups and fetches so far.
    pub attempts: u32,
    /// Why the latest place or look-up gave nothing.
    #[serde(default)]
    pub last: Option<Setback>,
    /// What ended the work from outside: its time is over, its input is missing.
    #[serde(default)]
    ended_by: Option<Setback>,
    /// What it is deferred for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deferral: Option<Deferral>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Asked {
    resolver: ResolverId,
    /// It is worth asking again at this time, in seconds since 1970.
    again_at: Option<f64>,
    /// How often it really answered.
    #[serde(default)]
    answers: u32,
    /// How often the question was kept back because its host fails.
    #[serde(default)]
    refusals: u32,
    /// Why it gave nothing when it was last asked.
    #[serde(default)]
    setback: Option<Setback>,
    /// When it was first found waiting, in seconds since 1970.
    #[serde(default)]
    waits_since: Option<f64>,
}

/// A place, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Place {
    location: Location,
    state: Tried,
    /// Why it gave nothing when it was last tried.
    #[serde(default)]
    setback: Option<Setback>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Tried {
    No,
    Yes,
    /// Put aside until this time, in seconds since 1970, so many times.
    Later(f64, u32),
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Fetch this place.
    Fetch(usize),
    /// Read this page for places.
    Read(usize),
    /// Ask this resolver.
    Resolve(ResolverId),
    /// Nothing before this time, in seconds since 1970.
    Wait(f64),
    /// Nothing more.
    End,
}

impl Pursuit {
    /// Begins. A URL that the user wrote is a place by itself.
    #[must_use]
    pub fn new(work: Work) -> Self {
        let own = work.identifiers.url.iter().map(|url| Place {
            location: Location::new(url.clone(), Offers::Unknown, ResolverId::DIRECT),
            state: Tried::No,
            setback: None,
        });
        let places = own.collect();
        let has_url = work.identifiers.url.is_some();
        let mut pursuit = Self {
            work,
            asked: Vec::new(),
            places,
            got: BTreeSet::new(),
            begun: None,
            attempts: 0,
            last: None,
            ended_by: None,
            deferral: None,
        };
        if has_url {
            // Its page is that very URL: fetched as a place, and read if it turns out to be a page.
            pursuit.needs_not_ask(landing::ID);
        }
        pursuit
    }

    /// Returns a place.
    #[must_use]
    pub fn place(&self, place: usize) -> Option<&Location> {
        self.places.get(place).map(|place| &place.location)
    }

    /// Tells whether there is a file.
    #[must_use]
    pub fn has_file(&self) -> bool {
        !self.got.is_empty()
    }

    /// Returns the kinds that are wanted and not there.
    #[must_use]
    pub fn missing(&self, aims: &Aims) -> BTreeSet<Kind> {
        if self.got.contains(&Kind::Other) {
            return BTreeSet::new();
        }
        aims.kinds.difference(&self.got).copied().collect()
    }

    /// Says what comes next.
    #[must_use]
    pub fn next(&self, aims: &Aims, resolvers: &[Arc<dyn Resolver>], now: f64) -> Step {
        let missing = self.missing(aims);
        if missing.is_empty() || self.attempts >= aims.max_attempts {
            return Step::End;
        }
        let ready = |place: &Place| {
            matches!(place.state, Tried::No)
                || matches!(place.state, Tried::Later(at, _) if at <= now)
        };
        let promising = |offers: Offers| match offers {
            Offers::Pdf => missing.contains(&Kind::Pdf),
            Offers::Xml => missing.contains(&Kind::Xml),
            Offers::Html => missing.contains(&Kind::Html),
            Offers::Unknown => true,
            Offers::Landing | Offers::Archive => false,
        };
        let file = |place: &Place| promising(place.location.offers);
        if let Some(found) = self
            .places
            .iter()
            .position(|place| ready(place) && file(place))
        {
            return Step::Fetch(found);
        }
        // With a file in hand only those who have other kinds are worth asking.
        let further = self.has_file();
        let names = order(&self.work, &aims.choice, resolvers);
        let allowed = |name: ResolverId| is_planned(&names, name);
        let page = |place: &Place| {
            place.location.offers == Offers::Landing && allowed(landing::ID) && !further
        };
        let asked = |name: ResolverId| self.asked.iter().find(|asked| asked.resolver == name);
        let open_to_ask = |name: ResolverId| {
            asked(name).is_none_or(|asked| asked.again_at.is_some_and(|at| at <= now))
        };
        let useful = |name: ResolverId| {
            !further || (missing.contains(&Kind::Xml) && matches!(name, pmc::ID | europe_pmc::ID))
        };
        let cheap = names.iter().find(|planned| {
            planned.plan == Plan::Ask
                && open_to_ask(planned.resolver)
                && useful(planned.resolver)
                && !matches!(planned.resolver, landing::ID | wayback::ID)
        });
        if let Some(planned) = cheap {
            return Step::Resolve(planned.resolver);
        }
        if let Some(found) = self
            .places
            .iter()
            .position(|place| ready(place) && page(place))
        {
            return Step::Read(found);
        }
        if let Some(planned) = names.iter().find(|planned| {
            planned.plan == Plan::Ask && open_to_ask(planned.resolver) && useful(planned.resolver)
        }) {
            return Step::Resolve(planned.resolver);
        }
        let places = self
            .places
            .iter()
            .filter(|place| file(place) || page(place))
            .filter_map(|place| match place.state {
                Tried::Later(at, _) => Some(at),
                _ => None,
            });
        let asked = self
            .asked
            .iter()
            .filter(|asked| allowed(asked.resolver) && useful(asked.resolver))
            .filter_map(|asked| asked.again_at);
        places
            .chain(asked)
            .min_by(f64::total_cmp)
            .map_or(Step::End, Step::Wait)
    }

    /// Takes in what a resolver said.
    pub fn resolved(&mut self, resolver: ResolverId, outcome: Outcome, now: f64) {
        self.attempts += 1;
        if let Some(learned) = outcome.learned() {
            self.work.learn(learned);
        }
        let mut refused = None;
        let mut came = true;
        let stage = if resolver == landing::ID {
            Stage::Page
        } else {
            Stage::Lookup
        };
        let mut setback = None;
        match outcome {
            Outcome::Found(found) => self.found(found.locations),
            // A page that was read and names no file is more than a service that knows nothing.
            Outcome::NotFound { detail, .. }
                if stage == Stage::Page && ![NO_PAGE, NO_DOI].contains(&detail.as_str()) =>
            {
                setback = Some(Setback::new(stage, Reason::HtmlOnly, &detail, None));
            }
            Outcome::NotFound { detail, .. } => {
                setback = Some(Setback::new(stage, Reason::NotFound, &detail, None))
            }
            Outcome::Failed(failure) => {
                if failure.is_about_time() {
                    refused = failure
                        .retry_in_ms
                        .map(|wait| f64::from(u32::try_from(wait).unwrap_or(u32::MAX)) / 1_000.0);
                    came = failure.http_status.is_some();
                    // It was not asked: that costs nothing.
                    self.attempts -= u32::from(!came);
                }
                setback = Some(failure.at(stage));
            }
        }
        self.last = setback.clone().or(self.last.take());
        self.needs_not_ask(resolver);
        let Some(asked) = self
            .asked
            .iter_mut()
            .find(|asked| asked.resolver == resolver)
        else {
            return;
        };
        // Neither a missing network nor a turn that has not come says anything about the service.
        let permits = setback
            .as_ref()
            .is_some_and(|setback| matches!(setback.reason, Reason::Offline | Reason::RateLimited));
        asked.setback = setback;
        asked.answers += u32::from(came);
        // A probe's verdict is due in a moment, and what a server or an operator said holds: only a
        // host that fails counts.
        asked.refusals += u32::from(
            !came && !permits && refused.is_some_and(|wait| wait > SHORT && wait < STATED),
        );
        let hopeless =
            !came && !permits && refused.is_some_and(|wait| (HOPELESS..STATED).contains(&wait));
        let since = *asked.waits_since.get_or_insert(now);
        let in_time = resolver != LAST_RESORT
            || refused.is_none_or(|wait| now + wait - since <= LAST_RESORT_WAIT);
        let patient =
            asked.answers <= MOST_ANSWERS && asked.refusals < MOST_REFUSALS && !hopeless && in_time;
        asked.again_at = refused.filter(|_| patient).map(|wait| now + wait);
    }

    /// Adds places, each once: those that were tried already stay as they are.
    pub fn found(&mut self, locations: Vec<Location>) {
        let known: BTreeSet<String> = self
            .places
            .iter()
            .map(|place| canonical::for_index(&place.location.url).to_string())
            .collect();
        for location in best_first(locations) {
            if !known.contains(canonical::for_index(&location.url).as_str()) {
                self.places.push(Place {
                    location,
                    state: Tried::No,
                    setback: None,
                });
            }
        }
    }

    /// Takes in what reading a page gave.
    pub fn read(&mut self, place: usize, outcome: Outcome, now: f64) {
        let url = self.place(place).map(|location| location.url.clone());
        match &outcome {
            Outcome::Failed(failure)
                if failure.is_about_time() && failure.retry_in_ms.is_some() =>
            {
                let wait =
                    f64::from(u32::try_from(failure.retry_in_ms.unwrap_or(0)).unwrap_or(u32::MAX))
                        / 1_000.0;
                let permits = matches!(failure.reason, Reason::Offline | Reason::RateLimited);
                let times =
                    self.put_aside(place, now + wait, !permits && wait > SHORT && wait < STATED);
                if times >= MOST_REFUSALS {
                    self.close(place);
                }
                return self.note(place, Some(failure.at(Stage::Page)));
            }
            Outcome::Failed(failure) => self.note(place, Some(failure.at(Stage::Page))),
            Outcome::NotFound { detail, .. } => self.note(
                place,
                Some(Setback::new(Stage::Page, Reason::HtmlOnly, detail, None)),
            ),
            Outcome::Found(_) => self.note(place, None),
        }
        self.attempts += 1;
        self.close(place);
        if let Some(learned) = outcome.learned() {
            self.work.learn(learned);
        }
        if let Outcome::Found(found) = outcome {
            let own = url.map(|url| canonical::for_index(&url));
            self.found(
                found
                    .locations
                    .into_iter()
                    .filter(|location| Some(canonical::for_index(&location.url)) != own)
                    .collect(),
            );
        }
    }

    /// The place gave a file.
    pub fn saved(&mut self, place: usize, kind: Kind) {
        self.attempts += 1;
        self.close(place);
        self.note(place, None);
        self.got.insert(kind);
    }

    /// The place gave nothing, and never will.
    pub fn failed(&mut self, place: usize, setback: Setback) {
        self.attempts += 1;
        self.close(place);
        self.note(place, Some(setback));
    }

    /// The URL is gone: what kept copies of it may be asked.
    pub fn gone(&mut self, url: &Url) {
        // A URL that carries a key is nobody else's business.
        if is_public(url) && !self.work.failed_urls.contains(url) {
            self.work.failed_urls.push(url.clone());
        }
    }

    /// Takes a resolver as asked: what it would say is known already.
    pub fn needs_not_ask(&mut self, resolver: ResolverId) {
        if self.asked.iter().all(|asked| asked.resolver != resolver) {
            self.asked.push(Asked {
                resolver,
                again_at: None,
                answers: 0,
                refusals: 0,
                setback: None,
                waits_since: None,
            });
        }
    }

    /// The place is to be tried later. Returns how often that has been said in a way that counts.
    pub fn put_aside(&mut self, place: usize, until: f64, counts: bool) -> u32 {
        let Some(place) = self.places.get_mut(place) else {
            return 0;
        };
        let before = match place.state {
            Tried::Later(_, times) => times,
            _ => 0,
        };
        let times = before + u32::from(counts);
        place.state = Tried::Later(until, times);
        times
    }

    /// Notes why a place gave nothing, or that it no longer does: what is tried again replaces what
    /// came before.
    pub fn note(&mut self, place: usize, setback: Option<Setback>) {
        if setback.is_some() {
            self.last.clone_from(&setback);
        }
        if let Some(place) = self.places.get_mut(place) {
            place.setback = setback;
        }
    }

    /// Ends the work from outside.
    pub fn end_by(&mut self, reason: Reason, detail: &str) {
        self.ended_by = Some(Setback::new(Stage::Lookup, reason, detail, None));
    }

    /// Returns why there is no file: what ended the work from outside, else what stood between the
    /// user and the file.
    #[must_use]
    pub fn decisive(&self) -> Setback {
        let places = self
            .places
            .iter()
            .filter_map(|place| place.setback.as_ref());
        let asked = self.asked.iter().filter_map(|asked| asked.setback.as_ref());
        let found = self
            .ended_by
            .as_ref()
            .or_else(|| decisive(places.chain(asked)))
            .or(self.last.as_ref());
        let mut found = found.cloned().unwrap_or_else(|| {
            Setback::new(
                Stage::Lookup,
                Reason::NotFound,
                "no source knows where its file is",
                None,
            )
        });
        // The status of a service is not that of the site which has the file.
        if found.stage == Stage::Lookup
            && matches!(
                found.reason,
                Reason::HttpStatus | Reason::Timeout | Reason::RequestException
            )
        {
            let is_unknown = matches!(found.http_status, Some(404 | 410));
            (found.reason, found.http_status) = (
                if is_unknown {
                    Reason::NotFound
                } else {
                    Reason::LookupFailed
                },
                None,
            );
        }
        found
    }

    fn close(&mut self, place: usize) {
        if let Some(place) = self.places.get_mut(place) {
            place.state = Tried::Yes;
        }
    }

    /// Writes the pursuit down, without anything that nobody may see. A place that cannot be
    /// written down is found again by asking anew.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        if !self.work.is_public() {
            return None;
        }
        let mut kept = self.clone();
        let hides = kept
            .places
            .iter()
            .any(|place| place.state != Tried::Yes && !is_public(&place.location.url));
        if hides {
            kept.asked.clear();
        }
        for place in &mut kept.places {
            if place
                .location
                .referer
                .as_ref()
                .is_some_and(|page| !is_public(page))
            {
                place.location.referer = None;
            }
        }
        kept.places.retain(|place| is_public(&place.location.url));
        kept.work.failed_urls.retain(is_public);
        serde_json::to_string(&kept).ok()
    }
}
