//! Imports: the ontologies that an ontology imports are pulled as well, each once.
//!
//! Circular imports end because addresses that were requested before are skipped.

use std::collections::BTreeSet;

use docstokg_bulk::digest::Fingerprint;
use url::Url;

use super::{PullOutcome, RequestedOntology};
use crate::wanted_ontology::{OntologyId, WantedOntology};

/// The depth to which imports are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportDepth {
    /// Imports are not followed.
    #[default]
    None,
    /// Imports of the requested ontologies.
    Direct,
    /// Imports of imports, too.
    Closure,
}

impl std::str::FromStr for ImportDepth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "direct" => Ok(Self::Direct),
            "closure" => Ok(Self::Closure),
            other => Err(format!("'{other}' is not none, direct or closure")),
        }
    }
}

/// Follows imports, round by round.
#[derive(Clone, Debug, Default)]
pub struct ImportRounds {
    how_far: ImportDepth,
    /// Ids, and addresses without scheme and fragment, that were requested already.
    seen: BTreeSet<String>,
    /// Number of imports that were requested.
    followed: usize,
    /// Number of imports beyond [`MAX_IMPORTS`].
    left_out: usize,
}

/// Maximum number of imports that a run follows, against lists without end.
pub const MAX_IMPORTS: usize = 2_000;

impl ImportRounds {
    /// Begins with the ontologies that the user requested.
    #[must_use]
    pub fn new(how_far: ImportDepth, asked: &[RequestedOntology]) -> Self {
        let mut seen = BTreeSet::new();
        for asked in asked {
            seen.insert(asked.wanted.id.to_string());
            seen.extend(asked.wanted.url.as_ref().map(address));
        }
        Self {
            how_far,
            seen,
            ..Self::default()
        }
    }

    /// Returns true if imports are followed.
    #[must_use]
    pub fn are_followed(&self) -> bool {
        self.how_far != ImportDepth::None
    }

    /// Returns the number of imports that were not followed because of [`MAX_IMPORTS`].
    #[must_use]
    pub const fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the imports of a round's results that were not requested before; empty at the end.
    pub fn next(&mut self, results: &[PullOutcome]) -> Vec<RequestedOntology> {
        for result in results {
            let known = [&result.url, &result.final_url];
            let known = known
                .into_iter()
                .flatten()
                .filter_map(|url| Url::parse(url).ok());
            self.seen.extend(known.map(|url| address(&url)));
            self.seen.insert(result.id.clone());
        }
        let mut asked = Vec::new();
        for result in results {
            let is_followed = match self.how_far {
                ImportDepth::None => false,
                ImportDepth::Direct => result.import_depth == 0,
                ImportDepth::Closure => true,
            };
            if !is_followed {
                continue;
            }
            for import in &result.imports {
                if let Ok(url) = Url::parse(import)
                    && matches!(url.scheme(), "http" | "https")
                    && self.seen.insert(address(&url))
                {
                    if self.followed >= MAX_IMPORTS {
                        self.left_out += 1;
                        continue;
                    }
                    self.followed += 1;
                    asked.push(RequestedOntology {
                        import_depth: result.import_depth + 1,
                        ..RequestedOntology::new(wanted(&url))
                    });
                }
            }
        }
        asked
    }
}

/// Returns an address without the parts in which two spellings may differ.
pub(super) fn address(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    let text = url.as_str().trim_end_matches('/');
    text.split_once("://")
        .map_or(text, |(_, rest)| rest)
        .to_owned()
}

/// Names an import by the end of its address and a fingerprint, because two ends may be equal.
fn wanted(url: &Url) -> WantedOntology {
    let mut parts = url
        .path_segments()
        .map(|parts| parts.filter(|part| !part.is_empty()));
    let last = parts.as_mut().and_then(Iterator::last).unwrap_or_default();
    let stem = last.rsplit_once('.').map_or(last, |(stem, _)| stem);
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let stem: String = stem
        .chars()
        .filter(|letter| fits(*letter))
        .take(40)
        .collect();
    let mark = Fingerprint::of(&address(url));
    let stem = if stem.is_empty() { "x" } else { &stem };
    let id = OntologyId::of_import(stem, &format!("{mark:.8}"));
    WantedOntology {
        url: Some(url.clone()),
        sources: vec!["direct".to_owned()],
        ..WantedOntology::new(id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::PullEnding;
    use super::*;

    fn result(id: &str, depth: u32, imports: &[&str]) -> PullOutcome {
        PullOutcome {
            import_depth: depth,
            imports: imports.iter().map(|text| (*text).to_owned()).collect(),
            ..PullOutcome::new(id, PullEnding::Fresh)
        }
    }

    fn asked(id: &str) -> RequestedOntology {
        RequestedOntology::new(WantedOntology::new(OntologyId::parse(id).unwrap()))
    }

    #[test]
    fn a_circle_of_imports_ends() {
        let mut rounds = ImportRounds::new(ImportDepth::Closure, &[asked("a")]);
        let first = rounds.next(&[result(
            "a",
            0,
            &["http://x.org/b.owl", "https://x.org/b.owl#", "urn:x:y"],
        )]);
        assert_eq!(first.len(), 1);
        assert!(
            first[0].wanted.id.as_str().starts_with("import-b-"),
            "{}",
            first[0].wanted.id
        );
        let back = PullOutcome {
            final_url: Some("https://cdn.org/b.owl".to_owned()),
            ..result(
                first[0].wanted.id.as_str(),
                1,
                &[
                    "https://x.org/c.owl",
                    "https://x.org/b.owl",
                    "https://cdn.org/b.owl",
                ],
            )
        };
        let second = rounds.next(&[back]);
        assert_eq!(second.len(), 1);
        assert_eq!(second[0].import_depth, 2);
        let circle = result(second[0].wanted.id.as_str(), 2, &["http://x.org/b.owl"]);
        assert!(rounds.next(&[circle]).is_empty());
    }

    #[test]
    fn imports_of_a_large_pull_are_followed_up_to_their_own_bound() {
        let ids: Vec<RequestedOntology> = (0..3_000)
            .map(|number| asked(&format!("o{number}")))
            .collect();
        let mut rounds = ImportRounds::new(ImportDepth::Closure, &ids);
        let mut results: Vec<PullOutcome> = ids
            .iter()
            .map(|asked| result(asked.wanted.id.as_str(), 0, &[]))
            .collect();
        results[2_999].imports = vec!["http://x.org/last.owl".to_owned()];
        assert_eq!(rounds.next(&results).len(), 1);
        let many: Vec<String> = (0..2_500)
            .map(|number| format!("http://x.org/{number}.owl"))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(
            rounds.next(&[result("o1", 0, &many)]).len(),
            MAX_IMPORTS - 1
        );
        assert_eq!(rounds.left_out(), 501);
    }

    #[test]
    fn direct_imports_stop_after_one_round() {
        let mut rounds = ImportRounds::new(ImportDepth::Direct, &[asked("a")]);
        assert_eq!(rounds.next(&[result("a", 0, &["http://x.org/b"])]).len(), 1);
        assert!(
            rounds
                .next(&[result("b", 1, &["http://x.org/c"])])
                .is_empty()
        );
        let mut none = ImportRounds::new(ImportDepth::None, &[asked("a")]);
        assert!(none.next(&[result("a", 0, &["http://x.org/b"])]).is_empty());
    }
}
