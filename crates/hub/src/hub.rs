//! The hub: built once, shared by all its callers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use docstokg_stores::cache::CacheStore;
use docstokg_stores::{SiteView, StateStore, StoreError};
use http::header::{
    IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};

use crate::admission::{AdmissionGate, AdmissionQueue, BudgetSetKey, SiteAdmission, SiteNews};
use crate::builder::HubBuilder;
use crate::cache::ResponseCache;
use crate::clock::{Random, Runtime};
use crate::config::Config;
use crate::download::{FileTarget, FileWriter, Transfer};
use crate::error::{ErrorKind, FetchError};
use crate::event::Observer;
use crate::exchange::{DeliveredBody, OpenedBody, ToCache, ToMemory, ToSpool, ToStream, Wire};
use crate::fetch::FinalResponse;
use crate::journey::{Journey, RequestTrack};

use crate::known_hosts::KnownHosts;
use crate::request::Request;
use crate::response::{DownloadedResponse, Response, SpooledResponse, StreamedResponse};
use crate::robots::RobotsGate;
use crate::stream::BodyStream;

/// One polite client for everything. Cheap to clone; clones share all limits.
#[derive(Clone)]
pub struct Hub(pub(crate) Arc<HubParts>);

/// What a hub is made of.
pub(crate) struct HubParts {
    pub(crate) config: Arc<Config>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) random: Random,
    pub(crate) files: FileWriter,
    pub(crate) admission: AdmissionGate,
    pub(crate) robots: RobotsGate,
    pub(crate) cache: Arc<ResponseCache>,
    pub(crate) wire: Wire,
    pub(crate) known_hosts: Arc<KnownHosts>,
    pub(crate) observers: Arc<[Arc<dyn Observer>]>,
    pub(crate) requests: AtomicU64,
}

impl Hub {
    /// Starts to put a hub together.
    #[must_use]
    pub fn builder(config: Config) -> HubBuilder {
        HubBuilder::new(config)
    }

    /// Fetches into memory. Any final status is an answer; look at it.
    ///
    /// ```
    /// use docstokg_hub::Request;
    /// # use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};
    /// # let simulation = Simulation::exact();
    /// # let origin = OriginScript::new("api.example").route("/work", [ScriptedReply::ok("found")]);
    /// # let (hub, _web) = simulation.hub([origin]);
    /// # simulation.block_on(async move {
    /// let response = hub.fetch(Request::get("http://api.example/work".parse()?)).await?;
    /// assert_eq!(response.head.status, 200);
    /// assert_eq!(response.body, "found");
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// Refused by a breaker or the limiter, a fault that retries did not fix, a body that may not
    /// be kept.
    pub async fn fetch(&self, request: Request) -> Result<Response, FetchError> {
        let mut arrived = self.0.journey(&request, &ToMemory).await?;
        self.validate_later(&request, &arrived.track);
        let (DeliveredBody::Body(body) | DeliveredBody::Preview(body)) = arrived.body;
        Ok(Response {
            head: *arrived.head,
            body,
            journey: arrived.track.end(None),
        })
    }

    /// Fetches as [`Hub::fetch`], and keeps no more than `keep` bytes of the body in memory: what is
    /// longer goes to a file without a name. For bodies that wait until they are read.
    ///
    /// # Errors
    /// As [`Hub::fetch`], and when that file cannot be written.
    pub async fn fetch_spooled(
        &self,
        request: Request,
        keep: usize,
    ) -> Result<SpooledResponse, FetchError> {
        let mut arrived = self.0.journey(&request, &ToSpool { keep }).await?;
        self.validate_later(&request, &arrived.track);
        let body = match arrived.body {
            DeliveredBody::Body(body) => body,
            DeliveredBody::Preview(preview) => preview.into(),
        };
        Ok(SpooledResponse {
            head: *arrived.head,
            body,
            journey: arrived.track.end(None),
        })
    }

    /// Fetches into a file, which appears under its name when it is complete.
    ///
    /// ```
    /// use docstokg_hub::{Request, Role};
    /// # use docstokg_hub::{Hub, clock::BootInstant, config};
    /// # use docstokg_origin_sim::{Listener, OriginScript, ScriptedReply, Security, SimulatedWeb};
    /// # let origin = OriginScript::new("files.example").handler(|_, _| ScriptedReply::ok("%PDF-1.7"));
    /// # let web = SimulatedWeb::new([origin], BootInstant::from_micros(0));
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("a.pdf");
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let listener = Listener::start(&web, Security::Plain).await?;
    /// # let hub = Hub::builder(config::load::shipped()?).build()?;
    /// # let url = format!("http://{}/a.pdf", listener.address).parse()?;
    /// let downloaded = hub.download(Request::get(url).role(Role::Artifact), &path).await?;
    /// let file = downloaded.file.expect("the status is a success");
    /// assert_eq!((&file.path, file.bytes), (&path, 8));
    /// assert_eq!(std::fs::read_to_string(path)?, "%PDF-1.7");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Hub::fetch`], and when the file cannot be written.
    pub async fn download(
        &self,
        request: Request,
        path: &Path,
    ) -> Result<DownloadedResponse, FetchError> {
        // A file that cannot be written costs the origin nothing.
        self.0.files.create(path).map_err(|source| FetchError {
            kind: ErrorKind::File {
                path: path.display().to_string(),
                source,
            },
            url: crate::redact::redact(&request.url),
            journey: Journey::default(),
        })?;
        self.to_file(
            request,
            FileTarget {
                files: &self.0.files,
                path: path.into(),
                resume: false,
                transfer: None,
            },
        )
        .await
    }

    /// Fetches into a file as [`Hub::download`], going on where an earlier attempt broke off if the
    /// origin allows.
    ///
    /// What is there of an unfinished file is `PATH.part`, with a note beside it. The finished file
    /// is not durable yet: [`Hub::keep`] makes it so.
    ///
    /// # Errors
    /// As [`Hub::download`].
    pub async fn download_resumable(
        &self,
        request: Request,
        path: &Path,
    ) -> Result<DownloadedResponse, FetchError> {
        let target = FileTarget {
            files: &self.0.files,
            path: path.into(),
            resume: true,
            transfer: None,
        };
        self.to_file(request, target).await
    }

    /// Downloads as [`Hub::download_resumable`] does, and records in `transfer` how far it is.
    ///
    /// # Errors
    /// As [`Hub::download`].
    pub async fn download_watched(
        &self,
        request: Request,
        path: &Path,
        transfer: &Arc<Transfer>,
    ) -> Result<DownloadedResponse, FetchError> {
        let target = FileTarget {
            files: &self.0.files,
            path: path.into(),
            resume: true,
            transfer: Some(Arc::clone(transfer)),
        };
        self.to_file(request, target).await
    }

    /// Gives a finished file its final name, made durable as config says.
    ///
    /// # Errors
    /// It cannot be synced or renamed.
    pub async fn keep(&self, file: &Path, path: &Path) -> std::io::Result<()> {
        self.0.files.keep(file, path).await
    }

    async fn to_file(
        &self,
        request: Request,
        target: FileTarget<'_>,
    ) -> Result<DownloadedResponse, FetchError> {
        let mut arrived = self.0.journey(&request, &target).await?;
        self.validate_later(&request, &arrived.track);
        let (file, preview) = match arrived.body {
            DeliveredBody::Body(file) => (Some(file), bytes::Bytes::new()),
            DeliveredBody::Preview(preview) => (None, preview),
        };
        Ok(DownloadedResponse {
            head: *arrived.head,
            file,
            preview,
            journey: arrived.track.end(None),
        })
    }

    /// Fetches up to the headers and leaves the body to the caller. Retrying ends with the headers.
    ///
    /// # Errors
    /// As [`Hub::fetch`].
    pub async fn stream(&self, request: Request) -> Result<StreamedResponse, FetchError> {
        let FinalResponse {
            head,
            body,
            mut track,
        } = self.0.journey(&request, &ToStream).await?;
        self.validate_later(&request, &track);
        let journey = track.so_far();
        let body = match body {
            DeliveredBody::Body(OpenedBody::Stored(body)) => BodyStream::stored(body, track),
            DeliveredBody::Body(OpenedBody::Live(open)) => {
                let longest = self.0.config.transport.consumer_timeout;
                BodyStream::live(*open, track, longest, &self.0.runtime)
            }
            DeliveredBody::Preview(preview) => {
                track.end(None);
                BodyStream::whole(preview)
            }
        };
        Ok(StreamedResponse {
            head: *head,
            body,
            journey,
        })
    }

    /// Validates a stale answer in the background after it was served (RFC 5861 section 3), unless
    /// too many are being validated.
    fn validate_later(&self, request: &Request, track: &RequestTrack) {
        if !track.wants_validation {
            return;
        }
        let Some(slot) = self.0.cache.background_slot() else {
            return;
        };
        let mut request = Request {
            validates: true,
            // What the caller waits for no longer does not end with it.
            group: None,
            ..request.clone()
        };
        // It is the whole stored answer that is validated, whatever the caller asked of it.
        for name in [
            RANGE,
            IF_RANGE,
            IF_MATCH,
            IF_NONE_MATCH,
            IF_MODIFIED_SINCE,
            IF_UNMODIFIED_SINCE,
        ] {
            request.headers.remove(name);
        }
        let hub = self.clone();
        self.0.runtime.spawn(Box::pin(async move {
            // Its failure is in the events; the next request validates again.
            let _ = hub.0.journey(&request, &ToCache).await;
            drop(slot);
        }));
    }

    /// Returns the store of answers, where one is configured.
    #[must_use]
    pub fn cache(&self) -> Option<&CacheStore> {
        self.0.cache.store()
    }

    /// Blocks a host for a time, on an operator's word.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn block(
        &self,
        host: &Host,
        length: Duration,
        reason: &str,
    ) -> Result<(), StoreError> {
        let site = self.site(host);
        site.handle
            .block(length, &OpenReason::Operator(reason.into()))
            .await?;
        site.wake_all();
        Ok(())
    }

    /// Closes the breaker of a host, on an operator's word.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn unblock(&self, host: &Host) -> Result<(), StoreError> {
        let site = self.site(host);
        site.handle.unblock().await?;
        site.wake_all();
        Ok(())
    }

    /// Forgets what was learned of a host's limits. Returns whether there was anything.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn forget_learned(&self, host: &Host) -> Result<bool, StoreError> {
        let site = self.site(host);
        let forgotten = site.handle.forget_learned().await?;
        site.wake_all();
        Ok(forgotten)
    }

    /// Returns the state of a host.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn view(&self, host: &Host) -> Result<SiteView, StoreError> {
        self.site(host).handle.view().await
    }

    /// Forgets the adaptive rates of this run, and waits until every report to the store has
    /// reached it. A program calls this before it ends.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn close(&self) -> Result<(), StoreError> {
        let registry = &self.0.admission.registry;
        let forgotten = registry.forget_adaptation().await;
        registry.store.flush().await?;
        forgotten
    }

    /// Returns the site of a host.
    pub(crate) fn site(&self, host: &Host) -> Arc<SiteAdmission> {
        let lane = self
            .0
            .admission
            .registry
            .lane(&BudgetSetKey::plain(host, Role::Metadata));
        lane.site
    }

    pub(crate) fn resolver_site(&self, name: &str) -> Arc<SiteAdmission> {
        self.0.admission.registry.resolver_site(name)
    }

    pub(crate) fn store(&self) -> &dyn StateStore {
        &*self.0.admission.registry.store
    }

    pub(crate) fn news(&self) -> &SiteNews {
        &self.0.admission.registry.news
    }

    pub(crate) fn lane(&self, key: &BudgetSetKey) -> AdmissionQueue {
        self.0.admission.registry.lane(key)
    }

    /// Returns how many sites the hub remembers.
    #[must_use]
    pub fn sites(&self) -> usize {
        self.0.admission.registry.len()
    }

    /// Forgets that the robots.txt of a host could not be read: the next request asks for it anew.
    pub async fn forget_robots_failure(&self, host: &Host) {
        self.0.robots.forget_failure(host.as_str()).await;
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
    }
}

impl HubParts {
    /// Begins the record of a request.
    pub(crate) fn begin(&self, request: &Request) -> RequestTrack {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let deadline = request.deadline.or(self.config.transport.deadline);
        RequestTrack::begin(number, deadline, &self.runtime, &self.observers)
    }
}
