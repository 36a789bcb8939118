//! The fetch of a file: checks of URL and licence, then conditions, then the file itself.

use std::sync::Arc;

use docstokg_bulk::digest::Fingerprint;
use docstokg_bulk::progress::ActiveFile;
use docstokg_bulk::scheduler::{RunError, RunMode};
use docstokg_bulk::staging::staging_file;
use docstokg_hub::{DownloadedResponse, RequestGroup, ResponseHead, RetryLater, SavedFile, redact};
use http::header::{ETAG, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use url::Url;

use super::describe::{cached, planned};
use super::fetch_failure::{self, Verdict};
use super::ontologies::{ActiveOntology, OntologiesJob};
use super::outcome::{PullEnding, PullOutcome};
use super::probe::{ProbeResult, text};
use super::state::{PullState, PullStep};
use super::version::{is_same_version, wanted_version};
use super::{ProbeMode, checksum, saved_file, store};
use crate::library::{LibraryError, Manifest, StoredVersion};
use crate::licence::Judgement;
use crate::source::{Absence, AbsenceReason, OntologyLocation};
use crate::wanted_ontology::ChecksumAlgorithm;
use docstokg_lookup::licence::SourceLicence;

/// Header field with the wait that a limited portal requests, in seconds
/// (draft-ietf-httpapi-ratelimit-headers). Such a portal sends no `Retry-After`.
const RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// A location whose address and licence are accepted.
pub(super) struct GatedLocation {
    pub(super) location: OntologyLocation,
    pub(super) url: Url,
    pub(super) licence: Option<SourceLicence>,
}

impl OntologiesJob {
    /// Fetches one location, and records the result in the [`PullState`].
    pub(super) async fn fetch(
        &self,
        item: &mut ActiveOntology,
        number: usize,
        requests: &Arc<RequestGroup>,
    ) -> Result<(), RunError> {
        let Some(location) = item.state.locations.get(number).cloned() else {
            return Ok(());
        };
        let (source, stated) = (location.source.clone(), location.url.clone());
        let fetched = match self.pass_gates(item, location) {
            Ok(target) => self.fetch_target(item, &target, requests).await,
            Err(absence) => Err(Verdict::Never(absence, None)),
        };
        match fetched {
            Ok(outcome) => {
                item.state.outcome = Some(outcome);
                Ok(())
            }
            Err(verdict) => {
                let step = PullStep::Fetch(number);
                self.take_verdict(item, step, &source, Some(&stated), verdict)
            }
        }
    }

    /// Judges address and licence before any request.
    fn pass_gates(
        &self,
        item: &ActiveOntology,
        location: OntologyLocation,
    ) -> Result<GatedLocation, Absence> {
        let url = (self.redirects)(&location.url).map_err(|detail| Absence {
            reason: AbsenceReason::Gate,
            detail,
        })?;
        let own = item
            .state
            .wanted
            .license
            .as_deref()
            .and_then(SourceLicence::read);
        let licence = location.licence.clone().or(own);
        if let Judgement::Refused(why) = self.licences.judge(licence.as_ref()) {
            let id = &item.state.wanted.id;
            return Err(Absence {
                reason: AbsenceReason::Licence,
                detail: format!("{id} is not fetched: {why}"),
            });
        }
        Ok(GatedLocation {
            location,
            url,
            licence,
        })
    }

    async fn fetch_target(
        &self,
        item: &mut ActiveOntology,
        target: &GatedLocation,
        requests: &Arc<RequestGroup>,
    ) -> Result<PullOutcome, Verdict> {
        let is_plan = self.options.mode != RunMode::Full;
        let is_probed =
            is_plan && self.options.probes == ProbeMode::Send || self.options.since.is_some();
        let probed = if is_probed {
            self.probe(&target.location, &target.url, requests).await?
        } else {
            ProbeResult::default()
        };
        if let (Some(since), Some(changed)) = (self.options.since, probed.changed_at())
            && changed < since
        {
            return Ok(PullOutcome {
                detail: Some(format!("it has not changed since {changed}")),
                ..planned(item, target, &probed, PullEnding::Skipped)
            });
        }
        if is_plan {
            return Ok(planned(item, target, &probed, PullEnding::Planned));
        }
        let known = self.known(item)?;
        let current = known
            .as_ref()
            .filter(|known| !self.options.force && is_wanted(&item.state, known));
        if let Some(current) = current
            && is_unchanged(item, target, current)
            && self.has_checksum(item, current, requests).await?
        {
            return Ok(cached(item, target, current));
        }
        if item
            .state
            .pin
            .as_ref()
            .is_some_and(|pin| pin.has_secret_address)
        {
            return Err(Verdict::Never(secret_address(item), None));
        }
        let is_first = known.is_none();
        // A pin names the exact content, so the server's decision about a change is not needed.
        let condition = current.filter(|_| item.state.pin.is_none());
        let active = self.context.progress.work_on(item.state.wanted.id.as_str());
        let mut came = self
            .obtain(item, target, condition, &active, requests)
            .await?;
        if let (FileResponse::NotModified(headers), Some(current)) = (&came, condition) {
            if self.has_checksum(item, current, requests).await? {
                let current = self.renewed(item, current, headers)?;
                return Ok(cached(item, target, &current));
            }
            // The stored version is not the wanted one: request the file without conditions.
            came = self.obtain(item, target, None, &active, requests).await?;
        }
        match came {
            FileResponse::File(head, file) => {
                let arrived = store::ReceivedFile {
                    target,
                    head: *head,
                    file: *file,
                    is_first,
                    active,
                };
                self.keep(item, arrived, requests).await
            }
            FileResponse::NotModified(_) => Err(Verdict::Never(unasked_304(target), Some(304))),
        }
    }

    /// Returns the latest version. A version whose record cannot be read becomes a note instead.
    fn known(&self, item: &mut ActiveOntology) -> Result<Option<StoredVersion>, Verdict> {
        match self.library.latest(&item.state.wanted.id) {
            Ok(known) => Ok(known),
            Err(LibraryError::Manifest { path, why }) => {
                item.state.note(format!(
                    "the record of the latest version, {path}, was damaged ({why}); the ontology \
                     was downloaded again"
                ));
                Ok(None)
            }
            Err(error) => Err(Verdict::Halt(error.to_string())),
        }
    }

    /// Returns true if a version has the checksum that the user declared, or if there is no such
    /// checksum.
    async fn has_checksum(
        &self,
        item: &ActiveOntology,
        known: &StoredVersion,
        requests: &Arc<RequestGroup>,
    ) -> Result<bool, Verdict> {
        let filename = &known.manifest.filename;
        let expected = self.expected_checksum(&item.state, filename, requests);
        let Some(expected) = expected.await? else {
            return Ok(true);
        };
        if expected.algorithm == ChecksumAlgorithm::Sha256 {
            return Ok(expected.value == known.manifest.sha256);
        }
        match checksum::check(&known.original(), &expected).await {
            Ok(()) => Ok(true),
            Err(Verdict::Never(..)) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Stores the validators of a response with status 304.
    fn renewed(
        &self,
        item: &ActiveOntology,
        known: &StoredVersion,
        headers: &HeaderMap,
    ) -> Result<StoredVersion, Verdict> {
        let mut newer = known.manifest.clone();
        newer.etag = text(headers, &ETAG).or(newer.etag);
        newer.last_modified = text(headers, &LAST_MODIFIED).or(newer.last_modified);
        self.library
            .take_up(&item.state.wanted.id, known, &newer)
            .map_err(|error| Verdict::Halt(error.to_string()))
    }

    /// Downloads a file, or returns a download that an interrupted pull did not store.
    async fn obtain(
        &self,
        item: &mut ActiveOntology,
        target: &GatedLocation,
        condition: Option<&StoredVersion>,
        active: &ActiveFile,
        requests: &Arc<RequestGroup>,
    ) -> Result<FileResponse, Verdict> {
        let address = Fingerprint::of(&format!("{} {:?}", target.url, target.location.accept));
        let staged = staging_file(&self.context.path, item.id, address);
        if let Some(parent) = staged.parent() {
            std::fs::create_dir_all(parent).map_err(|error| {
                Verdict::Halt(format!("{} cannot be written: {error}", parent.display()))
            })?;
        }
        if !self.options.force
            && let Some((head, file)) = saved_file::recall(&staged)
        {
            return Ok(FileResponse::File(Box::new(head), Box::new(file)));
        }
        let mut request = self.request(Method::GET, &target.location, &target.url, requests);
        if let Some(known) = condition {
            for (name, value) in conditions(&known.manifest, &target.url) {
                request = request.header(name, value);
            }
        }
        item.state.count_attempt();
        let done = self
            .context
            .hub
            .download_watched(request, &staged, &active.transfer)
            .await;
        let done = match done {
            Ok(done) => done,
            Err(error) => return Err(self.judge_file(&error).await),
        };
        self.context.connectivity.note_response(&done.journey);
        if done.head.status == StatusCode::NOT_MODIFIED {
            return Ok(FileResponse::NotModified(done.head.headers));
        }
        let Some(file) = done.file.clone() else {
            return Err(self.no_file(target, &done));
        };
        saved_file::remember(&done.head, &file);
        Ok(FileResponse::File(Box::new(done.head), Box::new(file)))
    }

    /// Judges a response without a file. A reset time in its header fields lengthens the wait.
    fn no_file(&self, target: &GatedLocation, done: &DownloadedResponse) -> Verdict {
        let status = done.head.status;
        let explained = self.explained_status(&target.location, status);
        let host = done.head.url.host_str().unwrap_or_default();
        let judged = fetch_failure::of_status(status, done.journey.disposition(), host, explained);
        match (judged, reset_in(&done.head.headers)) {
            (Verdict::Paused(later, absence, code), Some(reset)) => {
                let wait = later.wait.max(reset);
                Verdict::Paused(RetryLater { wait, ..later }, absence, code)
            }
            (Verdict::Later(wait, absence, code), Some(reset)) => {
                Verdict::Later(wait.max(reset), absence, code)
            }
            (judged, _) => judged,
        }
    }
}

/// The result of a request for a file.
enum FileResponse {
    File(Box<ResponseHead>, Box<SavedFile>),
    NotModified(HeaderMap),
}

/// Returns true if the known version is the wanted one, or if no version in particular is wanted.
pub(super) fn is_wanted(state: &PullState, known: &StoredVersion) -> bool {
    wanted_version(state).is_none_or(|wanted| is_same_version(wanted, &known.manifest.version))
}

/// Returns true if the library has the content already, by the revision of the source or by the
/// pinned checksum.
fn is_unchanged(item: &ActiveOntology, target: &GatedLocation, known: &StoredVersion) -> bool {
    let pinned = item
        .state
        .pin
        .as_ref()
        .and_then(|pin| pin.checksum.as_ref());
    if let Some(pinned) = pinned {
        return pinned.value == known.manifest.sha256;
    }
    let revision = &target.location.revision;
    revision.is_some()
        && *revision == known.manifest.revision
        && target.location.source == known.manifest.resolver
}

fn secret_address(item: &ActiveOntology) -> Absence {
    Absence {
        reason: AbsenceReason::Credential,
        detail: format!(
            "the address of {} holds a secret, which lock files do not have: pull it by --spec or \
             --url",
            item.state.wanted.id
        ),
    }
}

fn unasked_304(target: &GatedLocation) -> Absence {
    Absence {
        reason: AbsenceReason::HttpStatus,
        detail: format!(
            "{} answered with status 304 to a request without conditions",
            target.url.host_str().unwrap_or_default()
        ),
    }
}

/// Adds locations after an address returned a page: single media types, and the links of the page.
pub(super) fn try_after_page(
    item: &mut ActiveOntology,
    target: &GatedLocation,
    head: &ResponseHead,
) -> Verdict {
    let further = crate::source::direct::after_page(&target.location, &head.url, &head.headers);
    item.state.found(further);
    let host = head.url.host_str().unwrap_or_default();
    Verdict::Never(
        Absence {
            reason: AbsenceReason::NotAnOntology,
            detail: format!("{host} answered with a web page, not with an ontology"),
        },
        Some(head.status.as_u16()),
    )
}

fn reset_in(headers: &HeaderMap) -> Option<std::time::Duration> {
    let seconds: u64 = headers
        .get(RATELIMIT_RESET)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    // A larger number is a date, which needs the server's clock to be read.
    (seconds <= 86_400).then(|| std::time::Duration::from_secs(seconds))
}

/// Returns the header fields of a conditional request: the validators of the known version, if its
/// file is from the same address.
fn conditions(known: &Manifest, url: &Url) -> Vec<(HeaderName, HeaderValue)> {
    if known.url != redact(url) {
        return Vec::new();
    }
    let header = |name, value: &Option<String>| {
        let value = HeaderValue::from_str(value.as_deref()?).ok()?;
        Some((name, value))
    };
    let etag = header(IF_NONE_MATCH, &known.etag);
    let date = header(IF_MODIFIED_SINCE, &known.last_modified);
    etag.into_iter().chain(date).collect()
}
