//! The fetch of one file: request, judgement by its bytes, and staging. A failure has a [`Reason`].

mod judge;
mod outcome;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::bulk_request::bulk_request;
use docstokg_bulk::run_context::RunContext;
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::policy::retry_after::parse_retry_after;
use docstokg_hub::{
    CookieJar, DownloadedResponse, ErrorKind, FileEnds, Request, RequestGroup, ResponseHead,
    RobotsPolicy, Role, SavedFile,
};
use http::header::{REFERER, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;

use crate::bot_challenge;
use crate::digest::{Fingerprint, sha256_of};
use crate::evidence::{Evidence, EvidenceExaminer, EvidenceFinding, weigh};
use crate::location::CandidateLocation;
use crate::reason::Reason;
use crate::request_failure::RequestFailure;
use crate::resolver::ResolverId;
use crate::resolver::settings::Settings;
use crate::work::Work;
use crate::work_state::ArtifactKind;
use outcome::{challenged, nothing};

pub(crate) use judge::{JudgedCandidate, flaw_of, kind_of};
pub(crate) use outcome::{ArtifactPage, FetchOutcome, StagedFile};

/// Delay before the next try while another work fetches the same URL.
pub(crate) const IN_FLIGHT: Duration = Duration::from_secs(1);

/// Fetches files into the staging directory.
pub(crate) struct Fetcher {
    pub(crate) context: RunContext,
    pub(crate) robots: RobotsPolicy,
    pub(crate) settings: Arc<Settings>,
    pub(crate) role: Role,
    pub(crate) min_pdf_bytes: u64,
    /// URLs that are being fetched.
    pub(crate) in_flight: Mutex<HashSet<Fingerprint>>,
    /// The files that an earlier run left in the staging directory.
    pub(crate) left: HashSet<OsString>,
    /// The [`CookieJar`] of the run, if cookies are enabled.
    pub(crate) cookies: Option<Arc<CookieJar>>,
    /// The [`EvidenceExaminer`] that reads PDFs.
    pub(crate) examiner: EvidenceExaminer,
}

/// The reservation of a URL, from its fetch until its file is stored. Dropping the reservation
/// frees the URL.
pub(crate) struct UrlReservation<'a> {
    fetcher: &'a Fetcher,
    url: Fingerprint,
}

impl Drop for UrlReservation<'_> {
    fn drop(&mut self) {
        self.fetcher.in_flight.lock().remove(&self.url);
    }
}

impl Fetcher {
    /// Reserves a URL by its [`Fingerprint`]; `None` while another work has reserved it.
    pub(crate) fn claim(&self, url: Fingerprint) -> Option<UrlReservation<'_>> {
        let is_free = self.in_flight.lock().insert(url);
        // Create the reservation only if it succeeded, because its drop frees the URL.
        is_free.then(|| UrlReservation { fetcher: self, url })
    }

    /// Fetches a [`CandidateLocation`] into its staging file.
    pub(crate) async fn fetch(
        &self,
        candidate: &JudgedCandidate<'_>,
        staging: &Path,
        requests: &Arc<RequestGroup>,
    ) -> FetchOutcome {
        if let Some(blocked) = blocked(staging) {
            return blocked;
        }
        let location = candidate.location;
        if staging
            .file_name()
            .is_some_and(|name| self.left.contains(name))
            && let Some(left) = left_by_an_earlier_run(location, staging)
        {
            let judged = self.judge(candidate, left, staging).await;
            // The status and the fields of the earlier response are not known. A 202 without a body
            // is not a file and proves nothing, so only a good file counts.
            if matches!(judged, FetchOutcome::File(_)) {
                return judged;
            }
        }
        let request = self.request(candidate).in_group(Arc::clone(requests));
        match self.context.hub.download_resumable(request, staging).await {
            Ok(done) => {
                self.context.connectivity.note_response(&done.journey);
                self.judge(candidate, done, staging).await
            }
            Err(error) => FetchOutcome::Failed {
                failure: RequestFailure::of_error(
                    &error,
                    self.context.connectivity.judge(&error).await,
                ),
                gone: is_unknown_name(&error.kind),
            },
        }
    }

    fn request(&self, candidate: &JudgedCandidate<'_>) -> Request {
        let location = candidate.location;
        let mut request = bulk_request(Request::get(location.url.clone()))
            .role(self.role)
            .robots(self.robots.clone())
            .final_when(bot_challenge::is_one);
        // The success of a resolver includes the pages that its links lead to.
        if location.resolver != ResolverId::DIRECT {
            request = request.resolver(location.resolver.as_str());
        }
        if let Some(jar) = &self.cookies {
            request = request.cookies(Arc::clone(jar));
        }
        if candidate.is_input_untrusted {
            request = request.untrusted();
        } else if !candidate.is_direct() {
            request = request.discovered();
        }
        if let Some(referer) = location
            .referer
            .as_ref()
            .and_then(|page| HeaderValue::from_str(page.as_str()).ok())
        {
            request = request.header(REFERER, referer);
        }
        for (name, value) in self.settings.secret_headers(&location.url) {
            request = request.secret_header(name, value);
        }
        request
    }

    async fn judge(
        &self,
        candidate: &JudgedCandidate<'_>,
        done: DownloadedResponse,
        staging: &Path,
    ) -> FetchOutcome {
        let (location, work) = (candidate.location, candidate.work);
        let status = done.head.status;
        let Some(file) = done.file else {
            return Self::no_file(&done, location);
        };
        let mut judged = self.judge_file(candidate, &done.head, file).await;
        if let FetchOutcome::File(arrived) = &mut judged
            && arrived.kind == ArtifactKind::Pdf
        {
            match self.examine(location, work, &arrived.file.path).await {
                EvidenceFinding::Accepted(evidence) => arrived.evidence = evidence,
                EvidenceFinding::WrongWork { detail } => {
                    judged = nothing(Reason::WrongWork, detail, Some(status.as_u16()));
                }
            }
        }
        if !matches!(judged, FetchOutcome::File(_)) {
            // A rejected file must not stay in the staging directory.
            let _ = std::fs::remove_file(staging);
        }
        if status == StatusCode::ACCEPTED {
            let _ = std::fs::remove_file(staging);
            return FetchOutcome::Preparing(self.retry_after(&done.head));
        }
        judged
    }

    /// Compares the metadata and the first page of a PDF with its [`Work`].
    ///
    /// Only a location found on a page can lead to another work's file. A location that the user or
    /// a service named is accepted in whatever version.
    pub(crate) async fn examine(
        &self,
        location: &CandidateLocation,
        work: &Work,
        path: &Path,
    ) -> EvidenceFinding {
        match weigh(&self.examiner.look(path).await, work) {
            EvidenceFinding::WrongWork { .. } if location.is_vouched_for() => {
                EvidenceFinding::Accepted(Evidence::None)
            }
            EvidenceFinding::Accepted(Evidence::None) if location.needs_evidence => {
                EvidenceFinding::WrongWork {
                    detail: "nothing in the file says that it is this work, \
                         and its page only says so in passing"
                        .to_owned(),
                }
            }
            finding => finding,
        }
    }

    /// Returns the [`FetchOutcome`] of a response without a body, from its status.
    fn no_file(done: &DownloadedResponse, location: &CandidateLocation) -> FetchOutcome {
        let status = done.head.status;
        let host = location.url.host_str().unwrap_or_default();
        if let Some(challenge) = bot_challenge::detect(status, &done.preview) {
            return challenged(host, challenge, Some(status.as_u16()));
        }
        let detail = match status {
            StatusCode::PARTIAL_CONTENT => {
                format!("{host} sent a part of the file, and the whole was asked for")
            }
            _ => format!("{host} answered {status}"),
        };
        FetchOutcome::Failed {
            failure: RequestFailure::of_status(status, detail, done.journey.disposition()),
            gone: matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE),
        }
    }

    fn retry_after(&self, head: &ResponseHead) -> Option<Duration> {
        let text = head.headers.get(RETRY_AFTER)?.to_str().ok()?;
        parse_retry_after(text, None, self.context.clock.runtime().wall())
    }
}

/// Tells whether a fetch failed because DNS does not know the host.
fn is_unknown_name(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Fault {
            fault: Fault::Dns,
            ..
        }
    )
}

/// Returns a failure if a directory exists at the path of the file. Called before the request.
fn blocked(staging: &Path) -> Option<FetchOutcome> {
    let mut part = staging.as_os_str().to_owned();
    part.push(".part");
    let path = [staging, Path::new(&part)]
        .into_iter()
        .find(|path| path.is_dir())?;
    Some(nothing(Reason::PathBlocked, in_the_way(path), None))
}

/// Describes the problem that a directory exists at the path of a file.
pub(crate) fn in_the_way(path: &Path) -> String {
    format!(
        "{} is a directory, and its file has to be written there: move the directory away",
        path.display()
    )
}

/// Returns a complete file of an earlier process that ended before judging the file.
fn left_by_an_earlier_run(
    location: &CandidateLocation,
    staging: &Path,
) -> Option<DownloadedResponse> {
    let bytes = std::fs::symlink_metadata(staging)
        .ok()
        .filter(std::fs::Metadata::is_file)?
        .len();
    let file = SavedFile {
        path: staging.to_owned(),
        bytes,
        sha256: sha256_of(staging).ok()?,
        ends: FileEnds::of(staging).ok()?,
    };
    let head = ResponseHead {
        status: StatusCode::OK,
        version: http::Version::HTTP_11,
        headers: http::HeaderMap::new(),
        url: location.url.clone(),
    };
    Some(DownloadedResponse {
        head,
        file: Some(file),
        preview: bytes::Bytes::new(),
        journey: docstokg_hub::Journey::default(),
    })
}
