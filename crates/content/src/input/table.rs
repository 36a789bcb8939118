//! Rows written as CSV.

use super::fields::{ColumnMeaning, FieldRow};
use super::tagged::science_field;

/// A byte that stands for "no separator". A table of one column has no separator, and its values
/// may contain any of the usual separators.
const NO_SEPARATOR: u8 = 0x1f;

/// The columns of a table, and their separator.
#[derive(Debug)]
pub(super) struct Table {
    separator: u8,
    columns: Vec<Option<ColumnMeaning>>,
}

/// The state at the end of a line of a record: inside a quoted field that continues in the next
/// line, or outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    Open,
    Closed,
}

impl Table {
    /// Recognises a header. At least one of its columns can name a work, and no cell is itself an
    /// identifier.
    pub(super) fn from_header(text: &str) -> Option<Self> {
        // `max_by_key` returns the last of equals, so a table of one column has no separator.
        [b',', b';', b'\t', NO_SEPARATOR]
            .into_iter()
            .map(|separator| {
                let names = cells(text, separator);
                // The columns of Web of Science tables are named by its tags.
                let is_science = ["UT", "PT", "DI"]
                    .iter()
                    .all(|tag| names.iter().any(|name| name == tag));
                let field = |name: &String| match science_field(name) {
                    Some(field) if is_science => Some(field),
                    _ => ColumnMeaning::named(name),
                };
                Self {
                    separator,
                    columns: names.iter().map(field).collect(),
                }
            })
            .filter(|table| {
                table
                    .columns
                    .iter()
                    .flatten()
                    .any(|field| field.identifies())
            })
            .max_by_key(|table| table.columns.iter().flatten().count())
    }

    /// Creates a table for a header without known names: the first column is read as identifiers.
    pub(super) fn guess(text: &str) -> Self {
        let separator = [b'\t', b';', b',']
            .into_iter()
            .max_by_key(|separator| text.bytes().filter(|byte| byte == separator).count())
            .unwrap_or(b',');
        Self {
            separator,
            columns: vec![Some(ColumnMeaning::Id)],
        }
    }

    /// Reads a line of a record, and returns the [`Quotes`] state at its end. `quotes` is the state
    /// at the end of the line before. A quote opens a field only at its beginning.
    pub(super) fn quotes_after(&self, quotes: Quotes, line: &[u8]) -> Quotes {
        let mut open = quotes == Quotes::Open;
        let mut at_start = !open;
        for byte in line {
            match byte {
                b'"' if open => open = false,
                // After a closed quote this is the second half of a doubled quote, or dirt. Both
                // open the field again.
                b'"' if at_start => open = true,
                _ => {}
            }
            at_start =
                !open && (*byte == self.separator || *byte == b'"' || (at_start && *byte == b' '));
        }
        if open { Quotes::Open } else { Quotes::Closed }
    }

    /// Reads one record as a [`FieldRow`].
    pub(super) fn row(&self, text: &str) -> FieldRow {
        let mut row = FieldRow::default();
        for (field, value) in self.columns.iter().zip(cells(text, self.separator)) {
            if let Some(field) = field {
                row.take(*field, &value);
            }
        }
        row
    }
}

fn cells(text: &str, separator: u8) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(separator)
        .buffer_capacity(text.len().max(64))
        .from_reader(text.as_bytes());
    let record = reader.records().next().and_then(Result::ok);
    record
        .map(|record| record.iter().map(|cell| cell.trim().to_owned()).collect())
        .unwrap_or_default()
}
