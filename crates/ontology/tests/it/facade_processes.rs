//! The facade across processes that share a directory, and across a fork.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use docstokg_ontology::facade::{AcquireMode, Facade, RateLimits};
use docstokg_policy::time::Clock;
use docstokg_stores::clock::SystemClock;

/// Says to this test binary that it is a worker, and in which directory.
const WORKER: &str = "FACADE_WORKER_DIR";
/// Says to this test binary that it is the process that forks.
const FORKER: &str = "FACADE_FORKER";
const HOST: Option<&str> = Some("origin.example.org");
/// How many permits each worker asks for.
const EACH: usize = 30;

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
        for _ in 0..EACH {
            let acquired = facade
                .acquire(Some("ols"), HOST, AcquireMode::Block, 1)
                .await
                .unwrap();
            let at = SystemClock.boot().as_micros();
            println!("\npermit {at} {}", acquired.blocked.as_micros());
        }
    });
}

/// Makes the command that runs one test of this module in a process of its own.
fn alone(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("facade_processes::{test}");
    command.args(["--exact", &name, "--nocapture", "--test-threads=1"]);
    command
}

fn start(directory: &Path) -> Child {
    alone("worker")
        .env(WORKER, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn four_processes_keep_one_window_and_all_get_their_permits() {
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
    let mut blocked = 0;
    for output in outputs {
        let before = instants.len();
        for line in output.map_while(Result::ok) {
            if let Some(permit) = line.strip_prefix("permit ") {
                let (at, waited) = permit.split_once(' ').unwrap();
                instants.push(at.parse().unwrap());
                blocked += waited.parse::<u64>().unwrap();
            }
        }
        assert_eq!(instants.len() - before, EACH, "no process starves");
    }
    for worker in &mut workers {
        assert!(worker.wait().unwrap().success());
    }
    // A worker prints an instant some time after its permit: what the machine has held up for less
    // than a second comes together with the next second's. With a limit of its own for each process
    // it would be eighty at once.
    instants.sort_unstable();
    for window in instants.windows(41) {
        let took = window[40] - window[0];
        assert!(took >= 1_000_000, "41 permits in {took} us");
    }
    assert!(blocked > 0, "waits are told");
}

/// A child of a fork has one thread. SQLite's locks that another thread of the parent holds at that
/// moment stay locked in the child for ever, so the parent here runs no other test.
#[test]
fn a_forked_child_has_handles_of_its_own() {
    let status = alone("fork").env(FORKER, "1").status().unwrap();
    assert!(status.success(), "{status}");
}

/// Not a test by itself: the process that forks.
#[test]
#[expect(unsafe_code, reason = "a fork is what is tested")]
fn fork() {
    if std::env::var_os(FORKER).is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for shared in [true, false] {
        let facade = facade(shared.then_some(directory.path()), "3/hour");
        block_on(async {
            facade
                .acquire(Some("ols"), HOST, AcquireMode::Fail, 1)
                .await
                .unwrap();
        });
        // SAFETY: the child runs only this closure and leaves by `_exit`.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let granted = block_on(async {
                let mut granted = 0;
                while facade
                    .acquire(Some("ols"), HOST, AcquireMode::Fail, 1)
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
        let left = block_on(facade.acquire(Some("ols"), HOST, AcquireMode::Fail, 1));
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
        one.cooldown_for("ols:origin.example.org", 3_600.0)
            .await
            .unwrap();
        let error = other
            .acquire(Some("ols"), HOST, AcquireMode::Fail, 1)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("cooldown"), "{error}");
        other
            .acquire(Some("lov"), HOST, AcquireMode::Fail, 1)
            .await
            .unwrap();
        let left = other.diagnose().await.unwrap();
        let left = left.iter().find(|key| key.cooldown.is_some()).unwrap();
        assert!(left.eligible_in > Duration::from_secs(3_000));
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
