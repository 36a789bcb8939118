//! The record of a version: where it came from, and what it is.

use docstokg_hub::json::escape_controls;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::source::AbsenceReason;
use crate::wanted_ontology::{FileChecksum, TargetFormat};

/// The version of this format.
pub const SCHEMA_VERSION: &str = "1.0";

/// How a version came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PullStatus {
    /// The first version of this ontology.
    Fresh,
    /// A version beside earlier ones.
    Updated,
    /// Nothing had changed.
    Cached,
}

/// The record of a version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this format.
    pub schema_version: String,
    /// The ontology.
    pub id: String,
    /// The source that named the file.
    pub resolver: String,
    /// Where the file was asked for.
    pub url: String,
    /// Where it came from, after redirects.
    pub final_url: String,
    /// The name of the file in `original/`.
    pub filename: String,
    /// The version, as stated by the file, the source, or by date and checksum.
    pub version: String,
    /// Where the version was stated.
    pub version_from: String,
    /// The licence: its SPDX name, or what was stated.
    #[serde(default)]
    pub license: Option<String>,
    /// How it came about.
    pub status: PullStatus,
    /// The SHA-256 of the file.
    pub sha256: String,
    /// The SHA-256 of the normalised form.
    #[serde(default)]
    pub normalized_sha256: Option<String>,
    /// A hash of what the file says, whatever order it says it in.
    #[serde(default)]
    pub fingerprint: Option<String>,
    /// The validators of the answer.
    #[serde(default)]
    pub etag: Option<String>,
    /// As above.
    #[serde(default)]
    pub last_modified: Option<String>,
    /// What names the content at the source.
    #[serde(default)]
    pub revision: Option<String>,
    /// The media type of the answer.
    #[serde(default)]
    pub content_type: Option<String>,
    /// The size of the file.
    pub content_length: u64,
    /// The format that its bytes have.
    #[serde(default)]
    pub format: Option<String>,
    /// The checksum that was stated, and held.
    #[serde(default)]
    pub expected_checksum: Option<FileChecksum>,
    /// When it was downloaded.
    pub downloaded_at: String,
    /// The formats that were wanted.
    #[serde(default)]
    pub target_formats: Vec<TargetFormat>,
    /// The ontologies that it imports.
    #[serde(default)]
    pub imports: Vec<String>,
    /// What reading the file found, by the name of the check.
    #[serde(default)]
    pub validation: Json,
    /// The files of the version.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// What was tried, in order.
    #[serde(default)]
    pub resolver_attempts: Vec<TriedLocation>,
    /// What was noticed on the way.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A file of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Where it is, below the directory of the version.
    pub path: String,
    /// Its SHA-256.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedLocation {
    /// The source.
    pub resolver: String,
    /// The address, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `ok`, or why not.
    pub status: String,
    /// The class of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<AbsenceReason>,
    /// The failure as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
}

impl Manifest {
    /// Writes the record.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = escape_controls(serde_json::to_string_pretty(self).unwrap_or_default());
        text.push('\n');
        text
    }

    /// Reads a record.
    ///
    /// # Errors
    /// It is none, or of another version.
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
