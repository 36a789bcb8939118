//! Judging a file by its bytes: is it whole, is it what was wanted, is it a page instead?

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

/// A candidate location of a work, and the kinds of files that the work still lacks.
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

    /// Tells whether a page is what is wanted here.
    fn wants_page(&self) -> bool {
        self.missing.contains(&ArtifactKind::Html)
            && (self.is_direct() || self.location.offers == LocationOffer::Html)
    }
}

/// Returns the kind of file that a payload is.
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

    /// Says what a file is, or why it is no file.
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
            // A user who asks for a file by its URL gets it, small as it may be.
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

    /// Reads a page that came where a file was wanted for the locations that it names.
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
        // A page that waits for its turn waits on disk.
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
        // A stub that only sends browsers on is followed; a page with links of its own is read as
        // it is.
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

/// Looks for damage in a PDF beside the runtime.
async fn damage_in(path: &Path) -> Option<PdfDamage> {
    let path = path.to_owned();
    let looked = run_blocking(move || damage_of(&path)).await;
    looked.unwrap_or(Some(PdfDamage::Unreadable))
}

/// Looks for damage in a PDF. One that cannot be read back, or whose reader fails, is not whole.
fn damage_of(path: &Path) -> Option<PdfDamage> {
    let looked = contained(|| pdf_structure::damage_of(path)).and_then(Result::ok);
    looked.unwrap_or(Some(PdfDamage::Unreadable))
}

/// Says why a file on the disk is not a whole one: it is asked what a file that arrives is asked.
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

/// Reads as much of a page as any page is read.
fn beginning_of(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len().min(landing_page::MAX_BYTES);
    // With room for the read that finds the end: a vector that grows leaves its earlier ones behind.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 64);
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns what is known about a file before its bytes are judged.
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

/// Returns what is wrong with a file whose checksum was stated.
fn mismatch(checksum: &LocationChecksum, file: &SavedFile) -> Option<String> {
    let (stated, found) = match checksum {
        LocationChecksum::Sha256(stated) => (stated, file.sha256.clone()),
        LocationChecksum::Md5(stated) => (stated, md5_of(&file.path).ok()?),
    };
    (*stated != found)
        .then(|| format!("the file has the checksum {found}, and {stated} was stated"))
}
