//! The hub, which is built once and shared by all its callers.

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

/// The client through which all requests of a program are sent. Cheap to clone; clones share all
/// limits.
#[derive(Clone)]
pub struct Hub(pub(crate) Arc<HubParts>);

/// The parts of a [`Hub`], which all its clones share.
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
    /// Returns a [`HubBuilder`] for a [`Config`].
    #[must_use]
    pub fn builder(config: Config) -> HubBuilder {
        HubBuilder::new(config)
    }

    /// Fetches a body into memory. A response with any final status is returned as `Ok`, so the
    /// caller must check `head.status`.
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
    /// Returns a [`FetchError`] in these cases:
    ///
    /// - a breaker or the limiter refuses the request;
    /// - a fault remains after all retries;
    /// - the body is too large or cannot be decoded.
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

    /// Fetches like [`Hub::fetch`], but keeps at most `keep` bytes of the body in memory, and
    /// writes a longer body to a file without a name. This is for responses that wait for a slow
    /// reader.
    ///
    /// # Errors
    /// As [`Hub::fetch`], and if the file cannot be written.
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

    /// Fetches a body into a file. The file appears under its name only when it is complete.
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
    /// As [`Hub::fetch`], and if the file cannot be written.
    pub async fn download(
        &self,
        request: Request,
        path: &Path,
    ) -> Result<DownloadedResponse, FetchError> {
        // The file is created first, so that no request is sent if that fails.
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

    /// Fetches into a file like [`Hub::download`], and continues an interrupted attempt if the
    /// origin allows that.
    ///
    /// An unfinished file is `PATH.part`, with a note beside it. The finished file is at `path`,
    /// but is not durable until the caller renames it by [`Hub::keep`].
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

    /// Downloads like [`Hub::download_resumable`], and records the progress in a [`Transfer`].
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

    /// Renames a finished file to its final name, with the configured durability.
    ///
    /// # Errors
    /// Returns an [`io::Error`](std::io::Error) if the file cannot be synchronised or renamed.
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

    /// Fetches up to the headers, and leaves reading the body to the caller. Retries end when the
    /// headers have arrived.
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

    /// Validates a stale response in the background after it was served (RFC 5861 section 3), if a
    /// background slot is free.
    fn validate_later(&self, request: &Request, track: &RequestTrack) {
        if !track.wants_validation {
            return;
        }
        let Some(slot) = self.0.cache.background_slot() else {
            return;
        };
        let mut request = Request {
            validates: true,
            // The caller no longer waits for this request, so cancelling the caller's group must
            // not end it.
            group: None,
            ..request.clone()
        };
        // The whole stored response is validated, so the caller's conditions and range are removed.
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
            // A failure is reported as an event, and the next request validates again.
            let _ = hub.0.journey(&request, &ToCache).await;
            drop(slot);
        }));
    }

    /// Returns the [`CacheStore`] of responses, if one is configured.
    #[must_use]
    pub fn cache(&self) -> Option<&CacheStore> {
        self.0.cache.store()
    }

    /// Blocks a host for a time, as an operator commands.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the store fails.
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

    /// Closes the breaker of a host, as an operator commands.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the store fails.
    pub async fn unblock(&self, host: &Host) -> Result<(), StoreError> {
        let site = self.site(host);
        site.handle.unblock().await?;
        site.wake_all();
        Ok(())
    }

    /// Deletes the learned limits of a host. Returns whether there were any.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the store fails.
    pub async fn forget_learned(&self, host: &Host) -> Result<bool, StoreError> {
        let site = self.site(host);
        let forgotten = site.handle.forget_learned().await?;
        site.wake_all();
        Ok(forgotten)
    }

    /// Returns the [`SiteView`] of a host: the state of its site in the store.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the store fails.
    pub async fn view(&self, host: &Host) -> Result<SiteView, StoreError> {
        self.site(host).handle.view().await
    }

    /// Deletes the adaptive rates of this run, and waits until every report of the hub has reached
    /// the store. Programs must call this before they end.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the store fails.
    pub async fn close(&self) -> Result<(), StoreError> {
        let registry = &self.0.admission.registry;
        let forgotten = registry.forget_adaptation().await;
        registry.store.flush().await?;
        forgotten
    }

    /// Returns the [`SiteAdmission`] of a host.
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

    /// Returns the number of sites in memory.
    #[must_use]
    pub fn sites(&self) -> usize {
        self.0.admission.registry.len()
    }

    /// Deletes the remembered failure to read the robots.txt of a host, so that the next request
    /// reads the file again.
    pub async fn forget_robots_failure(&self, host: &Host) {
        self.0.robots.forget_failure(host.as_str()).await;
    }

    /// Returns the [`Config`] of the hub.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
    }
}

impl HubParts {
    /// Begins the [`RequestTrack`] of a request, and gives the request the next number.
    pub(crate) fn begin(&self, request: &Request) -> RequestTrack {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let deadline = request.deadline.or(self.config.transport.deadline);
        RequestTrack::begin(number, deadline, &self.runtime, &self.observers)
    }
}
