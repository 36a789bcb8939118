//! Catalogs beside ontologies whose imports were pulled (OASIS XML Catalogs 1.1).
//!
//! Protégé and ROBOT read `catalog-v001.xml` in the directory of an ontology, and open the files
//! that it names in place of the addresses of imports. Each catalog has the imports of the ontology
//! and those of its imports, with paths relative to the catalog.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use quick_xml::escape::escape;
use url::Url;

use super::PullOutcome;
use super::imports::address;
use crate::library::{Library, LibraryError};
use crate::wanted_ontology::OntologyId;

/// Name of the catalog, which Protégé and ROBOT look for.
pub const CATALOG_FILE_NAME: &str = "catalog-v001.xml";

/// An ontology of the library that a pull asked for.
struct PulledFile<'a> {
    /// Path of the ontology below the root of the library.
    path: PathBuf,
    imports: &'a [String],
}

/// Writes a catalog beside each ontology with imports in the library, and returns the number of
/// catalogs.
///
/// # Errors
/// [`LibraryError`] if a catalog cannot be written.
pub fn write_catalogs(library: &Library, results: &[PullOutcome]) -> Result<usize, LibraryError> {
    let mut files = Vec::new();
    let mut by_address = HashMap::new();
    for result in results {
        let Some(path) = stored_file(library, result) else {
            continue;
        };
        for url in [&result.url, &result.final_url].into_iter().flatten() {
            if let Ok(url) = Url::parse(url) {
                by_address.entry(address(&url)).or_insert(files.len());
            }
        }
        files.push(PulledFile {
            path,
            imports: &result.imports,
        });
    }
    let mut written = 0;
    for file in &files {
        let entries = closure(file, &files, &by_address);
        if entries.is_empty() {
            continue;
        }
        let catalog = library
            .root()
            .join(&file.path)
            .with_file_name(CATALOG_FILE_NAME);
        docstokg_hub::files::write_whole(&catalog, &text(&entries))
            .map_err(crate::library::failed(&catalog, "written"))?;
        written += 1;
    }
    Ok(written)
}

/// Returns the path of a pulled ontology below the root of the library.
fn stored_file(library: &Library, result: &PullOutcome) -> Option<PathBuf> {
    let version = Path::new(result.path.as_deref()?).file_name()?.to_str()?;
    let id = OntologyId::parse(&result.id).ok()?;
    let versions = library.versions(&id).ok()?;
    let stored = versions.iter().find(|stored| stored.name == version)?;
    let path = stored.original();
    path.strip_prefix(library.root()).ok().map(Path::to_owned)
}

/// Returns the files of all imports, direct or not, by the IRI that an ontology imports.
fn closure<'a>(
    file: &PulledFile<'a>,
    files: &'a [PulledFile<'a>],
    by_address: &HashMap<String, usize>,
) -> BTreeMap<&'a str, &'a Path> {
    let mut entries = BTreeMap::new();
    let mut open: Vec<&'a [String]> = vec![file.imports];
    while let Some(imports) = open.pop() {
        for import in imports {
            let index = Url::parse(import).ok();
            let index = index.and_then(|url| by_address.get(&address(&url)));
            if let Some(found) = index.and_then(|index| files.get(*index))
                && entries
                    .insert(import.as_str(), found.path.as_path())
                    .is_none()
            {
                open.push(found.imports);
            }
        }
    }
    entries
}

/// Writes a catalog.
fn text(entries: &BTreeMap<&str, &Path>) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n\
         <catalog prefer=\"public\" xmlns=\"urn:oasis:names:tc:entity:xmlns:xml:catalog\">\n",
    );
    for (import, path) in entries {
        // A catalog is at ID/VERSION/original/ in the library.
        let target = format!("../../../{}", relative_uri(path));
        let (name, target) = (escape(*import), escape(target.as_str()));
        let _ = writeln!(text, "    <uri name=\"{name}\" uri=\"{target}\"/>");
    }
    text + "</catalog>\n"
}

/// Writes a path as a relative URI reference (RFC 3986 section 4.2).
fn relative_uri(path: &Path) -> String {
    let mut uri = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/+,=@".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iris_and_paths_are_escaped() {
        let path = Path::new("b/1/original/b c.owl");
        let entries = BTreeMap::from([("http://x.org/?a=1&b=\"2\"", path)]);
        let text = text(&entries);
        let line = "<uri name=\"http://x.org/?a=1&amp;b=&quot;2&quot;\" \
                    uri=\"../../../b/1/original/b%20c.owl\"/>";
        assert!(text.contains(line), "{text}");
    }
}
