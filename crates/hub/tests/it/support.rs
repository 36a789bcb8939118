use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use docstokg_hub::clock::{Clock, Random};
use docstokg_hub::config::Config;
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::event::{Event, Observer};
use docstokg_hub::stores::SiteView;
use docstokg_hub::transport::wire::WireOptions;
use docstokg_hub::{Host, Hub, RateWait, Request};
use docstokg_origin_sim::{Ledger, Listener, OriginScript, SimTransport, SimulatedWeb, Simulation};
use parking_lot::Mutex;

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A request that waits for the rate as long as its host's policy says.
pub(crate) fn get(url: &str) -> Request {
    Request::get(url.parse().expect("a URL")).rate_wait(RateWait::Policy)
}

/// Runs work on real sockets, in real time.
pub(crate) fn on_sockets<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}

/// A hub that finds a host, given with its port, at the listener, and trusts its certificate.
pub(crate) fn trusting(
    configuration: Config,
    host: &str,
    listener: &Listener,
    certificate: &str,
) -> Hub {
    let connect_to = vec![
        format!("{host}={}", listener.address)
            .parse()
            .expect("a mapping"),
    ];
    let wire = WireOptions {
        connect_to,
        certificates: vec![certificate.into()],
        ..WireOptions::default()
    };
    Hub::builder(configuration)
        .wire(wire)
        .build()
        .expect("a hub")
}

/// Fetches one path after the other, and compares bodies and attempts.
pub(crate) async fn expect_answers(hub: &Hub, origin: &str, expected: &[(&str, &str, u32)]) {
    for (path, body, attempts) in expected {
        let answer = hub
            .fetch(get(&format!("{origin}{path}")))
            .await
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(
            (&*answer.body, answer.journey.attempts),
            (body.as_bytes(), *attempts),
            "{path}"
        );
    }
}

/// Lets so many callers ask for one thing so often. Each of them is answered each time.
pub(crate) async fn apply_load(hub: &Hub, url: &str, callers: usize, each: usize) {
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let (hub, url) = (hub.clone(), url.to_owned());
        running.spawn(async move {
            for _ in 0..each {
                assert_eq!(
                    hub.fetch(get(&url)).await.expect("an answer").head.status,
                    200
                );
            }
        });
    }
    while let Some(done) = running.join_next().await {
        done.expect("no refusal");
    }
}

/// The shipped configuration with flags over it.
pub(crate) fn config(flags: CommandLineFlags) -> Config {
    load(&ConfigSources {
        flags,
        ..ConfigSources::default()
    })
    .expect("a configuration")
    .0
}

pub(crate) fn rates(list: &[&str]) -> CommandLineFlags {
    CommandLineFlags {
        rate: list.iter().map(|text| (*text).to_owned()).collect(),
        ..CommandLineFlags::default()
    }
}

/// A hub, its origins and their time.
#[derive(Clone)]
pub(crate) struct HubWorld {
    pub(crate) simulation: Simulation,
    pub(crate) web: SimulatedWeb,
    pub(crate) hub: Hub,
    pub(crate) events: Arc<Notes>,
}

#[derive(Default)]
pub(crate) struct Notes(pub(crate) Mutex<Vec<Event>>);

impl Observer for Notes {
    fn note(&self, event: &Event) {
        self.0.lock().push(event.clone());
    }
}

impl HubWorld {
    pub(crate) fn new(origins: impl IntoIterator<Item = OriginScript>, config: Config) -> Self {
        Self::seeded(origins, config, 7)
    }

    /// A world in which everything wakes at the exact instant.
    pub(crate) fn exact(origins: impl IntoIterator<Item = OriginScript>, config: Config) -> Self {
        Self::on(Simulation::exact(), origins, config, 7)
    }

    pub(crate) fn seeded(
        origins: impl IntoIterator<Item = OriginScript>,
        config: Config,
        seed: u64,
    ) -> Self {
        Self::on(Simulation::seeded(seed), origins, config, seed)
    }

    fn on(
        simulation: Simulation,
        origins: impl IntoIterator<Item = OriginScript>,
        config: Config,
        seed: u64,
    ) -> Self {
        let web = SimulatedWeb::new(origins, Clock::boot(&simulation));
        let events = Arc::new(Notes::default());
        let hub = Hub::builder(config)
            .runtime(simulation.runtime())
            .store(simulation.store())
            .random(Random::seeded(seed))
            .transport(SimTransport::new(&simulation, &web))
            .observer(Arc::clone(&events) as Arc<dyn Observer>)
            .build()
            .expect("a hub");
        Self {
            simulation,
            web,
            hub,
            events,
        }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        self.web.ledger()
    }

    /// Runs one thing to its end.
    pub(crate) fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        work: impl FnOnce(Hub) -> F,
    ) -> T {
        self.simulation.block_on(work(self.hub.clone()))
    }

    /// Returns the state of a host.
    pub(crate) fn view(&self, host: &Host) -> SiteView {
        arrive(self.hub.view(host)).expect("memory answers")
    }

    /// Blocks a host on an operator's word.
    pub(crate) fn block(&self, host: &Host, length: Duration, reason: &str) {
        arrive(self.hub.block(host, length, reason)).expect("memory answers");
    }

    /// Closes the breaker of a host on an operator's word.
    pub(crate) fn unblock(&self, host: &Host) {
        arrive(self.hub.unblock(host)).expect("memory answers");
    }

    /// Fetches all at once and returns the outcomes in order of arrival: seconds since the start,
    /// and the status or the class of the error.
    pub(crate) fn fetch_all(&self, requests: Vec<Request>) -> Vec<(f64, String)> {
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        for request in requests {
            let (hub, outcomes, simulation) = (
                self.hub.clone(),
                Arc::clone(&outcomes),
                self.simulation.clone(),
            );
            self.simulation.start(async move {
                let outcome = match hub.fetch(request).await {
                    Ok(answer) => answer.head.status.as_str().to_owned(),
                    Err(error) => error.kind.class().to_owned(),
                };
                outcomes
                    .lock()
                    .push((simulation.elapsed().as_secs_f64(), outcome));
            });
        }
        self.simulation.run();

        outcomes.lock().clone()
    }
}

/// Takes the result of something that does not wait.
fn arrive<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("memory answers at once"),
    }
}

/// Counts outcomes by word.
pub(crate) fn count(outcomes: &[(f64, String)], word: &str) -> usize {
    outcomes
        .iter()
        .filter(|(_, outcome)| outcome == word)
        .count()
}
