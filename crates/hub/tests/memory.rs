//! What the hub keeps per host, counted by the allocator. A program of its own: the allocator is
//! global.

#![allow(clippy::expect_used, reason = "a failed expectation is a failed test")]

use std::alloc::System;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use docstokg_hub::clock::Random;
use docstokg_hub::config::load::shipped;
use docstokg_hub::policy::breaker::BreakerPolicy;
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::policy::rate::Window;
use docstokg_hub::policy::site::{
    AdmissionDecision, AdmissionRequest, BudgetCost, LanePolicy, Site,
};
use docstokg_hub::policy::time::BootInstant;
use docstokg_hub::policy::windows::Windows;
use docstokg_hub::stores::StateStore;
use docstokg_hub::stores::memory::MemoryStore;
use docstokg_hub::transport::{
    Body, DialObserver, IncomingResponse, OutgoingRequest, SendError, Transport,
};
use docstokg_hub::{Hub, Request, RobotsPolicy};
use docstokg_origin_sim::Simulation;
use http::{HeaderMap, StatusCode, Version};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Returns the bytes that `work` leaves allocated.
fn kept<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(ALLOCATOR);
    let value = work();
    let change = region.change();
    (
        value,
        change
            .bytes_allocated
            .saturating_sub(change.bytes_deallocated),
    )
}

/// One test, so that nothing else allocates meanwhile.
#[test]
fn hosts_and_rings_stay_small_and_idle_hosts_are_forgotten() {
    idle_hosts();
    full_rings();
    waiting_requests();
}

/// Answers everything at once, and remembers nothing.
struct Instant;

struct Nothing;

impl Body for Nothing {
    fn chunk(
        &mut self,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Bytes>, SendError>> + Send + '_>> {
        Box::pin(async { Ok(None) })
    }
}

impl Transport for Instant {
    fn send(
        &self,
        _: OutgoingRequest,
        _: Arc<dyn DialObserver>,
    ) -> Pin<Box<dyn Future<Output = Result<IncomingResponse, SendError>> + Send + '_>> {
        let answer = IncomingResponse {
            status: StatusCode::OK,
            version: Version::HTTP_11,
            headers: HeaderMap::new(),
            body: Box::new(Nothing),
        };
        Box::pin(async { Ok(answer) })
    }
}

fn idle_hosts() {
    const HOSTS: usize = 20_000;
    let simulation = Simulation::exact();
    let store = Arc::new(MemoryStore::new(Arc::new(simulation.clone())));
    let hub = Hub::builder(shipped().expect("a configuration"))
        .runtime(simulation.runtime())
        .random(Random::seeded(1))
        .store(Arc::clone(&store) as Arc<dyn StateStore>)
        .transport(Arc::new(Instant))
        .build()
        .expect("a hub");
    let touch = |n: usize| {
        let request =
            Request::get(format!("http://h{n}.example/").parse().expect("a URL")).discovered();
        let hub = hub.clone();
        simulation.block_on(async move { hub.fetch(request).await.expect("an answer") });
    };
    (0..1_000).for_each(touch);
    let ((), bytes) = kept(|| (1_000..1_000 + HOSTS).for_each(touch));
    let each = bytes / HOSTS;
    assert!(
        each <= 512,
        "{each} bytes per idle host and role, its one permit included"
    );
    assert_eq!(
        store.len(),
        HOSTS + 1_000,
        "none is forgotten while its windows matter"
    );

    simulation.run_for(Duration::from_secs(3 * 86_400));
    (50_000..50_000 + HOSTS).for_each(touch);
    assert!(
        store.len() <= HOSTS + 1_000,
        "idle hosts were not dropped: {}",
        store.len()
    );
}

/// Refuses every connection.
struct RefusingTransport;

impl Transport for RefusingTransport {
    fn send(
        &self,
        _: OutgoingRequest,
        _: Arc<dyn DialObserver>,
    ) -> Pin<Box<dyn Future<Output = Result<IncomingResponse, SendError>> + Send + '_>> {
        let refused = SendError::Fault {
            fault: Fault::Connect,
            message: "connection refused".to_owned(),
        };
        Box::pin(async { Err(refused) })
    }
}

/// Requests to hosts that refuse connections wait for their next attempt: a bulk run has thousands of
/// them.
fn waiting_requests() {
    const REQUESTS: usize = 2_000;
    let simulation = Simulation::exact();
    let hub = Hub::builder(shipped().expect("a configuration"))
        .runtime(simulation.runtime())
        .random(Random::seeded(1))
        .store(simulation.store())
        .transport(Arc::new(RefusingTransport))
        .build()
        .expect("a hub");
    let start = |n: usize| {
        let url = format!("http://h{n}.example/file.pdf");
        let robots = RobotsPolicy::Obey {
            exempt: Arc::default(),
        };
        let request = Request::get(url.parse().expect("a URL")).robots(robots);
        let hub = hub.clone();
        simulation.start(async move {
            let path = std::path::Path::new("/nowhere/file");
            let _ = hub.download_resumable(request, path).await;
        });
    };
    start(REQUESTS);
    simulation.run_for(Duration::from_millis(20));
    let ((), bytes) = kept(|| {
        (0..REQUESTS).for_each(start);
        simulation.run_for(Duration::from_millis(20));
    });
    let each = bytes / REQUESTS;
    assert!(each <= 22_000, "{each} bytes per request that waits");
}

fn full_rings() {
    for (limit, per) in [(5_000u32, 3_600u64), (1_000_000, 86_400), (4_096, 3_600)] {
        let window = Window::new(
            NonZeroU32::new(limit).expect("not zero"),
            Duration::from_secs(per),
        );
        let costs = [BudgetCost {
            budget: 0,
            weight: 1,
            windows: Arc::new(Windows::new([window], Duration::from_millis(10))),
            slots: None,
        }];
        let ask = AdmissionRequest::at_once(&costs, LanePolicy::new(BreakerPolicy::default()));
        let (site, bytes) = kept(|| {
            let mut site = Site::default();
            site.ensure_budgets(1);
            for permit in 0..limit {
                let now = BootInstant::from_micros(1_000_000_000 + u64::from(permit) * 1_000);
                assert!(matches!(
                    site.enter(&ask, now).entry,
                    AdmissionDecision::Go(_)
                ));
            }
            site
        });
        assert!(bytes <= 64 << 10, "{window}: {bytes} bytes");
        drop(site);
    }
}
