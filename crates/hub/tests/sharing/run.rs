//! Several processes, each with a hub and many callers, against one origin on loopback: what its
//! ledger saw.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, Clock, SystemClock};
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::transport::wire::WireOptions;
use docstokg_hub::{ErrorKind, Hub, RateWait, Request, store};
use docstokg_origin_sim::{Listener, OriginScript, Security, SimulatedWeb};

/// The host that all workers request from.
pub(crate) const HOST: &str = "polite.example";
const WINDOW: Duration = Duration::from_secs(1);

/// What is run.
#[derive(Clone, Debug)]
pub(crate) struct SharingPlan {
    /// The kind of store, and its file or URL.
    pub(crate) store: (&'static str, String),
    /// How many a second, over all processes.
    pub(crate) limit: usize,
    pub(crate) processes: usize,
    /// Callers of each process.
    pub(crate) callers: usize,
    pub(crate) seconds: u64,
    /// How many requests of each caller are answered before it ends; `None` for as many as can be in
    /// that time.
    pub(crate) each: Option<usize>,
    /// Callers wait for their turn; otherwise they are refused and ask again.
    pub(crate) block: bool,
    /// The URL under which the last process reaches the store, if that is another one.
    pub(crate) far: Option<String>,
    /// How many more than the limit may arrive in a window: what the machine has held up comes
    /// together with what follows.
    pub(crate) late: usize,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The first window that was exceeded at the origin, if one was.
    pub(crate) exceeded: Result<(), String>,
    /// The share of the rate that was used.
    pub(crate) used: f64,
    /// How many times as much the busiest process got as the least busy one.
    pub(crate) spread: f64,
    /// What each process got.
    pub(crate) by_worker: Vec<usize>,
    /// What the origin saw, and what the workers say they sent.
    pub(crate) arrived: usize,
    pub(crate) sent: usize,
    /// From the first arrival to the last.
    pub(crate) took: Duration,
}

/// Starts this program again as a worker. `arguments` lead it to [`work`].
pub(crate) fn start(
    plan: &SharingPlan,
    arguments: &[&str],
    name: usize,
    address: &str,
    begin: BootInstant,
) -> Child {
    let far = plan.far.as_ref().filter(|_| name + 1 == plan.processes);
    Command::new(std::env::current_exe().expect("this program"))
        .args(arguments)
        .env("WORKER_STORE", plan.store.0)
        .env("WORKER_PLACE", far.unwrap_or(&plan.store.1))
        .env("WORKER_ADDRESS", address)
        .env("WORKER_NAME", name.to_string())
        .env("WORKER_LIMIT", plan.limit.to_string())
        .env("WORKER_CALLERS", plan.callers.to_string())
        .env("WORKER_BEGIN", begin.as_micros().to_string())
        .env("WORKER_SECONDS", plan.seconds.to_string())
        .env("WORKER_EACH", plan.each.unwrap_or(usize::MAX).to_string())
        .env("WORKER_BLOCK", plan.block.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a worker")
}

/// An origin in a runtime of its own.
pub(crate) struct Served {
    _runtime: tokio::runtime::Runtime,
    pub(crate) web: SimulatedWeb,
    listener: Listener,
}

impl Served {
    pub(crate) fn start() -> Self {
        let web = SimulatedWeb::new([OriginScript::new(HOST)], SystemClock.boot());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime
            .block_on(Listener::start(&web, Security::Plain))
            .expect("a port");
        Self {
            _runtime: runtime,
            web,
            listener,
        }
    }

    pub(crate) fn address(&self) -> String {
        self.listener.address.to_string()
    }
}

/// Runs a plan to its end.
pub(crate) fn run(plan: &SharingPlan, arguments: &[&str]) -> Outcome {
    let served = Served::start();
    let begin = SystemClock.boot()
        + if plan.each.is_some() {
            Duration::from_secs(3)
        } else {
            Duration::from_millis(800)
        };
    let children: Vec<Child> = (0..plan.processes)
        .map(|name| start(plan, arguments, name, &served.address(), begin))
        .collect();
    let sent = children.into_iter().map(sent).sum();
    let arrivals = served.web.ledger().arrivals();
    let by_worker = by_worker(&served.web, plan.processes);
    let (most, least) = (
        by_worker.iter().max().copied().unwrap_or(0),
        by_worker.iter().min().copied().unwrap_or(0),
    );
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let spread = most as f64 / least.max(1) as f64;
    Outcome {
        exceeded: served
            .web
            .ledger()
            .no_window_exceeded(HOST, plan.limit + plan.late, WINDOW),
        used: served.web.ledger().rate_used(HOST, plan.limit, WINDOW),
        spread,
        by_worker,
        arrived: arrivals.len(),
        sent,
        took: arrivals
            .last()
            .map_or(Duration::ZERO, |last| last.at.since(arrivals[0].at)),
    }
}

/// Counts the requests that an origin has got from each worker.
pub(crate) fn by_worker(web: &SimulatedWeb, workers: usize) -> Vec<usize> {
    let mut counts = vec![0; workers];
    for arrival in web.ledger().arrivals() {
        let name = arrival
            .header("x-worker")
            .and_then(|value| value.parse::<usize>().ok());
        counts[name.expect("every worker sends its name")] += 1;
    }
    counts
}

fn sent(mut child: Child) -> usize {
    let lines: Vec<String> = BufReader::new(child.stdout.take().expect("its output"))
        .lines()
        .map_while(Result::ok)
        .collect();
    let said = lines.iter().find_map(|line| {
        line.split_once("sent=")
            .and_then(|(_, count)| count.trim().parse().ok())
    });
    assert!(child.wait().expect("its end").success(), "a worker failed");
    said.expect("a worker says what it sent")
}

fn variable(name: &str) -> String {
    std::env::var(name).expect("started by a run")
}

fn number(name: &str) -> u64 {
    variable(name).parse().expect("a number")
}

/// Does a worker's work, as its environment says.
pub(crate) fn work() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let sent = runtime.block_on(async {
        let begin = BootInstant::from_micros(number("WORKER_BEGIN"));
        let caller = Caller {
            hub: worker_hub(),
            sent: Arc::default(),
            name: variable("WORKER_NAME"),
            wait: if variable("WORKER_BLOCK") == "true" {
                RateWait::Deadline
            } else {
                RateWait::None
            },
            each: number("WORKER_EACH"),
            begin,
            end: begin + Duration::from_secs(number("WORKER_SECONDS")),
        };
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..number("WORKER_CALLERS") {
            callers.spawn(caller.clone().call());
        }
        while let Some(done) = callers.join_next().await {
            done.expect("no panic");
        }
        caller.hub.close().await.expect("the store answers");
        caller.sent.load(Ordering::Relaxed)
    });
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nsent={sent}")
        .and_then(|()| out.flush())
        .expect("the parent process reads");
}

/// Returns the hub of a worker, with the limit and the store of its plan.
fn worker_hub() -> Hub {
    let limit = number("WORKER_LIMIT");
    let flags = CommandLineFlags {
        rate: vec![format!(
            "{HOST}:metadata=rates:{limit}/SECOND,max_delay_ms:600000,max_concurrent:1000"
        )],
        rate_backend: Some(variable("WORKER_STORE")),
        rate_dsn: Some(variable("WORKER_PLACE")),
        ..CommandLineFlags::default()
    };
    let (config, _) = load(&ConfigSources {
        flags,
        ..ConfigSources::default()
    })
    .expect("a configuration");
    let store = store::open(
        &config.limits.backend,
        std::path::Path::new("."),
        Arc::new(SystemClock),
        Arc::new(|_: &str| ()),
    )
    .expect("a store");
    let connect_to = format!("{HOST}:80={}", variable("WORKER_ADDRESS"));
    let wire = WireOptions {
        connect_to: vec![connect_to.parse().expect("a mapping")],
        ..WireOptions::default()
    };
    Hub::builder(config)
        .wire(wire)
        .store(store)
        .build()
        .expect("a hub")
}

/// One of the callers of a worker.
#[derive(Clone)]
struct Caller {
    hub: Hub,
    /// How many requests the callers of this worker have sent.
    sent: Arc<AtomicU64>,
    name: String,
    wait: RateWait,
    /// How many of its requests are answered at most.
    each: u64,
    begin: BootInstant,
    end: BootInstant,
}

impl Caller {
    #[expect(clippy::disallowed_methods, reason = "a worker lives in real time")]
    async fn call(self) {
        tokio::time::sleep(self.begin.since(SystemClock.boot())).await;
        let mut answered = 0;
        while answered < self.each {
            let left = self.end.since(SystemClock.boot());
            if left.is_zero() {
                return;
            }
            let url = format!("http://{HOST}/").parse().expect("a URL");
            let request = Request::get(url)
                .header(
                    http::HeaderName::from_static("x-worker"),
                    self.name.parse().expect("a name"),
                )
                .deadline(left)
                .rate_wait(self.wait);
            match self.hub.fetch(request).await {
                Ok(_) => {
                    answered += 1;
                    self.sent.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) if matches!(error.kind, ErrorKind::RateLimited(_)) => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Err(error) if matches!(error.kind, ErrorKind::Deadline { .. }) => {
                    let attempts = u64::from(error.journey.attempts);
                    self.sent.fetch_add(attempts, Ordering::Relaxed);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
