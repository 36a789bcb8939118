//! Rows written as JSON: our own fields, `OpenAlex` records, and manifests.

use serde_json::{Map, Value};
use url::Url;

use super::RecordedFile;
use super::fields::{ColumnMeaning, FieldRow};
use crate::identifier::Identifier;

/// Reads one line of JSON as a [`FieldRow`]. Returns `None` for a line of a manifest that is not
/// about a work.
pub(super) fn row(text: &str) -> Result<Option<FieldRow>, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("it is not valid JSON: {error}"))?;
    row_of(value)
}

fn row_of(value: Value) -> Result<Option<FieldRow>, String> {
    match value {
        Value::Object(object)
            if object
                .get("record_type")
                .and_then(Value::as_str)
                .is_some_and(|kind| kind != "manifest") =>
        {
            Ok(None)
        }
        Value::Object(object) => {
            let mut row = FieldRow::default();
            take_all(&mut row, &object);
            if let Some(Value::Object(ids)) = object.get("ids") {
                take_all(&mut row, ids);
            }
            Ok(Some(row))
        }
        Value::String(text) => FieldRow::of_identifier(&text).map(Some),
        Value::Array(_) => Err("it is a JSON array; one object per line is read".to_owned()),
        _ => Err("it is neither a JSON object nor a string".to_owned()),
    }
}

/// Reads the [`RecordedFile`] that a record of a manifest names. Returns `None` for other lines,
/// and for records without a file.
pub(super) fn recorded_file(text: &str) -> Option<RecordedFile> {
    // Most lists are not manifests, and should not be parsed twice.
    if !text.contains("\"sha256\"") {
        return None;
    }
    let record: Value = serde_json::from_str(text).ok()?;
    let field = |name: &str| record.get(name)?.as_str().filter(|value| !value.is_empty());
    let is_of_file = field("record_type") == Some("manifest")
        && matches!(field("classification")?, "pdf" | "xml" | "html" | "cached");
    let sha256 = field("sha256").filter(|_| is_of_file)?;
    let is_digest = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(RecordedFile {
        path: field("path")?.into(),
        sha256: sha256.to_ascii_lowercase(),
        url: Url::parse(field("url")?).ok()?,
        headers: ["content_type", "etag", "last_modified"]
            .map(|name| field(name).map(str::to_owned)),
    })
    .filter(|_| is_digest)
}

/// Reads an item of an array as a [`FieldRow`]: an item of CSL-JSON, or what [`row`] reads from a
/// line.
pub(super) fn item(text: &str) -> Result<Option<FieldRow>, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("it is not valid JSON: {error}"))?;
    let is_csl = |object: &Map<String, Value>| {
        ["DOI", "URL", "PMID", "PMCID", "issued"]
            .iter()
            .any(|key| object.contains_key(*key))
            || (object.contains_key("type") && !object.contains_key("doi"))
    };
    match value {
        Value::Object(object) if is_csl(&object) => Ok(Some(csl(&object))),
        Value::Object(mut object) => {
            // An id that is no identifier is a key of the program that wrote the item.
            let id = object.get("id").and_then(Value::as_str);
            if id.is_some_and(|id| Identifier::parse(id).is_err()) {
                object.remove("id");
            }
            row_of(Value::Object(object))
        }
        value => row_of(value),
    }
}

/// Reads an item of CSL-JSON, as reference managers write it, into a [`FieldRow`]. The `id` of an
/// item is a key of the reference manager and names nothing.
fn csl(object: &Map<String, Value>) -> FieldRow {
    let mut row = FieldRow::default();
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    for (key, field) in [
        ("DOI", ColumnMeaning::Doi),
        ("PMID", ColumnMeaning::Pmid),
        ("PMCID", ColumnMeaning::Pmcid),
        ("title", ColumnMeaning::Title),
    ] {
        if let Some(value) = text(key) {
            row.take(field, value);
        }
    }
    if let Some(url) = text("URL") {
        row.take_quietly(ColumnMeaning::Url, url);
    }
    let author = object.get("author");
    let family = author.and_then(|author| author.pointer("/0/family")?.as_str());
    if let Some(family) = family {
        row.take(ColumnMeaning::Author, family);
    }
    let issued = object.get("issued");
    if let Some(year) = issued.and_then(|issued| issued.pointer("/date-parts/0/0")) {
        row.take(ColumnMeaning::Year, &year.to_string().replace('"', ""));
    }
    row
}

fn take_all(row: &mut FieldRow, object: &Map<String, Value>) {
    for (name, value) in object {
        let Some(field) = ColumnMeaning::named(name) else {
            continue;
        };
        match value {
            Value::String(text) => row.take(field, text),
            Value::Number(number) => row.take(field, &number.to_string()),
            _ => {}
        }
    }
}
