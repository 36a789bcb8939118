//! The facade across processes that share a directory, and across a fork.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use docstokg_ontology::facade::{Facade, Mode, RateLimits};
use docstokg_policy::time::Clock;
use docstokg_stores::clock::SystemClock;

/// Says to this test binary that it is a worker, and in which directory.
const WORKER: &str = "FACADE_WORKER_DIR";
const HOST: Option<&str> = Some("origin.example.org");

fn facade(directory: Option<&Path>, rate: &str) -> Facade {
    let limits = RateLimits::from_text(&format!("default: {rate}"), "test").unwrap();
    let shared_dir = directory.map(Path::to_owned);
    Facade::builder(RateLimits {
        shared_dir,
        ..limits
    })
    .build()
    .unwrap()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

/// Not a test by itself: what each worker process runs. Prints the instant of each permit.
#[test]
fn worker() {
    let Ok(directory) = std::env::var(WORKER) else {
        return;
    };
    let facade = facade(Some(Path::new(&directory)), "20/second");
    println!("\nready");
    std::io::stdout().flush().unwrap();
    let mut go = String::new();
    std::io::stdin().read_line(&mut go).unwrap();
    block_on(async {
        for _ in 0..30 {
            let acquired = facade
                .acquire(Some("ols"), HOST, Mode::Block, 1)
                .await
                .unwrap();
            let at = SystemClock.boot().as_micros();
            println!("\npermit {at} {}", acquired.blocked.as_micros());
        }
    });
}

fn start(directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "facade_processes::worker",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(WORKER, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn four_processes_keep_one_window_and_all_get_their_share() {
    let directory = tempfile::tempdir().unwrap();
    let mut workers: Vec<Child> = (0..4).map(|_| start(directory.path())).collect();
    let mut outputs: Vec<_> = workers
        .iter_mut()
        .map(|worker| BufReader::new(worker.stdout.take().unwrap()).lines())
        .collect();
    for output in &mut outputs {
        assert!(
            output
                .by_ref()
                .map_while(Result::ok)
                .any(|line| line == "ready")
        );
    }
    for worker in &mut workers {
        worker.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    let mut instants: Vec<u64> = Vec::new();
    let mut longest = Vec::new();
    let mut blocked = 0;
    for output in outputs {
        let mut waits = Vec::new();
        for line in output.map_while(Result::ok) {
            if let Some(permit) = line.strip_prefix("permit ") {
                let (at, waited) = permit.split_once(' ').unwrap();
                instants.push(at.parse().unwrap());
                waits.push(waited.parse::<u64>().unwrap());
            }
        }
        blocked += waits.iter().sum::<u64>();
        longest.push(waits.into_iter().max().unwrap());
    }
    for worker in &mut workers {
        assert!(worker.wait().unwrap().success());
    }
    instants.sort_unstable();
    assert_eq!(instants.len(), 120);
    // A worker prints an instant a little after its permit: the 10 ms guard covers that.
    for window in instants.windows(21) {
        assert!(
            window[20] - window[0] >= 995_000,
            "21 permits in {} us",
            window[20] - window[0]
        );
    }
    let took = instants[119] - instants[0];
    assert!(
        took < 7_500_000,
        "120 permits at 20 a second took {took} us"
    );
    assert!(
        blocked > 10_000_000,
        "waits add up across processes: {blocked} us"
    );
    // The first process may use a whole window; after that they take turns.
    assert!(
        longest.iter().all(|wait| *wait < 3_000_000),
        "no process starves: longest waits {longest:?} us"
    );
}

#[test]
#[expect(unsafe_code, reason = "a fork is what is tested")]
fn a_forked_child_has_handles_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    for shared in [true, false] {
        let facade = facade(shared.then_some(directory.path()), "3/hour");
        block_on(async {
            facade
                .acquire(Some("ols"), HOST, Mode::Fail, 1)
                .await
                .unwrap();
        });
        // SAFETY: the child runs only this closure and leaves by `_exit`.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let granted = block_on(async {
                let mut granted = 0;
                while facade
                    .acquire(Some("ols"), HOST, Mode::Fail, 1)
                    .await
                    .is_ok()
                {
                    granted += 1;
                }
                granted
            });
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(granted) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was started above.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(ended, pid);
        assert!(libc::WIFEXITED(status), "the child was killed: {status}");
        let granted = libc::WEXITSTATUS(status);
        // Shared: two of three were left. In memory: a fresh budget.
        assert_eq!(granted, if shared { 2 } else { 3 }, "shared: {shared}");
        let left = block_on(facade.acquire(Some("ols"), HOST, Mode::Fail, 1));
        assert_eq!(left.is_err(), shared, "the parent sees what the child used");
    }
}

#[test]
fn a_cooldown_holds_in_other_processes() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (
        facade(Some(directory.path()), "8/second"),
        facade(Some(directory.path()), "8/second"),
    );
    block_on(async {
        one.cooldown_for("ols:origin.example.org", 60.0)
            .await
            .unwrap();
        let error = other
            .acquire(Some("ols"), HOST, Mode::Fail, 1)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("cooldown"), "{error}");
        other
            .acquire(Some("lov"), HOST, Mode::Fail, 1)
            .await
            .unwrap();
        let left = other.diagnose().await.unwrap();
        let left = left.iter().find(|key| key.cooldown.is_some()).unwrap();
        assert!(left.eligible_in > Duration::from_secs(55));
    });
}

#[test]
fn a_shared_directory_that_cannot_be_used_is_named() {
    let limits = RateLimits {
        shared_dir: Some("/proc/no/such/place".into()),
        ..RateLimits::default()
    };
    let error = Facade::builder(limits).build().err().unwrap().to_string();
    assert!(
        error.contains("/proc/no/such/place") && error.contains("shared_dir"),
        "{error}"
    );
}
