//! Complete downloads that are not versions yet.
//!
//! Reading a large file takes time. If the process is killed meanwhile, the next process continues
//! with the same download instead of fetching the file again.

use std::path::Path;

use docstokg_bulk::digest::sha256_of;
use docstokg_bulk::staging::head_file;
use docstokg_hub::files::write_whole;
use docstokg_hub::{FileEnds, ResponseHead, SavedFile};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, ETAG, HeaderName, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use serde::{Deserialize, Serialize};
use url::Url;

use super::address::without_secrets;

/// Minimum size of a download whose response is recorded for the next process, in bytes.
const WORTH_KEEPING: u64 = 1 << 20;

/// The header fields of a response that are needed to make a version of its file.
const HEADERS: [HeaderName; 4] = [CONTENT_DISPOSITION, CONTENT_TYPE, ETAG, LAST_MODIFIED];

/// The part of a response that is recorded beside its file.
#[derive(Serialize, Deserialize)]
struct SavedHead {
    url: Url,
    status: u16,
    headers: Vec<(String, String)>,
    sha256: String,
    bytes: u64,
}

/// Records the response of a complete file. If this fails, the next process downloads the file
/// again.
pub(super) fn remember(head: &ResponseHead, file: &SavedFile) {
    if file.bytes < WORTH_KEEPING {
        return;
    }
    let header = |name: &HeaderName| {
        let value = head.headers.get(name)?.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    };
    let saved = SavedHead {
        // A signed URL is a secret.
        url: without_secrets(&head.url),
        status: head.status.as_u16(),
        headers: HEADERS.iter().filter_map(header).collect(),
        sha256: file.sha256.clone(),
        bytes: file.bytes,
    };
    if let Ok(text) = serde_json::to_string(&saved) {
        let _ = write_whole(&head_file(&file.path), &text);
    }
}

/// Returns a file that an earlier process downloaded, with its response; `None` if there is no
/// usable record.
pub(super) fn recall(staged: &Path) -> Option<(ResponseHead, SavedFile)> {
    let text = std::fs::read_to_string(head_file(staged)).ok()?;
    let saved: SavedHead = serde_json::from_str(&text).ok()?;
    let is_whole = std::fs::metadata(staged).is_ok_and(|file| file.len() == saved.bytes)
        && sha256_of(staged).is_ok_and(|found| found == saved.sha256);
    if !is_whole {
        return None;
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &saved.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.insert(name, HeaderValue::from_str(value).ok()?);
    }
    let head = ResponseHead {
        status: StatusCode::from_u16(saved.status).ok()?,
        version: Version::HTTP_11,
        headers,
        url: saved.url,
    };
    let file = SavedFile {
        path: staged.to_owned(),
        bytes: saved.bytes,
        sha256: saved.sha256,
        ends: FileEnds::default(),
    };
    Some((head, file))
}

/// Removes a download and its record, because the file has become a version or is useless.
pub(super) fn forget(staged: &Path) {
    let _ = std::fs::remove_file(head_file(staged));
    let _ = std::fs::remove_file(staged);
}
