//! The table: every client against every class of servers.

use docstokg_policy::host_model::learner::{
    HostResponse, LearnBounds, Learner, NextRequest, SentRequest,
};

use crate::classes::Class;
use crate::peers::{Aimd, AutoThrottle, Backoff, Cubic};
use crate::random::Random;
use crate::world::{Client, LearningRun, Outcome, instant, run, seconds};

/// The number of the first server of a class.
pub(crate) const FIRST: u64 = 3_001;

/// The controller under test as a client.
pub(crate) struct Learning {
    pub(crate) learner: Learner,
    bounds: LearnBounds,
    /// Whether the server refuses with 503, as it does when it is down.
    pub(crate) answers_503: bool,
    sent: Vec<SentRequest>,
    random: Random,
}

impl Learning {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            learner: Learner::default(),
            bounds: LearnBounds::default(),
            answers_503: false,
            sent: Vec::new(),
            random: Random::new(seed),
        }
    }
}

impl Client for Learning {
    fn next(&mut self, now: f64) -> Option<f64> {
        match self.learner.next(&self.bounds, instant(now)) {
            NextRequest::At(at) if at <= instant(now) => Some(now),
            NextRequest::At(at) => Some(seconds(at)),
            NextRequest::AfterResponse { .. } => None,
        }
    }

    fn sent(&mut self, now: f64) -> usize {
        self.sent
            .push(self.learner.sent(&self.bounds, instant(now)));
        self.sent.len() - 1
    }

    fn answered(&mut self, request: usize, now: f64, outcome: Outcome) {
        let answer = match outcome {
            Outcome::Served => HostResponse::Served,
            Outcome::Throttled(_) | Outcome::Unavailable if self.answers_503 => {
                HostResponse::Unavailable
            }
            Outcome::Throttled(retry_end) => HostResponse::Throttled {
                retry_after: retry_end.map(instant),
            },
            Outcome::Unavailable => HostResponse::Outage,
        };
        let sample = self.random.unit();
        (self.learner).answered(self.sent[request], instant(now), answer, sample);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    Learning,
    Cubic,
    AimdSecond,
    AimdMinute,
    Backoff,
    AutoThrottle,
}

impl TableKind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Learning,
        Self::Cubic,
        Self::AimdSecond,
        Self::AimdMinute,
        Self::Backoff,
        Self::AutoThrottle,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Learning => "learned",
            Self::Cubic => "CUBIC",
            Self::AimdSecond => "AIMD 1 s",
            Self::AimdMinute => "AIMD 60 s",
            Self::Backoff => "backoff x 8",
            Self::AutoThrottle => "AutoThrottle",
        }
    }

    fn client(self, seed: u64) -> Box<dyn Client> {
        match self {
            Self::Learning => Box::new(Learning::new(seed)),
            Self::Cubic => Box::new(Cubic::new(seed)),
            Self::AimdSecond => Box::new(Aimd::new(1.0)),
            Self::AimdMinute => Box::new(Aimd::new(60.0)),
            Self::Backoff => Box::new(Backoff::new(seed)),
            Self::AutoThrottle => Box::new(AutoThrottle::new(seed)),
        }
    }

    /// Runs one server.
    pub(crate) fn run(self, class: Class, number: u64) -> LearningRun {
        run(class.server(number), &mut *self.client(number), number)
    }

    /// Runs the first servers of a class, and returns the mean.
    pub(crate) fn mean(self, class: Class, servers: u64) -> LearningRun {
        mean((FIRST..FIRST + servers).map(|number| self.run(class, number)))
    }
}

/// Returns the mean of runs.
pub(crate) fn mean(runs: impl Iterator<Item = LearningRun>) -> LearningRun {
    let mut sum = LearningRun::default();
    let mut count = 0.0;
    for run in runs {
        sum.share += run.share;
        sum.throttled += run.throttled;
        sum.throttled_later += run.throttled_later;
        sum.early += run.early;
        count += 1.0;
    }
    LearningRun {
        share: sum.share / count,
        throttled: sum.throttled / count,
        throttled_later: sum.throttled_later / count,
        early: sum.early / count,
    }
}

/// Writes the whole table.
pub(crate) fn table(servers: u64, kinds: &[TableKind]) -> String {
    let results: Vec<Vec<LearningRun>> = std::thread::scope(|scope| {
        let running: Vec<_> = (kinds.iter())
            .map(|kind| {
                scope.spawn(move || {
                    (Class::TABLE.iter().chain(&Class::FURTHER))
                        .map(|class| kind.mean(*class, servers))
                        .collect()
                })
            })
            .collect();
        (running.into_iter())
            .map(|thread| thread.join().expect("a run"))
            .collect()
    });
    let mut text = format!("{:<26}", "class (use % / 429s)");
    for kind in kinds {
        text += &format!("{:>15}", kind.name());
    }
    let classes = Class::TABLE.iter().chain(&Class::FURTHER);
    for (row, class) in classes.enumerate() {
        if row == Class::TABLE.len() {
            text += &summary(&results);
        }
        let cells = results.iter().map(|column| cell(&column[row]));
        text += &line(class.name(), cells);
    }
    text + "\n"
}

/// Writes the rows under the seventeen classes: their mean, and what it hides.
fn summary(results: &[Vec<LearningRun>]) -> String {
    let means: Vec<LearningRun> = (results.iter())
        .map(|column| mean(column[..Class::TABLE.len()].iter().copied()))
        .collect();
    line("mean", means.iter().map(cell))
        + &line(
            "429s after 60 s",
            means
                .iter()
                .map(|run| format!("{:.1}", run.throttled_later)),
        )
        + &line(
            "sent during Retry-After",
            means.iter().map(|run| format!("{:.1}", run.early)),
        )
}

fn cell(run: &LearningRun) -> String {
    format!("{:.1} / {:.1}", run.share * 100.0, run.throttled)
}

fn line(name: &str, cells: impl Iterator<Item = String>) -> String {
    cells.fold(format!("\n{name:<26}"), |line, cell| {
        line + &format!("{cell:>15}")
    })
}
