//! Ontologies as a job of the bulk engine.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use docstokg_bulk::bounds::LaneBounds;
use docstokg_bulk::digest::Fingerprint;
use docstokg_bulk::job::{
    ActiveItem, AwaitedHost, BoxFuture, Job, JobState as _, LoadedItem, NextStep,
};
use docstokg_bulk::lane::WorkLaneKey;
use docstokg_bulk::panic_containment::contained;
use docstokg_bulk::queue::{ClaimedItem, NewItem};
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::RunError;
use docstokg_hub::clock::Timestamp;
use docstokg_hub::{Host, RedirectGate, RequestGroup, Role};
use docstokg_lookup::hub_sender::HubSender;
use docstokg_lookup::shared_responses::SharedResponses;
use parking_lot::Mutex;
use url::Url;

use super::examine::FileExaminer;
use super::state::{PullState, PullStep, WithheldSecrets};
use super::{PullOptions, RequestedOntology};
use crate::config::OntologyConfig;
use crate::library::Library;
use crate::licence::LicenceGate;
use crate::source::LookupStep;
use crate::wanted_ontology::{OntologyId, WantedOntology};

/// An ontology that a worker works on.
pub(super) type ActiveOntology = ActiveItem<OntologiesJob>;

/// The job of a pull: how to decode, begin and continue its ontologies.
pub(super) struct OntologiesJob {
    pub(super) context: RunContext,
    pub(super) config: Arc<OntologyConfig>,
    pub(super) library: Library,
    pub(super) licences: LicenceGate,
    pub(super) redirects: RedirectGate,
    /// Hosts of http addresses that were requested by https instead.
    pub(super) upgraded: Arc<Mutex<BTreeSet<String>>>,
    pub(super) examiner: Arc<dyn FileExaminer>,
    pub(super) options: PullOptions,
    /// Sender of the requests of look-ups.
    pub(super) sender: HubSender,
    /// Responses that serve every ontology.
    pub(super) shared: SharedResponses,
    /// States by name whose addresses have credentials, which the queue does not store.
    pub(super) withheld: Mutex<HashMap<String, PullState>>,
}

impl OntologiesJob {
    pub(super) fn new(
        context: RunContext,
        config: Arc<OntologyConfig>,
        library: Library,
        examiner: Arc<dyn FileExaminer>,
        options: PullOptions,
    ) -> Self {
        let upgraded: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let redirects = noting_upgrades(config.gate.for_redirects(), &upgraded);
        Self {
            licences: config.licences(),
            sender: HubSender::new(context.clone())
                .with_redirect_gate(Arc::clone(&redirects))
                .charging_services(),
            redirects,
            upgraded,
            context,
            config,
            library,
            examiner,
            options,
            shared: SharedResponses::default(),
            withheld: Mutex::default(),
        }
    }

    /// Creates an item of the queue.
    pub(super) fn item(&self, asked: RequestedOntology) -> NewItem {
        let name = asked.wanted.id.to_string();
        let state = self.begin(asked);
        self.keep_withheld(&name, &state);
        NewItem {
            key_hash: Fingerprint::of(&name).bytes(),
            name,
            source: "command line".to_owned(),
            line: 0,
            recorded_line: None,
            metadata: None,
            hidden: state.withheld() == WithheldSecrets::Request,
            untrusted: false,
            lane: match state.next(self.context.clock.now()) {
                NextStep::Run(step) => self.lane_of(&state, step),
                NextStep::Wait(_) | NextStep::End => WorkLaneKey::Start,
            },
            saved_state: state.encode(),
        }
    }

    /// Keeps a [`PullState`] in memory if its addresses must not be persisted.
    fn keep_withheld(&self, name: &str, state: &PullState) {
        if state.withheld() != WithheldSecrets::Nothing {
            self.withheld.lock().insert(name.to_owned(), state.clone());
        }
    }

    fn begin(&self, asked: RequestedOntology) -> PullState {
        let mut wanted = asked.wanted;
        if wanted.formats.is_empty() {
            wanted.formats.clone_from(&self.config.formats);
        }
        let mut state = if let Some(pin) = asked.pin {
            PullState::pinned(wanted, pin)
        } else {
            let sources = match (&wanted.sources, &wanted.url) {
                (named, _) if !named.is_empty() => named.clone(),
                // An address from the user is the place to look, for every preference of sources.
                (_, Some(_)) => vec!["direct".to_owned()],
                _ => self.config.prefer_source.clone(),
            };
            PullState::new(wanted, sources)
        };
        state.import_depth = asked.import_depth;
        state
    }

    fn lane_of(&self, state: &PullState, step: PullStep) -> WorkLaneKey {
        match step {
            PullStep::LookUp(source) => match state.sources.get(source) {
                Some(name) => WorkLaneKey::Source(name.as_str().into()),
                None => WorkLaneKey::Start,
            },
            PullStep::Fetch(location) => match state.locations.get(location) {
                Some(location) => self.lane_of_url(&location.url),
                None => WorkLaneKey::Start,
            },
        }
    }

    fn lane_of_url(&self, url: &Url) -> WorkLaneKey {
        Host::of(url).map_or(WorkLaneKey::Start, |host| WorkLaneKey::Site {
            site: self.context.hub.config().site_key(&host),
            role: Role::Artifact,
        })
    }

    async fn step(
        &self,
        item: &mut ActiveOntology,
        requests: &Arc<RequestGroup>,
    ) -> Result<(), RunError> {
        let NextStep::Run(step) = item.next else {
            return Ok(());
        };
        let url = self.url_of(&item.state, step);
        let host = url.as_ref().and_then(Url::host_str);
        if self.context.stop_if_offline(host).await {
            return Ok(());
        }
        item.state.begin(step);
        match step {
            PullStep::LookUp(source) => self.look_up(item, source, requests).await,
            PullStep::Fetch(location) => self.fetch(item, location, requests).await,
        }
    }

    /// Returns the URL that a [`PullStep`] begins with; `None` if the step needs no network.
    fn url_of(&self, state: &PullState, step: PullStep) -> Option<Url> {
        match step {
            PullStep::Fetch(location) => {
                state.locations.get(location).map(|place| place.url.clone())
            }
            PullStep::LookUp(source) => {
                let settings = &self.config.sources;
                let name = state.sources.get(source);
                let source = name.and_then(|name| settings.source(name))?;
                // A snapshot on disk, or an address from the user, is looked up without a network.
                match contained(|| source.begin(&state.wanted, settings))? {
                    LookupStep::Request(first) if first.request.file.is_none() => {
                        Some(first.request.url)
                    }
                    _ => None,
                }
            }
        }
    }
}

/// Wraps a [`RedirectGate`] to record the hosts whose http addresses become https.
fn noting_upgrades(gate: RedirectGate, upgraded: &Arc<Mutex<BTreeSet<String>>>) -> RedirectGate {
    let upgraded = Arc::clone(upgraded);
    Arc::new(move |url: &Url| {
        let passed = gate(url)?;
        if url.scheme() != passed.scheme() {
            upgraded.lock().extend(passed.host_str().map(str::to_owned));
        }
        Ok(passed)
    })
}

impl Job for OntologiesJob {
    type State = PullState;
    type Step = PullStep;

    fn load(&self, item: &ClaimedItem) -> LoadedItem<PullState> {
        let saved = item.saved_state.as_deref().and_then(PullState::decode);
        let known = self.withheld.lock().get(&item.name).cloned();
        match (saved, known) {
            (Some(saved), known) => match (saved.withheld(), known) {
                (WithheldSecrets::Nothing, _) => LoadedItem::Ready(saved),
                (_, Some(known)) => LoadedItem::Ready(saved.restored(known)),
                (WithheldSecrets::Locations, None) => LoadedItem::Ready(saved.looking_again()),
                (WithheldSecrets::Request, None) => {
                    LoadedItem::MissingInput(saved.without_request())
                }
            },
            (None, Some(known)) => LoadedItem::Ready(known),
            // The user may still give the address; no state is saved until then.
            (None, None) if item.hidden => match OntologyId::parse(&item.name) {
                Ok(id) => {
                    let state = PullState::new(WantedOntology::new(id), Vec::new());
                    LoadedItem::MissingInput(state.without_request())
                }
                Err(_) => LoadedItem::Unreadable,
            },
            (None, None) => LoadedItem::Unreadable,
        }
    }

    fn next(&self, state: &PullState, now: Timestamp) -> NextStep<PullStep> {
        state.next(now)
    }

    fn lane(&self, state: &PullState, step: &PullStep) -> WorkLaneKey {
        self.lane_of(state, *step)
    }

    fn bounds(&self, lane: &WorkLaneKey) -> LaneBounds {
        match lane {
            WorkLaneKey::Site { site, role } => {
                LaneBounds::of_site(self.context.hub.config(), site, *role)
            }
            _ => LaneBounds::steps(8),
        }
    }

    fn awaited(&self, state: &PullState, until: Timestamp) -> AwaitedHost {
        let (host, why) = state
            .waits_for(until)
            .unwrap_or(("its host", "retry later"));
        AwaitedHost {
            host: host.to_owned(),
            why: why.to_owned(),
            source: None,
            set_by: None,
            paused_resolver: None,
        }
    }

    fn deadline(&self, _: &PullState, _: Timestamp) -> Option<Timestamp> {
        None
    }

    fn run<'a>(
        &'a self,
        items: &'a mut [ActiveItem<Self>],
        requests: &'a Arc<RequestGroup>,
    ) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(async move {
            for item in items {
                let stepped = self.step(item, requests).await;
                self.keep_withheld(&item.name, &item.state);
                stepped?;
            }
            Ok(())
        })
    }

    fn finish(&self, item: ActiveItem<Self>) -> BoxFuture<'_, Result<(), RunError>> {
        Box::pin(self.record_end(item))
    }
}
