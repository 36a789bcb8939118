//! Where a value was written, and what is wrong with it.

use std::fmt;
use std::sync::Arc;

/// The place that a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Built into the program, as a general default.
    Default,
    /// Shipped with the program for a known host.
    Shipped,
    /// A line of a file.
    File {
        /// The path as given.
        path: Arc<str>,
        /// From 1.
        line: u64,
    },
    /// An environment variable.
    Environment(Arc<str>),
    /// A flag of the command line.
    Flag(Arc<str>),
    /// Set by the embedding program.
    Program,
}

impl Source {
    /// Returns the line in a file; what is not in a file comes after all that is.
    pub(crate) fn line(&self) -> u64 {
        if let Self::File { line, .. } = self {
            *line
        } else {
            u64::MAX
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Shipped => f.write_str("shipped"),
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Environment(name) => write!(f, "${name}"),
            Self::Flag(flag) => f.write_str(flag),
            Self::Program => f.write_str("program"),
        }
    }
}

/// A value, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Its place.
    pub source: Source,
}

impl<T> Sourced<T> {
    /// Joins a value and its place.
    pub fn new(value: T, source: Source) -> Self {
        Self { value, source }
    }

    /// Changes the value and keeps the place.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Sourced<U> {
        Sourced {
            value: change(self.value),
            source: self.source,
        }
    }
}

/// Something that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub source: Source,
    /// The key, with dots between its parts.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
    /// The nearest valid word, where one was meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for Problem {
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

/// Finds the word that was probably meant.
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
