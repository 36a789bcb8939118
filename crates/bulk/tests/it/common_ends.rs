//! Items of one step that end together: each end waits for a commit, so they wait at the same time.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use docstokg_bulk::bounds::LaneBounds;
use docstokg_bulk::deferral::Deferral;
use docstokg_bulk::digest::Fingerprint;
use docstokg_bulk::directory::Directory;
use docstokg_bulk::job::{ActiveItem, AwaitedHost, BoxFuture, Job, JobState, LoadedItem, NextStep};
use docstokg_bulk::lane::WorkLaneKey;
use docstokg_bulk::progress::RunProgress;
use docstokg_bulk::queue::{ClaimedItem, CommitMode, ItemEnd, NewItem};
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::{ItemFeed, RunBounds, RunEnd, RunError, RunMode, Scheduler};
use docstokg_hub::clock::{Clock as _, Timestamp};
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::{Hub, RequestGroup};
use docstokg_origin_sim::{SimTransport, SimulatedWeb, Simulation};

/// The number of items, which one step takes together.
const ITEMS: usize = 50;

/// An item that is done after its first step.
#[derive(Default)]
struct Single {
    is_done: bool,
    deferral: Option<Deferral>,
}

impl JobState for Single {
    fn decode(_: &str) -> Option<Self> {
        Some(Self::default())
    }

    fn encode(&self) -> Option<String> {
        None
    }

    fn attempts(&self) -> u32 {
        0
    }

    fn deferral(&mut self) -> &mut Option<Deferral> {
        &mut self.deferral
    }

    fn replan(&mut self) {}

    fn reopen(&mut self, _: Timestamp) {}
}

/// Counts the ends that wait at the same time.
struct Ends {
    context: RunContext,
    waiting: AtomicUsize,
    most: Arc<AtomicUsize>,
}

impl Job for Ends {
    type State = Single;
    type Step = ();

    fn load(&self, _: &ClaimedItem) -> LoadedItem<Single> {
        LoadedItem::Ready(Single::default())
    }

    fn next(&self, item: &Single, _: Timestamp) -> NextStep<()> {
        if item.is_done {
            NextStep::End
        } else {
            NextStep::Run(())
        }
    }

    fn lane(&self, _: &Single, (): &()) -> WorkLaneKey {
        WorkLaneKey::Start
    }

    fn bounds(&self, _: &WorkLaneKey) -> LaneBounds {
        LaneBounds {
            steps: 1,
            batch: ITEMS,
        }
    }

    fn awaited(&self, _: &Single, _: Timestamp) -> AwaitedHost {
        unreachable!("no item is deferred")
    }

    fn deadline(&self, _: &Single, _: Timestamp) -> Option<Timestamp> {
        None
    }

    fn run<'a>(
        &'a self,
        items: &'a mut [ActiveItem<Self>],
        _: &'a Arc<RequestGroup>,
    ) -> BoxFuture<'a, Result<(), RunError>> {
        for item in items {
            item.state.is_done = true;
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn finish(&self, item: ActiveItem<Self>) -> BoxFuture<'_, Result<(), RunError>> {
        Box::pin(async move {
            let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(waiting, Ordering::SeqCst);
            give_way().await;
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            let end = Some(ItemEnd::Done(item.id, 0));
            let (attempts, manifests) = (Vec::new(), Vec::new());
            Ok(self
                .context
                .manifest
                .record(attempts, manifests, end)
                .await?)
        })
    }
}

/// Waits once, so that other futures of the task are polled.
async fn give_way() {
    let mut has_waited = false;
    let wait = std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    });
    pin!(wait).await;
}

/// A list of items, given at once.
struct OneBatch(Option<Vec<NewItem>>);

impl ItemFeed for OneBatch {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<NewItem>>> {
        Box::pin(std::future::ready(self.0.take()))
    }
}

#[test]
fn items_that_end_in_one_step_wait_for_their_commits_together() {
    let simulation = Simulation::new();
    let web = SimulatedWeb::new(Vec::new(), simulation.boot());
    let (config, _) = load(&ConfigSources::default()).unwrap();
    let hub = Hub::builder(config)
        .runtime(simulation.runtime())
        .store(simulation.store())
        .transport(SimTransport::new(&simulation, &web))
        .build()
        .unwrap();
    let out = tempfile::TempDir::new().unwrap();
    let directory = Directory::open(out.path(), CommitMode::Inline, &[]).unwrap();
    let progress = Arc::new(RunProgress::default());
    let (runtime, shown) = (simulation.runtime(), Arc::clone(&progress));
    let most = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&most);
    let item = |number: usize| NewItem {
        untrusted: false,
        key_hash: Fingerprint::of(&number.to_string()).bytes(),
        name: number.to_string(),
        source: "list".to_owned(),
        line: number as u64,
        recorded_line: None,
        metadata: None,
        hidden: false,
        lane: WorkLaneKey::Start,
        saved_state: None,
    };
    let items = (1..=ITEMS).map(item).collect();
    let ended = simulation.block_on(async move {
        let context = RunContext::begin(&hub, runtime, &directory, &progress, "run");
        let context = context.await.unwrap();
        let job = Ends {
            context: context.clone(),
            waiting: AtomicUsize::new(0),
            most: counted,
        };
        let limits = RunBounds {
            workers: 50,
            max_bytes: None,
            max_wait: Duration::ZERO,
        };
        let scheduler = Arc::new(Scheduler {
            job: Arc::new(job),
            context,
            limits,
            mode: RunMode::Full,
        });
        scheduler
            .run(Box::new(OneBatch(Some(items))))
            .await
            .unwrap()
    });
    assert_eq!(ended, RunEnd::Complete);
    assert_eq!(shown.counters().items, ITEMS as u64);
    assert_eq!(most.load(Ordering::SeqCst), ITEMS);
}
