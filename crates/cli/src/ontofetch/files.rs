//! The file that a command works on: a path, or an ontology of the library.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use docstokg_ontology::examiner::{Archive, FormatExaminer, RecognisedFile};
use docstokg_ontology::format::{OntologyFormat, Packing};
use docstokg_ontology::library::{Library, LibraryError, StoredVersion};
use docstokg_ontology::pull::examine::{ExaminedFile, FileFinding};
use tempfile::TempDir;

use super::selection;
use super::show::failed;
use crate::exit::CommandFailure;

/// The extensions by which an argument is taken for the name of a file, not for that of an
/// ontology.
const FILE_EXTENSIONS: [&str; 15] = [
    "owl", "rdf", "owx", "xml", "ttl", "nt", "nq", "trig", "json", "jsonld", "obo", "ofn", "omn",
    "gz", "zip",
];

/// A file with its content.
pub(super) struct InspectedFile {
    /// The name that the user wrote.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The base for relative addresses in the file.
    pub(super) base: String,
    pub(super) content: FileContent,
    /// The version of the file, if the file is in the library.
    pub(super) stored: Option<StoredVersion>,
    /// The directory of unpacked files, removed on drop.
    _unpacked: Option<TempDir>,
}

/// The content of a file.
pub(super) enum FileContent {
    Ontology(OntologyFormat, Option<Packing>),
    /// A taxonomy package, and the content of its records.
    Package(Box<ExaminedFile>),
}

/// Finds a file by an existing path, `ID`, or `ID@VERSION`. Archives are unpacked into a temporary
/// directory.
pub(super) fn find(
    text: &str,
    library: &Library,
    examiner: &FormatExaminer,
) -> Result<InspectedFile, CommandFailure> {
    let (path, base, stored) = place(text, library)?;
    let unreadable = |error: std::io::Error| {
        CommandFailure::Failed(anyhow::anyhow!(
            "{} cannot be read: {error}",
            path.display()
        ))
    };
    let refused = |why: String| CommandFailure::Failed(anyhow::anyhow!("{text}: {why}"));
    let subject = |path: PathBuf, content, unpacked| InspectedFile {
        name: text.to_owned(),
        path,
        base: base.clone(),
        content,
        stored: stored.clone(),
        _unpacked: unpacked,
    };
    match examiner.recognise(&path, None).map_err(unreadable)? {
        RecognisedFile::Ontology(format, packing) => Ok(subject(
            path.clone(),
            FileContent::Ontology(format, packing),
            None,
        )),
        RecognisedFile::Archive => {
            let scratch = TempDir::new().map_err(unreadable)?;
            let target = scratch.path().join("unpacked");
            match examiner.open_archive(&path, &target).map_err(unreadable)? {
                Archive::Ontology(_, inside, format, packing) => Ok(subject(
                    inside,
                    FileContent::Ontology(format, packing),
                    Some(scratch),
                )),
                Archive::Judged(_, FileFinding::Ontology(package)) => {
                    Ok(subject(path.clone(), FileContent::Package(package), None))
                }
                Archive::Judged(_, finding) => Err(refused(sentence(finding))),
            }
        }
        RecognisedFile::Refused(refusal) => Err(refused(refusal.to_string())),
        RecognisedFile::Damaged(why) => Err(refused(format!("the file is damaged: {why}"))),
    }
}

fn sentence(finding: FileFinding) -> String {
    match finding {
        FileFinding::Invalid(why)
        | FileFinding::NotAnOntology(why)
        | FileFinding::Unsupported(why) => why,
        FileFinding::Page => "this is a web page".to_owned(),
        FileFinding::Ontology(_) => String::new(),
    }
}

/// Describes a name that is neither a file nor in the library.
fn missing(text: &str, version: Option<&str>, error: LibraryError) -> CommandFailure {
    if !matches!(error, LibraryError::Missing(_)) || version.is_some() {
        return failed(error);
    }
    // A name with a file extension means a file: a pull of that name would find nothing.
    let extension = Path::new(text).extension().and_then(OsStr::to_str);
    let why = if extension.is_some_and(|extension| FILE_EXTENSIONS.contains(&extension)) {
        "it is not an ontology of the library".to_owned()
    } else {
        error.to_string()
    };
    CommandFailure::Failed(anyhow::anyhow!("there is no file '{text}', and {why}"))
}

fn place(
    text: &str,
    library: &Library,
) -> Result<(PathBuf, String, Option<StoredVersion>), CommandFailure> {
    let path = Path::new(text);
    if path.is_file() {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        return Ok((path.to_owned(), format!("file://{}", whole.display()), None));
    }
    let (id, version) = match text.split_once('@') {
        Some((id, version)) => (id, Some(version)),
        None => (text, None),
    };
    let Ok(id) = selection::id(id) else {
        return Err(CommandFailure::Usage(format!(
            "'{text}' is neither a file nor an ontology of the library (ID or ID@VERSION)"
        )));
    };
    let stored = library
        .find(&id, version)
        .map_err(|error| missing(text, version, error))?;
    let base = stored.manifest.final_url.clone();
    Ok((stored.original(), base, Some(stored)))
}
