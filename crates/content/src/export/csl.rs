//! Works as items of CSL-JSON.

use serde_json::{Value, json};

use super::ExportedWork;
use crate::metadata::PersonName;

/// Writes a work as an item.
pub(super) fn entry(work: &ExportedWork, prefix: &str) -> String {
    item(work, prefix).to_string()
}

/// Makes the item of a work.
pub(crate) fn item(work: &ExportedWork, prefix: &str) -> Value {
    let said = &work.metadata.statement;
    let ids = &work.metadata.identifiers;
    let mut item = json!({
        "id": work.work.work_id,
        "type": work.metadata.csl_type(),
        "URL": work.work.link,
    });
    let paths = work.work.files.iter();
    let paths: Vec<String> = paths.map(|file| format!("{prefix}{}", file.path)).collect();
    let note = (!paths.is_empty()).then(|| format!("file: {}", paths.join("; ")));
    let texts = [
        ("title", said.title.clone()),
        ("container-title", said.journal.clone()),
        ("publisher", said.publisher.clone()),
        ("volume", said.volume.clone()),
        ("issue", said.issue.clone()),
        ("page", said.pages.clone()),
        ("ISSN", said.issn.first().cloned()),
        ("language", said.language.clone()),
        ("abstract", said.r#abstract.clone()),
        ("DOI", work.work.doi.clone()),
        ("PMID", ids.pmid.map(|id| id.to_string())),
        ("PMCID", ids.pmcid.map(|id| id.to_string())),
        ("note", note),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            item[key] = json!(value);
        }
    }
    if !said.authors.is_empty() {
        item["author"] = said.authors.iter().map(name).collect();
    }
    let date = work.metadata.date_parts();
    if !date.is_empty() {
        item["issued"] = json!({ "date-parts": [date] });
    }
    item
}

/// Writes a name in its parts; that of an organisation as it is.
fn name(name: &PersonName) -> Value {
    if name.family.is_none() {
        return json!({ "literal": name.full() });
    }
    let parts = [
        ("family", &name.family),
        ("given", &name.given),
        ("non-dropping-particle", &name.particle),
        ("suffix", &name.suffix),
    ];
    let parts = parts
        .into_iter()
        .filter_map(|(key, part)| Some((key.to_owned(), json!(part.as_ref()?))));
    Value::Object(parts.collect())
}
