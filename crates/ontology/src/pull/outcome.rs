//! What a pull gave for one ontology, as it is recorded and shown.

use serde::{Deserialize, Serialize};

use crate::library::TriedLocation;
use crate::source::AbsenceReason;
use crate::wanted_ontology::FileChecksum;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullEnding {
    /// The first version is there.
    Fresh,
    /// A further version is there.
    Updated,
    /// Nothing has changed: the latest version stays.
    Cached,
    /// It was looked up and not fetched.
    Planned,
    /// It has not changed since the date given.
    Skipped,
    /// There is no file.
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

    /// Tells whether the ontology is where the user wanted it.
    #[must_use]
    pub const fn is_good(self) -> bool {
        !matches!(self, Self::Failed)
    }
}

/// What a pull gave for one ontology. Also one line of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullOutcome {
    /// The ontology.
    pub id: String,
    /// How it ended.
    pub status: PullEnding,
    /// The source that named the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<String>,
    /// The service whose budget was charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Where the file was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Where it came from, after redirects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_url: Option<String>,
    /// The version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// The media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// When it last changed, as the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// Its size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_length: Option<u64>,
    /// What names the content at the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The checksum of the file, or the one that it must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<FileChecksum>,
    /// The directory of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How many statements or clauses the file has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statements: Option<u64>,
    /// How many terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<u64>,
    /// What it imports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<String>,
    /// Why there is no file, for scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<AbsenceReason>,
    /// The same as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What was noticed on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What was tried, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<TriedLocation>,
    /// How many imports away from what the user asked for.
    #[serde(default)]
    pub import_depth: u32,
    /// Whether the source's key was sent along.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_authorised: bool,
    /// The user gave the address: it may lead into the private network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_user_supplied: bool,
    /// The address held a secret, which is not in `url`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_secret_address: bool,
}

impl PullOutcome {
    /// Begins with nothing but the name.
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
