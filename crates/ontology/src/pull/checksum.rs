//! The checksum that a file must have: from the user, from a lock file, or fetched from a URL.

use std::path::Path;
use std::sync::Arc;

use docstokg_bulk::blocking::run_blocking;
use docstokg_bulk::bulk_request::bulk_request;
use docstokg_bulk::digest::{digest_of, sha256_of};
use docstokg_hub::{Request, RequestGroup, Role, redact};
use url::Url;

use super::fetch_failure::{self, Verdict};
use super::ontologies::OntologiesJob;
use super::state::PullState;
use crate::source::{Absence, AbsenceReason};
use crate::wanted_ontology::{ChecksumAlgorithm, FileChecksum};

/// Maximum size of a file with a list of checksums, in bytes.
const MAX_LIST: u64 = 256 << 10;

fn absence(detail: String) -> Verdict {
    let reason = AbsenceReason::Checksum;
    Verdict::Never(Absence { reason, detail }, None)
}

impl OntologiesJob {
    /// Returns the checksum that a file must have: from the lock file, from the user, or fetched
    /// from a URL.
    pub(super) async fn expected_checksum(
        &self,
        state: &PullState,
        filename: &str,
        requests: &Arc<RequestGroup>,
    ) -> Result<Option<FileChecksum>, Verdict> {
        let pinned = state.pin.as_ref().and_then(|pin| pin.checksum.clone());
        if let Some(known) = pinned.or_else(|| state.wanted.checksum.clone()) {
            return Ok(Some(known));
        }
        let Some(url) = &state.wanted.checksum_url else {
            return Ok(None);
        };
        let text = self.checksum_list(url, requests).await?;
        let found = FileChecksum::find(&text, filename);
        found.map(Some).map_err(|why| {
            let url = redact(url);
            absence(format!("the checksum at {url} cannot be used: {why}"))
        })
    }

    async fn checksum_list(
        &self,
        url: &Url,
        requests: &Arc<RequestGroup>,
    ) -> Result<String, Verdict> {
        let url = self
            .config
            .gate
            .check(url)
            .map_err(|error| absence(error.to_string()))?;
        let request = bulk_request(Request::get(url.clone()))
            .role(Role::Artifact)
            .max_body(MAX_LIST)
            .redirect_gate(Arc::clone(&self.redirects))
            .in_group(Arc::clone(requests));
        let answer = self.fetch_response(request).await?;
        let status = answer.head.status;
        if !status.is_success() {
            let host = url.host_str().unwrap_or_default();
            return Err(fetch_failure::of_status(
                status,
                answer.journey.disposition(),
                host,
                None,
            ));
        }
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }
}

/// Compares a file with the [`FileChecksum`] that it must have.
pub(super) async fn check(file: &Path, expected: &FileChecksum) -> Result<(), Verdict> {
    let (path, algorithm) = (file.to_owned(), expected.algorithm);
    let computed = run_blocking(move || match algorithm {
        ChecksumAlgorithm::Sha256 => sha256_of(&path),
        ChecksumAlgorithm::Sha512 => digest_of::<sha2::Sha512>(&path),
        ChecksumAlgorithm::Md5 => digest_of::<md5::Md5>(&path),
    });
    match computed.await {
        Some(Ok(found)) if found == expected.value => Ok(()),
        Some(Ok(found)) => Err(absence(format!(
            "the file has the {} checksum {found}, and {} was stated: it is another version, or \
             damaged",
            algorithm.as_str(),
            expected.value
        ))),
        Some(Err(error)) => Err(Verdict::Halt(format!(
            "{} cannot be read: {error}",
            file.display()
        ))),
        None => Err(Verdict::Halt("a checksum could not be computed".to_owned())),
    }
}
