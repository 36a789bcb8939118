//! The peers of the table, as models of what widely used clients do.
//!
//! `Aimd` adds to a rate and divides it; `Cubic` is the client rate limiter of the AWS SDKs over
//! sixteen workers; `AutoThrottle` is Scrapy's; `Backoff` is eight workers that each wait longer
//! after each refusal, as retry libraries do.

use crate::random::Random;
use crate::world::{Client, Outcome};

/// A rate that a period with refusals divides, and one without raises.
pub(crate) struct Aimd {
    period: f64,
    rate: f64,
    last: f64,
    period_start: f64,
    answers: f64,
    refusals: f64,
    not_before: f64,
}

/// The share of refusals from which on the rate falls.
const HIGH_RATIO: f64 = 0.05;

impl Aimd {
    pub(crate) fn new(period: f64) -> Self {
        Self {
            period,
            rate: 10.0,
            last: -1e9,
            period_start: 0.0,
            answers: 0.0,
            refusals: 0.0,
            not_before: 0.0,
        }
    }
}

impl Client for Aimd {
    fn next(&mut self, now: f64) -> Option<f64> {
        if self.period_start + self.period <= now && self.answers > 0.0 {
            if self.refusals >= HIGH_RATIO * self.answers {
                self.rate = (self.rate * 0.7).max(1.0 / 60.0);
            } else {
                self.rate += (self.rate * 0.05).max(0.2);
            }
            (self.period_start, self.answers, self.refusals) = (now, 0.0, 0.0);
        }
        Some((self.last + 1.0 / self.rate).max(self.not_before))
    }

    fn sent(&mut self, now: f64) -> usize {
        self.last = now;
        0
    }

    fn answered(&mut self, _: usize, now: f64, outcome: Outcome) {
        self.answers += 1.0;
        match outcome {
            Outcome::Throttled(retry_end) => {
                self.refusals += 1.0;
                self.not_before = self.not_before.max(retry_end.unwrap_or(0.0));
            }
            Outcome::Unavailable => {
                self.refusals += 1.0;
                self.not_before = self.not_before.max(now + 1.0);
            }
            Outcome::Served => {}
        }
    }
}

/// A pool of workers, each with one request at a time.
struct Workers {
    /// When each may send again; nothing while its request is on its way.
    free: Vec<Option<f64>>,
    attempts: Vec<i32>,
}

impl Workers {
    fn new(count: usize) -> Self {
        Self {
            free: vec![Some(0.0); count],
            attempts: vec![0; count],
        }
    }

    fn next(&self) -> Option<f64> {
        self.free.iter().flatten().copied().reduce(f64::min)
    }

    fn send(&mut self) -> usize {
        let first = self.next();
        let worker = self.free.iter().position(|at| *at == first).unwrap_or(0);
        self.free[worker] = None;
        worker
    }

    fn served(&mut self, worker: usize, now: f64) {
        self.attempts[worker] = 0;
        self.free[worker] = Some(now);
    }

    fn failed(&mut self, worker: usize, at: f64) {
        self.attempts[worker] += 1;
        self.free[worker] = Some(at);
    }
}

/// The adaptive retry mode of the AWS SDKs: CUBIC over measured rates.
pub(crate) struct Cubic {
    workers: Workers,
    enabled: bool,
    fill: f64,
    capacity: f64,
    tokens: f64,
    filled_at: f64,
    last_max: f64,
    throttled_at: f64,
    measured: f64,
    bucket: f64,
    in_bucket: f64,
    random: Random,
}

const BETA: f64 = 0.7;
const SCALE: f64 = 0.4;

impl Cubic {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            workers: Workers::new(16),
            enabled: false,
            fill: 0.5,
            capacity: 1.0,
            tokens: 0.0,
            filled_at: 0.0,
            last_max: 0.0,
            throttled_at: 0.0,
            measured: 0.0,
            bucket: 0.0,
            in_bucket: 0.0,
            random: Random::new(seed),
        }
    }

    fn refill(&mut self, now: f64) {
        self.tokens = (self.tokens + (now - self.filled_at) * self.fill).min(self.capacity);
        self.filled_at = now;
    }

    fn measure(&mut self, now: f64) {
        self.in_bucket += 1.0;
        let bucket = (now * 2.0).floor() / 2.0;
        if bucket > self.bucket {
            let rate = self.in_bucket / (bucket - self.bucket);
            self.measured = rate * 0.8 + self.measured * 0.2;
            self.in_bucket = 0.0;
            self.bucket = bucket;
        }
    }

    fn update(&mut self, now: f64, outcome: Outcome) {
        self.measure(now);
        let calculated = if matches!(outcome, Outcome::Throttled(_)) {
            let rate = if self.enabled {
                self.measured.min(self.fill)
            } else {
                self.measured
            };
            self.last_max = rate;
            self.throttled_at = now;
            self.enabled = true;
            rate * BETA
        } else {
            let window = (self.last_max * (1.0 - BETA) / SCALE).cbrt();
            SCALE * (now - self.throttled_at - window).powi(3) + self.last_max
        };
        let rate = calculated.min(2.0 * self.measured);
        self.refill(now);
        self.fill = rate.max(0.5);
        self.capacity = rate.max(1.0);
        self.tokens = self.tokens.min(self.capacity);
    }
}

impl Client for Cubic {
    fn next(&mut self, now: f64) -> Option<f64> {
        let at = self.workers.next()?;
        if !self.enabled {
            return Some(at);
        }
        self.refill(now);
        Some(at.max(now + (1.0 - self.tokens).max(0.0) / self.fill - 1e-9))
    }

    fn sent(&mut self, now: f64) -> usize {
        self.refill(now);
        self.tokens -= 1.0;
        self.workers.send()
    }

    fn answered(&mut self, worker: usize, now: f64, outcome: Outcome) {
        self.update(now, outcome);
        if outcome == Outcome::Served {
            self.workers.served(worker, now);
        } else {
            // Three attempts are one call; the caller's next call starts anew.
            let longest = 2f64.powi(self.workers.attempts[worker] % 3);
            let wait = self.random.between(0.0, longest);
            self.workers.failed(worker, now + wait);
        }
    }
}

/// Scrapy: the delay follows the latency, eight requests at once at most.
pub(crate) struct AutoThrottle {
    delay: f64,
    last: f64,
    in_flight: u32,
    factor: f64,
    sent: Vec<f64>,
    random: Random,
}

impl AutoThrottle {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            delay: 5.0,
            last: -1e9,
            in_flight: 0,
            factor: 1.0,
            sent: Vec::new(),
            random: Random::new(seed),
        }
    }
}

impl Client for AutoThrottle {
    fn next(&mut self, _: f64) -> Option<f64> {
        (self.in_flight < 8).then_some(self.last + self.delay * self.factor)
    }

    fn sent(&mut self, now: f64) -> usize {
        self.last = now;
        self.in_flight += 1;
        self.factor = self.random.between(0.5, 1.5);
        self.sent.push(now);
        self.sent.len() - 1
    }

    fn answered(&mut self, request: usize, now: f64, outcome: Outcome) {
        self.in_flight -= 1;
        let latency = now - self.sent[request];
        let delay = f64::midpoint(self.delay, latency).max(latency).min(60.0);
        if outcome == Outcome::Served || delay > self.delay {
            self.delay = delay;
        }
    }
}

/// Eight workers, each with exponential backoff and its own Retry-After.
pub(crate) struct Backoff {
    workers: Workers,
    random: Random,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            workers: Workers::new(8),
            random: Random::new(seed),
        }
    }
}

impl Client for Backoff {
    fn next(&mut self, _: f64) -> Option<f64> {
        self.workers.next()
    }

    fn sent(&mut self, _: f64) -> usize {
        self.workers.send()
    }

    fn answered(&mut self, worker: usize, now: f64, outcome: Outcome) {
        let longest = 0.5 * 2f64.powi(self.workers.attempts[worker].min(7));
        let wait = longest * self.random.between(0.5, 1.0);
        match outcome {
            Outcome::Served => self.workers.served(worker, now),
            Outcome::Throttled(Some(end)) => self.workers.failed(worker, end),
            _ => self.workers.failed(worker, now + wait.min(60.0)),
        }
    }
}
