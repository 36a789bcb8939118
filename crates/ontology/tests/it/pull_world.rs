//! A small world of registries and file hosts under simulated time, and pulls in it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::queue::CommitMode;
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::RunEnd;
use docstokg_hub::Hub;
use docstokg_hub::clock::{Clock as _, Random};
use docstokg_hub::config::Config;
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::stores::StateStore;
use docstokg_hub::transport::OutgoingRequest;
use docstokg_lookup::credentials::SourceCredentials;
use docstokg_ontology::config::{OntologyConfig, OntologySettings};
use docstokg_ontology::examiner::FormatExaminer;
use docstokg_ontology::library::Library;
use docstokg_ontology::pull::examine::FileExaminer;
use docstokg_ontology::pull::{
    DeferredOntology, Pull, PullError, PullOptions, PullOutcome, RequestedOntology, Workplace,
};
use docstokg_ontology::source::SourceSettings;
use docstokg_ontology::wanted_ontology::{OntologyId, WantedOntology};
use docstokg_origin_sim::{
    FaultyTransport, Ledger, OriginScript, ScriptedReply, SimTransport, SimulatedWeb, Simulation,
};
use tempfile::TempDir;

pub(crate) struct World {
    pub(crate) simulation: Simulation,
    pub(crate) web: SimulatedWeb,
    pub(crate) config: OntologyConfig,
    pub(crate) store: Arc<dyn StateStore>,
    /// When this machine has no network, from the beginning of the simulation on.
    pub(crate) outage: Range<Duration>,
    out: TempDir,
}

/// Writes an OBO file.
pub(crate) fn obo(version: &str, more: &str) -> String {
    format!("format-version: 1.2\ndata-version: {version}\n{more}\n[Term]\nid: X:1\nname: one\n")
}

pub(crate) fn id(text: &str) -> OntologyId {
    OntologyId::parse(text).unwrap()
}

pub(crate) fn requested(names: &[&str]) -> Vec<RequestedOntology> {
    names
        .iter()
        .map(|name| RequestedOntology::new(WantedOntology::new(id(name))))
        .collect()
}

/// A registry that lists one OBO product for each name, with a licence that is accepted.
pub(crate) fn registry(names: &[&str]) -> ScriptedReply {
    let entry = |name: &&str| {
        serde_json::json!({
            "id": name,
            "license": { "url": "https://creativecommons.org/licenses/by/4.0/" },
            "products": [{
                "id": format!("{name}.obo"),
                "ontology_purl": format!("http://purl.obolibrary.org/obo/{name}.obo"),
            }],
        })
    };
    let ontologies: Vec<_> = names.iter().map(entry).collect();
    let text = serde_json::json!({ "@context": "x", "ontologies": ontologies }).to_string();
    ScriptedReply::ok(text).header("content-type", "application/ld+json")
}

pub(crate) const REGISTRY: &str = "obofoundry.org";
pub(crate) const PURL: &str = "purl.obolibrary.org";
pub(crate) const JSONLD: &str = "/registry/ontologies.jsonld";

/// A world with a registry that lists these ontologies, and a PURL server.
pub(crate) fn with_registry(names: &[&str], purl: OriginScript) -> World {
    World::new(vec![
        OriginScript::new(REGISTRY).route(JSONLD, [registry(names)]),
        purl,
    ])
}

impl World {
    pub(crate) fn new(origins: Vec<OriginScript>) -> Self {
        Self::within(Simulation::new(), origins)
    }

    /// Makes a world with its own time.
    pub(crate) fn within(simulation: Simulation, origins: Vec<OriginScript>) -> Self {
        let mut config = OntologySettings::default().resolve().unwrap();
        config.sources = Arc::new(SourceSettings {
            credentials: SourceCredentials::default().with_key("bioportal", "s3cret"),
            ..SourceSettings::default()
        });
        Self {
            web: SimulatedWeb::new(origins, simulation.boot()),
            store: simulation.store(),
            outage: Duration::ZERO..Duration::ZERO,
            simulation,
            config,
            out: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn library(&self) -> Library {
        Library::at(self.out.path().join("library"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.out.path().join(name)
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        self.web.ledger()
    }

    pub(crate) fn hub_config(&self) -> Config {
        let mut config = docstokg_hub::config::load::shipped().unwrap();
        self.config.apply_to(&mut config);
        config
    }

    pub(crate) fn pull(&self, requested: Vec<RequestedOntology>) -> Vec<PullOutcome> {
        self.pull_with(requested, PullOptions::default()).1
    }

    pub(crate) fn pull_with(
        &self,
        requested: Vec<RequestedOntology>,
        options: PullOptions,
    ) -> (RunEnd, Vec<PullOutcome>) {
        let examiner = Arc::new(FormatExaminer::default());
        self.pull_examined(requested, options, examiner).unwrap()
    }

    /// Pulls, and returns the ontologies that wait for a host then.
    pub(crate) fn deferred_by(
        &self,
        requested: Vec<RequestedOntology>,
        options: PullOptions,
    ) -> Vec<DeferredOntology> {
        let examiner = Arc::new(FormatExaminer::default());
        self.run_pull(requested, options, examiner).unwrap().2
    }

    /// Pulls with a reader of files that a test brings.
    pub(crate) fn pull_examined(
        &self,
        requested: Vec<RequestedOntology>,
        options: PullOptions,
        examiner: Arc<dyn FileExaminer>,
    ) -> Result<(RunEnd, Vec<PullOutcome>), PullError> {
        let (ended, results, _) = self.run_pull(requested, options, examiner)?;
        Ok((ended, results))
    }

    fn run_pull(
        &self,
        requested: Vec<RequestedOntology>,
        options: PullOptions,
        examiner: Arc<dyn FileExaminer>,
    ) -> Result<(RunEnd, Vec<PullOutcome>, Vec<DeferredOntology>), PullError> {
        let (time, outage) = (self.simulation.clone(), self.outage.clone());
        let fault_of =
            move |_: &OutgoingRequest| outage.contains(&time.elapsed()).then_some(Fault::NoRoute);
        let hub = Hub::builder(self.hub_config())
            .runtime(self.simulation.runtime())
            .store(Arc::clone(&self.store))
            .random(Random::seeded(5))
            .transport(FaultyTransport::new(
                SimTransport::new(&self.simulation, &self.web),
                fault_of,
            ))
            .build()
            .unwrap();
        let library = self.library();
        let runtime = self.simulation.runtime();
        let config = Arc::new(self.config.clone());
        self.simulation.block_on(async move {
            let workplace = Workplace::open(&library, CommitMode::Inline).await.unwrap();
            let (directory, progress) = (workplace.directory(), Arc::default());
            let context = RunContext::begin(&hub, runtime, directory, &progress, "run");
            let pull = Pull::new(context.await.unwrap(), config, library, examiner, options);
            let ended = match pull.run(requested).await {
                Ok(ended) => ended,
                Err(error) => {
                    workplace.close(None);
                    return Err(error);
                }
            };
            let results = pull.results().await.unwrap();
            let deferred = pull.deferred().await.unwrap();
            workplace.close(Some(&ended));
            Ok((ended, results, deferred))
        })
    }
}
