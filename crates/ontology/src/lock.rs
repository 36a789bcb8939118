//! The lock file: each ontology pinned to an address, a version and a checksum.
//!
//! A pull with a lock file queries no source. A downloaded file must have the pinned checksum;
//! otherwise it is not stored.

use std::path::Path;

use docstokg_config::read_limited::read_text;
use docstokg_hub::json::escape_controls;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::pull::{DeferredOntology, PullEnding, PullOutcome};
use crate::source::OntologyLocation;
use crate::wanted_ontology::{FileChecksum, OntologyId};

/// Format version of the lock file.
const SCHEMA_VERSION: &str = "1.0";

/// Maximum size of a lock file that is read, in bytes: some ten thousand ontologies.
const MAX_BYTES: u64 = 16 << 20;

/// A list of pinned ontologies, each a [`LockEntry`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockFile {
    /// The `SCHEMA_VERSION` of the file.
    pub schema_version: String,
    /// The time of writing.
    pub generated_at: String,
    /// The pinned ontologies, by name.
    pub entries: Vec<LockEntry>,
    /// The requested ontologies that the file lacks because their hosts asked to wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deferred: Vec<UnpinnedOntology>,
}

/// A requested ontology that a lock file lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpinnedOntology {
    /// The ontology.
    pub id: String,
    /// The host that asked to wait.
    pub host: String,
    /// The end of the wait (RFC 3339).
    pub until: String,
    /// The reason, as a sentence.
    pub why: String,
}

/// A pinned ontology in a [`LockFile`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockEntry {
    /// The name of the ontology in the library.
    pub id: OntologyId,
    /// The source that named the file; the download uses the budget of its service.
    pub resolver: String,
    /// The address of the file.
    pub url: Url,
    /// The version of the ontology.
    #[serde(default)]
    pub version: Option<String>,
    /// The licence of the ontology.
    #[serde(default)]
    pub license: Option<String>,
    /// The media type of the file.
    #[serde(default)]
    pub media_type: Option<String>,
    /// The `Last-Modified` of the file, as the server declared it.
    #[serde(default)]
    pub last_modified: Option<String>,
    /// The size, in bytes.
    #[serde(default)]
    pub content_length: Option<u64>,
    /// The name of the content at the source; the same text means the same file.
    #[serde(default)]
    pub revision: Option<String>,
    /// The checksum that the file must have; `None` if the file was planned and never fetched.
    #[serde(default)]
    pub checksum: Option<FileChecksum>,
    /// True if the request needs the key of the source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_authorised: bool,
    /// True if the user gave the address, which may then lead into the private network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_user_supplied: bool,
    /// True if the address contains a secret, which is not written. The file cannot be fetched from
    /// this entry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_secret_address: bool,
}

/// The reason why a [`LockFile`] cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file cannot be read or written.
    #[error("the lock file {path} cannot be {what}")]
    Io {
        /// The path of the file.
        path: String,
        /// The failed operation: `read` or `written`.
        what: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is not a lock file.
    #[error("{path} is not a lock file: {why}; write one with ontofetch plan or pull")]
    Format {
        /// The path of the file.
        path: String,
        /// The fault of the text.
        why: String,
    },
}

impl LockFile {
    /// Pins the successful results of a plan or pull.
    #[must_use]
    pub fn of(results: &[PullOutcome], now: &str) -> Self {
        let mut entries: Vec<LockEntry> = results.iter().filter_map(LockEntry::of).collect();
        entries.sort_by(|a, b| a.id.cmp(&b.id));
        Self {
            schema_version: SCHEMA_VERSION.to_owned(),
            generated_at: now.to_owned(),
            entries,
            deferred: Vec::new(),
        }
    }

    /// Names the ontologies that the file lacks because their hosts asked to wait.
    #[must_use]
    pub fn with_deferred(mut self, deferred: &[DeferredOntology]) -> Self {
        let unpinned = |waiting: &DeferredOntology| UnpinnedOntology {
            id: waiting.id.clone(),
            host: waiting.host.clone(),
            until: waiting.until.to_string(),
            why: waiting.why.clone(),
        };
        self.deferred = deferred.iter().map(unpinned).collect();
        self
    }

    /// Reads a lock file.
    ///
    /// # Errors
    /// [`LockError`] if the file cannot be read, or is not a lock file.
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

    /// Writes a lock file, as a whole or not at all.
    ///
    /// # Errors
    /// [`LockError::Io`] if the file cannot be written.
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

    /// Returns the [`OntologyLocation`] that the entry pins.
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
