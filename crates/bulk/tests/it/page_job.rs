//! A second, tiny job: an item is a URL, its one step is to fetch it, and what it gives is a length.

use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::bounds::LaneBounds;
use docstokg_bulk::deferral::Deferral;
use docstokg_bulk::digest::Fingerprint;
use docstokg_bulk::job::{ActiveItem, AwaitedHost, BoxFuture, Job, JobState, LoadedItem, NextStep};
use docstokg_bulk::lane::WorkLaneKey;
use docstokg_bulk::queue::{ClaimedItem, ItemEnd, ManifestRow, NewItem};
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::{ItemFeed, RunError};
use docstokg_bulk::seconds;
use docstokg_hub::clock::Timestamp;
use docstokg_hub::{ErrorKind, Host, Hub, RateWait, Request, RequestGroup, Role};
use serde::{Deserialize, Serialize};

/// How often a page is asked for.
pub(crate) const MAX_ATTEMPTS: u32 = 4;

/// A page.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Page {
    url: String,
    attempts: u32,
    #[serde(with = "seconds::option")]
    not_before: Option<Timestamp>,
    length: Option<usize>,
    deferral: Option<Deferral>,
}

impl JobState for Page {
    fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn encode(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    fn attempts(&self) -> u32 {
        self.attempts
    }

    fn deferral(&mut self) -> &mut Option<Deferral> {
        &mut self.deferral
    }

    fn replan(&mut self) {}

    fn reopen(&mut self, until: Timestamp) {
        if self.not_before == Some(until) {
            self.not_before = Some(Timestamp::EPOCH);
        }
    }
}

/// Fetches pages.
pub(crate) struct Pages {
    pub(crate) context: RunContext,
}

impl Pages {
    async fn fetch(&self, item: &mut ActiveItem<Self>, requests: &Arc<RequestGroup>) {
        let page = &mut item.state;
        let request = Request::get(page.url.parse().unwrap())
            .role(Role::Metadata)
            .rate_wait(RateWait::Deadline)
            .deadline(Duration::from_secs(86_400))
            .retry_wait(Duration::ZERO)
            .in_group(Arc::clone(requests));
        let response = self.context.hub.fetch(request).await;
        if matches!(&response, Err(error) if matches!(error.kind, ErrorKind::Cancelled { .. })) {
            return;
        }
        page.attempts += 1;
        page.not_before = None;
        match response {
            Ok(response) if response.head.status.is_success() => {
                page.length = Some(response.body.len());
            }
            Ok(response) => {
                let wait = response.head.headers.get("retry-after");
                let wait = wait.and_then(|wait| wait.to_str().ok()?.parse().ok());
                page.not_before =
                    wait.map(|seconds| self.context.clock.now() + Duration::from_secs(seconds));
            }
            Err(error) => {
                if let ErrorKind::BreakerOpen(refused) = &error.kind {
                    // It was not asked.
                    page.attempts -= 1;
                    page.not_before = Some(self.context.clock.now() + refused.cooldown_remaining);
                }
            }
        }
    }

    fn row(&self, item: &ActiveItem<Self>) -> ManifestRow {
        let length = item.state.length;
        let record = serde_json::json!({ "page": item.name, "length": length });
        ManifestRow {
            at: self.context.clock.runtime().wall(),
            run_id: "run".into(),
            item: item.id,
            name: item.name.clone(),
            classification: if length.is_some() { "page" } else { "miss" }.to_owned(),
            reason: length.is_none().then_some("no_page"),
            detail: None,
            url: Some(item.state.url.clone()),
            path: None,
            sha256: None,
            bytes: length.map(|length| length as u64),
            fingerprint: None,
            record: record.to_string().into(),
        }
    }
}

impl Job for Pages {
    type State = Page;
    type Step = ();

    fn load(&self, item: &ClaimedItem) -> LoadedItem<Page> {
        let saved = item.saved_state.as_deref().and_then(Page::decode);
        LoadedItem::Ready(saved.unwrap_or_else(|| Page {
            url: item.name.clone(),
            attempts: item.attempts,
            not_before: None,
            length: None,
            deferral: None,
        }))
    }

    fn next(&self, page: &Page, now: Timestamp) -> NextStep<()> {
        match page.not_before {
            _ if page.length.is_some() || page.attempts >= MAX_ATTEMPTS => NextStep::End,
            Some(at) if at > now => NextStep::Wait(at),
            None if page.attempts > 0 => NextStep::End,
            _ => NextStep::Run(()),
        }
    }

    fn lane(&self, page: &Page, (): &()) -> WorkLaneKey {
        lane(&self.context.hub, &page.url)
    }

    fn bounds(&self, lane: &WorkLaneKey) -> LaneBounds {
        match lane {
            WorkLaneKey::Site { site, role } => {
                LaneBounds::of_site(self.context.hub.config(), site, *role)
            }
            _ => LaneBounds::steps(16),
        }
    }

    fn awaited(&self, page: &Page, _: Timestamp) -> AwaitedHost {
        AwaitedHost {
            host: host(&page.url).to_string(),
            why: "the host asked to wait".to_owned(),
            source: None,
            set_by: None,
            paused_resolver: None,
        }
    }

    fn deadline(&self, _: &Page, _: Timestamp) -> Option<Timestamp> {
        None
    }

    fn run<'a>(
        &'a self,
        items: &'a mut [ActiveItem<Self>],
        requests: &'a Arc<RequestGroup>,
    ) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(async move {
            for item in items {
                self.fetch(item, requests).await;
            }
            Ok(())
        })
    }

    fn finish(&self, item: ActiveItem<Self>) -> BoxFuture<'_, Result<(), RunError>> {
        Box::pin(async move {
            let (id, attempts) = (item.id, item.state.attempts);
            let is_there = item.state.length.is_some();
            let end = if is_there {
                ItemEnd::Done(id, attempts)
            } else {
                ItemEnd::Failed(id, attempts)
            };
            let row = self.row(&item);
            self.context
                .manifest
                .record(Vec::new(), vec![row], Some(end))
                .await?;
            self.context.progress.count(|counters| {
                counters.done += u64::from(is_there);
                counters.failed += u64::from(!is_there);
                counters.bytes += item.state.length.unwrap_or(0) as u64;
            });
            Ok(())
        })
    }
}

fn host(url: &str) -> Host {
    Host::of(&url.parse().unwrap()).unwrap()
}

fn lane(hub: &Hub, url: &str) -> WorkLaneKey {
    WorkLaneKey::Site {
        site: hub.config().site_key(&host(url)),
        role: Role::Metadata,
    }
}

/// Gives URLs to the queue, a few at a time.
pub(crate) struct Urls {
    pub(crate) hub: Hub,
    pub(crate) urls: std::vec::IntoIter<String>,
}

impl ItemFeed for Urls {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<NewItem>>> {
        let item = |url: String| NewItem {
            key_hash: Fingerprint::of(&url).bytes(),
            lane: lane(&self.hub, &url),
            name: url,
            source: "list".to_owned(),
            line: 1,
            recorded_line: None,
            metadata: None,
            hidden: false,
            untrusted: false,
            saved_state: None,
        };
        let batch: Vec<NewItem> = self.urls.by_ref().take(10).map(item).collect();
        Box::pin(std::future::ready((!batch.is_empty()).then_some(batch)))
    }
}
