//! Where a value was written.

use std::fmt;
use std::sync::Arc;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ValueSource {
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

impl ValueSource {
    /// Returns whether the user wrote it, and not the program that was built.
    #[must_use]
    pub const fn is_written(&self) -> bool {
        !matches!(self, Self::Default | Self::Shipped)
    }

    /// Returns the line in a file; what is not in a file comes after all that is.
    pub(crate) fn line(&self) -> u64 {
        if let Self::File { line, .. } = self {
            *line
        } else {
            u64::MAX
        }
    }
}

impl fmt::Display for ValueSource {
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
pub struct SourcedValue<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub source: ValueSource,
}

impl<T> SourcedValue<T> {
    /// Joins a value and its source.
    pub fn new(value: T, source: ValueSource) -> Self {
        Self { value, source }
    }

    /// Changes the value and keeps the source.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> SourcedValue<U> {
        SourcedValue {
            value: change(self.value),
            source: self.source,
        }
    }
}
