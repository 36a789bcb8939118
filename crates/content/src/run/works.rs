//! Works as a [`Job`] of the bulk engine.

use std::collections::HashMap;
use std::sync::Arc;

use docstokg_bulk::bounds::LaneBounds;
use docstokg_bulk::job::{self, AwaitedHost, BoxFuture, Job, JobState as _, LoadedItem, NextStep};
use docstokg_bulk::lane::WorkLaneKey;
use docstokg_bulk::queue::{AttemptRow, ClaimedItem};
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::{RunError, RunMode};
use docstokg_bulk::staging::StagingContents;
use docstokg_hub::clock::Timestamp;
use docstokg_hub::stores::SiteKey;
use docstokg_hub::{CookieJar, Host, RequestGroup, RobotsPolicy, Role, redact};
use parking_lot::Mutex;

use super::RunOptions;
use super::files::RunFiles;
use super::lookup::WorkLookups;
use super::recorded_files::RecordedFiles;
use crate::artifact::Fetcher;
use crate::evidence::EvidenceExaminer;
use crate::identifier::Identifier;
use crate::manifest::Records;
use crate::reason::Reason;
use crate::resolver::settings::Settings;
use crate::work::Work;
use crate::work_sender::WorkSender;
use crate::work_state::{AwaitedEvent, Goals, WorkState, WorkStep};

/// An active work.
pub(super) type ActiveWork = job::ActiveItem<WorksJob>;

/// The [`Job`] of a run of works.
pub(super) struct WorksJob {
    pub(super) context: RunContext,
    pub(super) options: RunOptions,
    pub(super) goals: Goals,
    pub(super) lookups: WorkLookups,
    pub(super) files: RunFiles,
    pub(super) records: Records,
    /// The [`Work`]s whose names contain a credential, and which are not persisted.
    pub(super) hidden: Mutex<HashMap<[u8; 16], Work>>,
    /// Files that manifests among the inputs record, by the name of the work.
    pub(super) recorded: RecordedFiles,
}

impl WorksJob {
    pub(super) async fn new(
        context: RunContext,
        settings: Arc<Settings>,
        options: RunOptions,
    ) -> Result<Self, RunError> {
        let robots = robots(&settings, options.ignore_robots);
        let cookies = options.cookies.then(|| Arc::new(CookieJar::new()));
        let web = WorkSender::new(context.clone(), robots.clone());
        let fetcher = Fetcher {
            context: context.clone(),
            robots,
            settings: Arc::clone(&settings),
            role: options.role,
            min_pdf_bytes: options.min_pdf_bytes,
            in_flight: Mutex::default(),
            left: StagingContents::in_directory(&options.out).names(),
            cookies: cookies.clone(),
            examiner: EvidenceExaminer::new(Arc::clone(context.clock.runtime())),
        };
        let owners = context.queue.owners().await?;
        Ok(Self {
            lookups: WorkLookups::new(web.with_cookies(cookies), settings),
            files: RunFiles::new(fetcher, &options, owners),
            goals: Goals {
                kinds: options.kinds.clone(),
                choice: options.choice.clone(),
                max_attempts: options.max_attempts,
                deadline: options.item_deadline,
            },
            records: Records {
                run_id: Arc::clone(&context.run_id),
                dry_run: options.mode == RunMode::DryRun,
            },
            context,
            options,
            hidden: Mutex::default(),
            recorded: RecordedFiles::default(),
        })
    }

    /// Records attempts.
    pub(super) async fn record_attempts(&self, rows: Vec<AttemptRow>) -> Result<(), RunError> {
        Ok(self.context.manifest.record(rows, Vec::new(), None).await?)
    }

    async fn run_step(
        &self,
        items: &mut [ActiveWork],
        requests: &Arc<RequestGroup>,
    ) -> Result<(), RunError> {
        let now = self.context.clock.now();
        for item in &mut *items {
            item.state.begun.get_or_insert(now);
        }
        if self.options.mode == RunMode::DryRun {
            for item in items {
                self.plan_only(item);
            }
            return Ok(());
        }
        if self.keep_recorded_files(items).await? {
            // Works without a recorded file are planned again.
            return Ok(());
        }
        let host = items.first().and_then(|item| self.host_of(item));
        if self.context.stop_if_offline(host.as_deref()).await {
            return Ok(());
        }
        if let Some(NextStep::Run(WorkStep::Resolve(id))) = items.first().map(|item| item.next) {
            return self.resolve(id, items, requests).await;
        }
        for item in items {
            match item.next {
                NextStep::Run(WorkStep::Read(candidate)) => {
                    self.read(item, candidate, requests).await?;
                }
                NextStep::Run(WorkStep::Fetch(candidate)) => {
                    self.fetch(item, candidate, requests).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Ends a work of a dry run, with a description of its first request.
    fn plan_only(&self, item: &mut ActiveWork) {
        let NextStep::Run(step) = item.next else {
            return;
        };
        let shown = |candidate| {
            let location = item.state.candidate(candidate);
            location.map_or_else(String::new, |location| redact(&location.url))
        };
        let detail = match step {
            WorkStep::Fetch(candidate) => format!("would fetch {}", shown(candidate)),
            WorkStep::Read(candidate) => format!("would read {}", shown(candidate)),
            WorkStep::Resolve(id) => format!("would ask {id}"),
        };
        self.context.progress.list(&item.name, detail.clone());
        self.context.progress.plan(self.lane_of(&item.state, step));
        item.state.end_by(Reason::DryRun, &detail);
    }
}

impl Job for WorksJob {
    type State = WorkState;
    type Step = WorkStep;

    fn load(&self, item: &ClaimedItem) -> LoadedItem<WorkState> {
        let saved = item.saved_state.as_deref().and_then(WorkState::decode);
        let given = if item.hidden {
            self.hidden.lock().get(&item.key_hash).cloned()
        } else {
            None
        };
        let is_missing = item.hidden && given.is_none();
        let named = || Identifier::parse(&item.name).ok().map(Work::new);
        let Some(mut state) = saved.or_else(|| given.or_else(named).map(WorkState::new)) else {
            return LoadedItem::Unreadable;
        };
        state.attempts = state.attempts.max(item.attempts);
        state.is_input_untrusted = item.untrusted;
        if is_missing {
            state.end_by(
                Reason::InputNeeded,
                "its URL carries a credential and was not kept; give the input again with --retry-failed",
            );
            return LoadedItem::MissingInput(state);
        }
        LoadedItem::Ready(state)
    }

    fn next(&self, state: &WorkState, now: Timestamp) -> NextStep<WorkStep> {
        state.next(&self.goals, &self.lookups.resolvers, now)
    }

    fn lane(&self, state: &WorkState, step: &WorkStep) -> WorkLaneKey {
        self.lane_of(state, *step)
    }

    fn bounds(&self, lane: &WorkLaneKey) -> LaneBounds {
        self.bounds_of(lane)
    }

    fn site(&self, lane: &WorkLaneKey) -> Option<(SiteKey, Role)> {
        self.site_of(lane)
    }

    fn awaited(&self, state: &WorkState, until: Timestamp) -> AwaitedHost {
        let waits_for = state.waits_for(until);
        let failure = waits_for.and_then(|(_, failure)| failure);
        let (host, source) = match waits_for {
            Some((AwaitedEvent::Host(url), _)) => {
                (Host::of(url).ok().map(|host| host.to_string()), None)
            }
            Some((AwaitedEvent::Resolver(id), _)) => {
                (Some(self.host_of_resolver(id)), Some(id.to_string()))
            }
            None => (None, None),
        };
        let cause = failure.and_then(|failure| failure.cause.clone());
        let why = cause.as_ref().map(|cause| cause.why.clone());
        let why = why.or_else(|| failure.map(|failure| failure.reason.sentence().to_owned()));
        let set_by = cause.as_ref().and_then(|cause| cause.set_by);
        let paused_resolver = cause.as_ref().and_then(|cause| cause.resolver.clone());
        AwaitedHost {
            set_by,
            paused_resolver,
            host: cause
                .map(|cause| cause.host)
                .or(host)
                .unwrap_or_else(|| "its host".to_owned()),
            why: why.unwrap_or_else(|| "retry later".to_owned()),
            source,
        }
    }

    fn deadline(&self, state: &WorkState, now: Timestamp) -> Option<Timestamp> {
        let most = self.goals.deadline?;
        Some(state.begun.unwrap_or(now) + most)
    }

    fn run<'a>(
        &'a self,
        items: &'a mut [ActiveWork],
        requests: &'a Arc<RequestGroup>,
    ) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(self.run_step(items, requests))
    }

    fn finish(&self, item: ActiveWork) -> BoxFuture<'_, Result<(), RunError>> {
        Box::pin(self.record_end(item))
    }
}

/// Returns the policy for robots.txt. Services and hosts that permit text mining are exempt from
/// it.
fn robots(settings: &Settings, is_ignored: bool) -> RobotsPolicy {
    if is_ignored {
        return RobotsPolicy::Ignore;
    }
    let services = settings.service_urls();
    let services = services.filter_map(|url| Host::of(&url).ok());
    let text_mining = settings.text_mining_hosts().into_iter();
    let text_mining = text_mining.filter_map(|host| Host::parse(host).ok());
    RobotsPolicy::Obey {
        exempt: Arc::new(services.chain(text_mining).collect()),
    }
}
