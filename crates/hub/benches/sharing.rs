//! Four processes with one limit, on every store that processes share: exact, fair, and how much of
//! the rate is used.
//!
//! Exits 1 when a window is exceeded, or when the median of the runs uses less than 98 % of the
//! rate or lets the busiest process have more than 1.3 times what the least busy one has.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement talks to whoever runs it"
)]

#[path = "../tests/sharing/run.rs"]
mod run;
#[allow(dead_code, reason = "tests use more of it")]
#[path = "../../stores/tests/it/server.rs"]
mod server;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    if arguments.first().is_some_and(|first| first == "worker") {
        return run::work();
    }
    let (mut seconds, mut runs) = (20, 5);
    let mut kinds = vec!["multiprocess", "sqlite", "redis"];
    for pair in arguments.chunks(2) {
        let value = pair.get(1).expect("a value behind each option");
        let number = || value.parse::<u64>().expect("a number");
        match pair[0].as_str() {
            "--seconds" => seconds = number(),
            "--runs" => runs = number(),
            "--store" => {
                kinds.retain(|kind| kind == value);
                assert!(!kinds.is_empty(), "unknown store {value}");
            }
            other => panic!("unknown option {other}"),
        }
    }
    let mut failed = false;
    let server = server::Server::start();
    let directory = tempfile::tempdir().expect("a directory");
    for block in [true, false] {
        for kind in kinds.iter().copied() {
            let outcomes: Vec<run::Outcome> = (0..runs)
                .map(|number| {
                    let file = directory.path().join(format!("{kind}-{block}-{number}"));
                    let place = if kind == "redis" {
                        format!("redis://127.0.0.1:{}/{}", server.port, number)
                    } else {
                        file.display().to_string()
                    };
                    let plan = run::Plan {
                        store: (kind, place),
                        limit: 50,
                        processes: 4,
                        callers: 16,
                        seconds,
                        each: None,
                        block,
                        slack: std::time::Duration::ZERO,
                    };
                    run::run(&plan, &["worker"])
                })
                .collect();
            for outcome in &outcomes {
                println!(
                    "       {kind}: {:.2} % used in {:.1} s, by process {:?}, {:.2} x",
                    outcome.used * 100.0,
                    outcome.took.as_secs_f64(),
                    outcome.by_worker,
                    outcome.spread
                );
                if let Err(why) = &outcome.exceeded {
                    println!("EXCEEDED {kind}: {why}");
                    failed = true;
                }
                if outcome.arrived != outcome.sent {
                    println!(
                        "MISSED {kind}: {} arrived of {} sent",
                        outcome.arrived, outcome.sent
                    );
                    failed = true;
                }
            }
            let used = median(outcomes.iter().map(|outcome| outcome.used).collect());
            let spread = median(outcomes.iter().map(|outcome| outcome.spread).collect());
            // Who does not wait for its turn gets what it happens to find: fairness is for those
            // who do.
            let met = !block || (used >= 0.98 && spread <= 1.3);
            failed |= !met;
            println!(
                "{} {kind}, four processes that {}: {:.2} % of the rate used, the busiest got {spread:.2} x the least busy",
                if met { "ok    " } else { "MISSED" },
                if block { "wait" } else { "do not wait" },
                used * 100.0
            );
        }
    }
    // `exit` runs no destructor: the server would stay.
    drop(server);
    std::process::exit(i32::from(failed));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
