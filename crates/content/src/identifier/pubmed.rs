//! Identifiers of `PubMed` and `PubMed` Central.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::spelling::{
    host_and_path, number, path_alone, preview, strip_label, strip_prefix_ignore_case,
    without_trailing_punctuation,
};
use super::{IdentifierError, as_text};

/// A `PubMed` number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pmid(u64);

/// A `PubMed` Central identifier: `PMC123`, or `PMC123.2` for one version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pmcid {
    number: u64,
    version: Option<u32>,
}

impl Pmid {
    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Reads a number with its label, such as `pmid:`. Returns `None` if the text has no such
    /// label.
    pub(crate) fn read(text: &str) -> Option<Result<Self, IdentifierError>> {
        if let Some(rest) = strip_label(text, "pmid").or_else(|| strip_label(text, "pubmed")) {
            return Some(
                Self::read_bare(rest)
                    .or_else(|| Self::read(rest))
                    .unwrap_or_else(|| {
                        Err(IdentifierError::Malformed {
                            kind: "a PubMed id",
                            text: preview(text),
                            why: "it is not a number above zero",
                        })
                    }),
            );
        }
        let (host, path) = host_and_path(text)?;
        let path = path_alone(path);
        let id = match host.as_str() {
            "pubmed.ncbi.nlm.nih.gov" | "pubmed.gov" => path,
            "ncbi.nlm.nih.gov" => path.strip_prefix("pubmed/")?,
            "europepmc.org" => strip_prefix_ignore_case(path, "article/med/")
                .or_else(|| strip_prefix_ignore_case(path, "abstract/med/"))?,
            _ => return None,
        };
        Self::read_bare(id.split('/').next()?)
    }

    /// Reads a number without a label.
    pub(crate) fn read_bare(text: &str) -> Option<Result<Self, IdentifierError>> {
        number(without_trailing_punctuation(text)).map(|number| Ok(Self(number)))
    }
}

impl Pmcid {
    /// Returns the number, without `PMC`.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    /// Returns the version, if the text named a version.
    #[must_use]
    pub const fn version(self) -> Option<u32> {
        self.version
    }

    /// Returns the identifier of one version.
    #[must_use]
    pub const fn at_version(self, version: u32) -> Self {
        Self {
            number: self.number,
            version: Some(version),
        }
    }

    /// Reads an identifier with its label. Returns `None` if the text has no such label.
    pub(crate) fn read(text: &str) -> Option<Result<Self, IdentifierError>> {
        let malformed = || {
            Err(IdentifierError::Malformed {
                kind: "a PubMed Central id",
                text: preview(text),
                why: "PMC is not followed by a number above zero",
            })
        };
        if let Some(rest) = strip_label(text, "pmcid") {
            return Some(
                Self::read_bare(rest)
                    .or_else(|| Self::read(rest))
                    .unwrap_or_else(malformed),
            );
        }
        if let Some((host, path)) = host_and_path(text) {
            let path = path_alone(path);
            let id = match host.as_str() {
                "pmc.ncbi.nlm.nih.gov" => path.strip_prefix("articles/")?,
                "ncbi.nlm.nih.gov" => path.strip_prefix("pmc/articles/")?,
                "europepmc.org" => path
                    .strip_prefix("articles/")
                    .or_else(|| strip_prefix_ignore_case(path, "article/pmc/"))?,
                _ => return None,
            };
            return Self::read_bare(id.split('/').next()?);
        }
        let rest = strip_prefix_ignore_case(text, "pmc")?.trim_start_matches([':', ' ', '-']);
        rest.starts_with(|c: char| c.is_ascii_digit())
            .then(|| Self::read_bare(rest).unwrap_or_else(malformed))
    }

    /// Reads the digits, with or without `PMC` before and a version after them.
    pub(crate) fn read_bare(text: &str) -> Option<Result<Self, IdentifierError>> {
        let text = without_trailing_punctuation(text);
        let text = strip_prefix_ignore_case(text, "pmc").unwrap_or(text);
        let (digits, version) = text
            .split_once('.')
            .map_or((text, None), |(digits, version)| (digits, Some(version)));
        let version = match version {
            Some(version) => Some(u32::try_from(number(version)?).ok()?),
            None => None,
        };
        Some(Ok(Self {
            number: number(digits)?,
            version,
        }))
    }
}

impl fmt::Display for Pmid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Pmcid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PMC{}", self.number)?;
        self.version
            .map_or(Ok(()), |version| write!(f, ".{version}"))
    }
}

as_text!(Pmid, "a PubMed id");
as_text!(Pmcid, "a PubMed Central id");
