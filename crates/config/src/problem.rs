//! The problems of a configuration.

use std::fmt;

use crate::source::ValueSource;

/// A problem of the configuration.
///
/// ```
/// use docstokg_config::{document, read_text, section};
///
/// section! {
///     /// The settings of a program.
///     Settings {
///         /// Attempts in all
///         attempts: u32 = 4,
///     }
/// }
///
/// let mut problems = Vec::new();
/// let node = read_text("\nattempts: many\n", "my.yaml", &mut problems).expect("YAML");
/// let _: Settings = document::read(node, &mut problems);
/// assert_eq!(
///     problems[0].to_string(),
///     "my.yaml:2: attempts: expected a whole number, found 'many'"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The position of the problem.
    pub source: ValueSource,
    /// The key, with dots between its parts.
    pub key: String,
    /// The error, and the expected value.
    pub message: String,
    /// The nearest valid word, if any.
    pub suggestion: Option<String>,
}

impl ConfigProblem {
    /// Creates a [`ConfigProblem`] without a suggestion.
    pub fn new(source: &ValueSource, key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            source: source.clone(),
            key: key.into(),
            message: message.into(),
            suggestion: None,
        }
    }

    /// Creates a problem of a flag or a variable as a whole, which has no key.
    pub fn without_key(source: &ValueSource, message: impl Into<String>) -> Self {
        Self::new(source, String::new(), message)
    }

    /// Adds the word that was probably meant, if any.
    #[must_use]
    pub fn suggesting(self, suggestion: Option<String>) -> Self {
        Self { suggestion, ..self }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.source)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        match &self.suggestion {
            Some(word) => write!(f, "; did you mean '{word}'?"),
            None => Ok(()),
        }
    }
}

/// All problems of the configuration together.
#[derive(Debug, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

impl ConfigProblems {
    /// Sorts the problems by their lines in the file. Problems outside of a file come last.
    #[must_use]
    pub fn sorted(mut problems: Vec<ConfigProblem>) -> Self {
        problems.sort_by_key(|problem| problem.source.line());
        Self(problems)
    }
}

fn lines(problems: &[ConfigProblem]) -> String {
    problems
        .iter()
        .map(ConfigProblem::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the results of two sections, or the problems of both.
///
/// # Errors
/// Returns every [`ConfigProblem`] if at least one section has problems.
pub fn both<A, B>(
    first: Result<A, Vec<ConfigProblem>>,
    second: Result<B, Vec<ConfigProblem>>,
) -> Result<(A, B), Vec<ConfigProblem>> {
    match (first, second) {
        (Ok(first), Ok(second)) => Ok((first, second)),
        (Err(mut problems), Err(more)) => {
            problems.extend(more);
            Err(problems)
        }
        (Err(problems), _) | (_, Err(problems)) => Err(problems),
    }
}

/// Returns the known word that was probably meant, if any is similar.
///
/// ```
/// use docstokg_config::nearest;
///
/// let known = ["telemetry", "limits", "breakers"];
/// assert_eq!(nearest("telemtry", known).as_deref(), Some("telemetry"));
/// assert_eq!(nearest("cache", known), None);
/// ```
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let lower = word.to_lowercase();
    let scored = known.into_iter().map(|known| {
        (
            strsim::damerau_levenshtein(&lower, &known.to_lowercase()),
            known,
        )
    });
    let (distance, best) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + best.len().min(word.len()) / 3).then(|| best.to_owned())
}
