//! The record of a version: its origin, its files, and the findings about them.

use docstokg_hub::json::escape_controls;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::source::AbsenceReason;
use crate::wanted_ontology::{FileChecksum, TargetFormat};

/// Format version of the record.
pub const SCHEMA_VERSION: &str = "1.0";

/// The effect of a pull on the versions of an ontology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PullStatus {
    /// The first version of this ontology was stored.
    Fresh,
    /// A version was stored beside earlier ones.
    Updated,
    /// The content had not changed.
    Cached,
}

/// The record of a [`StoredVersion`](crate::library::StoredVersion), as `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The [`SCHEMA_VERSION`] of the record.
    pub schema_version: String,
    /// The name of the ontology.
    pub id: String,
    /// The source that named the file.
    pub resolver: String,
    /// The URL that was requested.
    pub url: String,
    /// The URL of the response, after redirects.
    pub final_url: String,
    /// The name of the file in `original/`.
    pub filename: String,
    /// The version that the file or the source declares, or else one made of date and checksum.
    pub version: String,
    /// The origin of `version`: a property of the file, or the source.
    pub version_from: String,
    /// The licence: its SPDX identifier, or the declared text.
    #[serde(default)]
    pub license: Option<String>,
    /// The [`PullStatus`] of the pull that stored the version.
    pub status: PullStatus,
    /// The SHA-256 of the file.
    pub sha256: String,
    /// The SHA-256 of the normalised form.
    #[serde(default)]
    pub normalized_sha256: Option<String>,
    /// A hash of the content, independent of the order of its statements.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// The `ETag` of the response.
    #[serde(default)]
    pub etag: Option<String>,
    /// The `Last-Modified` of the response.
    #[serde(default)]
    pub last_modified: Option<String>,
    /// The identifier of the content at the source. The same identifier means the same file.
    #[serde(default)]
    pub revision: Option<String>,
    /// The media type of the response.
    #[serde(default)]
    pub content_type: Option<String>,
    /// The size of the file, in bytes.
    pub content_length: u64,
    /// The name of the format that the content of the file has.
    #[serde(default)]
    pub format: Option<String>,
    /// The declared checksum, if the file was verified against it.
    #[serde(default)]
    pub expected_checksum: Option<FileChecksum>,
    /// The time of the download.
    pub downloaded_at: String,
    /// The requested [`TargetFormat`]s.
    #[serde(default)]
    pub target_formats: Vec<TargetFormat>,
    /// The IRIs of imported ontologies.
    #[serde(default)]
    pub imports: Vec<String>,
    /// The findings about the file, by the name of the check.
    #[serde(default)]
    pub validation: Json,
    /// The files of the version, each an [`Artifact`].
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// The look-ups and fetches, in their order.
    #[serde(default)]
    pub resolver_attempts: Vec<TriedLocation>,
    /// Remarks for the user about the look-up, the download and the file.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A file of a version, in its [`Manifest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// The path, below the directory of the version.
    pub path: String,
    /// The SHA-256 of the file.
    pub sha256: String,
    /// The size, in bytes.
    pub bytes: u64,
}

/// The result of one look-up or fetch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedLocation {
    /// The name of the source.
    pub resolver: String,
    /// The URL, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `ok`, or the kind of failure.
    pub status: String,
    /// The class of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<AbsenceReason>,
    /// The failure as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The status of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
}

impl Manifest {
    /// Writes the record as JSON text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = escape_controls(serde_json::to_string_pretty(self).unwrap_or_default());
        text.push('\n');
        text
    }

    /// Reads a record from JSON text.
    ///
    /// # Errors
    /// A sentence if the text is not a record, or has another [`SCHEMA_VERSION`].
    pub fn from_text(text: &str) -> Result<Self, String> {
        let manifest: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if manifest.schema_version != SCHEMA_VERSION {
            return Err(format!(
                "it has format {}, this program knows {SCHEMA_VERSION}",
                manifest.schema_version
            ));
        }
        Ok(manifest)
    }
}
