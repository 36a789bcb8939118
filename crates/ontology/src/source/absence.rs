//! Absences: the reasons why a pull got no file of an ontology.

use serde::{Deserialize, Serialize};

/// The reason why there is no file of an ontology, as a class and as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// The class of the reason, for scripts.
    pub reason: AbsenceReason,
    /// The sentence for the user.
    pub detail: String,
}

/// The class of an [`Absence`], which scripts can rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbsenceReason {
    /// The source does not know the ontology.
    NotListed,
    /// The source lists the ontology, but has no file of it.
    NoFile,
    /// A licence or the owner restricts the file.
    Restricted,
    /// The ontology is abandoned, and perhaps replaced.
    Obsolete,
    /// The source declares a URL that cannot be fetched.
    BadLocation,
    /// The source requires a key, and the key is missing or refused.
    Credential,
    /// The user must name a URL, an acronym or a source.
    Unclear,
    /// The licence is not on the list of accepted licences.
    Licence,
    /// The [`UrlGate`](crate::url_check::UrlGate) refuses the URL.
    Gate,
    /// The server returned an error status.
    HttpStatus,
    /// The downloaded file is not an ontology.
    NotAnOntology,
    /// The downloaded or listed version is not the requested version.
    Version,
    /// The downloaded or listed format is not a requested format.
    Format,
    /// The downloaded ontology has a format that is not parsed here.
    Unsupported,
    /// The downloaded file does not have the declared checksum.
    Checksum,
    /// The downloaded file is damaged or does not parse.
    Invalid,
    /// The connection or the service failed.
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
