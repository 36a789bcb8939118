//! A file that a command is about: a path, or an ontology of the library.

use std::path::{Path, PathBuf};

use docstokg_ontology::examiner::{FormatExaminer, Recognised};
use docstokg_ontology::format::{Format, Packing};
use docstokg_ontology::library::Library;

use super::selection;
use super::show::failed;
use crate::exit::Failure;

/// A file, and what it is.
pub(super) struct Subject {
    /// What the user calls it.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Where it came from, for relative addresses in it.
    pub(super) base: String,
    pub(super) format: Format,
    pub(super) packing: Option<Packing>,
}

/// Finds a file: a path that is there, `ID`, or `ID@VERSION`.
pub(super) fn find(
    text: &str,
    library: &Library,
    examiner: &FormatExaminer,
) -> Result<Subject, Failure> {
    let (path, base) = place(text, library)?;
    let recognised = examiner.recognise(&path, None).map_err(|error| {
        Failure::Failed(anyhow::anyhow!(
            "{} cannot be read: {error}",
            path.display()
        ))
    })?;
    let refused = |why: String| Failure::Failed(anyhow::anyhow!("{text}: {why}"));
    match recognised {
        Recognised::Ontology(format, packing) => Ok(Subject {
            name: text.to_owned(),
            path,
            base,
            format,
            packing,
        }),
        Recognised::Archive => Err(refused(
            "this is an archive; name one of the files in it".to_owned(),
        )),
        Recognised::Refused(refusal) => Err(refused(refusal.to_string())),
        Recognised::Damaged(why) => Err(refused(format!("the file is damaged: {why}"))),
    }
}

fn place(text: &str, library: &Library) -> Result<(PathBuf, String), Failure> {
    let path = Path::new(text);
    if path.is_file() {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        return Ok((path.to_owned(), format!("file://{}", whole.display())));
    }
    let (id, version) = match text.split_once('@') {
        Some((id, version)) => (id, Some(version)),
        None => (text, None),
    };
    let Ok(id) = selection::id(id) else {
        return Err(Failure::Usage(format!(
            "'{text}' is neither a file nor an ontology of the library (ID or ID@VERSION)"
        )));
    };
    let stored = library.find(&id, version).map_err(failed)?;
    let file = stored.path.join("original").join(&stored.manifest.filename);
    Ok((file, stored.manifest.final_url))
}
