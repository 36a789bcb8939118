//! Rows written as CSV.

use super::fields::{ColumnMeaning, FieldRow};
use super::prose;
use super::tagged::science_field;
use crate::identifier::Identifier;

/// A byte that stands for "no separator". A table of one column has no separator, and its values
/// may contain any of the usual separators.
const NO_SEPARATOR: u8 = 0x1f;

/// The columns of a table, and their separator.
#[derive(Debug)]
pub(super) struct Table {
    separator: u8,
    columns: Vec<Option<ColumnMeaning>>,
    /// The columns are known by their content and not by a header.
    is_guessed: bool,
}

/// The state at the end of a line of a record: inside a quoted field that continues in the next
/// line, or outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    Open,
    Closed,
}

impl Table {
    /// Recognises a header. At least one of its columns can name a work, if only by its title, and
    /// no cell is itself an identifier.
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
                    is_guessed: false,
                }
            })
            .filter(|table| {
                let mut known = table.columns.iter().flatten();
                let has_title = || {
                    let mut known = table.columns.iter().flatten();
                    known.any(|field| *field == ColumnMeaning::Title)
                        && (table.known_columns() > 1 || table.columns.len() == 1)
                };
                known.any(|field| field.identifies()) || has_title()
            })
            .max_by_key(Self::known_columns)
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
            is_guessed: true,
        }
    }

    /// Recognises a table without a header by its first lines. Every line has as many cells, at
    /// least one column has identifiers, and other cells show that the separator does not belong to a DOI.
    /// Tells whether the first line is nevertheless a header.
    pub(super) fn from_rows(lines: &[&str]) -> Option<(Self, bool)> {
        [b'\t', b';', b',', b'|']
            .into_iter()
            .filter_map(|separator| RowSample::of(lines, separator))
            .max_by_key(RowSample::plain_cells)
            .filter(|sample| sample.plain_cells() >= sample.rows.len())
            .and_then(RowSample::into_table)
    }

    /// Returns the number of columns whose meaning is known.
    pub(super) fn known_columns(&self) -> usize {
        self.columns.iter().flatten().count()
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
        if self.is_guessed && !row.names_work() {
            // A line of another shape: a lone identifier, or a note.
            prose::works(text)
                .into_iter()
                .take(1)
                .for_each(|found| row.merge(found));
        }
        row
    }
}

/// The cells of the first lines of a list, as one separator splits them.
struct RowSample {
    separator: u8,
    rows: Vec<Vec<String>>,
}

impl RowSample {
    /// Splits the lines; `None` if their numbers of cells differ, or there is only one column.
    fn of(lines: &[&str], separator: u8) -> Option<Self> {
        let rows: Vec<Vec<String>> = lines.iter().map(|line| cells(line, separator)).collect();
        let columns = rows.first()?.len();
        (columns > 1 && rows.iter().all(|row| row.len() == columns))
            .then_some(Self { separator, rows })
    }

    /// Returns the number of cells that are text by themselves: a separator within a DOI does not
    /// leave a year, a word or an identifier behind.
    fn plain_cells(&self) -> usize {
        let cells = self.rows.iter().flat_map(|row| row.iter().skip(1));
        cells.filter(|cell| is_plain(cell)).count()
    }

    fn into_table(self) -> Option<(Table, bool)> {
        let (first, rest) = self.rows.split_first()?;
        let has_identifier = |row: &Vec<String>| row.iter().any(|cell| is_identifier(cell));
        let has_header = !has_identifier(first) && !rest.is_empty();
        let rows = if has_header { rest } else { &self.rows[..] };
        if rows.iter().any(|row| names_several(row)) {
            return None;
        }
        let meaning = |column: usize| {
            let cells = || {
                rows.iter()
                    .map(|row| row[column].as_str())
                    .filter(|cell| !cell.is_empty())
            };
            let identifiers = cells().filter(|cell| is_identifier(cell)).count();
            if identifiers > 0 && 2 * identifiers >= cells().count() {
                let is_link =
                    |cell: &str| matches!(Identifier::parse(cell), Ok(Identifier::Url(_)));
                return Some(if cells().all(is_link) {
                    ColumnMeaning::Url
                } else {
                    ColumnMeaning::Id
                });
            }
            let named = || ColumnMeaning::named(&first[column]).filter(|field| !field.identifies());
            let is_year = cells().count() > 0 && cells().all(is_year);
            has_header
                .then(named)
                .flatten()
                .or(is_year.then_some(ColumnMeaning::Year))
        };
        let columns: Vec<_> = (0..first.len()).map(meaning).collect();
        let is_table = columns.iter().flatten().any(|field| field.identifies());
        let table = Table {
            separator: self.separator,
            columns,
            is_guessed: true,
        };
        is_table.then_some((table, has_header))
    }
}

fn is_identifier(cell: &str) -> bool {
    !cell.contains(char::is_whitespace) && Identifier::parse(cell).is_ok()
}

/// Tells whether a row names more than one work: two identifiers are of the same kind.
fn names_several(row: &[String]) -> bool {
    let identifiers = row.iter().filter(|cell| is_identifier(cell));
    let mut kinds: Vec<_> = identifiers
        .filter_map(|cell| Identifier::parse(cell).ok())
        .map(|found| found.kind())
        .collect();
    let found = kinds.len();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.len() < found
}

fn is_year(cell: &str) -> bool {
    cell.len() == 4
        && cell
            .parse()
            .is_ok_and(|year: u32| (1500..2200).contains(&year))
}

/// Tells whether a cell is text by itself, and not the rest of a DOI.
fn is_plain(cell: &str) -> bool {
    let is_word = cell.len() >= 3 && cell.chars().all(char::is_alphabetic);
    let is_number = cell.len() >= 5 && cell.bytes().all(|byte| byte.is_ascii_digit());
    is_word
        || is_number
        || is_year(cell)
        || cell.contains(char::is_whitespace)
        || is_identifier(cell)
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
