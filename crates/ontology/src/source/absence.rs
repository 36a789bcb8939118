//! Why there is no file.

use serde::{Deserialize, Serialize};

/// Why there is no file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// The class.
    pub reason: AbsenceReason,
    /// The same as a sentence.
    pub detail: String,
}

/// Why there is no file, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbsenceReason {
    /// The source does not know the ontology.
    NotListed,
    /// The source knows it, and has no file of it.
    NoFile,
    /// A licence or its owner keeps it back.
    Restricted,
    /// It was given up, and perhaps replaced.
    Obsolete,
    /// What the source states as its place cannot be fetched.
    BadLocation,
    /// The source wants a key, and there is none, or it is refused.
    Credential,
    /// The user has to say more: an address, an acronym.
    Unclear,
    /// Its licence is not on the list of those accepted.
    Licence,
    /// The gate for URLs keeps it back.
    Gate,
    /// The server says no.
    HttpStatus,
    /// What came is not an ontology.
    NotAnOntology,
    /// What came, or what the source has, is another version than the one that is wanted.
    Version,
    /// What came, or what the source has, is in another format than those that are wanted.
    Format,
    /// What came is in a format that is not read here.
    Unsupported,
    /// What came does not have the checksum that was stated.
    Checksum,
    /// What came is damaged or does not parse.
    Invalid,
    /// The connection, or the service, failed.
    Unreachable,
}

impl AbsenceReason {
    /// Returns the word for scripts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotListed => "not_listed",
            Self::NoFile => "no_file",
            Self::Restricted => "restricted",
            Self::Obsolete => "obsolete",
            Self::BadLocation => "bad_location",
            Self::Credential => "credential",
            Self::Unclear => "unclear",
            Self::Licence => "licence",
            Self::Gate => "gate",
            Self::HttpStatus => "http_status",
            Self::NotAnOntology => "not_an_ontology",
            Self::Version => "version",
            Self::Format => "format",
            Self::Unsupported => "unsupported",
            Self::Checksum => "checksum",
            Self::Invalid => "invalid",
            Self::Unreachable => "unreachable",
        }
    }
}
