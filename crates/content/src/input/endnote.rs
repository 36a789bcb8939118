//! The XML of `EndNote`: one file, often one line, with a `record` element for each work.

use super::fields::{ColumnMeaning, FieldRow};
use crate::resolver::xml::{XmlStep, walk};

/// The longest text of a field that is kept, in bytes.
const MAX_TEXT_BYTES: usize = 64 * 1024;
/// Maximum depth of elements that are read. A text with styles is eight levels deep.
const MAX_DEPTH: usize = 32;

/// Reads all records as [`FieldRow`]s, and tells whether the file is well-formed to its end.
pub(super) fn read_records(bytes: &[u8]) -> (Vec<FieldRow>, bool) {
    let (mut rows, mut text) = (Vec::new(), String::new());
    let mut row = FieldRow::default();
    let (mut accession, mut database) = (String::new(), String::new());
    let root = walk(bytes, |step| match step {
        XmlStep::Text(open, part) => {
            let is_wanted =
                path_in_record(open).is_some_and(|path| EndnoteTag::around(path).is_some());
            if is_wanted && text.len() + part.len() <= MAX_TEXT_BYTES {
                text.push_str(part);
            }
        }
        XmlStep::End(open) => match path_in_record(open) {
            Some([]) => {
                if ["pubmed", "medline", "nlm"]
                    .iter()
                    .any(|name| database.contains(name))
                {
                    row.take_quietly(ColumnMeaning::Pmid, &accession);
                }
                accession.clear();
                database.clear();
                rows.push(std::mem::take(&mut row));
            }
            Some(path) => {
                let Some(part) =
                    EndnoteTag::around(path).filter(|part| part.path().len() == path.len())
                else {
                    return;
                };
                let value = std::mem::take(&mut text);
                let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
                match part {
                    EndnoteTag::Doi if value.contains("10.") => {
                        row.take(ColumnMeaning::Doi, &value);
                    }
                    EndnoteTag::Pmcid if value.starts_with("PMC") => {
                        row.take(ColumnMeaning::Pmcid, &value);
                    }
                    EndnoteTag::Title => row.take(ColumnMeaning::Title, &value),
                    EndnoteTag::Year => row.take(ColumnMeaning::Year, &value),
                    EndnoteTag::Author => row.take(ColumnMeaning::Author, &value),
                    EndnoteTag::Url => row.take_quietly(ColumnMeaning::Url, &value),
                    EndnoteTag::Accession => accession = value,
                    EndnoteTag::Database | EndnoteTag::Provider => {
                        database += &value.to_ascii_lowercase();
                    }
                    EndnoteTag::Doi | EndnoteTag::Pmcid => {}
                }
            }
            None => {}
        },
    });
    (rows, root.is_some())
}

/// An element of a record that describes the work.
#[derive(Clone, Copy)]
enum EndnoteTag {
    Doi,
    Pmcid,
    Title,
    Year,
    Author,
    Url,
    Accession,
    Database,
    Provider,
}

impl EndnoteTag {
    const ALL: [Self; 9] = [
        Self::Doi,
        Self::Pmcid,
        Self::Title,
        Self::Year,
        Self::Author,
        Self::Url,
        Self::Accession,
        Self::Database,
        Self::Provider,
    ];

    /// Returns the names of the elements that lead from the record to this element.
    const fn path(self) -> &'static [&'static str] {
        match self {
            Self::Doi => &["electronic-resource-num"],
            Self::Pmcid => &["custom2"],
            Self::Title => &["titles", "title"],
            Self::Year => &["dates", "year"],
            Self::Author => &["contributors", "authors", "author"],
            Self::Url => &["urls", "related-urls", "url"],
            Self::Accession => &["accession-num"],
            Self::Database => &["remote-database-name"],
            Self::Provider => &["remote-database-provider"],
        }
    }

    /// Finds the [`EndnoteTag`] that the open elements are in, or are.
    fn around(path: &[String]) -> Option<Self> {
        Self::ALL.into_iter().find(|part| {
            let wanted = part.path();
            path.len() >= wanted.len() && path.iter().zip(wanted).all(|(name, part)| name == part)
        })
    }
}

/// Returns the open elements within the record, if a record is open.
fn path_in_record(open: &[String]) -> Option<&[String]> {
    let record = open
        .iter()
        .take(MAX_DEPTH)
        .position(|name| name == "record")?;
    (open.len() <= MAX_DEPTH).then(|| &open[record + 1..])
}
