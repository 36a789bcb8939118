//! Why a text is not an identifier.

use super::spelling::preview;

/// What is accepted, for the end of messages.
const ACCEPTED_IDENTIFIERS: &str = "accepted are a DOI (10.1000/xyz), an arXiv id (2101.00001), pmid:123, PMC123, an OpenAlex work (W123) and http(s) URLs";

/// The text names no work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentifierError {
    /// There is nothing.
    #[error("nothing is there; {ACCEPTED_IDENTIFIERS}")]
    Empty,
    /// Digits alone could be anything.
    #[error(
        "'{0}' is a bare number; write pmid:{0} if it is a PubMed id, or PMC{0} if it is one of PubMed Central"
    )]
    BareNumber(String),
    /// It begins like one kind and does not go on like it.
    #[error("'{text}' looks like {kind}, but {why}")]
    Malformed {
        /// The kind, with its article.
        kind: &'static str,
        /// The beginning of the text.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// It is a link with a name or password in it.
    #[error(
        "the URL on {host} carries a user name or password, which would end up in logs and manifests; remove it"
    )]
    Userinfo {
        /// The host.
        host: String,
    },
    /// It is a link that is not fetched.
    #[error("a '{0}' URL is not fetched; only http and https are")]
    Scheme(String),
    /// It begins like a link and is none.
    #[error("this looks like a URL, but it cannot be read: {why}")]
    Address {
        /// What the URL parser says.
        why: String,
    },
    /// It looks like nothing known.
    #[error(
        "'{0}' is not a DOI, arXiv id, PMCID, PMID, OpenAlex id or URL; {ACCEPTED_IDENTIFIERS}"
    )]
    Unrecognised(String),
}

impl IdentifierError {
    /// Says that a text is not of the kind that its column or field promises.
    pub(crate) fn not_a(kind: &'static str, text: &str) -> Self {
        Self::Malformed {
            kind,
            text: preview(text),
            why: "it is spelt like none",
        }
    }
}
