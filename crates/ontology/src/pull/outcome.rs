//! The result of a pull for one ontology, for records and for display.

use serde::{Deserialize, Serialize};

use crate::library::TriedLocation;
use crate::source::AbsenceReason;
use crate::wanted_ontology::FileChecksum;

/// The way in which the work on an ontology ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullEnding {
    /// The first version was stored.
    Fresh,
    /// A further version was stored.
    Updated,
    /// The content has not changed, so no version was added.
    Cached,
    /// The ontology was looked up and not fetched.
    Planned,
    /// The ontology has not changed since the date that the user gave.
    Skipped,
    /// The pull obtained no file.
    Failed,
}

impl PullEnding {
    /// Returns the word used in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Updated => "updated",
            Self::Cached => "cached",
            Self::Planned => "planned",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }

    /// Returns true if the user has got what was requested.
    #[must_use]
    pub const fn is_good(self) -> bool {
        !matches!(self, Self::Failed)
    }
}

/// The result of a pull for one ontology. A plan has one such line per ontology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullOutcome {
    /// The name of the ontology.
    pub id: String,
    /// The way in which the work ended.
    pub status: PullEnding,
    /// The source that named the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<String>,
    /// The service whose rate limit the request used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The URL that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The URL of the response, after redirects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_url: Option<String>,
    /// The version of the ontology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The licence of the ontology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// The media type of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The `Last-Modified` of the file, as the server declared it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// The size, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_length: Option<u64>,
    /// The identifier of the content at the source. The same identifier means the same file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The checksum of the file, or, before the download, the checksum that the file must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<FileChecksum>,
    /// The directory of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Number of statements or clauses of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statements: Option<u64>,
    /// Number of terms of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<u64>,
    /// The IRIs of imported ontologies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<String>,
    /// The [`AbsenceReason`] if there is no file; the field that scripts should read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<AbsenceReason>,
    /// The reason why there is no file, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Remarks for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The look-ups and fetches, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<TriedLocation>,
    /// Length of the chain of imports that led to this ontology; 0 if the user requested it.
    #[serde(default)]
    pub import_depth: u32,
    /// True if the request carries the user's key for the source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_authorised: bool,
    /// True if the user gave the URL. Such a URL may lead into the private network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_user_supplied: bool,
    /// True if the URL contains a secret, which was removed from `url`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_secret_address: bool,
}

impl PullOutcome {
    /// Creates an outcome that has only a name and its [`PullEnding`].
    #[must_use]
    pub fn new(id: &str, status: PullEnding) -> Self {
        Self {
            id: id.to_owned(),
            status,
            resolver: None,
            service: None,
            url: None,
            final_url: None,
            version: None,
            license: None,
            media_type: None,
            last_modified: None,
            content_length: None,
            revision: None,
            checksum: None,
            path: None,
            statements: None,
            terms: None,
            imports: Vec::new(),
            reason: None,
            detail: None,
            notes: Vec::new(),
            attempts: Vec::new(),
            import_depth: 0,
            is_authorised: false,
            is_user_supplied: false,
            has_secret_address: false,
        }
    }
}
