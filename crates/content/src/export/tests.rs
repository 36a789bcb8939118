use docstokg_bulk::queue::ItemState;
use serde_json::Value;

use super::*;
use crate::metadata::PersonName;

/// A work with every field that a format could stumble over.
fn work() -> ExportedWork {
    let record = serde_json::json!({
        "doi": "10.1234/a_b(1)", "title": "A title", "path": "pdf/2020__a.pdf", "sha256": "00ff",
        "content_length": 1200, "content_type": "application/pdf", "license": "cc-by",
        "version": "publishedVersion", "resolver": "openalex", "url": "http://a.example/a.pdf",
        "timestamp": "2026-01-02T03:04:05Z", "run_id": "r"
    });
    let statement = MetadataStatement {
        title: Some("50% of {A_B} & C\nin two lines".to_owned()),
        authors: vec![
            PersonName::of_full_name("Jan van der Berg").expect("a name"),
            PersonName::of_full_name("The Climate and Sea Group").expect("a name"),
        ],
        journal: Some("Journal of A & B".to_owned()),
        issued: Some("2020-03-05".to_owned()),
        pages: Some("1-9".to_owned()),
        kind: Some("journal-article".to_owned()),
        retracted: Some(true),
        ..MetadataStatement::default()
    };
    let row = ItemRow {
        id: 7,
        name: "doi:10.1234/a_b(1)".to_owned(),
        attempts: 1,
        saved_state: None,
        state: ItemState::Done,
        reason: None,
        detail: None,
        files: Some(serde_json::json!([record.to_string()]).to_string()),
        record: Some(record.to_string()),
    };
    let payload = serde_json::to_string(&statement).expect("JSON");
    ExportedWork::of(
        row,
        vec![("crossref".to_owned(), Timestamp::EPOCH, payload)],
    )
}

#[test]
fn a_bibtex_entry_has_names_in_parts_and_its_file() {
    let entry = bibtex::entry(&work(), "");
    assert!(
        entry.starts_with("@article{berg2020-7,\n")
            || entry.starts_with("@article{vanderberg2020-7,\n"),
        "{entry}"
    );
    for part in [
        "author = {van der Berg, Jan and {The Climate and Sea Group}}",
        "title = {{50\\% of \\textbraceleft{}A\\_B\\textbraceright{} \\& C in two lines}}",
        "doi = {10.1234/a_b(1)}",
        "pages = {1--9}",
        "file = {Full Text:pdf/2020__a.pdf:application/pdf}",
    ] {
        assert!(entry.contains(part), "{part}: {entry}");
    }
    assert_eq!(
        entry.matches('{').count(),
        entry.matches('}').count(),
        "{entry}"
    );
}

#[test]
fn a_ris_record_has_one_value_in_each_line() {
    let record = ris::entry(&work(), "papers/");
    for line in record.trim_end_matches("\r\n").split("\r\n") {
        let (tag, rest) = line.split_at(2);
        assert!(
            tag.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            "{line}"
        );
        assert!(rest.starts_with("  - "), "{line}");
    }
    for line in [
        "TY  - JOUR\r\n",
        "TI  - 50% of {A_B} & C in two lines\r\n",
        "AU  - van der Berg, Jan\r\n",
        "DA  - 2020/03/05/\r\n",
        "L1  - papers/pdf/2020__a.pdf\r\n",
        "ER  - \r\n",
    ] {
        assert!(record.contains(line), "{line}: {record}");
    }
}

#[test]
fn a_csl_item_has_authors_and_the_date() {
    let item = csl_item(&work(), "");
    assert_eq!(item["type"], "article-journal");
    assert_eq!(
        item["author"],
        serde_json::json!([
            { "family": "Berg", "given": "Jan", "non-dropping-particle": "van der" },
            { "literal": "The Climate and Sea Group" }
        ])
    );
    assert_eq!(
        item["issued"]["date-parts"],
        serde_json::json!([[2020, 3, 5]])
    );
    assert_eq!(item["note"], "file: pdf/2020__a.pdf");
}

#[test]
fn linked_data_say_where_the_file_is_from() {
    let node: Value = serde_json::from_str(&json_ld::entry(&work(), "")).expect("JSON");
    let file = &node["encoding"][0];
    assert_eq!(file["sha256"], "00ff");
    assert_eq!(file["prov:wasDerivedFrom"]["@id"], "http://a.example/a.pdf");
    assert_eq!(file["provider"]["name"], "openalex");
    assert_eq!(node["creativeWorkStatus"], "Retracted");
    assert_eq!(node["author"][0]["familyName"], "van der Berg");
}
