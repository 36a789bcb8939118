//! Learned limits in a site that several processes share, judged from the server's side.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::{BreakerPolicy, BreakerState};
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::host_model::learned::{LearnMode, LearnPolicy, LearnedLimits};
use docstokg_policy::host_model::learner::HostResponse;
use docstokg_policy::host_model::quotas::QuotaStatement;
use docstokg_policy::host_model::{HostModel, LimitEvent, SettledRequest};
use docstokg_policy::rate::Window;
use docstokg_policy::rate_headers::{Quota, RateHeaderFamily, RateHeaderReading, Unit};
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AttemptResult, BudgetCost, Permit, Site,
};
use docstokg_policy::time::BootInstant;

use crate::support::{at, cost, learning, ms, windows};

/// The tag of the learned limits among the extensions of a site.
const LEARNED_TAG: u8 = 8;
const LATENCY: Duration = Duration::from_millis(50);
/// How many bytes a learner takes after its first request, and while it searches.
const STARTED: usize = 447;
const SEARCHING: usize = 807;

/// A server that admits so many in any interval, and refuses without saying until when.
struct CountingServer {
    limit: usize,
    per: Duration,
    admitted: Vec<BootInstant>,
    refused: u32,
}

impl CountingServer {
    fn serves(&mut self, now: BootInstant) -> bool {
        let recent = |at: &&BootInstant| now.since(**at) < self.per;
        let free = self.admitted.iter().rev().take_while(recent).count() < self.limit;
        if free {
            self.admitted.push(now);
        } else {
            self.refused += 1;
        }
        free
    }
}

/// What a process does next.
enum Doing {
    Asks,
    Waits(u64),
    Awaits(Box<Permit>, bool),
}

struct LearningProcess {
    at: BootInstant,
    doing: Doing,
    served: u32,
}

fn up_to(rate: &str) -> LearnPolicy {
    LearnPolicy {
        mode: LearnMode::UpTo(rate.parse().expect("a rate")),
        slowest: Duration::from_secs(60),
    }
}

fn tighten() -> LearnPolicy {
    LearnPolicy {
        mode: LearnMode::Tighten,
        slowest: Duration::from_secs(60),
    }
}

struct LearnedRun<'a> {
    site: Site,
    costs: [BudgetCost; 1],
    breaker: BreakerPolicy,
    policy: &'a LearnPolicy,
    server: CountingServer,
    processes: Vec<LearningProcess>,
}

impl<'a> LearnedRun<'a> {
    fn new(policy: &'a LearnPolicy, rates: &str, server: CountingServer, processes: usize) -> Self {
        let mut site = Site::default();
        site.ensure_budgets(1);
        let process = |n: usize| LearningProcess {
            at: at(n as u64),
            doing: Doing::Asks,
            served: 0,
        };
        Self {
            site,
            costs: [cost(0, 1, &windows(rates), ms(10))],
            breaker: BreakerPolicy {
                one_failure_per_epoch: true,
                ..BreakerPolicy::default()
            },
            policy,
            server,
            processes: (0..processes).map(process).collect(),
        }
    }

    /// Lets the process that is due first do what it does next.
    fn step(&mut self) {
        let due = self.processes.iter_mut().min_by_key(|process| process.at);
        let process = due.expect("a process");
        let now = process.at;
        let question = AdmissionRequest {
            latest: BootInstant::FAR,
            patience: docstokg_policy::site::Patience::Wait,
            ..AdmissionRequest::at_once(&self.costs, learning(&self.breaker, *self.policy))
        };
        let entered = match &process.doing {
            Doing::Asks => self.site.enter(&question, now),
            Doing::Waits(id) => self.site.confirm(&question, *id, now),
            Doing::Awaits(permit, served) => {
                let outcome = if *served {
                    process.served += 1;
                    AttemptMeaning::Success
                } else {
                    AttemptMeaning::Throttled
                };
                let report = AttemptResult {
                    outcome,
                    retry_after: None,
                    sent: permit.at,
                    wants_retry: false,
                    maybe_refused: false,
                };
                self.site.settle(&question, permit, &report, now);
                process.doing = Doing::Asks;
                return;
            }
        };
        match entered.entry {
            AdmissionDecision::Go(permit) => {
                let served = self.server.serves(now);
                process.doing = Doing::Awaits(Box::new(permit), served);
                process.at = now + LATENCY;
            }
            AdmissionDecision::Wait(reserved) => {
                process.doing = Doing::Waits(reserved.id);
                process.at = reserved.at.max(now + ms(1));
            }
            AdmissionDecision::WaitForBreaker { until, .. } => {
                process.doing = Doing::Asks;
                process.at = until.max(now + ms(1));
            }
            other => panic!("{other:?}"),
        }
    }

    fn served(&self) -> u32 {
        self.processes.iter().map(|process| process.served).sum()
    }

    /// Runs until so many were served, and returns how long it took.
    fn until_served(&mut self, count: u32) -> Duration {
        let mut steps = 0;
        while self.served() < count {
            self.step();
            steps += 1;
            assert!(steps < 2_000_000, "{} served", self.served());
        }
        let last = self.server.admitted.last().expect("served requests");
        last.since(self.server.admitted[0])
    }
}

fn server(limit: usize, per: Duration) -> CountingServer {
    CountingServer {
        limit,
        per,
        admitted: Vec::new(),
        refused: 0,
    }
}

#[test]
fn ten_processes_make_one_search_and_share_equally() {
    let policy = up_to("50/SECOND");
    let hidden = server(20, Duration::from_secs(2));
    let mut run = LearnedRun::new(&policy, "50/SECOND", hidden, 10);
    let took = run.until_served(600);
    let shares: Vec<u32> = run.processes.iter().map(|process| process.served).collect();
    assert!(
        shares.iter().all(|share| (54..=66).contains(share)),
        "{shares:?}"
    );
    assert!(run.server.refused <= 25, "{} refused", run.server.refused);
    let least = Duration::from_secs(58);
    assert!(took <= least.mul_f64(1.3), "{took:?}");
    let learned = run.site.learned().expect("something is learned");
    assert!(learned.is_searching() || learned.limits().count() > 0);
}

/// Told 10 per second where the host admits 4: refusals teach the limit, and no breaker opens for a
/// minute.
#[test]
fn refusals_teach_a_limit_below_the_configured_one() {
    let policy = tighten();
    let mut run = LearnedRun::new(&policy, "10/SECOND", server(4, Duration::from_secs(1)), 2);
    let took = run.until_served(400);
    assert!(run.server.refused <= 25, "{} refused", run.server.refused);
    assert!(took <= Duration::from_secs(125), "{took:?}");
    assert_eq!(
        run.site.breaker().state(run.processes[0].at),
        BreakerState::Closed
    );
    let words: Vec<String> = (run.site.learned().expect("something").limits())
        .map(ToString::to_string)
        .collect();
    assert!(!words.is_empty());
}

/// Where nothing is refused nothing is learned, and nothing is slower.
#[test]
fn a_limit_that_holds_teaches_nothing() {
    let policy = tighten();
    let mut run = LearnedRun::new(&policy, "10/SECOND", server(10, Duration::from_secs(1)), 3);
    let took = run.until_served(100);
    assert_eq!(run.server.refused, 0);
    assert!(run.site.learned().is_none());
    assert!(took <= Duration::from_millis(9_500), "{took:?}");
}

/// A process that is killed leaves requests without answers: after two minutes at the latest the
/// others go on at the full rate.
#[test]
fn requests_of_a_killed_process_are_given_up() {
    let policy = up_to("20/SECOND");
    let mut run = LearnedRun::new(&policy, "20/SECOND", server(5, Duration::from_secs(1)), 4);
    run.until_served(40);
    // One of four dies while its request is on its way.
    let is_on_its_way = |process: &LearningProcess| matches!(process.doing, Doing::Awaits(..));
    while !run.processes.iter().any(is_on_its_way) {
        run.step();
    }
    let dies = run.processes.iter().position(is_on_its_way);
    run.processes.remove(dies.expect("one on its way"));
    let before = run.served();
    let start = run.processes[0].at;
    run.until_served(before + 200);
    let took = run.processes[0].at.since(start);
    assert!(took <= Duration::from_secs(120 + 60), "{took:?}");
}

#[test]
fn what_is_learned_is_kept_with_the_site_and_can_be_forgotten() {
    let policy = tighten();
    let mut run = LearnedRun::new(&policy, "10/SECOND", server(4, Duration::from_secs(1)), 1);
    run.until_served(60);
    let mut copy = Site::default();
    copy.set_extensions(run.site.extensions());
    assert_eq!(copy.learned(), run.site.learned());
    assert!(copy.forget_learned() && copy.learned().is_none() && !copy.forget_learned());
    let bytes = run
        .site
        .extensions()
        .get(LEARNED_TAG)
        .map_or(0, <[u8]>::len);
    assert!((1..=2_048).contains(&bytes), "{bytes} bytes");
}

/// After a week the limit is not believed any more.
#[test]
fn what_is_learned_expires() {
    let policy = tighten();
    let mut run = LearnedRun::new(&policy, "10/SECOND", server(4, Duration::from_secs(1)), 1);
    run.until_served(60);
    run.processes[0].at += Duration::from_secs(8 * 86_400);
    run.processes[0].doing = Doing::Asks;
    run.step();
    assert!(run.site.learned().is_none());
}

/// A window of one per ten minutes is slower than the floor of one a minute: the floor holds.
#[test]
fn no_learned_limit_is_slower_than_the_floor() {
    let policy = LearnPolicy {
        slowest: Duration::from_secs(5),
        ..up_to("2/SECOND")
    };
    let window = Window::new(NonZeroU32::MIN, Duration::from_secs(600));
    let mut run = LearnedRun::new(&policy, "2/SECOND", server(1, window.per), 1);
    let start = run.processes[0].at;
    while run.processes[0].at.since(start) < Duration::from_secs(300) {
        run.step();
    }
    // About one request in five seconds, once it has settled; a breaker of consecutive refusals
    // may hold it longer.
    assert!(run.server.refused >= 4, "{} refused", run.server.refused);
}

/// A site that searches upwards, and one request after the other.
struct Searching {
    site: Site,
    costs: [BudgetCost; 1],
    breaker: BreakerPolicy,
    policy: LearnPolicy,
}

impl Searching {
    fn new() -> Self {
        let mut site = Site::default();
        site.ensure_budgets(1);
        Self {
            site,
            costs: [cost(0, 1, &[], Duration::ZERO)],
            breaker: BreakerPolicy::default(),
            policy: up_to("50/SECOND"),
        }
    }

    fn ask(&self) -> AdmissionRequest {
        AdmissionRequest::at_once(&self.costs, learning(&self.breaker, self.policy))
    }

    fn go(&mut self, now: BootInstant) -> Option<Permit> {
        let ask = self.ask();
        let mut site = self.site.clone();
        let entered = site.enter(&ask, now);
        self.site = site;
        match entered.entry {
            AdmissionDecision::Go(permit) => Some(permit),
            _ => None,
        }
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Site, &AdmissionRequest) -> T) -> T {
        let mut site = self.site.clone();
        let done = act(&mut site, &self.ask());
        self.site = site;
        done
    }

    fn settle(&mut self, permit: &Permit, outcome: AttemptMeaning, now: BootInstant) {
        let report = AttemptResult {
            outcome,
            retry_after: None,
            sent: permit.stamp,
            wants_retry: false,
            maybe_refused: false,
        };
        self.with(|site, ask| site.settle(ask, permit, &report, now));
    }

    /// Sends as fast as it may, each answered after 50 ms; returns how many in ten seconds.
    fn rate(&mut self, outcome: AttemptMeaning) -> usize {
        let mut sent = 0;
        let mut now = at(1_000);
        while now < at(11_000) {
            if let Some(permit) = self.go(now) {
                sent += 1;
                now += LATENCY;
                self.settle(&permit, outcome, now);
            } else {
                now += ms(10);
            }
        }
        sent
    }
}

#[test]
fn quick_errors_raise_no_rate() {
    let served = Searching::new().rate(AttemptMeaning::Success);
    let missing = Searching::new().rate(AttemptMeaning::Neutral);
    assert!(served > 100, "{served}");
    assert!(missing <= 21, "two per second, not {missing} in ten");
}

#[test]
fn a_long_body_keeps_no_other_request_waiting() {
    let mut host = Searching::new();
    let first = host.go(at(0)).expect("the first goes alone");
    assert!(host.go(at(5_000)).is_none(), "nothing is known yet");
    let ask_again =
        host.with(|site, ask| site.settle_headers(ask, &first, AttemptMeaning::Success, at(5_100)));
    assert!(ask_again.calls_next);
    let second = host.go(at(5_700)).expect("the headers have come");
    host.with(|site, ask| site.settle_headers(ask, &second, AttemptMeaning::Success, at(5_800)));
    // Both bodies are still on their way: two more may wait for their headers.
    let third = host.go(at(6_500)).expect("two bodies are no answers");
    assert!(host.go(at(7_000)).is_some());
    assert!(host.go(at(7_500)).is_none());
    for permit in [&first, &second, &third] {
        host.settle(permit, AttemptMeaning::Success, at(8_000));
    }
    assert!(host.go(at(8_500)).is_some());
}

#[test]
fn a_request_without_an_answer_is_not_waited_for() {
    let mut host = Searching::new();
    let dropped = host.go(at(0)).expect("the first goes alone");
    assert!(host.go(at(1_000)).is_none());
    host.with(|site, ask| site.leave(ask, dropped.id, None));
    assert!(host.go(at(1_100)).is_some());
}

#[test]
fn a_failure_does_not_end_the_test_of_a_host_that_refused() {
    let mut host = Searching::new();
    for number in 0..20 {
        let now = at(number * 600);
        let permit = host.go(now).expect("two per second are few");
        host.settle(&permit, AttemptMeaning::Success, now + LATENCY);
    }
    let refused = host.go(at(20_000)).expect("a request");
    host.settle(&refused, AttemptMeaning::Throttled, at(20_050));
    let failed = host.go(at(25_000)).expect("the wait is over");
    host.settle(&failed, AttemptMeaning::Failure, at(25_050));
    // Still one at a time.
    let next = host.go(at(26_000)).expect("one request");
    assert!(host.go(at(27_000)).is_none());
    host.settle(&next, AttemptMeaning::Success, at(27_050));
    assert!(host.go(at(28_000)).is_some() && host.go(at(29_000)).is_some());
}

/// A store that cannot run the learner records events: applied in their order, as bytes and with what
/// a server adds to a first refusal, they give what the site knows.
#[test]
fn recorded_events_give_what_the_site_knows() {
    let policy = tighten();
    let breaker = BreakerPolicy {
        one_failure_per_epoch: true,
        ..BreakerPolicy::default()
    };
    let costs = [cost(0, 1, &windows("10/SECOND"), ms(10))];
    let lane: Arc<str> = "metadata".into();
    let (mut site, mut replayed) = (Site::default(), HostModel::default());
    site.ensure_budgets(1);
    let mut origin = server(4, Duration::from_secs(1));
    let mut apply = |event: LimitEvent, history: Vec<BootInstant>, now| {
        let bytes = postcard::to_allocvec(&event).expect("bytes");
        let read: LimitEvent = postcard::from_bytes(&bytes).expect("an event");
        assert_eq!(read, event);
        replayed.apply(&read, history.into_iter(), now);
        replayed.clone()
    };
    let mut served = 0;
    for step in 0..6_000u64 {
        let now = at(100 + step * 37);
        let question = AdmissionRequest {
            quota_lane: Some(Arc::clone(&lane)),
            ..AdmissionRequest::at_once(&costs, learning(&breaker, policy))
        };
        let AdmissionDecision::Go(permit) = site.enter(&question, now).entry else {
            continue;
        };
        apply(LimitEvent::permitted(&question, permit.id), Vec::new(), now);
        let is_served = origin.serves(now);
        served += u32::from(is_served);
        let report = AttemptResult {
            outcome: if is_served {
                AttemptMeaning::Success
            } else {
                AttemptMeaning::Throttled
            },
            retry_after: None,
            sent: permit.at,
            wants_retry: false,
            maybe_refused: false,
        };
        let answered = LimitEvent::Answered(SettledRequest::new(&question, &permit, &report));
        let (history, later) = (site.budgets()[0].instants().collect(), now + ms(20));
        site.settle(&question, &permit, &report, later);
        let known = apply(answered, history, later);
        assert_eq!(known.learned(), site.learned(), "step {step}");
    }
    assert!(served > 100 && origin.refused > 1, "{served}");
    assert!(site.learned().is_some());
}

/// A refusal because a kind of request has spent its quota is no admission by the other limits.
#[test]
fn a_spent_kind_teaches_nothing_about_the_host() {
    let (policy, learn) = (BreakerPolicy::default(), up_to("100/SECOND"));
    let lane: Arc<str> = "a kind search".into();
    let costs = [cost(0, 1, &[], Duration::ZERO)];
    let ask = AdmissionRequest {
        quota_lane: Some(Arc::clone(&lane)),
        ..AdmissionRequest::at_once(&costs, learning(&policy, learn))
    };
    let run = |is_spent_kind: bool| {
        let mut site = Site::default();
        site.ensure_budgets(1);
        let AdmissionDecision::Go(permit) = site.enter(&ask, at(0)).entry else {
            panic!("the first goes at once")
        };
        let statement = QuotaStatement {
            reading: RateHeaderReading {
                quotas: vec![Quota {
                    unit: Unit::Requests,
                    window: None,
                    limit: Some(100),
                    remaining: Some(0),
                    resets_in: Some(Duration::from_secs(7_200)),
                    partition: None,
                    source: RateHeaderFamily::XRateLimit,
                }],
                ..RateHeaderReading::default()
            },
            is_refusal: true,
            is_spent_kind,
            ..QuotaStatement::default()
        };
        assert!(site.state_quotas(&ask, &permit, &statement, at(10)).holds);
        let report = AttemptResult {
            outcome: AttemptMeaning::Neutral,
            retry_after: None,
            sent: permit.stamp,
            wants_retry: false,
            maybe_refused: false,
        };
        let before = site.learned().cloned();
        site.settle(&ask, &permit, &report, at(10));
        before == site.learned().cloned()
    };
    assert!(run(true), "the answer changes nothing that is learned");
    assert!(!run(false), "another one does");
}

/// What is learned has a layout: bytes of another one must not be read.
#[test]
fn a_new_layout_of_what_is_learned_needs_a_new_tag() {
    let mut learned = LearnedLimits::from_nothing(at(0));
    let learn = up_to("100/SECOND");
    let length =
        |learned: &LearnedLimits| postcard::to_allocvec(learned).expect("it is written").len();
    learned.sent(&learn, 1, at(0));
    let start = length(&learned);
    let refused = HostResponse::Throttled { retry_after: None };
    let _ = learned.answered((1, at(0)), refused, 0.5, at(10));
    // If these change, so must the tag in `host_model.rs` and `FORMAT` of the Redis store.
    assert_eq!((start, length(&learned)), (STARTED, SEARCHING));
}
