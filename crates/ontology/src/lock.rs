//! The lock file: each ontology pinned to an address, a version and a checksum.
//!
//! A pull with a lock file asks no source. What comes must have the checksum that is pinned, or it
//! is not stored.

use std::path::Path;

use docstokg_config::read_limited::read_text;
use docstokg_hub::json::escape_controls;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::pull::{PullEnding, PullOutcome};
use crate::source::OntologyLocation;
use crate::wanted_ontology::{FileChecksum, OntologyId};

/// The version of this format.
const SCHEMA_VERSION: &str = "1.0";

/// The largest file that is read: some ten thousand ontologies.
const MAX_BYTES: u64 = 16 << 20;

/// A lock file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockFile {
    /// The version of this format.
    pub schema_version: String,
    /// When it was written.
    pub generated_at: String,
    /// The ontologies, by name.
    pub entries: Vec<LockEntry>,
}

/// One ontology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockEntry {
    /// The ontology.
    pub id: OntologyId,
    /// The source that named the file; its service is charged.
    pub resolver: String,
    /// Where the file is.
    pub url: Url,
    /// The version.
    #[serde(default)]
    pub version: Option<String>,
    /// The licence.
    #[serde(default)]
    pub license: Option<String>,
    /// The media type.
    #[serde(default)]
    pub media_type: Option<String>,
    /// When it last changed, as the server said.
    #[serde(default)]
    pub last_modified: Option<String>,
    /// Its size in bytes.
    #[serde(default)]
    pub content_length: Option<u64>,
    /// What names the content at the source.
    #[serde(default)]
    pub revision: Option<String>,
    /// The checksum that the file must have; none where it was planned and never fetched.
    #[serde(default)]
    pub checksum: Option<FileChecksum>,
    /// Whether the source's key has to be sent along.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_authorised: bool,
    /// The user gave the address: it may lead into the private network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_user_supplied: bool,
    /// The address held a secret, which is not written here: it cannot be fetched from this file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_secret_address: bool,
}

/// Why a lock file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// It cannot be read or written.
    #[error("the lock file {path} cannot be {what}")]
    Io {
        /// The file.
        path: String,
        /// `read` or `written`.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// It is no lock file.
    #[error("{path} is not a lock file: {why}; write one with ontofetch plan or pull")]
    Format {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
}

impl LockFile {
    /// Pins what a plan or pull gave; what failed is left out.
    #[must_use]
    pub fn of(results: &[PullOutcome], now: &str) -> Self {
        let mut entries: Vec<LockEntry> = results.iter().filter_map(LockEntry::of).collect();
        entries.sort_by(|a, b| a.id.cmp(&b.id));
        Self {
            schema_version: SCHEMA_VERSION.to_owned(),
            generated_at: now.to_owned(),
            entries,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no lock file.
    pub fn read(path: &Path) -> Result<Self, LockError> {
        let shown = || path.display().to_string();
        let text = read_text(path, MAX_BYTES, "which no lock file is").map_err(|source| {
            LockError::Io {
                path: shown(),
                what: "read",
                source,
            }
        })?;
        let wrong = |why: String| LockError::Format { path: shown(), why };
        let lock: Self = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if lock.schema_version != SCHEMA_VERSION {
            return Err(wrong(format!(
                "it has format {}, this program knows {SCHEMA_VERSION}",
                lock.schema_version
            )));
        }
        for (index, entry) in lock.entries.iter().enumerate() {
            if lock.entries[..index]
                .iter()
                .any(|other| other.id == entry.id)
            {
                return Err(wrong(format!("{} is there twice", entry.id)));
            }
        }
        Ok(lock)
    }

    /// Writes a file, as a whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), LockError> {
        let mut text = escape_controls(serde_json::to_string_pretty(self).unwrap_or_default());
        text.push('\n');
        docstokg_hub::files::write_whole(path, &text).map_err(|source| LockError::Io {
            path: path.display().to_string(),
            what: "written",
            source,
        })
    }
}

impl LockEntry {
    fn of(result: &PullOutcome) -> Option<Self> {
        if result.status == PullEnding::Failed {
            return None;
        }
        Some(Self {
            id: OntologyId::parse(&result.id).ok()?,
            resolver: result.resolver.clone()?,
            url: result.url.as_deref()?.parse().ok()?,
            version: result.version.clone(),
            license: result.license.clone(),
            media_type: result.media_type.clone(),
            last_modified: result.last_modified.clone(),
            content_length: result.content_length,
            revision: result.revision.clone(),
            checksum: result.checksum.clone(),
            is_authorised: result.is_authorised,
            is_user_supplied: result.is_user_supplied,
            has_secret_address: result.has_secret_address,
        })
    }

    /// Returns the place that the entry pins.
    #[must_use]
    pub fn location(&self) -> OntologyLocation {
        OntologyLocation {
            accept: Some(crate::source::direct::ACCEPT.to_owned()),
            is_authorised: self.is_authorised,
            is_user_supplied: self.is_user_supplied,
            version: self.version.clone(),
            revision: self.revision.clone(),
            licence: self
                .license
                .as_deref()
                .and_then(docstokg_lookup::licence::SourceLicence::read),
            ..OntologyLocation::new(&self.resolver, self.url.clone())
        }
    }
}
