//! The examination of a downloaded file: its kind, and the facts that it declares.

use std::io;
use std::path::Path;
use std::sync::Arc;

use docstokg_bulk::progress::ActiveFile;
use serde_json::Value as Json;

/// Facts about a file that are known before it is read.
#[derive(Clone, Debug)]
pub struct FileOrigin {
    /// The URL of the file.
    pub url: String,
    /// The media type that the server declared.
    pub content_type: Option<String>,
    /// The display of the progress; `None` if it is not shown.
    pub shown: Option<Arc<ActiveFile>>,
}

impl FileOrigin {
    /// Shows in the display which phase of the work the file is in.
    pub fn show(&self, phase: &'static str) {
        if let Some(shown) = &self.shown {
            shown.set_phase(phase);
        }
    }
}

/// The findings about an ontology file.
#[derive(Clone, Debug, Default)]
pub struct ExaminedFile {
    /// The name of the format.
    pub format: Option<String>,
    /// The version that the file declares, and the property that declares it.
    pub version: Option<(String, String)>,
    /// Every version that the file declares, because it may have a version IRI and a version text.
    pub versions: Vec<String>,
    /// The IRIs of imported ontologies.
    pub imports: Vec<String>,
    /// The licences that the file declares.
    pub licences: Vec<String>,
    /// Number of statements or clauses.
    pub statements: Option<u64>,
    /// Number of declared terms.
    pub terms: Option<u64>,
    /// A hash of the content, independent of the order of its statements.
    pub fingerprint: Option<String>,
    /// The SHA-256 of the normalised form.
    pub normalized_sha256: Option<String>,
    /// The findings of each check, by its name.
    pub validation: Json,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// The kind of a file, as determined by a [`FileExaminer`].
#[derive(Clone, Debug)]
pub enum FileFinding {
    /// An ontology, with the [`ExaminedFile`].
    Ontology(Box<ExaminedFile>),
    /// A web page in place of data.
    Page,
    /// Another kind of file, named by the text.
    NotAnOntology(String),
    /// An ontology in a format that is not parsed here, named by the text.
    Unsupported(String),
    /// An ontology that is damaged; the text says where.
    Invalid(String),
}

/// Reads files and determines what they contain. Called on a thread that may block.
pub trait FileExaminer: Send + Sync {
    /// Reads `file`, and writes results to `normalized/` and `validation/` in the directory
    /// `version`.
    ///
    /// # Errors
    /// The [`io::Error`] if the file cannot be read, or the results cannot be written.
    fn examine(&self, file: &Path, about: &FileOrigin, version: &Path) -> io::Result<FileFinding>;
}
