//! Judgement of a fetched file by its bytes: a good file, a damaged file, a page in its place, or
//! neither.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use docstokg_hub::{FileEnds, ResponseHead, SavedFile};
use docstokg_policy::canonical;
use http::StatusCode;
use http::header::CONTENT_LENGTH;

use super::Fetcher;
use super::outcome::{ArtifactPage, FetchOutcome, StagedFile, challenged, nothing};
use crate::digest::md5_of;
use crate::evidence::Evidence;
use crate::location::{CandidateLocation, LocationChecksum, LocationOffer};
use crate::pdf_structure::PdfDamage;
use crate::reason::Reason;
use crate::resolver::landing::{self, content_type};
use crate::resolver::{ARXIV_API, ResolverId};
use crate::sniff::{BodyJudgement, ExpectedContent, Payload, ReceivedBody, judge};
use crate::work::Work;
use crate::work_state::ArtifactKind;
use crate::{bot_challenge, charset, landing_page, pdf_structure};
use docstokg_bulk::blocking::run_blocking;
use docstokg_bulk::panic_containment::contained;

/// A [`CandidateLocation`] of a [`Work`], and the kinds of files that the work still lacks.
#[derive(Clone, Copy)]
pub(crate) struct JudgedCandidate<'a> {
    pub(crate) location: &'a CandidateLocation,
    pub(crate) work: &'a Work,
    pub(crate) missing: &'a BTreeSet<ArtifactKind>,
    /// The input that names the work was written by others.
    pub(crate) is_input_untrusted: bool,
}

impl JudgedCandidate<'_> {
    fn host(&self) -> &str {
        self.location.url.host_str().unwrap_or_default()
    }

    /// Tells whether the user named the URL.
    pub(super) fn is_direct(&self) -> bool {
        self.location.resolver == ResolverId::DIRECT
    }

    /// Tells whether this fetch is meant to get a page.
    fn wants_page(&self) -> bool {
        self.missing.contains(&ArtifactKind::Html)
            && (self.is_direct() || self.location.offers == LocationOffer::Html)
    }
}

/// Returns the [`ArtifactKind`] that a [`Payload`] is.
pub(crate) const fn kind_of(payload: Payload) -> ArtifactKind {
    match payload {
        Payload::Pdf => ArtifactKind::Pdf,
        Payload::Xml | Payload::Jats => ArtifactKind::Xml,
        Payload::Html => ArtifactKind::Html,
        _ => ArtifactKind::Other,
    }
}

impl Fetcher {
    pub(super) async fn judge_file(
        &self,
        candidate: &JudgedCandidate<'_>,
        head: &ResponseHead,
        file: SavedFile,
    ) -> FetchOutcome {
        let (host, status) = (candidate.host(), Some(head.status.as_u16()));
        let payload = match self.judge_bytes(candidate, head, &file) {
            Ok(payload) => payload,
            Err(rejected) => return rejected,
        };
        if payload == Payload::Pdf
            && let Some(damage) = damage_in(&file.path).await
        {
            let bytes = file.bytes;
            let detail = format!(
                "{host} sent {bytes} bytes that are no whole PDF: {}",
                damage.sentence()
            );
            return nothing(damage.reason(), detail, status);
        }
        if let Some(checksum) = &candidate.location.checksum
            && let Some(detail) = mismatch(checksum, &file)
        {
            let detail = format!("{host}: {detail}");
            return nothing(Reason::ChecksumMismatch, detail, status);
        }
        if payload == Payload::Html {
            if let Some(challenge) = bot_challenge::detect(head.status, &file.ends.first) {
                return challenged(host, challenge, status);
            }
            if !candidate.wants_page() {
                return self.page(candidate, head, &file.path).await;
            }
        }
        let kind = kind_of(payload);
        if !candidate.is_direct() && !candidate.missing.contains(&kind) {
            let sent = payload.as_str();
            let detail = format!("{host} sent {sent} where something else is wanted");
            return nothing(Reason::DomainDisallowedMime, detail, status);
        }
        FetchOutcome::File(Box::new(StagedFile {
            head: head.clone(),
            file,
            kind,
            payload,
            evidence: Evidence::None,
        }))
    }

    /// Returns a file as a [`FetchOutcome`], or the reason why its bytes are not a file of the
    /// work.
    fn judge_bytes(
        &self,
        candidate: &JudgedCandidate<'_>,
        head: &ResponseHead,
        file: &SavedFile,
    ) -> Result<Payload, FetchOutcome> {
        match judge(
            &received(candidate.location, head, file),
            self.min_pdf_bytes,
        ) {
            BodyJudgement::Accepted(payload) => Ok(payload),
            // If the user names the URL of a file, the file is kept, however small.
            BodyJudgement::Rejected { payload, .. }
                if candidate.is_direct()
                    && !matches!(payload, Payload::Pdf | Payload::Empty | Payload::Html) =>
            {
                Ok(payload)
            }
            BodyJudgement::Rejected { reason, .. } => {
                let (host, bytes) = (candidate.host(), file.bytes);
                let detail = format!("{host} sent {bytes} bytes that are no whole file ({reason})");
                Err(nothing(reason.into(), detail, Some(head.status.as_u16())))
            }
        }
    }

    /// Reads a page that was returned in place of a file, and collects the locations that it names.
    async fn page(
        &self,
        candidate: &JudgedCandidate<'_>,
        head: &ResponseHead,
        path: &Path,
    ) -> FetchOutcome {
        let (work, url, headers, path) = (
            candidate.work.clone(),
            head.url.clone(),
            head.headers.clone(),
            path.to_owned(),
        );
        // A page that waits to be read waits on disk, not in memory.
        let read = run_blocking(move || {
            let bytes = beginning_of(&path)?;
            io::Result::Ok(landing_page::extract(
                &charset::page(&bytes, content_type(&headers)),
                &url,
                &headers,
                Some(&work),
            ))
        });
        let Ok(page) = read
            .await
            .unwrap_or_else(|| Ok(landing_page::PageContents::default()))
        else {
            return nothing(
                Reason::HtmlOnly,
                "the page cannot be read back".to_owned(),
                None,
            );
        };
        let arxiv = self.settings.endpoints.of(&ARXIV_API);
        let found = landing_page::PageContents::places(page.candidates, &head.url, &arxiv);
        let own = canonical::for_index(&candidate.location.url);
        // A stub that only redirects browsers is followed. A page with its own links is read
        // instead.
        let found: Vec<CandidateLocation> = found.collect();
        let next = page.next.filter(|_| found.is_empty()).map(|next| {
            CandidateLocation::new(next, LocationOffer::Unknown, landing::ID)
                .referer(head.url.clone())
        });
        let locations = found
            .into_iter()
            .chain(next)
            .filter(|found| canonical::for_index(&found.url) != own)
            .collect();
        FetchOutcome::Page(Box::new(ArtifactPage {
            locations,
            learned: page.learned,
            head: head.clone(),
        }))
    }
}

/// Looks for [`PdfDamage`] on a thread outside the runtime.
async fn damage_in(path: &Path) -> Option<PdfDamage> {
    let path = path.to_owned();
    let looked = run_blocking(move || damage_of(&path)).await;
    looked.unwrap_or(Some(PdfDamage::Unreadable))
}

/// Looks for damage in a PDF. A file that cannot be read back, or whose reader panics, counts as
/// [`PdfDamage`].
fn damage_of(path: &Path) -> Option<PdfDamage> {
    let looked = contained(|| pdf_structure::damage_of(path)).and_then(Result::ok);
    looked.unwrap_or(Some(PdfDamage::Unreadable))
}

/// Returns the reason why a file on the disk is not complete. The checks are those of a file that
/// has just arrived.
pub(crate) fn flaw_of(
    path: &Path,
    expected: ExpectedContent,
    min_pdf_bytes: u64,
) -> Option<&'static str> {
    let unreadable = || Some(PdfDamage::Unreadable.sentence());
    let (Ok(ends), Ok(meta)) = (FileEnds::of(path), std::fs::metadata(path)) else {
        return unreadable();
    };
    let received = ReceivedBody {
        head: &ends.first,
        tail: &ends.last,
        length: meta.len(),
        declared_length: None,
        expected,
    };
    match judge(&received, min_pdf_bytes) {
        BodyJudgement::Accepted(Payload::Pdf) => damage_of(path).map(PdfDamage::sentence),
        BodyJudgement::Accepted(_) if expected == ExpectedContent::Pdf => {
            Some(Reason::PdfSniffUnknown.sentence())
        }
        BodyJudgement::Accepted(_) => None,
        BodyJudgement::Rejected { reason, .. } => Some(Reason::from(reason).sentence()),
    }
}

/// Reads the beginning of a page, up to the size that [`landing`] reads of any page.
fn beginning_of(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len().min(landing_page::MAX_BYTES);
    // The spare bytes serve the read that finds the end: a vector that grows would copy its
    // content.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 64);
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Describes a file for [`judge`], before its bytes are judged.
fn received<'a>(
    location: &CandidateLocation,
    head: &ResponseHead,
    file: &'a SavedFile,
) -> ReceivedBody<'a> {
    let declared = head
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.trim().parse().ok());
    ReceivedBody {
        head: &file.ends.first,
        tail: &file.ends.last,
        length: file.bytes,
        declared_length: declared.filter(|_| head.status != StatusCode::PARTIAL_CONTENT),
        expected: if location.offers == LocationOffer::Pdf {
            ExpectedContent::Pdf
        } else {
            ExpectedContent::Anything
        },
    }
}

/// Describes the difference between a file and the [`LocationChecksum`] that its source declared.
fn mismatch(checksum: &LocationChecksum, file: &SavedFile) -> Option<String> {
    let (stated, found) = match checksum {
        LocationChecksum::Sha256(stated) => (stated, file.sha256.clone()),
        LocationChecksum::Md5(stated) => (stated, md5_of(&file.path).ok()?),
    };
    (*stated != found)
        .then(|| format!("the file has the checksum {found}, and {stated} was stated"))
}
