//! The records of `manifest.jsonl`: JSON objects of the kinds that `record_type` names.

use std::sync::Arc;

use docstokg_bulk::queue::{AttemptRow, ManifestRow};
use docstokg_hub::clock::Timestamp;
use docstokg_hub::json::escape_controls;
use docstokg_hub::{ResponseHead, redact};
use docstokg_lookup::licence::SourceLicence;
use docstokg_policy::canonical;
use http::HeaderName;
use http::header::{CONTENT_TYPE, ETAG, LAST_MODIFIED};
use serde::Serialize;
use url::Url;

use crate::digest::Fingerprint;
use crate::evidence::Evidence;
use crate::identifier::Doi;
use crate::location::CandidateLocation;
use crate::reason::Reason;
use crate::resolver::ResolverId;
use crate::work::Work;

/// The version of the record format.
const SCHEMA_VERSION: u32 = 6;

/// Formats the records of a run.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    pub(crate) run_id: Arc<str>,
    pub(crate) dry_run: bool,
}

/// The printable and canonical forms of a URL, computed once for all records of a fetch.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// The URL without secrets.
    pub(crate) shown: String,
    /// The canonical form, without secrets.
    pub(crate) canonical: String,
    /// The [`Fingerprint`] of the canonical form.
    pub(crate) fingerprint: Fingerprint,
}

impl Address {
    pub(crate) fn of(url: &Url) -> Self {
        let canonical = canonical::for_index(url);
        Self {
            shown: redact(url),
            canonical: redact(&canonical),
            fingerprint: Fingerprint::of(canonical.as_str()),
        }
    }
}

/// An attempt to find or fetch a file, as input of [`Records::attempt`].
pub(crate) struct RecordedAttempt<'a> {
    pub(crate) work_id: &'a str,
    pub(crate) resolver: ResolverId,
    pub(crate) address: Option<&'a Address>,
    pub(crate) status: &'static str,
    pub(crate) http_status: Option<u16>,
    pub(crate) reason: Option<Reason>,
    pub(crate) detail: Option<&'a str>,
    pub(crate) elapsed_ms: f64,
    pub(crate) found: Option<usize>,
}

/// An attempt in the format of the file. The fields are in alphabetical order, here and in the
/// file.
#[derive(Serialize)]
struct AttemptRecord<'a> {
    canonical_url: Option<&'a str>,
    dry_run: bool,
    elapsed_ms: f64,
    http_status: Option<u16>,
    metadata: Metadata,
    original_url: Option<&'a str>,
    reason: Option<Reason>,
    reason_detail: Option<&'a str>,
    record_type: &'static str,
    resolver_name: ResolverId,
    run_id: &'a str,
    schema_version: u32,
    status: &'a str,
    timestamp: String,
    url: Option<&'a str>,
    work_id: &'a str,
}

#[derive(Serialize)]
struct Metadata {
    locations: Option<usize>,
}

/// The result of a work, as input of [`Records::manifest`].
#[derive(Clone, Copy)]
pub(crate) struct WorkAccount<'a> {
    pub(crate) item: i64,
    pub(crate) work: &'a Work,
    pub(crate) work_id: &'a str,
    pub(crate) classification: &'a str,
    pub(crate) reason: Option<Reason>,
    pub(crate) detail: Option<&'a str>,
    /// The HTTP status that led to the reason.
    pub(crate) http_status: Option<u16>,
    pub(crate) file: Option<FileAccount<'a>>,
}

/// A file, as its record describes it.
#[derive(Clone, Copy)]
pub(crate) struct FileAccount<'a> {
    pub(crate) location: &'a CandidateLocation,
    pub(crate) address: &'a Address,
    /// The path below the output directory.
    pub(crate) path: &'a str,
    pub(crate) sha256: &'a str,
    /// The part of the file that identifies it as the work's.
    pub(crate) evidence: Evidence,
    /// The head of the response and the length of its body; absent for the file of another work.
    pub(crate) fetched: Option<(&'a ResponseHead, u64)>,
}

/// The result of a work in the format of the file.
#[derive(Serialize)]
struct ManifestRecord<'a> {
    canonical_url: Option<&'a str>,
    classification: &'a str,
    content_length: Option<u64>,
    content_type: Option<&'a str>,
    doi: Option<&'a str>,
    dry_run: bool,
    etag: Option<&'a str>,
    evidence: Option<Evidence>,
    extracted_text_path: Option<&'a str>,
    html_paths: [&'a str; 0],
    http_status: Option<u16>,
    last_modified: Option<&'a str>,
    license: Option<&'a str>,
    license_spdx: Option<String>,
    /// The evidence for a work that was found by its title; absent for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    matched_by: Option<&'a str>,
    original_url: Option<&'a str>,
    path: Option<&'a str>,
    publication_year: Option<i32>,
    reason: Option<Reason>,
    reason_detail: Option<&'a str>,
    record_type: &'static str,
    resolver: Option<ResolverId>,
    run_id: &'a str,
    schema_version: u32,
    sha256: Option<&'a str>,
    timestamp: String,
    title: Option<&'a str>,
    url: Option<&'a str>,
    version: Option<&'a str>,
    work_id: &'a str,
}

impl Records {
    /// Formats a [`RecordedAttempt`] as a row.
    pub(crate) fn attempt(&self, attempt: &RecordedAttempt<'_>, at: Timestamp) -> AttemptRow {
        let shown = attempt.address.map(|address| address.shown.as_str());
        let record = AttemptRecord {
            canonical_url: attempt.address.map(|address| address.canonical.as_str()),
            dry_run: self.dry_run,
            elapsed_ms: attempt.elapsed_ms,
            http_status: attempt.http_status,
            metadata: Metadata {
                locations: attempt.found,
            },
            original_url: shown,
            reason: attempt.reason,
            reason_detail: attempt.detail,
            record_type: "attempt",
            resolver_name: attempt.resolver,
            run_id: &self.run_id,
            schema_version: SCHEMA_VERSION,
            status: attempt.status,
            timestamp: at.to_string(),
            url: shown,
            work_id: attempt.work_id,
        };
        AttemptRow {
            at,
            run_id: Arc::clone(&self.run_id),
            name: attempt.work_id.to_owned(),
            source: attempt.resolver.as_str(),
            url: shown.map(str::to_owned),
            status: attempt.status,
            http_status: attempt.http_status,
            reason: attempt.reason.map(Reason::as_str),
            record: line(&record),
        }
    }

    /// Formats a [`WorkAccount`]: the file of a work, or the reason for its absence.
    pub(crate) fn manifest(&self, account: &WorkAccount<'_>, at: Timestamp) -> ManifestRow {
        let file = account.file.as_ref();
        let fetched = file.and_then(|file| file.fetched);
        let header = |name| fetched.and_then(|(head, _)| header(head, name));
        let shown = file.map(|file| file.address.shown.as_str());
        // After redirects the final URL differs from the requested URL.
        let answered = fetched
            .filter(|(head, _)| file.is_some_and(|file| head.url != file.location.url))
            .map(|(head, _)| redact(&head.url));
        let license = file.and_then(|file| file.location.licence.as_deref());
        let record = ManifestRecord {
            canonical_url: file.map(|file| file.address.canonical.as_str()),
            classification: account.classification,
            content_length: fetched.map(|(_, bytes)| bytes),
            content_type: header(CONTENT_TYPE),
            doi: account.work.identifiers.doi.as_ref().map(Doi::as_str),
            dry_run: self.dry_run,
            etag: header(ETAG),
            evidence: file
                .filter(|_| matches!(account.classification, "pdf" | "cached"))
                .map(|file| file.evidence),
            extracted_text_path: None,
            html_paths: [],
            http_status: account.http_status,
            last_modified: header(LAST_MODIFIED),
            license,
            license_spdx: license
                .and_then(SourceLicence::read)
                .and_then(|licence| licence.expression()),
            matched_by: account.work.matched_by.as_deref(),
            original_url: shown,
            path: file.map(|file| file.path),
            publication_year: account.work.year,
            reason: account.reason,
            reason_detail: account.detail,
            record_type: "manifest",
            resolver: file.map(|file| file.location.resolver),
            run_id: &self.run_id,
            schema_version: SCHEMA_VERSION,
            sha256: file.map(|file| file.sha256),
            timestamp: at.to_string(),
            title: account.work.title.as_deref(),
            url: answered.as_deref().or(shown),
            version: file.and_then(|file| file.location.version.as_deref()),
            work_id: account.work_id,
        };
        // The file of another work is listed here, but counted only for that work.
        let own = file.filter(|file| file.fetched.is_some());
        ManifestRow {
            at,
            run_id: Arc::clone(&self.run_id),
            item: account.item,
            name: account.work_id.to_owned(),
            classification: account.classification.to_owned(),
            reason: account.reason.map(Reason::as_str),
            detail: account.detail.map(str::to_owned),
            url: own.map(|file| file.address.shown.clone()),
            path: own.map(|file| file.path.to_owned()),
            sha256: own.map(|file| file.sha256.to_owned()),
            bytes: fetched.map(|(_, bytes)| bytes),
            fingerprint: own.map(|file| file.address.fingerprint),
            record: line(&record),
        }
    }
}

fn line(record: &impl Serialize) -> Arc<str> {
    // The record consists of texts and numbers, so its serialisation cannot fail.
    escape_controls(serde_json::to_string(record).unwrap_or_default()).into()
}

fn header(head: &ResponseHead, name: HeaderName) -> Option<&str> {
    head.headers.get(name).and_then(|value| value.to_str().ok())
}
