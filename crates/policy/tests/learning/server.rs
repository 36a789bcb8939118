//! Simulated servers: what each class of real limiters does with a request that arrives.
//! Instants are seconds since the start of the run.

use std::collections::VecDeque;

use crate::random::Random;

/// How a server decides whether a request is one too many.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// At most `n` in any interval of `w` seconds.
    Log { n: f64, w: f64, seen: VecDeque<f64> },
    /// At most `n` between two instants that are multiples of `w` after `phase`.
    Aligned {
        n: f64,
        w: f64,
        phase: f64,
        slot: f64,
        used: f64,
    },
    /// Tokens that refill at `rate`, at most `burst` of them. GCRA is the same rule.
    Bucket {
        rate: f64,
        burst: f64,
        tokens: f64,
        at: f64,
    },
    /// A queue that empties at `rate`: up to `most` requests wait in it, others are refused.
    Leaky {
        rate: f64,
        most: f64,
        level: f64,
        at: f64,
    },
    /// At most `n` in this interval of `w` seconds and the part of the one before that a sliding
    /// window would cover, as a stick table of `HAProxy` estimates it.
    Interpolated {
        n: f64,
        w: f64,
        from: f64,
        used: f64,
        before: f64,
    },
    /// At most `n` requests at once.
    Cap { n: f64, busy: VecDeque<f64> },
}

impl Rule {
    pub(crate) fn log(n: f64, w: f64) -> Self {
        Self::Log {
            n,
            w,
            seen: VecDeque::new(),
        }
    }

    pub(crate) fn aligned(n: f64, w: f64, phase: f64) -> Self {
        Self::Aligned {
            n,
            w,
            phase,
            slot: -1.0,
            used: 0.0,
        }
    }

    pub(crate) fn bucket(rate: f64, burst: f64) -> Self {
        Self::Bucket {
            rate,
            burst,
            tokens: burst,
            at: 0.0,
        }
    }

    pub(crate) fn leaky(rate: f64, most: f64) -> Self {
        Self::Leaky {
            rate,
            most,
            level: 0.0,
            at: 0.0,
        }
    }

    pub(crate) fn interpolated(n: f64, w: f64) -> Self {
        Self::Interpolated {
            n,
            w,
            from: 0.0,
            used: 0.0,
            before: 0.0,
        }
    }

    pub(crate) fn cap(n: f64) -> Self {
        Self::Cap {
            n,
            busy: VecDeque::new(),
        }
    }

    /// Returns in how many seconds a request would be admitted: zero means now.
    fn free_in(&mut self, now: f64, factor: f64) -> f64 {
        match self {
            Self::Log { n, w, seen } => {
                while seen.front().is_some_and(|at| *at <= now - *w) {
                    seen.pop_front();
                }
                let limit = (*n * factor).round().max(1.0) as usize;
                if seen.len() < limit {
                    return 0.0;
                }
                seen[seen.len() - limit] + *w - now
            }
            Self::Aligned {
                n,
                w,
                phase,
                slot,
                used,
            } => {
                let current = ((now + *phase) / *w).floor();
                if current > *slot {
                    *slot = current;
                    *used = 0.0;
                }
                if *used < (*n * factor).round().max(1.0) {
                    return 0.0;
                }
                (current + 1.0) * *w - *phase - now
            }
            Self::Bucket {
                rate,
                burst,
                tokens,
                at,
            } => {
                *tokens = (*tokens + (now - *at) * *rate * factor).min(*burst);
                *at = now;
                if *tokens >= 1.0 {
                    0.0
                } else {
                    (1.0 - *tokens) / (*rate * factor)
                }
            }
            Self::Leaky {
                rate,
                most,
                level,
                at,
            } => {
                *level = (*level - (now - *at) * *rate * factor).max(0.0);
                *at = now;
                ((*level - *most) / (*rate * factor)).max(0.0)
            }
            Self::Interpolated {
                n,
                w,
                from,
                used,
                before,
            } => {
                if now - *from >= *w {
                    (*before, *used, *from) = (*used, 0.0, *from + *w);
                }
                if now - *from >= *w {
                    (*before, *from) = (0.0, now);
                }
                let estimate = *used + 1.0 + *before * (*from + *w - now) / *w;
                if estimate < *n * factor + 1.0 {
                    0.0
                } else {
                    *from + *w - now
                }
            }
            Self::Cap { n, busy } => {
                busy.retain(|end| *end > now);
                if (busy.len() as f64) < *n {
                    0.0
                } else {
                    busy.iter().copied().fold(f64::MAX, f64::min) - now
                }
            }
        }
    }

    fn take(&mut self, now: f64, think: f64) {
        match self {
            Self::Log { seen, .. } => seen.push_back(now),
            Self::Aligned { used, .. } | Self::Interpolated { used, .. } => *used += 1.0,
            Self::Bucket { tokens, .. } => *tokens -= 1.0,
            Self::Leaky { level, .. } => *level += 1.0,
            Self::Cap { busy, .. } => busy.push_back(now + think),
        }
    }

    /// Requests per second in the long run.
    pub(crate) fn rate(&self, mean_service: f64) -> f64 {
        match self {
            Self::Log { n, w, .. }
            | Self::Aligned { n, w, .. }
            | Self::Interpolated { n, w, .. } => n / w,
            Self::Bucket { rate, .. } | Self::Leaky { rate, .. } => *rate,
            Self::Cap { n, .. } => n / mean_service,
        }
    }
}

/// What a refusal says about when to come back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Advice {
    Silent,
    /// Whole seconds, rounded up.
    Seconds,
    /// An HTTP date; the fraction of the wall clock's second at the start of the run.
    Date(f64),
    /// The true time multiplied, in whole seconds.
    Wrong(f64),
    /// The same whenever it is asked.
    Constant(f64),
}

/// What the server answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ServerReply {
    /// After so many seconds.
    Served(f64),
    /// With the seconds until it may be asked again, if the answer has them.
    Throttled(Option<f64>),
    Unavailable,
}

#[derive(Clone, Debug)]
pub(crate) struct LimitedServer {
    pub(crate) rules: Vec<Rule>,
    pub(crate) advice: Advice,
    pub(crate) think: f64,
    pub(crate) one_way: f64,
    /// The largest extra delay of a request on its way.
    pub(crate) jitter: f64,
    pub(crate) counts_refusals: bool,
    /// How long a refused client is refused altogether; asking starts it again.
    pub(crate) ban: Option<f64>,
    pub(crate) banned_until: f64,
    /// From when on the limits are multiplied by what.
    pub(crate) changes: Vec<(f64, f64)>,
    /// Which share of the limit other clients use.
    pub(crate) others: f64,
    pub(crate) next_other: f64,
    pub(crate) outage: Option<(f64, f64)>,
    pub(crate) pause: Option<(f64, f64)>,
    /// Requests per second that the client has at all.
    pub(crate) demand: Option<f64>,
    /// How many requests at the start do not count, as those for robots.txt may not.
    pub(crate) free: u32,
    pub(crate) random: Random,
}

impl LimitedServer {
    fn factor(&self, now: f64) -> f64 {
        self.changes
            .iter()
            .rev()
            .find(|(from, _)| *from <= now)
            .map_or(1.0, |(_, factor)| *factor)
    }

    fn think_time(&mut self) -> f64 {
        self.think * self.random.between(0.8, 1.2)
    }

    /// Decides on a request that arrives now.
    pub(crate) fn arrive(&mut self, now: f64) -> ServerReply {
        if self
            .outage
            .is_some_and(|(from, to)| from <= now && now < to)
        {
            return ServerReply::Unavailable;
        }
        if let Some((_, to)) = self.pause.filter(|(from, to)| *from <= now && now < *to) {
            return ServerReply::Throttled(Some((to - now).ceil()));
        }
        while self.others > 0.0 && self.next_other <= now {
            let at = self.next_other;
            let mean = 1.0 / (self.rate() * self.others);
            self.next_other += self.random.exponential(mean);
            let _ = self.decide(at);
        }
        if self.free > 0 {
            self.free -= 1;
            return ServerReply::Served(self.think_time());
        }
        self.decide(now)
    }

    fn decide(&mut self, now: f64) -> ServerReply {
        let think = self.think_time();
        if let Some(length) = self.ban.filter(|_| now < self.banned_until) {
            self.banned_until = now + length;
            return ServerReply::Throttled(None);
        }
        let factor = self.factor(now);
        let left = (self.rules.iter_mut())
            .map(|rule| rule.free_in(now, factor))
            .fold(0.0, f64::max);
        if left <= 0.0 || self.counts_refusals {
            for rule in &mut self.rules {
                rule.take(now, think);
            }
        }
        if left <= 0.0 {
            let queued = (self.rules.iter()).map(|rule| match rule {
                Rule::Leaky { rate, level, .. } => (level - 1.0) / rate,
                _ => 0.0,
            });
            return ServerReply::Served(think + queued.fold(0.0, f64::max));
        }
        if let Some(length) = self.ban {
            self.banned_until = now + length;
        }
        ServerReply::Throttled(self.retry_after(now, left))
    }

    fn retry_after(&self, now: f64, left: f64) -> Option<f64> {
        match self.advice {
            Advice::Silent => None,
            Advice::Seconds => Some(left.ceil()),
            Advice::Date(phase) => Some((now + left + phase).ceil() - phase - now),
            Advice::Wrong(factor) => Some((left.ceil() * factor).round().max(1.0)),
            Advice::Constant(seconds) => Some(seconds),
        }
    }

    /// Requests per second in the long run, all clients together, before any change.
    pub(crate) fn rate(&self) -> f64 {
        let service = self.think + 2.0 * self.one_way + self.jitter;
        (self.rules.iter())
            .map(|rule| rule.rate(service))
            .fold(f64::MAX, f64::min)
    }

    /// How many requests the server would admit for this client until `end`.
    pub(crate) fn capacity(&self, end: f64) -> f64 {
        let mut total = 0.0;
        let mut edges = vec![(0.0, 1.0)];
        edges.extend(self.changes.iter().copied());
        for (index, (from, factor)) in edges.iter().enumerate() {
            let to = edges.get(index + 1).map_or(end, |next| next.0);
            total += (to - from) * self.rate() * factor;
        }
        for (from, to) in [self.outage, self.pause].into_iter().flatten() {
            total -= (to - from) * self.rate();
        }
        let mut all = total * (1.0 - self.others);
        for rule in &self.rules {
            if let Rule::Bucket { burst, .. } = rule {
                all += burst;
            }
        }
        self.demand.map_or(all, |rate| all.min(rate * end))
    }
}
