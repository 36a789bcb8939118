//! The classes of servers: seventeen of the table, and windows and habits beyond it.

use crate::random::Random;
use crate::server::{Advice, LimitedServer, Rule};

/// Length of a run in seconds.
pub(crate) const RUN: f64 = 300.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Log,
    LogSeconds,
    LogDate,
    Aligned,
    AlignedSeconds,
    Bucket,
    Gcra,
    Cap,
    Two,
    TwoSeconds,
    Ban,
    RefusalsCount,
    Change,
    Others,
    Jitter,
    WrongRetryAfter,
    Outage,
    Off7,
    Off12,
    Off45,
    AppLimited,
    Leaky,
    Fast,
}

impl Class {
    /// The classes whose mean is the result.
    pub(crate) const TABLE: [Self; 17] = [
        Self::Log,
        Self::LogSeconds,
        Self::LogDate,
        Self::Aligned,
        Self::AlignedSeconds,
        Self::Bucket,
        Self::Gcra,
        Self::Cap,
        Self::Two,
        Self::TwoSeconds,
        Self::Ban,
        Self::RefusalsCount,
        Self::Change,
        Self::Others,
        Self::Jitter,
        Self::WrongRetryAfter,
        Self::Outage,
    ];

    /// Rows of their own, outside the mean.
    pub(crate) const FURTHER: [Self; 6] = [
        Self::Off7,
        Self::Off12,
        Self::Off45,
        Self::AppLimited,
        Self::Leaky,
        Self::Fast,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Log => "sliding log",
            Self::LogSeconds => "log, Retry-After s",
            Self::LogDate => "log, Retry-After date",
            Self::Aligned => "aligned window",
            Self::AlignedSeconds => "aligned, Retry-After",
            Self::Bucket => "token bucket",
            Self::Gcra => "GCRA, burst 1-3",
            Self::Cap => "concurrency cap",
            Self::Two => "n/s + N/min",
            Self::TwoSeconds => "the same, Retry-After",
            Self::Ban => "ban 2-30 s, extended",
            Self::RefusalsCount => "refusals count too",
            Self::Change => "limit x 1/4..4 at 100 s",
            Self::Others => "others take 20-60 %",
            Self::Jitter => "jitter 20-100 ms",
            Self::WrongRetryAfter => "wrong Retry-After",
            Self::Outage => "outage and pause",
            Self::Off7 => "log of 7 s",
            Self::Off12 => "log of 12 s",
            Self::Off45 => "log of 45 s",
            Self::AppLimited => "client asks 20-80 %",
            Self::Leaky => "queue of 5-20 that delays",
            Self::Fast => "200-1000 per second",
        }
    }

    /// Makes the server of this class with the given number.
    pub(crate) fn server(self, number: u64) -> LimitedServer {
        let mut random = Random::new(number * 64 + self as u64);
        let rate = random.log_between(1.0 / 3.0, 100.0);
        let w = match self {
            Self::Off7 => 7.0,
            Self::Off12 => 12.0,
            Self::Off45 => 45.0,
            _ => random.pick(&[1.0, 3.0, 5.0, 10.0, 60.0]),
        };
        let n = (rate * w).round().max(1.0);
        let mut server = LimitedServer {
            rules: vec![Rule::log(n, w)],
            advice: Advice::Silent,
            think: random.log_between(0.005, 0.3),
            one_way: random.log_between(0.0025, 0.05),
            jitter: 0.0,
            counts_refusals: false,
            ban: None,
            banned_until: 0.0,
            changes: Vec::new(),
            others: 0.0,
            next_other: 0.0,
            outage: None,
            pause: None,
            demand: None,
            free: 0,
            random: random.clone(),
        };
        server.jitter = server.one_way * random.between(0.05, 0.3);
        self.specialise(&mut server, &mut random, (n, w));
        server.random = random;
        server
    }

    fn specialise(self, server: &mut LimitedServer, random: &mut Random, (n, w): (f64, f64)) {
        match self {
            Self::Log | Self::Off7 | Self::Off12 | Self::Off45 => {}
            Self::LogSeconds => server.advice = Advice::Seconds,
            Self::LogDate => server.advice = Advice::Date(random.unit()),
            Self::Aligned => server.rules = vec![Rule::aligned(n, w, random.between(0.0, w))],
            Self::AlignedSeconds => {
                server.rules = vec![Rule::aligned(n, w, random.between(0.0, w))];
                server.advice = Advice::Seconds;
            }
            Self::Bucket => server.rules = vec![Rule::bucket(n / w, n)],
            Self::Gcra => {
                server.rules = vec![Rule::bucket(n / w, random.pick(&[1.0, 2.0, 3.0]))];
            }
            Self::Cap => {
                server.rules = vec![Rule::cap(random.log_between(1.0, 16.0).round())];
            }
            Self::Two | Self::TwoSeconds => {
                let per_second = (n / w).max(1.0).round();
                let per_minute = (60.0 * per_second * random.between(0.2, 0.8)).round();
                server.rules = vec![Rule::log(per_second, 1.0), Rule::log(per_minute, 60.0)];
                if self == Self::TwoSeconds {
                    server.advice = Advice::Seconds;
                }
            }
            Self::Ban => server.ban = Some(random.log_between(2.0, 30.0)),
            Self::RefusalsCount => server.counts_refusals = true,
            Self::Change => {
                server.changes.push((100.0, random.log_between(0.25, 4.0)));
                if random.unit() < 0.5 {
                    server.changes.push((200.0, 1.0));
                }
            }
            Self::Others => server.others = random.between(0.2, 0.6),
            Self::Jitter => server.jitter = random.between(0.02, 0.1),
            Self::WrongRetryAfter => {
                server.advice = match random.pick(&[0, 1, 2]) {
                    0 => Advice::Wrong(random.between(0.2, 0.7)),
                    1 => Advice::Wrong(random.between(1.5, 4.0)),
                    _ => Advice::Constant(random.pick(&[1.0, 2.0, 5.0, 10.0, 30.0])),
                };
            }
            Self::Outage => {
                server.advice = Advice::Seconds;
                let start = random.between(40.0, 120.0);
                server.outage = Some((start, start + random.log_between(3.0, 100.0)));
                let start = random.between(225.0, 260.0);
                server.pause = Some((start, start + 30.0));
            }
            Self::Leaky => {
                let most = random.between(5.0, 20.0).round();
                server.rules = vec![Rule::leaky(n / w, most)];
            }
            Self::Fast => {
                // Without long answers: the requests at once are bounded here.
                server.rules = vec![Rule::log(random.log_between(200.0, 1_000.0).round(), 1.0)];
                server.think = random.log_between(0.005, 0.02);
                server.one_way = random.log_between(0.001, 0.01);
            }
            Self::AppLimited => server.demand = Some(server.rate() * random.between(0.2, 0.8)),
        }
    }
}
