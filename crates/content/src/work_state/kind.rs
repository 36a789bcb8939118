//! The kinds of files that may be wanted.

use serde::{Deserialize, Serialize};

/// A kind of file that may be wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    /// The paper.
    Pdf,
    /// Its full text as JATS or other XML.
    Xml,
    /// Its full text as a page.
    Html,
    /// A file that the user asked for by its URL, whatever it is.
    Other,
}

impl ArtifactKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pdf, Self::Xml, Self::Html, Self::Other];

    /// Reads the word.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Returns the word used in manifests, flags and directories.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Xml => "xml",
            Self::Html => "html",
            Self::Other => "other",
        }
    }
}
