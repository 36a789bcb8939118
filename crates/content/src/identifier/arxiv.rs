//! arXiv identifiers in the scheme since April 2007, and in the earlier scheme.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::spelling::{
    host_and_path, path_alone, percent_decoded, preview, strip_label, without_trailing_punctuation,
};
use super::{IdentifierError, as_text};

/// Archives of the old scheme, `archive/YYMMNNN`, sorted for the search.
const ARCHIVES: [&str; 38] = [
    "acc-phys", "adap-org", "alg-geom", "ao-sci", "astro-ph", "atom-ph", "bayes-an", "chao-dyn",
    "chem-ph", "cmp-lg", "comp-gas", "cond-mat", "cs", "dg-ga", "econ", "eess", "funct-an",
    "gr-qc", "hep-ex", "hep-lat", "hep-ph", "hep-th", "math", "math-ph", "mtrl-th", "nlin",
    "nucl-ex", "nucl-th", "patt-sol", "physics", "plasm-ph", "q-alg", "q-bio", "q-fin", "quant-ph",
    "solv-int", "stat", "supr-con",
];

/// Path prefixes of arxiv.org before an identifier.
const ARXIV_PATHS: [&str; 9] = [
    "abs", "pdf", "html", "e-print", "src", "format", "ps", "list", "cits",
];

/// An arXiv identifier: `2101.00001` or `math.GT/0309136`, with the version if the text names a
/// version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArxivId {
    base: String,
    version: Option<u32>,
}

impl ArxivId {
    /// Returns the identifier without version.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Returns the identifier without version and subject class: `math.GT/0309136` and
    /// `math/0309136` are one work.
    #[must_use]
    pub fn without_class(&self) -> String {
        match self.base.split_once('/') {
            Some((category, number)) => format!(
                "{}/{number}",
                category.split('.').next().unwrap_or(category)
            ),
            None => self.base.clone(),
        }
    }

    /// Returns the version, if the text named a version.
    #[must_use]
    pub const fn version(&self) -> Option<u32> {
        self.version
    }

    /// Reads an identifier in any unmistakable spelling. Returns `None` if the text is not an arXiv
    /// identifier.
    pub(crate) fn read(text: &str) -> Option<Result<Self, IdentifierError>> {
        if let Some(rest) = strip_label(text, "arxiv") {
            let rest = strip_label(rest, "arxiv").unwrap_or(rest);
            // The category follows the number in brackets: `arXiv:2101.00001v2 [cs.CL]`.
            let rest = rest.split_whitespace().next().unwrap_or_default();
            return Some(
                Self::read_bare(rest)
                    .or_else(|| Self::read(rest))
                    .unwrap_or_else(|| Err(malformed(text))),
            );
        }
        if let Some((host, path)) = host_and_path(text)
            && (host == "arxiv.org" || host.ends_with(".arxiv.org"))
        {
            let path = path_alone(path);
            let (page, id) = path.split_once('/')?;
            return ARXIV_PATHS
                .contains(&page)
                .then(|| Self::read_bare(id))
                .flatten();
        }
        Self::read_bare(text)
    }

    /// Reads an identifier without prefix. Returns `None` if the text is not spelt like an
    /// [`ArxivId`].
    pub(crate) fn read_bare(text: &str) -> Option<Result<Self, IdentifierError>> {
        let decoded = percent_decoded(text);
        let text = without_trailing_punctuation(&decoded).trim_end_matches('/');
        let text = text
            .strip_suffix(".pdf")
            .or_else(|| text.strip_suffix(".PDF"))
            .unwrap_or(text);
        let (base, version) = split_version(text)?;
        let base = new_scheme(base).or_else(|| old_scheme(base))?;
        Some(Ok(Self { base, version }))
    }
}

/// Splits `v2` off the end.
fn split_version(text: &str) -> Option<(&str, Option<u32>)> {
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (before, number) = text.split_at_checked(text.len() - digits)?;
    match before.strip_suffix(['v', 'V']) {
        Some(base) if digits > 0 => Some((
            base,
            Some(number.parse().ok().filter(|version| *version > 0)?),
        )),
        _ => Some((text, None)),
    }
}

/// Reads `YYMM.NNNN` or `YYMM.NNNNN`.
fn new_scheme(text: &str) -> Option<String> {
    let (date, number) = text.split_once('.')?;
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    (date.len() == 4
        && matches!(number.len(), 4 | 5)
        && digits(date)
        && digits(number)
        && is_month(&date[2..]))
    .then(|| text.to_owned())
}

/// Reads `archive/YYMMNNN` or `archive.XX/YYMMNNN`.
fn old_scheme(text: &str) -> Option<String> {
    let (category, number) = text.split_once('/')?;
    if number.len() != 7
        || !number.bytes().all(|byte| byte.is_ascii_digit())
        || !is_month(&number[2..4])
    {
        return None;
    }
    let category = category.to_ascii_lowercase();
    let (archive, class) = category
        .split_once('.')
        .map_or((category.as_str(), None), |(archive, class)| {
            (archive, Some(class))
        });
    ARCHIVES.binary_search(&archive).ok()?;
    match class {
        None => Some(format!("{archive}/{number}")),
        Some(class) if class.len() == 2 && class.bytes().all(|byte| byte.is_ascii_lowercase()) => {
            Some(format!("{archive}.{}/{number}", class.to_ascii_uppercase()))
        }
        Some(class)
            if class.contains('-')
                && class.len() <= 10
                && class
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-') =>
        {
            Some(format!("{archive}.{class}/{number}"))
        }
        Some(_) => None,
    }
}

fn is_month(text: &str) -> bool {
    matches!(text.parse::<u8>(), Ok(1..=12))
}

fn malformed(text: &str) -> IdentifierError {
    IdentifierError::Malformed {
        kind: "an arXiv id",
        text: preview(text),
        why: "it is spelt neither like 2101.00001v2 nor like hep-th/9901001",
    }
}

impl fmt::Display for ArxivId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)?;
        self.version
            .map_or(Ok(()), |version| write!(f, "v{version}"))
    }
}

as_text!(ArxivId, "an arXiv id");

#[cfg(test)]
mod tests {
    #[test]
    fn the_archives_are_sorted_for_the_search() {
        assert!(super::ARCHIVES.is_sorted());
    }
}
