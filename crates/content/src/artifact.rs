//! One file: fetched, judged by its bytes, and put in its place, or the reason why not.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::policy::breaker::OpenReason;
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::policy::retry::StopReason;
use docstokg_hub::policy::retry_after::parse_retry_after;
use docstokg_hub::policy::site::RefusalReason;
use docstokg_hub::{
    CookieJar, Downloaded, Ends, ErrorKind, FetchError, Head, Hub, Request, RequestGroup,
    RobotsPolicy, Role, SavedFile,
};
use docstokg_policy::canonical;
use http::header::{CONTENT_LENGTH, REFERER, RETRY_AFTER, TRANSFER_ENCODING};
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;

use crate::aside::aside;
use crate::charset;
use crate::digest::{Fingerprint, md5_of, sha256_of};
use crate::evidence::{Evidence, Examiner, Finding, weigh};
use crate::hub_web::{PROBES_OUT, is_offline, patient};
use crate::landing_page;
use crate::location::{Checksum, Location, Offers};
use crate::reason::Reason;
use crate::resolver::landing::{self, content_type};
use crate::resolver::settings::Settings;
use crate::resolver::{ARXIV_API, OFFLINE_RETRY_MS, ResolverId};
use crate::sniff::{Expected, Payload, Received, Verdict, judge};
use crate::wall::{self, Wall};
use crate::work::{Learned, Work};
use crate::work_state::Kind;
use docstokg_hub::clock::Runtime;

/// How long to wait for somebody else who fetches the same URL.
pub(crate) const IN_FLIGHT: Duration = Duration::from_secs(1);
/// The first wait for a file that is being prepared; it doubles each time.
const PREPARING: Duration = Duration::from_secs(2);

/// What came of a place.
pub(crate) enum Fetched {
    /// A good file lies in the staging place.
    File(Box<Arrived>),
    /// It is a page, and these are the places that it names.
    Page(Box<Page>),
    /// Nothing, and never will.
    Nothing {
        reason: Reason,
        detail: String,
        status: Option<u16>,
        gone: bool,
    },
    /// Not now.
    /// With whether it was stated, by the server or an operator, and not inferred from failures.
    Later {
        wait: Duration,
        stated: bool,
        reason: Reason,
        detail: String,
        status: Option<u16>,
    },
    /// The run was cancelled before the file was requested.
    Cancelled,
    /// The run cannot go on: the disk is full or cannot be written.
    Halt(String),
}

/// A page that came where a file was wanted.
pub(crate) struct Page {
    pub(crate) locations: Vec<Location>,
    pub(crate) learned: Learned,
    pub(crate) head: Head,
}

/// A good file in its staging place.
pub(crate) struct Arrived {
    pub(crate) head: Head,
    pub(crate) file: SavedFile,
    pub(crate) kind: Kind,
    pub(crate) payload: Payload,
    /// The PDF has no end mark, but all its bytes.
    pub(crate) without_eof: bool,
    /// What the file itself says for being the right one.
    pub(crate) evidence: Evidence,
}

/// Fetches files.
pub(crate) struct Fetcher {
    pub(crate) hub: Hub,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) robots: RobotsPolicy,
    pub(crate) settings: Arc<Settings>,
    pub(crate) role: Role,
    /// URLs of inputs are other people's: they do not lead into the private network.
    pub(crate) untrusted_input: bool,
    pub(crate) min_pdf_bytes: u64,
    /// URLs that are being fetched.
    pub(crate) in_flight: Mutex<HashSet<Fingerprint>>,
    /// The files that an earlier run left in the staging place.
    pub(crate) left: HashSet<OsString>,
    /// The cookies of the run, where they are wanted.
    pub(crate) cookies: Option<Arc<CookieJar>>,
    /// Looks into PDFs.
    pub(crate) examiner: Examiner,
}

/// Holds a URL from its fetch until its file is in its place.
pub(crate) struct Flight<'a> {
    fetcher: &'a Fetcher,
    url: Fingerprint,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.fetcher.in_flight.lock().remove(&self.url);
    }
}

impl Fetcher {
    /// Takes a URL, by its fingerprint; `None` while somebody else has it.
    pub(crate) fn take_off(&self, url: Fingerprint) -> Option<Flight<'_>> {
        let is_free = self.in_flight.lock().insert(url);
        // Made only for whoever has it: dropped, it gives the URL up.
        is_free.then(|| Flight { fetcher: self, url })
    }

    /// Fetches a place into its staging file.
    pub(crate) async fn fetch(
        &self,
        location: &Location,
        work: &Work,
        staging: &Path,
        missing: &BTreeSet<Kind>,
        requests: &Arc<RequestGroup>,
    ) -> Fetched {
        if staging
            .file_name()
            .is_some_and(|name| self.left.contains(name))
            && let Some(left) = left_by_an_earlier_run(location, staging)
        {
            return self.judge(location, work, left, staging, missing).await;
        }
        let request = self.request(location).in_group(Arc::clone(requests));
        match self.hub.download_resumable(request, staging).await {
            Ok(done) => self.judge(location, work, done, staging, missing).await,
            Err(error) => failed(&error),
        }
    }

    fn request(&self, location: &Location) -> Request {
        let mut request = patient(Request::get(location.url.clone()))
            .role(self.role)
            .robots(self.robots.clone())
            .final_when(wall::is_one);
        if let Some(jar) = &self.cookies {
            request = request.cookies(Arc::clone(jar));
        }
        if !self.is_trusted(location) {
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
        location: &Location,
        work: &Work,
        done: Downloaded,
        staging: &Path,
        missing: &BTreeSet<Kind>,
    ) -> Fetched {
        let status = done.head.status;
        let Some(file) = done.file else {
            return self.no_file(&done, location);
        };
        let mut judged = self
            .judge_file(location, work, &done.head, file, missing)
            .await;
        if let Fetched::File(arrived) = &mut judged
            && arrived.kind == Kind::Pdf
        {
            match self.examine(location, work, &arrived.file.path).await {
                Finding::Accepted(evidence) => arrived.evidence = evidence,
                Finding::WrongWork { detail } => {
                    judged = nothing(Reason::WrongWork, detail, Some(status.as_u16()))
                }
            }
        }
        if !matches!(judged, Fetched::File(_)) {
            // What is no good does not stay.
            let _ = std::fs::remove_file(staging);
        }
        if status == StatusCode::ACCEPTED {
            let _ = std::fs::remove_file(staging);
            let stated = self.retry_after(&done.head);
            let (wait, stated) = (stated.unwrap_or(PREPARING), stated.is_some());
            return Fetched::Later {
                wait,
                stated,
                reason: Reason::Preparing,
                detail: "the file is being prepared".to_owned(),
                status: Some(202),
            };
        }
        judged
    }

    /// Compares what a PDF says about itself with the work.
    ///
    /// Only what was found on a page can be another work's: what the user or a service named is
    /// that work's file, whatever version it is.
    pub(crate) async fn examine(&self, location: &Location, work: &Work, path: &Path) -> Finding {
        match weigh(&self.examiner.look(path).await, work) {
            Finding::WrongWork { .. } if location.is_vouched_for() => Finding::Accepted(Evidence::None),
            Finding::Accepted(Evidence::None) if location.needs_evidence => {
                Finding::WrongWork { detail: "nothing in the file says that it is this work, and its page only says so in passing".to_owned() }
            }
            finding => finding,
        }
    }

    /// An answer without a body to keep: a status that says no.
    fn no_file(&self, done: &Downloaded, location: &Location) -> Fetched {
        let status = done.head.status;
        let host = location.url.host_str().unwrap_or_default();
        if let Some(wall) = wall::detect(status, &done.preview) {
            return walled(host, wall, Some(status.as_u16()));
        }
        if let Some(StopReason::Deadline { until }) = done.journey.stopped {
            let wait = until.since(self.runtime.boot());
            // With Retry-After the server said so; without, it only fails, and our breaker says how
            // long to stay away.
            let stated = done.head.headers.contains_key(RETRY_AFTER);
            let (reason, what) = if stated {
                (Reason::RateLimited, "wants to be left alone")
            } else {
                (Reason::HttpStatus, "keeps failing")
            };
            let detail = format!("{host} answered {status} and {what}");
            return Fetched::Later {
                wait,
                stated,
                reason,
                detail,
                status: Some(status.as_u16()),
            };
        }
        if status == StatusCode::PARTIAL_CONTENT {
            return nothing(
                Reason::HttpStatus,
                format!("{host} sent a part of the file, and the whole was asked for"),
                Some(206),
            );
        }
        let gone = matches!(status.as_u16(), 404 | 410);
        Fetched::Nothing {
            reason: Reason::HttpStatus,
            detail: format!("{host} answered {status}"),
            status: Some(status.as_u16()),
            gone,
        }
    }

    async fn judge_file(
        &self,
        location: &Location,
        work: &Work,
        head: &Head,
        file: SavedFile,
        missing: &BTreeSet<Kind>,
    ) -> Fetched {
        let status = Some(head.status.as_u16());
        let declared = head
            .headers
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok())
            .and_then(|text| text.trim().parse().ok());
        let direct = location.resolver == ResolverId::DIRECT;
        let received = Received {
            head: &file.ends.first,
            tail: &file.ends.last,
            length: file.bytes,
            declared_length: declared.filter(|_| head.status != StatusCode::PARTIAL_CONTENT),
            ends_by_itself: head.version == http::Version::HTTP_2
                || head.status == StatusCode::PARTIAL_CONTENT
                || head.headers.contains_key(TRANSFER_ENCODING),
            expected: if location.offers == Offers::Pdf {
                Expected::Pdf
            } else {
                Expected::Anything
            },
        };
        let host = location.url.host_str().unwrap_or_default();
        let (payload, without_eof) = match judge(&received, self.min_pdf_bytes) {
            Verdict::Accepted(payload) => (payload, false),
            Verdict::AcceptedWithoutEof => (Payload::Pdf, true),
            // A user who asks for a file by its URL gets it, small as it may be.
            Verdict::Rejected { payload, .. }
                if direct && !matches!(payload, Payload::Pdf | Payload::Empty | Payload::Html) =>
            {
                (payload, false)
            }
            Verdict::Rejected { reason, .. } => {
                return nothing(
                    reason.into(),
                    format!(
                        "{host} sent {} bytes that are no whole file ({reason})",
                        file.bytes
                    ),
                    status,
                );
            }
        };
        if let Some(checksum) = &location.checksum
            && let Some(detail) = mismatch(checksum, &file)
        {
            return nothing(
                Reason::ChecksumMismatch,
                format!("{host}: {detail}"),
                status,
            );
        }
        if payload == Payload::Html {
            if let Some(wall) = wall::detect(head.status, &file.ends.first) {
                return walled(host, wall, status);
            }
            let wanted =
                missing.contains(&Kind::Html) && (direct || location.offers == Offers::Html);
            if !wanted {
                return self.page(location, work, head, &file.path).await;
            }
        }
        let kind = match payload {
            Payload::Pdf => Kind::Pdf,
            Payload::Xml | Payload::Jats => Kind::Xml,
            Payload::Html => Kind::Html,
            _ => Kind::Other,
        };
        if !direct && !missing.contains(&kind) {
            return nothing(
                Reason::DomainDisallowedMime,
                format!(
                    "{host} sent {} where something else is wanted",
                    payload.as_str()
                ),
                status,
            );
        }
        Fetched::File(Box::new(Arrived {
            head: head.clone(),
            file,
            kind,
            payload,
            without_eof,
            evidence: Evidence::None,
        }))
    }

    /// Tells whether a URL is the user's own word: it may lead into the private network.
    fn is_trusted(&self, location: &Location) -> bool {
        location.resolver == ResolverId::DIRECT && !self.untrusted_input
    }

    /// Reads a page that came where a file was wanted for the places that it names.
    async fn page(&self, location: &Location, work: &Work, head: &Head, path: &Path) -> Fetched {
        let Ok(bytes) = std::fs::read(path) else {
            return nothing(
                Reason::HtmlOnly,
                "the page cannot be read back".to_owned(),
                None,
            );
        };
        let (work, url, headers) = (work.clone(), head.url.clone(), head.headers.clone());
        let page = aside(move || {
            landing_page::extract(
                &charset::page(&bytes, content_type(&headers)),
                &url,
                &headers,
                Some(&work),
            )
        })
        .await
        .unwrap_or_default();
        let found = landing_page::Page::places(
            page.candidates,
            &head.url,
            self.settings.endpoints.of(&ARXIV_API),
        );
        let own = canonical::for_index(&location.url);
        // A stub that only sends browsers on is followed; a page with links of its own is read as
        // it is.
        let found: Vec<Location> = found.collect();
        let next = page.next.filter(|_| found.is_empty()).map(|next| {
            Location::new(next, Offers::Unknown, landing::ID).referer(head.url.clone())
        });
        let locations = found
            .into_iter()
            .chain(next)
            .filter(|found| canonical::for_index(&found.url) != own)
            .collect();
        Fetched::Page(Box::new(Page {
            locations,
            learned: page.learned,
            head: head.clone(),
        }))
    }

    fn retry_after(&self, head: &Head) -> Option<Duration> {
        let text = head.headers.get(RETRY_AFTER)?.to_str().ok()?;
        parse_retry_after(text, None, self.runtime.wall())
    }
}

/// Returns a file that was fetched to its end by a process that did not live to judge it.
fn left_by_an_earlier_run(location: &Location, staging: &Path) -> Option<Downloaded> {
    let bytes = std::fs::metadata(staging)
        .ok()
        .filter(std::fs::Metadata::is_file)?
        .len();
    let file = SavedFile {
        path: staging.to_owned(),
        bytes,
        sha256: sha256_of(staging).ok()?,
        ends: Ends::of(staging).ok()?,
    };
    let head = Head {
        status: StatusCode::OK,
        version: http::Version::HTTP_11,
        headers: http::HeaderMap::new(),
        url: location.url.clone(),
    };
    Some(Downloaded {
        head,
        file: Some(file),
        preview: bytes::Bytes::new(),
        journey: docstokg_hub::Journey::default(),
    })
}

fn nothing(reason: Reason, detail: String, status: Option<u16>) -> Fetched {
    Fetched::Nothing {
        reason,
        detail,
        status,
        gone: false,
    }
}

/// This machine has no network: nothing is known about the file.
fn offline(detail: String) -> Fetched {
    Fetched::Later {
        wait: Duration::from_millis(OFFLINE_RETRY_MS),
        stated: true,
        reason: Reason::Offline,
        detail,
        status: None,
    }
}

fn walled(host: &str, wall: Wall, status: Option<u16>) -> Fetched {
    let reason = match wall {
        Wall::Robots { .. } => Reason::BotChallenge,
        Wall::Interstitial { .. } => Reason::Interstitial,
    };
    nothing(reason, wall.sentence(host), status)
}

fn failed(error: &FetchError) -> Fetched {
    let detail = error.sentence();
    match &error.kind {
        ErrorKind::BreakerOpen(refused) => {
            let (wait, stated) = match &refused.refusal.reason {
                RefusalReason::Open { probing: true, .. } => (PROBES_OUT, true),
                RefusalReason::Open {
                    reason: OpenReason::RetryAfter | OpenReason::Operator(_),
                    ..
                } => (refused.cooldown_remaining, true),
                _ => (refused.cooldown_remaining, false),
            };
            Fetched::Later {
                wait,
                stated,
                reason: Reason::BreakerOpen,
                detail,
                status: None,
            }
        }
        ErrorKind::RateLimited(refused) => Fetched::Later {
            wait: refused.cooldown_remaining,
            stated: true,
            reason: Reason::RateLimited,
            detail,
            status: None,
        },
        ErrorKind::RobotsUnread {
            retry_in: Some(wait),
            ..
        } => Fetched::Later {
            wait: *wait,
            stated: true,
            reason: Reason::RobotsUnreachable,
            detail,
            status: None,
        },
        ErrorKind::Cancelled { .. } => Fetched::Cancelled,
        ErrorKind::Disallowed { .. } => nothing(Reason::RobotsDisallowed, detail, None),
        ErrorKind::File { source, path } => match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Fetched::Halt(format!("there is no room left for {path}"))
            }
            _ => Fetched::Halt(format!("{path} cannot be written: {source}")),
        },
        ErrorKind::Store { .. } => Fetched::Halt(detail),
        ErrorKind::TooLarge { .. } => nothing(Reason::PayloadTooLarge, detail, None),
        ErrorKind::Fault {
            fault: Fault::NoRoute,
            cause,
            ..
        } if is_offline(cause.as_str()) => offline(detail),
        ErrorKind::Fault {
            fault: Fault::Dns, ..
        } => Fetched::Nothing {
            reason: Reason::RequestException,
            detail,
            status: None,
            gone: true,
        },
        _ => nothing(Reason::RequestException, detail, None),
    }
}

/// Returns what is wrong with a file whose checksum was stated.
fn mismatch(checksum: &Checksum, file: &SavedFile) -> Option<String> {
    let (stated, found) = match checksum {
        Checksum::Sha256(stated) => (stated, file.sha256.clone()),
        Checksum::Md5(stated) => (stated, md5_of(&file.path).ok()?),
    };
    (*stated != found)
        .then(|| format!("the file has the checksum {found}, and {stated} was stated"))
}
