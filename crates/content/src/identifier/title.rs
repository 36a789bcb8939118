//! Titles that stand for works without an identifier.

use std::fmt;

use crate::titles;

/// The prefix of a title as the name of a work.
const PREFIX: &str = "title:";
/// The longest title that names a work, in characters.
const MAX_TITLE_CHARS: usize = 300;
/// Minimum number of words and of letters of a title that can be searched for.
const MIN_TITLE_SIZE: (usize, usize) = (3, 12);

/// A title that is long enough to search for, without markup and in one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkTitle(String);

impl WorkTitle {
    /// Cleans a title. Returns `None` for a title too short to search for.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let title: String = titles::clean(text)?.chars().take(MAX_TITLE_CHARS).collect();
        let (words, letters) = MIN_TITLE_SIZE;
        let is_long =
            titles::words(&title).len() >= words && titles::letters(&title).len() >= letters;
        // Languages without spaces between words have long words.
        let is_dense = titles::letters(&title).len() >= 3 * letters;
        (is_long || is_dense).then(|| Self(title.trim().to_owned()))
    }

    /// Returns the title.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the letters and digits by which duplicates are found.
    pub(super) fn key(&self) -> String {
        titles::letters(&self.0)
    }

    /// Reads a title behind its prefix.
    pub(super) fn read(text: &str) -> Option<Self> {
        Self::new(text.strip_prefix(PREFIX)?)
    }
}

impl fmt::Display for WorkTitle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}
