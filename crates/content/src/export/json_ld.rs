//! Works as linked data: schema.org for works and files, PROV for where files came from.

use serde_json::{Value, json};

use super::ExportedWork;
use crate::metadata::PersonName;
use crate::results::DeliveredFile;

/// The beginning of a document. Its context is complete: nothing has to be loaded to read it.
pub(super) const BEGIN: &str = r#"{"@context": {"@vocab": "https://schema.org/", "prov": "http://www.w3.org/ns/prov#"}, "@graph": [
"#;

/// Writes a work.
pub(super) fn entry(work: &ExportedWork, prefix: &str) -> String {
    let mut node = described(work);
    let link = &work.work.link;
    if !link.is_empty() {
        node["@id"] = json!(link);
    }
    let authors: Vec<Value> = work.metadata.statement.authors.iter().map(person).collect();
    put(&mut node, "author", Value::Array(authors));
    let files = work.work.files.iter();
    let files: Vec<Value> = files.map(|file| encoding(file, prefix)).collect();
    put(&mut node, "encoding", Value::Array(files));
    node.to_string()
}

/// Describes a work without its identity, authors and files.
pub(super) fn described(work: &ExportedWork) -> Value {
    let said = &work.metadata.statement;
    let mut node = json!({ "@type": kind(work.metadata.csl_type()), "name": work.title() });
    let part_of = said.journal.as_ref().map(|journal| {
        let mut part_of = json!({ "@type": "Periodical", "name": journal });
        put(&mut part_of, "issn", json!(said.issn));
        part_of
    });
    let publisher = said.publisher.as_ref();
    let publisher = publisher.map(|name| json!({ "@type": "Organization", "name": name }));
    for (key, value) in [
        ("datePublished", json!(said.issued)),
        ("isPartOf", json!(part_of)),
        ("publisher", json!(publisher)),
        ("volumeNumber", json!(said.volume)),
        ("issueNumber", json!(said.issue)),
        ("pagination", json!(said.pages)),
        ("inLanguage", json!(said.language)),
        ("abstract", json!(said.r#abstract)),
        ("identifier", json!(identifiers(work))),
        (
            "license",
            json!(licence(
                work.metadata.licence_spdx.as_deref(),
                said.licence.as_deref()
            )),
        ),
        (
            "creativeWorkStatus",
            json!((said.retracted == Some(true)).then_some("Retracted")),
        ),
    ] {
        put(&mut node, key, value);
    }
    node
}

/// Adds a value, unless it is empty.
pub(super) fn put(node: &mut Value, key: &str, value: Value) {
    let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if !is_empty {
        node[key] = value;
    }
}

/// Returns the type of schema.org for a type of CSL.
fn kind(csl: &str) -> &'static str {
    match csl {
        "book" => "Book",
        "chapter" => "Chapter",
        "thesis" => "Thesis",
        "report" => "Report",
        "dataset" => "Dataset",
        "software" => "SoftwareSourceCode",
        _ => "ScholarlyArticle",
    }
}

/// Describes an author.
pub(super) fn person(name: &PersonName) -> Value {
    if name.family.is_none() {
        return json!({ "@type": "Organization", "name": name.full() });
    }
    let mut person = json!({
        "@type": "Person",
        "name": name.full(),
        "familyName": name.last(),
    });
    put(&mut person, "givenName", json!(name.given));
    put(&mut person, "honorificSuffix", json!(name.suffix));
    let orcid = name.orcid.as_ref();
    put(
        &mut person,
        "identifier",
        json!(orcid.map(|id| format!("https://orcid.org/{id}"))),
    );
    person
}

/// Lists the identifiers of a work.
fn identifiers(work: &ExportedWork) -> Vec<Value> {
    let ids = &work.metadata.identifiers;
    let named = [
        ("doi", work.work.doi.clone()),
        ("arxiv", ids.arxiv.as_ref().map(ToString::to_string)),
        ("pmid", ids.pmid.map(|id| id.to_string())),
        ("pmcid", ids.pmcid.map(|id| id.to_string())),
        ("openalex", ids.openalex.map(|id| id.to_string())),
    ];
    let value = |(kind, id): (&str, Option<String>)| {
        Some(json!({ "@type": "PropertyValue", "propertyID": kind, "value": id? }))
    };
    named.into_iter().filter_map(value).collect()
}

/// Returns the page of an SPDX licence as its identity, or the licence as the source states it.
fn licence(spdx: Option<&str>, declared: Option<&str>) -> Option<Value> {
    match spdx.filter(|name| !name.starts_with("LicenseRef-")) {
        Some(name) => Some(json!({ "@id": format!("https://spdx.org/licenses/{name}") })),
        None => declared.map(|declared| json!(declared)),
    }
}

/// Describes a file and where it came from.
fn encoding(file: &DeliveredFile, prefix: &str) -> Value {
    let mut node = described_file(file);
    node["@type"] = json!("MediaObject");
    node["contentUrl"] = json!(format!("{prefix}{}", file.path));
    let declared = file.licence.as_ref();
    let spdx = declared.and_then(docstokg_lookup::licence::SourceLicence::expression);
    let declared = declared.map(|licence| licence.declared.as_str());
    put(
        &mut node,
        "license",
        json!(licence(spdx.as_deref(), declared)),
    );
    let source = file.source.as_ref();
    let provider = source.map(|name| json!({ "@type": "Organization", "name": name }));
    put(&mut node, "provider", json!(provider));
    let derived = file.url.as_ref().map(|url| json!({ "@id": url }));
    put(&mut node, "prov:wasDerivedFrom", json!(derived));
    put(&mut node, "prov:generatedAtTime", json!(file.recorded_at));
    node
}

/// Describes a file: type, size, checksum and version.
pub(super) fn described_file(file: &DeliveredFile) -> Value {
    let mut node = json!({
        "encodingFormat": file.plain_media_type(),
        "sha256": file.sha256,
    });
    put(
        &mut node,
        "contentSize",
        json!(file.bytes.map(|bytes| bytes.to_string())),
    );
    put(&mut node, "version", json!(file.version));
    put(&mut node, "dateCreated", json!(file.recorded_at));
    node
}
