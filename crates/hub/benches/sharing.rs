//! Four processes with one limit, on every store that processes share: exact, fair, and how much of
//! the rate is used; and eight processes at one request per second.
//!
//! Exits 1 when a window is exceeded, or when the median of the runs uses less than 98 % of the
//! rate or lets the busiest process have more than 1.3 times what the least busy one has, or when the
//! eight take 5 % and a second more than they have to. `--limit`, `--processes` and `--far-ms` (the
//! last process is so much farther from the Redis server) measure one other case alone.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement prints its results"
)]

use std::time::Duration;

#[path = "../tests/sharing/run.rs"]
mod run;
#[allow(dead_code, reason = "tests use more of it")]
#[path = "../../stores/tests/it/server.rs"]
mod server;
#[path = "../../stores/tests/it/slow_link.rs"]
mod slow_link;

/// What is measured.
struct Options {
    seconds: u64,
    runs: u64,
    kinds: Vec<&'static str>,
    /// How many a second, over all processes.
    limit: usize,
    processes: usize,
    /// How much farther the last process is from the Redis server than the others.
    far: Duration,
    /// Whether only processes that wait are measured, and no crowd.
    is_one_case: bool,
}

impl Options {
    fn read(arguments: &[String]) -> Self {
        let mut options = Self {
            seconds: 20,
            runs: 5,
            kinds: vec!["multiprocess", "sqlite", "redis"],
            limit: 50,
            processes: 4,
            far: Duration::ZERO,
            is_one_case: false,
        };
        for pair in arguments.chunks(2) {
            let value = pair.get(1).expect("a value behind each option");
            let number = || value.parse::<u64>().expect("a number");
            match pair[0].as_str() {
                "--seconds" => options.seconds = number(),
                "--runs" => options.runs = number(),
                "--limit" => options.limit = usize::try_from(number()).expect("a limit"),
                "--processes" => options.processes = usize::try_from(number()).expect("a count"),
                "--far-ms" => options.far = Duration::from_millis(number()),
                "--store" => {
                    options.kinds.retain(|kind| kind == value);
                    assert!(!options.kinds.is_empty(), "unknown store {value}");
                }
                other => panic!("unknown option {other}"),
            }
        }
        let names = ["--limit", "--processes", "--far-ms"];
        let mut given = arguments.iter().map(String::as_str);
        options.is_one_case = given.any(|name| names.contains(&name));
        options
    }
}

/// One store, and processes that wait for their turn or do not.
struct Measurement<'a> {
    kind: &'static str,
    block: bool,
    directory: &'a std::path::Path,
    redis_port: u16,
    /// A slow link to the server, for the last process.
    far: Option<&'a slow_link::SlowLink>,
    options: &'a Options,
}

impl Measurement<'_> {
    /// The file or the database of a run.
    fn place(&self, number: u64) -> String {
        let (kind, block) = (self.kind, self.block);
        if kind == "redis" {
            return format!("redis://127.0.0.1:{}/{number}", self.redis_port);
        }
        let file = self.directory.join(format!("{kind}-{block}-{number}"));
        file.display().to_string()
    }

    /// Lets eight processes make sixteen requests at one per second, and returns whether that took
    /// little more time than it has to.
    fn run_crowded(&self) -> bool {
        let plan = run::SharingPlan {
            store: (self.kind, self.place(15)),
            limit: 1,
            processes: 8,
            callers: 2,
            seconds: 80,
            each: Some(1),
            block: true,
            far: None,
            late: 0,
        };
        let outcome = run::run(&plan, &["worker"]);
        let took = outcome.took.as_secs_f64();
        let met = outcome.exceeded.is_ok() && outcome.arrived == 16 && took <= 15.15 * 1.05 + 1.0;
        println!(
            "{} {}, eight processes at one per second: {} of 16 requests in {took:.1} s",
            if met { "ok    " } else { "MISSED" },
            self.kind,
            outcome.arrived
        );
        met
    }

    fn run(&self, number: u64) -> run::Outcome {
        let far = self.far.filter(|_| self.kind == "redis");
        let plan = run::SharingPlan {
            store: (self.kind, self.place(number)),
            limit: self.options.limit,
            processes: self.options.processes,
            callers: 16,
            seconds: self.options.seconds,
            each: None,
            block: self.block,
            far: far.map(|link| link.dsn(number)),
            late: 0,
        };
        run::run(&plan, &["worker"])
    }

    /// Prints a run, and returns whether it kept every limit and lost no request.
    fn report_run(&self, outcome: &run::Outcome) -> bool {
        let kind = self.kind;
        println!(
            "       {kind}: {:.2} % used in {:.1} s, by process {:?}, {:.2} x",
            outcome.used * 100.0,
            outcome.took.as_secs_f64(),
            outcome.by_worker,
            outcome.spread
        );
        if let Err(why) = &outcome.exceeded {
            println!("EXCEEDED {kind}: {why}");
        }
        let (arrived, sent) = (outcome.arrived, outcome.sent);
        if arrived != sent {
            println!("MISSED {kind}: {arrived} arrived of {sent} sent");
        }
        outcome.exceeded.is_ok() && arrived == sent
    }

    /// Prints the medians, and returns whether they are good enough.
    fn report_medians(&self, outcomes: &[run::Outcome]) -> bool {
        let used = median(outcomes.iter().map(|outcome| outcome.used).collect());
        let spread = median(outcomes.iter().map(|outcome| outcome.spread).collect());
        // Processes that do not wait for their turn get what they happen to find: fairness is for
        // those that do.
        let met = !self.block || (used >= 0.98 && spread <= 1.3);
        println!(
            "{} {}, {} processes at {} per second that {}: {:.2} % of the rate used, \
             the busiest got {spread:.2} x the least busy",
            if met { "ok    " } else { "MISSED" },
            self.kind,
            self.options.processes,
            self.options.limit,
            if self.block { "wait" } else { "do not wait" },
            used * 100.0
        );
        met
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    if arguments.first().is_some_and(|first| first == "worker") {
        return run::work();
    }
    let options = Options::read(&arguments);
    let server = server::Server::start();
    let directory = tempfile::tempdir().expect("a directory");
    let is_far = !options.far.is_zero();
    let far = is_far.then(|| slow_link::SlowLink::start(server.port, options.far / 2));
    let measurement = |kind, block| Measurement {
        kind,
        block,
        directory: directory.path(),
        redis_port: server.port,
        far: far.as_ref(),
        options: &options,
    };
    let mut failed = false;
    for block in [true, false] {
        if options.is_one_case && !block {
            continue;
        }
        for kind in options.kinds.iter().copied() {
            let measurement = measurement(kind, block);
            let outcomes: Vec<run::Outcome> = (0..options.runs)
                .map(|number| measurement.run(number))
                .collect();
            for outcome in &outcomes {
                failed |= !measurement.report_run(outcome);
            }
            failed |= !measurement.report_medians(&outcomes);
        }
    }
    for kind in options.kinds.iter().copied() {
        failed |= !options.is_one_case && !measurement(kind, true).run_crowded();
    }
    // `exit` runs no destructor: the server would stay.
    drop(server);
    std::process::exit(i32::from(failed));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
