//! Records whose lines begin with a tag: `EndNote` (`.enw`), `PubMed` (`.nbib`) and Web of Science.

use super::fields::{ColumnMeaning, FieldRow};

/// Splits a line of an `EndNote` file: `%T A title`.
pub(super) fn endnote_tag(line: &str) -> Option<(&str, &str)> {
    let name = line.strip_prefix('%')?.get(..1)?;
    let value = &line[2..];
    (value.is_empty() || value.starts_with(' ')).then(|| (name, value.trim()))
}

/// Splits a line of a `PubMed` file: `PMID- 123`, `TI  - A title`.
pub(super) fn medline_tag(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = (line.get(..4)?, line.get(4..)?);
    let name = name.trim_end();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase());
    let value = rest.strip_prefix('-')?;
    is_name.then(|| (name, value.trim()))
}

/// Splits a line of a Web of Science file: `DI 10.1000/a`, `ER`.
pub(super) fn science_tag(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = (line.get(..2)?, line.get(2..)?);
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    (is_name && (rest.is_empty() || rest.starts_with(' '))).then(|| (name, rest.trim()))
}

/// Tells whether a line begins a Web of Science file, or a record of such a file.
pub(super) fn begins_science(line: &str) -> bool {
    let names = [
        "Web of Science",
        "Web of Knowledge",
        "Clarivate",
        "Thomson",
        "ISI ",
    ];
    match science_tag(line) {
        Some(("FN", value)) => names.iter().any(|name| value.contains(name)),
        Some(("PT", value)) => matches!(value, "J" | "B" | "S" | "P"),
        _ => false,
    }
}

/// Joins lines without a tag to the field before them. Empty lines are skipped.
fn tagged_fields<'a>(
    text: &'a str,
    tag: fn(&'a str) -> Option<(&'a str, &'a str)>,
) -> Vec<(&'a str, String)> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        if let Some((name, value)) = tag(line) {
            fields.push((name, value.to_owned()));
        } else if let Some((name, value)) = fields.last_mut()
            && !line.trim().is_empty()
            // The second author has a line without a tag in some files.
            && *name != "AU"
        {
            value.push(' ');
            value.push_str(line.trim());
        }
    }
    fields
}

/// Reads a record of an `EndNote` file.
pub(super) fn read_endnote(text: &str) -> FieldRow {
    let mut row = FieldRow::default();
    for (name, value) in tagged_fields(text, endnote_tag) {
        match name {
            "R" if value.contains("10.") => row.take(ColumnMeaning::Doi, &value),
            "2" if value.starts_with("PMC") => row.take(ColumnMeaning::Pmcid, &value),
            "T" => row.take(ColumnMeaning::Title, &value),
            "D" => row.take(ColumnMeaning::Year, &value),
            "A" => row.take(ColumnMeaning::Author, &value),
            "U" => row.take_quietly(ColumnMeaning::Url, &value),
            _ => {}
        }
    }
    row
}

/// Reads a record of a `PubMed` file.
pub(super) fn read_medline(text: &str) -> FieldRow {
    let mut row = FieldRow::default();
    for (name, value) in tagged_fields(text, medline_tag) {
        match name {
            "PMID" => row.take(ColumnMeaning::Pmid, &value),
            "PMC" => row.take(ColumnMeaning::Pmcid, &value),
            "AID" | "LID" => {
                if let Some(doi) = value.strip_suffix("[doi]") {
                    row.take(ColumnMeaning::Doi, doi);
                }
            }
            "TI" => row.take(ColumnMeaning::Title, value.trim_end_matches('.')),
            "DP" => row.take(ColumnMeaning::Year, &value),
            "FAU" | "AU" => row.take(ColumnMeaning::Author, &value),
            _ => {}
        }
    }
    row
}

/// Reads a record of a Web of Science file.
pub(super) fn read_science(text: &str) -> FieldRow {
    let mut row = FieldRow::default();
    for (name, value) in tagged_fields(text, science_tag) {
        if let Some(field) = science_field(name) {
            row.take(field, &value);
        }
    }
    row
}

/// Returns the [`ColumnMeaning`] of a Web of Science tag, which is also the name of a column in its
/// tables.
pub(super) fn science_field(name: &str) -> Option<ColumnMeaning> {
    Some(match name {
        "DI" => ColumnMeaning::Doi,
        "PM" => ColumnMeaning::Pmid,
        "TI" => ColumnMeaning::Title,
        "PY" => ColumnMeaning::Year,
        "AU" => ColumnMeaning::Author,
        _ => return None,
    })
}
