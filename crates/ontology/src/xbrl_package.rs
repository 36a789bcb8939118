//! Recognises XBRL taxonomy packages among unpacked archives, and reads the facts that they
//! declare.
//!
//! The checks cover:
//! - The directories and files that a package must have.
//! - Its two XML records (`taxonomyPackage.xml` and `catalog.xml`), which must be well-formed.
//! - Every entry point, which must be a file of the package or a URL that the package does not map.
//!
//! The taxonomy itself is not loaded. Document types in the records are skipped, never resolved.

use std::io;
use std::path::{Component, Path, PathBuf};

use quick_xml::XmlVersion;
use quick_xml::events::Event;
use quick_xml::name::QName;
use quick_xml::reader::Reader;
use serde_json::json;

use crate::format::unpack::ExtractedFile;
use crate::pull::examine::{ExaminedFile, FileFinding};

/// Maximum size of a record that is read, in bytes.
const MAX_RECORD: u64 = 8 << 20;

/// The facts that the records of a package declare.
#[derive(Debug, Default)]
struct TaxonomyPackage {
    identifier: Option<String>,
    version: Option<String>,
    published: Option<String>,
    licence: Option<String>,
    entry_points: Vec<String>,
}

/// Examines the directory of an unpacked archive, and returns its [`FileFinding`].
pub(crate) fn examine(root: &Path, extracted: &[ExtractedFile]) -> io::Result<FileFinding> {
    let top = |file: &ExtractedFile| match file.path.components().next() {
        Some(Component::Normal(name)) if file.path.components().count() > 1 => {
            Some(PathBuf::from(name))
        }
        _ => None,
    };
    let mut tops: Vec<Option<PathBuf>> = extracted.iter().map(top).collect();
    tops.sort();
    tops.dedup();
    let [Some(directory)] = tops.as_slice() else {
        return Ok(FileFinding::Invalid(
            "a taxonomy package has one directory at its top, and this archive has more or none"
                .to_owned(),
        ));
    };
    let records = root.join(directory).join("META-INF");
    let package = match read(&records.join("taxonomyPackage.xml"))?.and_then(|text| package(&text))
    {
        Ok(package) => package,
        Err(why) => return Ok(invalid("taxonomyPackage.xml", &why)),
    };
    let catalog = records.join("catalog.xml");
    let rewrites = if catalog.is_file() {
        match read(&catalog)?.and_then(|text| rewrites(&text)) {
            Ok(rewrites) => rewrites,
            Err(why) => return Ok(invalid("catalog.xml", &why)),
        }
    } else {
        Vec::new()
    };
    let mut missing = Vec::new();
    for entry in &package.entry_points {
        if let Some(file) = mapped(entry, &rewrites)
            && !records.join(&file).is_file()
        {
            missing.push(format!("{entry} ({file})"));
        }
    }
    if !missing.is_empty() {
        return Ok(FileFinding::Invalid(format!(
            "entry points of the package are not in it: {}",
            missing.join(", ")
        )));
    }
    Ok(FileFinding::Ontology(Box::new(examined(
        package,
        extracted.len(),
    ))))
}

fn examined(package: TaxonomyPackage, files: usize) -> ExaminedFile {
    let validation = json!({ "xbrl": {
        "ok": true,
        "identifier": package.identifier,
        "entry_points": package.entry_points,
        "files": files,
        "details": "shape, records and entry points; the taxonomy itself is not loaded",
    }});
    ExaminedFile {
        format: Some("XBRL taxonomy package".to_owned()),
        // Both the version of a package and its publication date are optional.
        versions: package.version.iter().cloned().collect(),
        version: package
            .version
            .map(|version| (version, "taxonomyPackage".to_owned()))
            .or_else(|| Some((package.published?, "publicationDate".to_owned()))),
        licences: package.licence.into_iter().collect(),
        validation,
        ..ExaminedFile::default()
    }
}

fn invalid(record: &str, why: &str) -> FileFinding {
    FileFinding::Invalid(format!(
        "{record} of the taxonomy package cannot be read: {why}"
    ))
}

fn read(path: &Path) -> io::Result<Result<String, String>> {
    if std::fs::metadata(path)?.len() > MAX_RECORD {
        return Ok(Err(format!("it is larger than {MAX_RECORD} bytes")));
    }
    let bytes = std::fs::read(path)?;
    Ok(String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()))
}

fn local(name: QName<'_>) -> String {
    name.local_name().as_ref().to_owned()
}

/// Calls `take` for the elements of a record, with the path of names, the attributes and the own
/// text of the element.
fn walk(
    text: &str,
    mut take: impl FnMut(&[String], &[(String, String)], Option<&str>),
) -> Result<(), String> {
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut path: Vec<String> = Vec::new();
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        match event {
            Event::Start(element) | Event::Empty(element) if path.len() > 64 => {
                return Err(format!("{} is nested too deeply", local(element.name())));
            }
            Event::Start(element) => {
                path.push(local(element.name()));
                take(&path, &attributes(&element)?, None);
            }
            Event::Empty(element) => {
                path.push(local(element.name()));
                take(&path, &attributes(&element)?, None);
                path.pop();
            }
            Event::Text(inside) => {
                let inside = inside.xml10_content();
                if !inside.trim().is_empty() {
                    if path.is_empty() {
                        return Err("it has text outside its root element".to_owned());
                    }
                    take(&path, &[], Some(inside.trim()));
                }
            }
            Event::End(_) => {
                path.pop();
            }
            Event::Eof if path.is_empty() => return Ok(()),
            Event::Eof => return Err("it ends in the middle".to_owned()),
            _ => {}
        }
    }
}

fn attributes(
    element: &quick_xml::events::BytesStart<'_>,
) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute
            .normalized_value(XmlVersion::Implicit1_0)
            .map_err(|error| error.to_string())?;
        found.push((local(attribute.key), value.into_owned()));
    }
    Ok(found)
}

fn value(attributes: &[(String, String)], name: &str) -> Option<String> {
    let found = attributes.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.trim().to_owned())
}

fn package(text: &str) -> Result<TaxonomyPackage, String> {
    let mut package = TaxonomyPackage::default();
    let mut root = None;
    walk(text, |path, attributes, inside| {
        root.get_or_insert_with(|| path[0].clone());
        let below: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
        match (below.as_slice(), inside) {
            (["identifier"], Some(text)) => package.identifier = Some(text.to_owned()),
            (["version"], Some(text)) => package.version = Some(text.to_owned()),
            (["publicationDate"], Some(text)) => package.published = Some(text.to_owned()),
            (["license"], None) => {
                let href = value(attributes, "href");
                package.licence = href.or_else(|| value(attributes, "name"));
            }
            (["entryPoints", "entryPoint", "entryPointDocument"], None) => {
                package.entry_points.extend(value(attributes, "href"));
            }
            _ => {}
        }
    })?;
    match root.as_deref() {
        Some("taxonomyPackage") => Ok(package),
        Some(other) => Err(format!("its root element is {other}, not taxonomyPackage")),
        None => Err("it is empty".to_owned()),
    }
}

/// Reads the rewrite rules of a catalog: each maps a prefix of URLs to a prefix of file paths.
fn rewrites(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut rewrites = Vec::new();
    walk(text, |path, attributes, _| {
        if path.last().is_some_and(|name| name == "rewriteURI")
            && let (Some(start), Some(prefix)) = (
                value(attributes, "uriStartString"),
                value(attributes, "rewritePrefix"),
            )
        {
            rewrites.push((start, prefix));
        }
    })?;
    Ok(rewrites)
}

/// Returns the path of the file that a catalog maps a URL to, relative to the records. Of several
/// matching prefixes, the longest applies.
fn mapped(address: &str, rewrites: &[(String, String)]) -> Option<String> {
    let fits = rewrites
        .iter()
        .filter(|(start, _)| address.starts_with(start.as_str()));
    let (start, prefix) = fits.max_by_key(|(start, _)| start.len())?;
    Some(format!("{prefix}{}", &address[start.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"<?xml version="1.0"?>
<tp:taxonomyPackage xmlns:tp="http://xbrl.org/2016/taxonomy-package">
  <tp:identifier>http://example.org/taxonomy/2026</tp:identifier>
  <tp:version>2026.1</tp:version>
  <tp:license name="CC0" href="https://creativecommons.org/publicdomain/zero/1.0/"/>
  <tp:entryPoints><tp:entryPoint><tp:name>all</tp:name>
    <tp:entryPointDocument href="http://example.org/taxonomy/2026/all.xsd"/></tp:entryPoint></tp:entryPoints>
</tp:taxonomyPackage>"#;

    const CATALOG: &str = r#"<?xml version="1.0"?>
<!DOCTYPE catalog PUBLIC "-//OASIS//DTD Entity Resolution XML Catalog V1.0//EN" "http://127.0.0.1:9/catalog.dtd">
<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog">
  <rewriteURI uriStartString="http://example.org/" rewritePrefix="../other/"/>
  <rewriteURI uriStartString="http://example.org/taxonomy/2026/" rewritePrefix="../files/"/>
</catalog>"#;

    fn unpacked(files: &[(&str, &str)]) -> (tempfile::TempDir, Vec<ExtractedFile>) {
        let root = tempfile::tempdir().unwrap();
        let extracted = files.iter().map(|(path, text)| {
            let file = root.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
            ExtractedFile {
                path: path.into(),
                bytes: text.len() as u64,
                sha256: String::new(),
            }
        });
        let extracted = extracted.collect();
        (root, extracted)
    }

    #[test]
    fn a_package_is_read_and_its_entry_points_are_found() {
        let (root, files) = unpacked(&[
            ("p/META-INF/taxonomyPackage.xml", RECORD),
            ("p/META-INF/catalog.xml", CATALOG),
            ("p/files/all.xsd", "<schema/>"),
        ]);
        let FileFinding::Ontology(found) = examine(root.path(), &files).unwrap() else {
            panic!()
        };
        assert_eq!(
            found.version,
            Some(("2026.1".to_owned(), "taxonomyPackage".to_owned()))
        );
        assert_eq!(
            found.licences,
            ["https://creativecommons.org/publicdomain/zero/1.0/"]
        );
    }

    #[test]
    fn what_is_wrong_with_a_package_is_said() {
        let cut = &RECORD[..RECORD.len() - 10];
        for (files, wanted) in [
            (
                vec![
                    ("p/META-INF/taxonomyPackage.xml", RECORD),
                    ("p/META-INF/catalog.xml", CATALOG),
                ],
                "not in it",
            ),
            (
                vec![("p/META-INF/taxonomyPackage.xml", cut)],
                "cannot be read",
            ),
            (
                vec![("p/META-INF/taxonomyPackage.xml", "<other/>")],
                "root element is other",
            ),
            (
                vec![("p/META-INF/taxonomyPackage.xml", "text <taxonomyPackage/>")],
                "text outside its root element",
            ),
            (
                vec![("p/META-INF/taxonomyPackage.xml", RECORD), ("q/x", "")],
                "one directory at its top",
            ),
            (
                vec![("p/META-INF/taxonomyPackage.xml", RECORD), ("x", "")],
                "one directory at its top",
            ),
        ] {
            let (root, files) = unpacked(&files);
            let FileFinding::Invalid(why) = examine(root.path(), &files).unwrap() else {
                panic!("{wanted}")
            };
            assert!(why.contains(wanted), "{why}");
        }
    }
}
