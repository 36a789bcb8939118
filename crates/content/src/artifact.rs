//! One file: fetched, judged by its bytes, and staged, or the reason why not.

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

/// How long to wait while another work fetches the same URL.
pub(crate) const IN_FLIGHT: Duration = Duration::from_secs(1);

/// Fetches files.
pub(crate) struct Fetcher {
    pub(crate) context: RunContext,
    pub(crate) robots: RobotsPolicy,
    pub(crate) settings: Arc<Settings>,
    pub(crate) role: Role,
    pub(crate) min_pdf_bytes: u64,
    /// URLs that are being fetched.
    pub(crate) in_flight: Mutex<HashSet<Fingerprint>>,
    /// The files that an earlier run left in the staging place.
    pub(crate) left: HashSet<OsString>,
    /// The cookies of the run, where they are wanted.
    pub(crate) cookies: Option<Arc<CookieJar>>,
    /// Looks into PDFs.
    pub(crate) examiner: EvidenceExaminer,
}

/// Holds a URL from its fetch until its file is in its place.
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
    /// Claims a URL, by its fingerprint; `None` while another work has it.
    pub(crate) fn claim(&self, url: Fingerprint) -> Option<UrlReservation<'_>> {
        let is_free = self.in_flight.lock().insert(url);
        // Made only for the work that has it: dropped, it gives the URL up.
        is_free.then(|| UrlReservation { fetcher: self, url })
    }

    /// Fetches a candidate location into its staging file.
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
            // Its status and fields are not known. A 202 without a body is no file, and says nothing
            // about the file: only what is good is certain.
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
        // A resolver is judged by where its links lead, too.
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
            // What is no good does not stay.
            let _ = std::fs::remove_file(staging);
        }
        if status == StatusCode::ACCEPTED {
            let _ = std::fs::remove_file(staging);
            return FetchOutcome::Preparing(self.retry_after(&done.head));
        }
        judged
    }

    /// Compares what a PDF says about itself with the work.
    ///
    /// Only what was found on a page can be another work's: what the user or a service named is
    /// that work's file, whatever version it is.
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

    /// An answer without a body to keep: a status that says no.
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

/// Tells whether a host has no address.
fn is_unknown_name(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Fault {
            fault: Fault::Dns,
            ..
        }
    )
}

/// Names a directory that lies where a file is to be written: before anything is requested.
fn blocked(staging: &Path) -> Option<FetchOutcome> {
    let mut part = staging.as_os_str().to_owned();
    part.push(".part");
    let path = [staging, Path::new(&part)]
        .into_iter()
        .find(|path| path.is_dir())?;
    Some(nothing(Reason::PathBlocked, in_the_way(path), None))
}

/// Describes a directory where a file should be.
pub(crate) fn in_the_way(path: &Path) -> String {
    format!(
        "{} is a directory, and its file has to be written there: move the directory away",
        path.display()
    )
}

/// Returns a file that was fetched to its end by a process that did not live to judge it.
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
