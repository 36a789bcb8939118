//! One client, one server and the network between them, under virtual time with late wake-ups.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use docstokg_policy::time::BootInstant;

use crate::classes::RUN;
use crate::random::Random;
use crate::server::{LimitedServer, ServerReply};

/// The most requests at once, whatever the client would do.
const MAX_IN_FLIGHT: usize = 64;
/// The latest that a timer wakes the client, in seconds.
const LATE: f64 = 0.002;

/// The longest run, in seconds.
const LONGEST: f64 = 3_600.0;

/// What the client learns from an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Served,
    /// With the instant until which the server asks for no request.
    Throttled(Option<f64>),
    Unavailable,
}

/// A client under test. Instants are seconds since the start of the run.
pub(crate) trait Client {
    /// Returns when the next request may go, or nothing while an answer has to come first.
    fn next(&mut self, now: f64) -> Option<f64>;
    /// Notes that a request goes, and returns its number.
    fn sent(&mut self, now: f64) -> usize;
    fn answered(&mut self, request: usize, now: f64, outcome: Outcome);
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LearningRun {
    /// Requests served, over what the server would have admitted; at most one.
    pub(crate) share: f64,
    pub(crate) throttled: f64,
    pub(crate) throttled_later: f64,
    /// Requests sent before the end of a Retry-After that the client had received.
    pub(crate) early: f64,
}

enum Event {
    Arrives(usize),
    Answered(usize, Outcome),
}

struct Due {
    at: f64,
    order: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at.total_cmp(&self.at)).then(other.order.cmp(&self.order))
    }
}

/// The instant of a second of the run: it does not start at zero, as no boot clock does.
pub(crate) fn instant(seconds: f64) -> BootInstant {
    BootInstant::from_micros(1_000_000_000 + (seconds * 1e6).ceil() as u64)
}

pub(crate) fn seconds(instant: BootInstant) -> f64 {
    (instant.as_micros() as f64 - 1e9) / 1e6
}

struct LearningWorld<'a> {
    server: LimitedServer,
    client: &'a mut dyn Client,
    events: BinaryHeap<Due>,
    order: u64,
    now: f64,
    in_flight: usize,
    sent: u64,
    random: Random,
    retry_end: f64,
    served: f64,
    /// The run ends when so many are served.
    files: f64,
    run: LearningRun,
}

/// Runs a client against a server until the end of the run.
pub(crate) fn run(server: LimitedServer, client: &mut dyn Client, seed: u64) -> LearningRun {
    run_for(server, client, seed, RUN)
}

/// Runs a client against a server for so many seconds.
pub(crate) fn run_for(
    server: LimitedServer,
    client: &mut dyn Client,
    seed: u64,
    length: f64,
) -> LearningRun {
    let capacity = server.capacity(length);
    let mut world = LearningWorld::new(server, client, seed);
    world.play(length);
    let mut run = world.run;
    run.share = (world.served / capacity).min(1.0);
    run
}

/// Runs a client until it has so many files; returns how long that took, and how often it was refused.
pub(crate) fn run_until(
    server: LimitedServer,
    client: &mut dyn Client,
    seed: u64,
    files: f64,
) -> (f64, f64) {
    let mut world = LearningWorld::new(server, client, seed);
    world.files = files;
    world.play(LONGEST);
    (world.now, world.run.throttled)
}

impl<'a> LearningWorld<'a> {
    fn new(server: LimitedServer, client: &'a mut dyn Client, seed: u64) -> Self {
        Self {
            server,
            client,
            events: BinaryHeap::new(),
            order: 0,
            now: 0.0,
            in_flight: 0,
            sent: 0,
            random: Random::new(seed ^ 0xABCD),
            retry_end: 0.0,
            served: 0.0,
            files: f64::INFINITY,
            run: LearningRun::default(),
        }
    }

    fn play(&mut self, length: f64) {
        let mut late = 0.0;
        loop {
            let wake = self.wake(late);
            let event = self.events.peek().map_or(f64::INFINITY, |due| due.at);
            if wake.min(event) >= length || self.served >= self.files {
                return;
            }
            if wake < event {
                self.now = wake;
                self.send();
                late = self.random.between(0.0, LATE);
            } else if let Some(due) = self.events.pop() {
                self.now = due.at;
                self.handle(&due.event);
            }
        }
    }

    /// Returns when the client sends next, if no answer comes before.
    fn wake(&mut self, late: f64) -> f64 {
        if self.in_flight >= MAX_IN_FLIGHT {
            return f64::INFINITY;
        }
        let has_work = (self.server.demand).map_or(0.0, |rate| self.sent as f64 / rate);
        match self.client.next(self.now) {
            Some(at) if at.max(has_work) <= self.now => self.now,
            Some(at) => at.max(has_work) + late,
            None => f64::INFINITY,
        }
    }

    fn network(&mut self) -> f64 {
        self.server.one_way + self.random.between(0.0, self.server.jitter)
    }

    fn push(&mut self, at: f64, event: Event) {
        self.order += 1;
        self.events.push(Due {
            at,
            order: self.order,
            event,
        });
    }

    fn send(&mut self) {
        if self.now < self.retry_end {
            self.run.early += 1.0;
        }
        let request = self.client.sent(self.now);
        self.sent += 1;
        self.in_flight += 1;
        let at = self.now + self.network();
        self.push(at, Event::Arrives(request));
    }

    fn handle(&mut self, event: &Event) {
        match *event {
            Event::Arrives(request) => {
                let (after, outcome) = match self.server.arrive(self.now) {
                    ServerReply::Served(think) => {
                        self.served += 1.0;
                        (think, Outcome::Served)
                    }
                    ServerReply::Throttled(wait) => {
                        self.run.throttled += 1.0;
                        self.run.throttled_later += f64::from(u8::from(self.now > 60.0));
                        (0.001, Outcome::Throttled(wait))
                    }
                    ServerReply::Unavailable => (0.001, Outcome::Unavailable),
                };
                let at = self.now + after + self.network();
                self.push(at, Event::Answered(request, outcome));
            }
            Event::Answered(request, outcome) => {
                self.in_flight -= 1;
                let outcome = match outcome {
                    Outcome::Throttled(Some(wait)) => {
                        self.retry_end = self.retry_end.max(self.now + wait);
                        Outcome::Throttled(Some(self.now + wait))
                    }
                    other => other,
                };
                self.client.answered(request, self.now, outcome);
            }
        }
    }
}
