//! Identifiers of works in the `OpenAlex` catalogue.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::spelling::{
    host_and_path, number, path_alone, preview, strip_label, without_trailing_punctuation,
};
use super::{IdentifierError, as_text};

/// The identifier of a work in `OpenAlex`: `W` and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OpenAlexId(u64);

impl OpenAlexId {
    /// Reads an identifier in any unmistakable spelling. Returns `None` if the text is not an
    /// `OpenAlex` identifier.
    pub(crate) fn read(text: &str) -> Option<Result<Self, IdentifierError>> {
        if let Some(rest) = strip_label(text, "openalex") {
            return Some(
                Self::read_bare(rest)
                    .or_else(|| Self::read(rest))
                    .unwrap_or_else(|| Err(malformed(text))),
            );
        }
        if let Some((host, path)) = host_and_path(text)
            && matches!(
                host.as_str(),
                "openalex.org" | "api.openalex.org" | "explore.openalex.org"
            )
        {
            let path = path_alone(path);
            return Self::read_bare(path.strip_prefix("works/").unwrap_or(path));
        }
        Self::read_bare(text)
    }

    /// Reads `W` and a number. Another letter of `OpenAlex` results in an [`IdentifierError`],
    /// because it names another kind of object.
    pub(crate) fn read_bare(text: &str) -> Option<Result<Self, IdentifierError>> {
        let text = without_trailing_punctuation(text).trim_end_matches('/');
        let letter = text.chars().next()?.to_ascii_uppercase();
        let digits = text.get(1..).and_then(number)?;
        match letter {
            'W' => Some(Ok(Self(digits))),
            'A' | 'S' | 'I' | 'T' | 'P' | 'F' | 'C' => Some(Err(malformed(text))),
            _ => None,
        }
    }
}

fn malformed(text: &str) -> IdentifierError {
    IdentifierError::Malformed {
        kind: "an OpenAlex id",
        text: preview(text),
        why: "works begin with W and go on with a number",
    }
}

impl fmt::Display for OpenAlexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "W{}", self.0)
    }
}

as_text!(OpenAlexId, "an OpenAlex work");
