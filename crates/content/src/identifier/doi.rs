//! Digital object identifiers.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::spelling::{
    host_and_path, is_blank, path_alone, percent_decoded, preview, strip_label,
    strip_prefix_ignore_case, without_trailing_punctuation,
};
use super::{ArxivId, IdentifierError, as_text};

/// A DOI without prefix, in lower case (DOIs are compared without case), not percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Doi(String);

impl Doi {
    /// Returns the text, without any prefix.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part before the first slash, which names the registrant.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// Returns the arXiv work that this DOI stands for, if it is one of arXiv's own.
    #[must_use]
    pub fn arxiv(&self) -> Option<ArxivId> {
        self.0
            .strip_prefix("10.48550/arxiv.")
            .and_then(ArxivId::read_bare)
            .and_then(Result::ok)
    }

    /// Returns the DOI that arXiv gives one of its works.
    #[must_use]
    pub fn of_arxiv(id: &ArxivId) -> Self {
        Self(format!("10.48550/arxiv.{}", id.base().to_ascii_lowercase()))
    }

    /// Reads a DOI in any spelling that cannot be anything else; `None` when the text is no DOI at
    /// all.
    pub(crate) fn read(text: &str) -> Option<Result<Self, IdentifierError>> {
        if let Some(rest) = strip_label(text, "doi")
            .or_else(|| strip_prefix_ignore_case(text, "info:doi/"))
            .or_else(|| strip_label(text, "urn:doi"))
        {
            return Some(
                Self::read_bare(rest)
                    .or_else(|| Self::read(rest))
                    .unwrap_or_else(|| Err(malformed(text, "a DOI begins with 10. and a number of at least four digits, then a slash"))),
            );
        }
        if let Some((host, path)) = host_and_path(text)
            && matches!(host.as_str(), "doi.org" | "dx.doi.org")
        {
            // The check character of a SICI may be `#`, and its parts are full of `?` and `#`:
            // there they are no query.
            let sici = path.to_ascii_lowercase().contains("(sici)");
            let path = if sici { path } else { path_alone(path) };
            let path = strip_prefix_ignore_case(path, "doi:").unwrap_or(path);
            return Self::read_bare(path).filter(Result::is_ok);
        }
        Self::read_bare(text)
    }

    /// Reads a DOI without prefix; `None` when it does not begin like one.
    pub(crate) fn read_bare(text: &str) -> Option<Result<Self, IdentifierError>> {
        let settled = settle(text);
        let rest = settled.strip_prefix("10.")?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (registrant, suffix) = rest.split_once('/')?;
        if digits < 4
            || !registrant
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            return None;
        }
        Some(if suffix.is_empty() {
            Err(malformed(text, "nothing follows the slash"))
        } else if suffix.contains(is_blank) {
            Err(malformed(text, "there is white space in it"))
        } else {
            Ok(Self(settled))
        })
    }
}

/// Takes off encodings and punctuation until nothing changes, so that reading what was written
/// gives the same again.
fn settle(text: &str) -> String {
    let mut settled = text.trim_matches(is_blank).to_ascii_lowercase();
    loop {
        let decoded = percent_decoded(&settled)
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&");
        let next =
            without_trailing_punctuation(decoded.trim_start_matches(is_blank)).to_ascii_lowercase();
        if next == settled {
            return settled;
        }
        settled = next;
    }
}

fn malformed(text: &str, why: &'static str) -> IdentifierError {
    IdentifierError::Malformed {
        kind: "a DOI",
        text: preview(text),
        why,
    }
}

impl fmt::Display for Doi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(Doi, "a DOI");
