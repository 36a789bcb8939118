//! The kinds of files that a run can want.

use serde::{Deserialize, Serialize};

/// A kind of file that a run can want.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    /// The paper.
    Pdf,
    /// The full text as JATS or other XML.
    Xml,
    /// The full text as a page.
    Html,
    /// A file of any kind that the user named by its URL.
    Other,
}

impl ArtifactKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Pdf, Self::Xml, Self::Html, Self::Other];

    /// Reads the word of a kind, see [`ArtifactKind::as_str`].
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
