//! Files that an earlier program downloaded. Its manifest is an input, and each recorded file is
//! copied instead of requested again.

use std::collections::HashMap;
use std::path::Path;

use docstokg_bulk::blocking::run_blocking;
use docstokg_bulk::digest::sha256_of;
use docstokg_bulk::scheduler::RunError;
use docstokg_bulk::staging::staging_file;
use docstokg_hub::{FileEnds, ResponseHead, SavedFile};
use http::header::{CONTENT_TYPE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use parking_lot::Mutex;

use super::fetch::{FetchResult, FetchTarget};
use super::works::{ActiveWork, WorksJob};
use crate::artifact::{StagedFile, flaw_of, kind_of};
use crate::evidence::Evidence;
use crate::input::RecordedFile;
use crate::location::{CandidateLocation, LocationOffer};
use crate::manifest::Address;
use crate::resolver::ResolverId;
use crate::sniff::{ExpectedContent, HEAD_BYTES, classify};

/// The [`RecordedFile`]s of manifests, by the name of the work.
pub(super) type RecordedFiles = Mutex<HashMap<String, RecordedFile>>;

/// A copy of a recorded file, in the staging directory.
struct CopiedFile {
    bytes: u64,
    sha256: String,
    first: Vec<u8>,
    /// The flaw of the file, if it is not complete.
    flaw: Option<&'static str>,
}

impl WorksJob {
    /// Adds the [`RecordedFile`] of a work, if the file exists.
    pub(super) fn note_recorded_file(&self, list: &str, name: &str, file: RecordedFile) {
        // The author of an untrusted list must not choose files of this machine.
        if !self.options.keeps_recorded_files || self.options.untrusted_input {
            return;
        }
        let beside_list = Path::new(list).parent().unwrap_or(Path::new("."));
        let places = [beside_list.join(&file.path), file.path.clone()];
        let found = places.into_iter().find(|place| place.is_file());
        if let Some(path) = found {
            let file = RecordedFile { path, ..file };
            self.recorded.lock().insert(name.to_owned(), file);
        }
    }

    /// Takes over the recorded files of works. Returns whether there were any.
    pub(super) async fn keep_recorded_files(
        &self,
        items: &mut [ActiveWork],
    ) -> Result<bool, RunError> {
        let mut is_any = false;
        for item in items {
            let recorded = self.recorded.lock().remove(&item.name);
            if let Some(recorded) = recorded {
                is_any |= self.keep_recorded_file(item, recorded).await?;
            }
        }
        Ok(is_any)
    }

    async fn keep_recorded_file(
        &self,
        item: &mut ActiveWork,
        recorded: RecordedFile,
    ) -> Result<bool, RunError> {
        let address = Address::of(&recorded.url);
        let staged = staging_file(&self.options.out, item.id, address.fingerprint);
        self.files.create_directory_of(&staged)?;
        let (from, to) = (recorded.path.clone(), staged.clone());
        let min_pdf_bytes = self.options.min_pdf_bytes;
        let copied = run_blocking(move || copy(&from, &to, min_pdf_bytes)).await;
        let copied = match copied.and_then(Result::ok) {
            Some(copied) if copied.sha256 != recorded.sha256 => {
                Err("it is not the file that the manifest records")
            }
            Some(CopiedFile {
                flaw: Some(flaw), ..
            }) => Err(flaw),
            copied => copied.ok_or("it cannot be read"),
        };
        let copied = match copied {
            Ok(copied) => copied,
            Err(flaw) => {
                let _ = std::fs::remove_file(&staged);
                let (name, path) = (&item.name, recorded.path.display());
                let notice = format!("{name}: {path} is downloaded again: {flaw}");
                self.context.progress.notify(notice);
                return Ok(false);
            }
        };
        let payload = classify(&copied.first);
        let kind = kind_of(payload);
        if !item.state.missing(&self.goals).contains(&kind) {
            let _ = std::fs::remove_file(&staged);
            return Ok(false);
        }
        let location = CandidateLocation::new(
            recorded.url.clone(),
            LocationOffer::Unknown,
            ResolverId::DIRECT,
        );
        let candidate = item.state.candidate_at(location.clone());
        let target = FetchTarget {
            candidate,
            location,
            address,
        };
        let arrived = StagedFile {
            head: head_of(&recorded),
            file: SavedFile {
                path: staged,
                bytes: copied.bytes,
                sha256: copied.sha256,
                ends: FileEnds::default(),
            },
            kind,
            payload,
            evidence: Evidence::None,
        };
        let result = FetchResult {
            status: "recorded",
            ..FetchResult::default()
        };
        let row = self.fetch_row(item, &target, result, 0.0);
        self.save(item, &target, arrived, row).await?;
        Ok(true)
    }
}

/// Copies a file and reads the copy as a [`CopiedFile`], so that the judged bytes are the kept
/// bytes.
fn copy(from: &Path, to: &Path, min_pdf_bytes: u64) -> std::io::Result<CopiedFile> {
    use std::io::Read as _;
    let bytes = std::fs::copy(from, to)?;
    let mut first = Vec::new();
    let head = std::fs::File::open(to)?;
    head.take(HEAD_BYTES as u64).read_to_end(&mut first)?;
    Ok(CopiedFile {
        bytes,
        sha256: sha256_of(to)?,
        first,
        flaw: flaw_of(to, ExpectedContent::Anything, min_pdf_bytes),
    })
}

/// Returns the head of the response that brought a file, as far as the manifest records it.
fn head_of(recorded: &RecordedFile) -> ResponseHead {
    let mut headers = HeaderMap::new();
    for (name, value) in [CONTENT_TYPE, ETAG, LAST_MODIFIED]
        .into_iter()
        .zip(&recorded.headers)
    {
        let value = value
            .as_ref()
            .and_then(|value| HeaderValue::from_str(value).ok());
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
    ResponseHead {
        status: StatusCode::OK,
        version: Version::HTTP_11,
        headers,
        url: recorded.url.clone(),
    }
}
