//! The next step of a work, against an oracle that knows only the history of what was answered.
//!
//! Whatever services and hosts answer: a work ends, it never asks a host before the time that the
//! host declared, it gives no source up that only holds it back, it asks a bounded number of times,
//! and it ends only when nothing is left to try. A server or an operator that states a time is
//! believed, however long it is. Only the archive of last resort is given up, when it has failed for
//! five minutes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::job::{JobState as _, NextStep};
use docstokg_content::identifier::Identifier;
use docstokg_content::location::{CandidateLocation, LocationOffer};
use docstokg_content::reason::{AttemptStage, Reason, ReasonedFailure};
use docstokg_content::request_failure::RequestFailure;
use docstokg_content::resolver::order::ResolverChoice;
use docstokg_content::resolver::settings::Settings;
use docstokg_content::resolver::{self, FoundLocations, LookupOutcome, Resolver, ResolverId};
use docstokg_content::work::{LearnedMetadata, Work};
use docstokg_content::work_state::{ArtifactKind, Goals, WorkState, WorkStep};
use docstokg_hub::clock::Timestamp;
use docstokg_hub::{Disposition, Host, RefusedBy, RetryLater, StatedBy};
use proptest::prelude::*;

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Candidate(usize),
    Resolver(ResolverId),
}

impl Source {
    const fn of(step: WorkStep) -> Self {
        match step {
            WorkStep::Fetch(candidate) | WorkStep::Read(candidate) => Self::Candidate(candidate),
            WorkStep::Resolve(id) => Self::Resolver(id),
        }
    }
}

/// Why there was no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotYet {
    /// The host fails, and nobody says for how long.
    Failing,
    /// A server, an operator or a limit states a time, or this machine cannot send.
    HeldBack,
    /// The file is being prepared.
    Preparing,
}

/// What an answer said about time.
#[derive(Clone, Copy, Debug)]
struct Refused {
    at: Timestamp,
    wait: Duration,
    why: NotYet,
}

/// Everything that one source answered.
#[derive(Clone, Debug, Default)]
struct History {
    refused: Vec<Refused>,
    /// It gave its last answer: a file, a list, or a final no.
    is_final: bool,
}

/// The longest wait for an archive that fails.
const ARCHIVE: Duration = Duration::from_secs(300);

impl History {
    /// When a file may be asked for again; `None` when never.
    fn file_due(&self) -> Option<Timestamp> {
        let Some(last) = self.refused.last() else {
            return (!self.is_final).then_some(Timestamp::EPOCH);
        };
        if self.is_final {
            return None;
        }
        let due = last.at + last.wait.max(Duration::from_millis(100));
        if last.why != NotYet::Preparing {
            return Some(due);
        }
        // A file that is being prepared is asked for eight times, less often each time. A host that
        // held the request back in between starts the count anew.
        let polls = self.refused.iter().rev();
        let polls = polls.take_while(|refused| refused.why == NotYet::Preparing);
        (polls.count() < 8).then_some(due)
    }

    /// How long a file takes that is being prepared, if its host does not say: two seconds at first,
    /// then twice as long each time.
    fn unstated_preparation(&self) -> Duration {
        let before = self.refused.iter().rev();
        let before = before.take_while(|refused| refused.why == NotYet::Preparing);
        Duration::from_secs(2 << before.count())
    }

    /// When a page may be read again; `None` when never.
    fn page_due(&self) -> Option<Timestamp> {
        let last = self.refused.last();
        let due = last.map_or(Timestamp::EPOCH, |last| last.at + last.wait);
        (!self.is_final).then_some(due)
    }

    /// When a resolver may be asked again; `None` when never.
    fn lookup_due(&self, id: ResolverId) -> Option<Timestamp> {
        let Some(last) = self.refused.last() else {
            return (!self.is_final).then_some(Timestamp::EPOCH);
        };
        let wait = last.wait.max(Duration::from_millis(100));
        // A time that somebody states ends the time for which it has been failing.
        let failing = self.refused.iter().rev();
        let failing = failing.take_while(|refused| refused.why == NotYet::Failing);
        let failing = failing.last().map(|first| last.at.since(first.at));
        let is_late = id == resolver::wayback::ID
            && failing.is_some_and(|failing| failing + last.wait > ARCHIVE);
        (!self.is_final && !is_late).then_some(last.at + wait)
    }
}

/// Answers by chance, and remembers what was answered.
struct Oracle {
    draws: std::iter::Cycle<std::vec::IntoIter<u8>>,
    histories: BTreeMap<Source, History>,
    /// Refusals that count nowhere: a real host has an end of them, too.
    uncounted_left: u32,
    /// Requests that were really answered.
    answered: u32,
    named: usize,
}

impl Oracle {
    fn draw(&mut self, below: u8) -> u8 {
        self.draws.next().unwrap() % below
    }

    fn wait(&mut self) -> Duration {
        let millis = [
            1, 90, 1_500, 2_001, 30_000, 239_000, 240_000, 301_000, 1_799_000, 7_200_000,
        ];
        Duration::from_millis(millis[usize::from(self.draw(10))])
    }

    fn location(&mut self, id: ResolverId) -> CandidateLocation {
        let offers = [
            LocationOffer::Pdf,
            LocationOffer::Unknown,
            LocationOffer::Landing,
            LocationOffer::Xml,
            LocationOffer::Archive,
        ];
        let offers = offers[usize::from(self.draw(5))];
        self.named += 1;
        let url = format!("https://h{}.example/{}", self.named % 3, self.named);
        CandidateLocation::new(url.parse().unwrap(), offers, id)
    }

    /// Answers a look-up or a page, and remembers it.
    fn lookup(&mut self, source: Source, id: ResolverId, now: Timestamp) -> LookupOutcome {
        let draw = self.draw(8);
        let history = self.histories.entry(source).or_default();
        match draw {
            0 | 1 => {
                history.is_final = true;
                self.answered += 1;
                let locations = (0..self.draw(3)).map(|_| self.location(id)).collect();
                let learned = LearnedMetadata::default();
                LookupOutcome::Found(FoundLocations { locations, learned })
            }
            2 | 3 => {
                history.is_final = true;
                self.answered += 1;
                let (detail, learned) = ("no".to_owned(), LearnedMetadata::default());
                LookupOutcome::NotFound { detail, learned }
            }
            _ => {
                if self.uncounted_left == 0 {
                    let history = self.histories.entry(source).or_default();
                    history.is_final = true;
                    self.answered += 1;
                    return RequestFailure::new(Reason::HttpStatus, "no", Some(500)).into();
                }
                self.uncounted_left -= 1;
                let (why, failure) = self.held_back();
                let wait = failure.disposition.retry().unwrap().wait;
                let history = self.histories.entry(source).or_default();
                let at = now;
                history.refused.push(Refused { at, wait, why });
                failure.into()
            }
        }
    }

    /// A request that is held back, by chance in one of the ways in which that happens.
    fn held_back(&mut self) -> (NotYet, RequestFailure) {
        let wait = self.wait();
        let later = |stated_by| RetryLater {
            host: Host::parse("held.example").unwrap(),
            wait,
            stated_by,
            by: RefusedBy::Host,
        };
        let retry = |stated_by| Disposition::Retry(later(stated_by));
        let (why, reason, disposition) = match self.draw(7) {
            0 => (
                NotYet::Failing,
                Reason::BreakerOpen,
                retry(StatedBy::Breaker),
            ),
            1 => (NotYet::Failing, Reason::BreakerOpen, retry(StatedBy::Probe)),
            2 => (
                NotYet::HeldBack,
                Reason::BreakerOpen,
                retry(StatedBy::Server),
            ),
            3 => (
                NotYet::HeldBack,
                Reason::BreakerOpen,
                retry(StatedBy::Operator),
            ),
            4 => (
                NotYet::HeldBack,
                Reason::RateLimited,
                retry(StatedBy::Quota),
            ),
            5 => {
                let disposition = retry(StatedBy::ThisMachine);
                (NotYet::HeldBack, Reason::RequestException, disposition)
            }
            _ => {
                let disposition = Disposition::Offline(later(StatedBy::Breaker));
                (NotYet::HeldBack, Reason::Offline, disposition)
            }
        };
        let status = (reason == Reason::RateLimited && self.draw(2) == 0).then_some(429);
        let failure = RequestFailure {
            disposition,
            ..RequestFailure::new(reason, "later", status)
        };
        (why, failure)
    }

    /// Answers a request for a file, and takes it into the state.
    fn fetch(&mut self, state: &mut WorkState, candidate: usize, now: Timestamp) {
        let draw = self.draw(10);
        let history = self
            .histories
            .entry(Source::Candidate(candidate))
            .or_default();
        if draw == 0 {
            history.is_final = true;
            self.answered += 1;
            return state.saved(candidate, ArtifactKind::Pdf);
        }
        let failure =
            |reason, status| ReasonedFailure::new(AttemptStage::File, reason, "no", status);
        if draw < 3 || self.uncounted_left == 0 {
            history.is_final = true;
            self.answered += 1;
            // An archive may have a copy.
            state.gone(&state.candidate(candidate).unwrap().url.clone());
            return state.failed(candidate, failure(Reason::HttpStatus, Some(404)));
        }
        let is_preparing = self.draw(3) == 0;
        let declared = (self.draw(2) == 0).then(|| self.wait());
        let wait = self.wait();
        let source = Source::Candidate(candidate);
        let history = self.histories.entry(source).or_default();
        // Only a file that is being prepared counts as asked for.
        let (why, wait) = if is_preparing {
            self.answered += 1;
            let wait = declared.unwrap_or_else(|| history.unstated_preparation());
            let failure = failure(Reason::Preparing, Some(202));
            state.preparing(candidate, failure, declared, now);
            (NotYet::Preparing, wait)
        } else {
            self.uncounted_left -= 1;
            state.postponed(candidate, failure(Reason::BreakerOpen, None), wait, now);
            (NotYet::HeldBack, wait)
        };
        let at = now;
        history.refused.push(Refused { at, wait, why });
    }

    fn due(&self, state: &WorkState, source: Source) -> Option<Timestamp> {
        let none = History::default();
        let history = self.histories.get(&source).unwrap_or(&none);
        match source {
            Source::Resolver(id) => history.lookup_due(id),
            Source::Candidate(candidate) => {
                let location = state.candidate(candidate)?;
                match location.offers {
                    LocationOffer::Landing => history.page_due(),
                    _ => history.file_due(),
                }
            }
        }
    }

    /// The earliest time at which a source that is worth trying may be tried.
    fn earliest(&self, state: &WorkState, resolvers: &[Arc<dyn Resolver>]) -> Option<Timestamp> {
        let wanted = |candidate: &usize| {
            let offers = state.candidate(*candidate).unwrap().offers;
            matches!(
                offers,
                LocationOffer::Pdf | LocationOffer::Unknown | LocationOffer::Landing
            )
        };
        let candidates = (0..).take_while(|candidate| state.candidate(*candidate).is_some());
        let candidates = candidates.filter(wanted).map(Source::Candidate);
        let applies = |resolver: &&Arc<dyn Resolver>| {
            resolver.unavailable().is_none()
                && resolver.applies(&state.work) == resolver::Applicability::Yes
        };
        let resolvers = resolvers.iter().filter(applies);
        let resolvers = resolvers.map(|resolver| Source::Resolver(resolver.id()));
        let sources = candidates.chain(resolvers);
        sources.filter_map(|source| self.due(state, source)).min()
    }
}

/// The oracle of a work that has not been asked about.
fn oracle(draws: Vec<u8>, state: &WorkState) -> Oracle {
    let mut oracle = Oracle {
        draws: draws.into_iter().cycle(),
        histories: BTreeMap::new(),
        uncounted_left: 40,
        answered: 0,
        named: 0,
    };
    if state.candidate(0).is_some() {
        // The page of a URL is that very URL.
        let page = Source::Resolver(resolver::LANDING_PAGE);
        oracle.histories.entry(page).or_default().is_final = true;
    }
    oracle
}

/// Runs a step, and takes what it gave into the state.
fn run_step(oracle: &mut Oracle, state: &mut WorkState, step: WorkStep, now: Timestamp) {
    let source = Source::of(step);
    let due = oracle.due(state, source);
    assert!(
        due.is_some_and(|due| due <= now),
        "{source:?} is due at {due:?}, asked at {now:?}"
    );
    match step {
        WorkStep::Fetch(candidate) => oracle.fetch(state, candidate, now),
        WorkStep::Read(candidate) => {
            let outcome = oracle.lookup(source, resolver::LANDING_PAGE, now);
            state.read(candidate, outcome, now);
        }
        WorkStep::Resolve(id) => {
            let outcome = oracle.lookup(source, id, now);
            state.resolved(id, outcome, now);
        }
    }
}

fn run_to_the_end(draws: Vec<u8>, max_attempts: u32, deadline: Option<Duration>, id: &str) {
    let resolvers = resolver::all(&Arc::new(Settings::default()));
    let goals = Goals {
        kinds: [ArtifactKind::Pdf].into(),
        choice: ResolverChoice::default(),
        max_attempts,
        deadline,
    };
    let begun = Timestamp::from_micros(1_763_280_000_000_000);
    let is_in_time = |at: Timestamp| deadline.is_none_or(|most| at.since(begun) <= most);
    let mut now = begun;
    let mut state = WorkState::new(Work::new(Identifier::parse(id).unwrap()));
    state.begun = Some(begun);
    let mut oracle = oracle(draws, &state);
    for _ in 0..5_000 {
        // What is persisted is all that counts.
        state = WorkState::decode(&state.encode().unwrap()).unwrap();
        let earliest = oracle.earliest(&state, &resolvers);
        match state.next(&goals, &resolvers, now) {
            NextStep::Run(step) => {
                assert!(is_in_time(now));
                run_step(&mut oracle, &mut state, step, now);
                now = now + Duration::from_millis(u64::from(oracle.draw(200)));
            }
            NextStep::Wait(until) => {
                assert_eq!(Some(until), earliest, "waits for what is due first");
                assert!(until > now && is_in_time(until));
                now = until;
            }
            NextStep::End => {
                let is_bounded = state.attempts >= max_attempts;
                let is_late = earliest.is_some_and(|at| !is_in_time(at.max(now)));
                let is_done = state.has_file() || is_bounded || is_late || earliest.is_none();
                assert!(is_done, "gave up though {earliest:?} was left: {state:?}");
                let answered = oracle.answered;
                assert!(answered <= max_attempts, "{answered} requests");
                return;
            }
        }
    }
    panic!("the work does not end: {state:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_work_ends_asks_in_time_and_within_its_bounds(
        draws in prop::collection::vec(any::<u8>(), 8..200),
        max_attempts in 1..30_u32,
        deadline in prop::option::of(1..20_000_u64),
        id in prop::sample::select(vec!["10.5555/a", "arxiv:2002.00741", "pmcid:PMC9", "https://h0.example/own.pdf"]),
    ) {
        run_to_the_end(draws, max_attempts, deadline.map(Duration::from_secs), id);
    }
}
