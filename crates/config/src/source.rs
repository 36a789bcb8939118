//! The positions of values.

use std::fmt;
use std::sync::Arc;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ValueSource {
    /// A general default of the program.
    Default,
    /// A value for a known host that the program includes.
    Shipped,
    /// A line of a file.
    File {
        /// The path as given.
        path: Arc<str>,
        /// The line, from 1.
        line: u64,
    },
    /// An environment variable.
    Environment(Arc<str>),
    /// A flag of the command line.
    Flag(Arc<str>),
    /// A value that the embedding program sets.
    Program,
}

impl ValueSource {
    /// Returns whether the user set the value, instead of the program.
    #[must_use]
    pub const fn is_written(&self) -> bool {
        !matches!(self, Self::Default | Self::Shipped)
    }

    /// Returns the line in a file; other sources sort after all lines.
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

/// A value, and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedValue<T> {
    /// The value.
    pub value: T,
    /// The origin of the value.
    pub source: ValueSource,
}

impl<T> SourcedValue<T> {
    /// Creates a value with its [`ValueSource`].
    pub fn new(value: T, source: ValueSource) -> Self {
        Self { value, source }
    }

    /// Returns a [`SourcedValue`] with a changed value and the same source.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> SourcedValue<U> {
        SourcedValue {
            value: change(self.value),
            source: self.source,
        }
    }
}
