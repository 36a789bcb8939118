//! The error of a text that is not an identifier.

use super::spelling::preview;

/// The accepted spellings, for the end of messages.
const ACCEPTED_IDENTIFIERS: &str = "accepted are a DOI (10.1000/xyz), an arXiv id (2101.00001), pmid:123, PMC123, an OpenAlex work (W123) and http(s) URLs";

/// A text that names no work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentifierError {
    /// The text is empty.
    #[error("nothing is there; {ACCEPTED_IDENTIFIERS}")]
    Empty,
    /// The text is a number without a label: it could be an identifier of several kinds.
    #[error(
        "'{0}' is a bare number; write pmid:{0} if it is a PubMed id, or PMC{0} if it is one of PubMed Central"
    )]
    BareNumber(String),
    /// The text begins like one kind of identifier, and its rest is malformed.
    #[error("'{text}' looks like {kind}, but {why}")]
    Malformed {
        /// The kind of identifier, with its article.
        kind: &'static str,
        /// The beginning of the text.
        text: String,
        /// The malformed part.
        why: &'static str,
    },
    /// The link contains a user name or a password.
    #[error(
        "the URL on {host} carries a user name or password, which would end up in logs and manifests; remove it"
    )]
    Userinfo {
        /// The host.
        host: String,
    },
    /// The link has a scheme that is not supported.
    #[error("a '{0}' URL is not fetched; only http and https are")]
    Scheme(String),
    /// The text begins like a link and is not a valid URL.
    #[error("this looks like a URL, but it cannot be read: {why}")]
    Address {
        /// The message of the URL parser.
        why: String,
    },
    /// The text resembles no known kind of identifier.
    #[error(
        "'{0}' is not a DOI, arXiv id, PMCID, PMID, OpenAlex id or URL; {ACCEPTED_IDENTIFIERS}"
    )]
    Unrecognised(String),
}

impl IdentifierError {
    /// Returns the message about a text that was already named.
    pub(crate) fn about_it(&self) -> String {
        let message = self.to_string();
        let (Self::BareNumber(name)
        | Self::Unrecognised(name)
        | Self::Malformed { text: name, .. }) = self
        else {
            return message;
        };
        let rest = message.strip_prefix(&format!("'{name}' "));
        rest.map_or_else(|| message.clone(), |rest| format!("it {rest}"))
    }

    /// Describes a text that is not of the kind that its column or field promises.
    pub(crate) fn not_a(kind: &'static str, text: &str) -> Self {
        Self::Malformed {
            kind,
            text: preview(text),
            why: "it is spelt like none",
        }
    }
}
