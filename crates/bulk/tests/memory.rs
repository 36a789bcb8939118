//! What a run keeps per host, counted by the allocator. A program of its own: the allocator is
//! global.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

use std::alloc::System;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::directory::Directory;
use docstokg_bulk::progress::RunProgress;
use docstokg_bulk::queue::CommitMode;
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::{RunBounds, RunEnd, RunMode, Scheduler};
use docstokg_hub::Hub;
use docstokg_hub::clock::Random;
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::transport::{
    Body, DialObserver, IncomingResponse, OutgoingRequest, SendError, Transport,
};
use docstokg_origin_sim::Simulation;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use crate::page_job::{Pages, Urls};

// A job that is not about works.
#[path = "it/page_job.rs"]
mod page_job;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Answers everything at once, and remembers nothing.
struct Instant;

struct Nothing;

impl Body for Nothing {
    fn chunk(
        &mut self,
    ) -> Pin<Box<dyn Future<Output = Result<Option<bytes::Bytes>, SendError>> + Send + '_>> {
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
            status: http::StatusCode::OK,
            version: http::Version::HTTP_11,
            headers: http::HeaderMap::new(),
            body: Box::new(Nothing),
        };
        Box::pin(async { Ok(answer) })
    }
}

/// Runs a list with one page of each of so many hosts, and returns the bytes that are allocated when
/// all have ended and only the progress of the run is still there.
fn kept_after_a_run_over(hosts: usize) -> usize {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("c.yaml");
    // Without windows nothing of a host matters after its answer.
    let free = "{ rates: [], max_concurrent: 8 }";
    let yaml = format!("version: 1\nlimits: {{ defaults: {{ metadata: {free} }} }}\n");
    std::fs::write(&file, yaml).unwrap();
    let sources = ConfigSources {
        file: Some(file),
        ..ConfigSources::default()
    };
    let (config, _) = load(&sources).unwrap();
    let urls: Vec<String> = (0..hosts)
        .map(|n| format!("http://h{n}.example/"))
        .collect();
    let simulation = Simulation::exact();
    let region = Region::new(ALLOCATOR);
    let hub = Hub::builder(config)
        .runtime(simulation.runtime())
        .store(simulation.store())
        .random(Random::seeded(5))
        .transport(Arc::new(Instant))
        .build()
        .unwrap();
    let directory = Directory::open(out.path(), CommitMode::Inline, &[]).unwrap();
    let progress = Arc::new(RunProgress::default());
    let runtime = simulation.runtime();
    let (used, shown) = (hub.clone(), Arc::clone(&progress));
    let ended = simulation.block_on(async move {
        let context = RunContext::begin(&used, runtime, &directory, &shown, "run")
            .await
            .unwrap();
        let scheduler = Arc::new(Scheduler {
            job: Arc::new(Pages {
                context: context.clone(),
            }),
            context,
            limits: RunBounds {
                workers: 50,
                max_bytes: None,
                max_wait: Duration::from_secs(60),
            },
            mode: RunMode::Full,
        });
        let urls = urls.into_iter();
        scheduler
            .run(Box::new(Urls { hub: used, urls }))
            .await
            .unwrap()
    });
    assert_eq!(ended, RunEnd::Complete);
    assert_eq!(progress.counters().done, hosts as u64);
    // What hosts leave in the hub is bounded, and counted there.
    drop(hub);
    let change = region.change();
    change
        .bytes_allocated
        .saturating_sub(change.bytes_deallocated)
}

/// One test, so that nothing else allocates meanwhile.
#[test]
fn hosts_that_have_no_work_left_are_forgotten() {
    const HOSTS: usize = 4_000;
    let (few, many) = (
        kept_after_a_run_over(100),
        kept_after_a_run_over(100 + HOSTS),
    );
    let each = many.saturating_sub(few) / HOSTS;
    // Tables keep the room for all that were active at once, but no names.
    assert!(each <= 64, "{each} bytes per host: {few} and {many}");
}
