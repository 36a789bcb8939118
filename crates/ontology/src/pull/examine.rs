//! Reading what came: whether it is an ontology, and what it says about itself.

use std::io;
use std::path::Path;
use std::sync::Arc;

use docstokg_bulk::progress::ActiveFile;
use serde_json::Value as Json;

/// What is known about a file before it is read.
#[derive(Clone, Debug)]
pub struct FileOrigin {
    /// Where it came from.
    pub url: String,
    /// The media type that the server stated.
    pub content_type: Option<String>,
    /// Where it is shown what is done with the file.
    pub shown: Option<Arc<ActiveFile>>,
}

impl FileOrigin {
    /// Shows what is done with the file.
    pub fn show(&self, phase: &'static str) {
        if let Some(shown) = &self.shown {
            shown.set_phase(phase);
        }
    }
}

/// What reading a file found.
#[derive(Clone, Debug, Default)]
pub struct ExaminedFile {
    /// The name of the format.
    pub format: Option<String>,
    /// The version that the file states, and where it states it.
    pub version: Option<(String, String)>,
    /// Every version that it states: a version IRI and a text beside it.
    pub versions: Vec<String>,
    /// The ontologies that it imports.
    pub imports: Vec<String>,
    /// The licences that it states.
    pub licences: Vec<String>,
    /// Statements or clauses.
    pub statements: Option<u64>,
    /// Terms.
    pub terms: Option<u64>,
    /// A hash of what it says, whatever the order.
    pub fingerprint: Option<String>,
    /// The SHA-256 of the normalised form.
    pub normalized_sha256: Option<String>,
    /// What each check found, by its name.
    pub validation: Json,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// What a file is.
#[derive(Clone, Debug)]
pub enum FileFinding {
    /// An ontology.
    Ontology(Box<ExaminedFile>),
    /// A web page, where data was asked for.
    Page,
    /// Something else; the text says what.
    NotAnOntology(String),
    /// An ontology in a format that is not read here; the text names it.
    Unsupported(String),
    /// An ontology that is damaged; the text says where.
    Invalid(String),
}

/// Reads files. Called on a thread that may block.
pub trait FileExaminer: Send + Sync {
    /// Reads a file, and writes what it finds into `normalized/` and `validation/` below `version`.
    ///
    /// # Errors
    /// The file cannot be read, or the findings cannot be written.
    fn examine(&self, file: &Path, about: &FileOrigin, version: &Path) -> io::Result<FileFinding>;
}
