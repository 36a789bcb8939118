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

/// Registrants whose versions are a number after a full stop: F1000 and its sisters, eLife,
/// `MedEdPublish`.
const NUMBERED_VERSIONS: [&str; 3] = ["10.12688", "10.7554", "10.15694"];

impl Doi {
    /// Returns the text of the DOI, without any prefix such as `doi:`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part before the first slash, which names the registrant.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// Tells whether two DOIs are versions of one work: they differ only in the version mark at the
    /// end.
    #[must_use]
    pub fn is_version_of(&self, other: &Self) -> bool {
        self.without_version() == other.without_version()
    }

    /// Returns the DOI without its version mark: `.v2`, `/v2`, `-v2`, `_v2`, or `v2` after a digit;
    /// `.2` for the registrants in [`NUMBERED_VERSIONS`].
    fn without_version(&self) -> &str {
        let text = self.0.as_str();
        let without_number = text.trim_end_matches(|c: char| c.is_ascii_digit());
        if matches!(text.len() - without_number.len(), 1..=2) {
            if let Some(before) = without_number.strip_suffix('v') {
                let head = before.trim_end_matches(['.', '/', '-', '_']);
                if head.ends_with(|c: char| c.is_alphanumeric())
                    && (head.len() < before.len() || head.ends_with(|c: char| c.is_ascii_digit()))
                {
                    return head;
                }
            }
            if NUMBERED_VERSIONS.contains(&self.prefix())
                && let Some(head) = without_number.strip_suffix('.')
                && head.ends_with(|c: char| c.is_ascii_digit())
            {
                return head;
            }
        }
        text
    }

    /// Returns the [`ArxivId`] of the work, if arXiv itself registered this DOI.
    #[must_use]
    pub fn arxiv(&self) -> Option<ArxivId> {
        self.0
            .strip_prefix("10.48550/arxiv.")
            .and_then(ArxivId::read_bare)
            .and_then(Result::ok)
    }

    /// Returns the DOI that arXiv registers for an [`ArxivId`].
    #[must_use]
    pub fn of_arxiv(id: &ArxivId) -> Self {
        Self(format!("10.48550/arxiv.{}", id.base().to_ascii_lowercase()))
    }

    /// Reads a DOI in any unmistakable spelling. Returns `None` if the text is not a DOI.
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
            // The check character of a SICI may be `#`, and its parts are full of `?` and `#`.
            // These characters do not begin a query or fragment there.
            let sici = path.to_ascii_lowercase().contains("(sici)");
            let path = if sici { path } else { path_alone(path) };
            let path = strip_prefix_ignore_case(path, "doi:").unwrap_or(path);
            return Self::read_bare(path).filter(Result::is_ok);
        }
        Self::read_bare(text)
    }

    /// Reads a DOI without prefix. Returns `None` if the text does not begin like a DOI.
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

/// Removes encodings and punctuation until nothing changes, so that reading the result again gives
/// the same [`Doi`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ_in_their_mark_and_nothing_else() {
        let are_versions = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| text.parse::<Doi>().unwrap());
            assert_eq!(one.is_version_of(&other), other.is_version_of(&one));
            one.is_version_of(&other)
        };
        for (one, other) in [
            (
                "10.12688/f1000research.20034.1",
                "10.12688/f1000research.20034.2",
            ),
            (
                "10.12688/f1000research.20034",
                "10.12688/f1000research.20034.2",
            ),
            ("10.7554/elife.91000", "10.7554/elife.91000.2"),
            ("10.21203/rs.3.rs-123456/v1", "10.21203/rs.3.rs-123456/v2"),
            (
                "10.6084/m9.figshare.123456",
                "10.6084/m9.figshare.123456.v3",
            ),
            (
                "10.26434/chemrxiv-2021-abcde",
                "10.26434/chemrxiv-2021-abcde-v2",
            ),
            (
                "10.20944/preprints202001.0001.v1",
                "10.20944/preprints202001.0001.v2",
            ),
            ("10.1000/reeds.5512", "10.1000/reeds.5512v2"),
            ("10.1000/reeds.5512", "10.1000/REEDS.5512"),
        ] {
            assert!(are_versions(one, other), "{one} {other}");
        }
        for (one, other) in [
            (
                "10.1371/journal.pone.0000217",
                "10.1371/journal.pone.0000218",
            ),
            (
                "10.1371/journal.pone.0000217",
                "10.1371/journal.pone.0000217.g001",
            ),
            ("10.1234/journal.5.1", "10.1234/journal.5.2"),
            ("10.1234/journal.1", "10.1234/journal.12"),
            ("10.1234/journal", "10.1234/journal.12"),
            ("10.1016/j.joi.2016.02.07", "10.1016/j.joi.2016.02.08"),
            ("10.1038/s41586-020-2649-2", "10.1038/s41586-020-2649-3"),
            ("10.1234/rev12", "10.1234/rev13"),
            ("10.7554/elife.91000.001", "10.7554/elife.91000"),
            ("10.1000/a", "10.1000/ab"),
        ] {
            assert!(!are_versions(one, other), "{one} {other}");
        }
    }
}
