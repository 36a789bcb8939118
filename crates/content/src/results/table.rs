//! The rows of `results.csv`, in the order of the lists: each line once, then works that no line names
//! any more.

use std::io::{self, Write};

use docstokg_bulk::queue::{ItemRow, LineRow};

use super::{DeliveredWork, ResultRow, ResultStatus, RowPlace};

/// Tells first lines of works from further ones, while lines pass.
#[derive(Debug, Default)]
pub struct ResultTable {
    /// A bit for every item that a line has named.
    seen: Vec<u64>,
}

impl ResultTable {
    /// Passes the row of a line to `take`.
    ///
    /// # Errors
    /// That of `take`.
    pub fn line(
        &mut self,
        line: LineRow,
        take: impl FnOnce(&ResultRow<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let place = RowPlace {
            input: &line.text,
            file: &line.source,
            line: Some(line.number),
        };
        match line.item {
            Err(problem) => take(&ResultRow {
                place,
                status: ResultStatus::Unrecognised,
                work: Err(&problem),
            }),
            Ok(item) => {
                let work = DeliveredWork::of(item);
                let status = if self.note(work.item) {
                    work.status
                } else {
                    ResultStatus::Repeated
                };
                take(&ResultRow {
                    place,
                    status,
                    work: Ok(&work),
                })
            }
        }
    }

    /// Passes the row of an item to `take`, if no line has named the item.
    ///
    /// # Errors
    /// That of `take`.
    pub fn item(
        &mut self,
        item: ItemRow,
        take: impl FnOnce(&ResultRow<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.note(item.id) {
            return Ok(());
        }
        let work = DeliveredWork::of(item);
        take(&ResultRow {
            place: RowPlace::default(),
            status: work.status,
            work: Ok(&work),
        })
    }

    /// Notes that an item was named. Returns whether that is the first time.
    fn note(&mut self, item: i64) -> bool {
        let Ok(item) = usize::try_from(item) else {
            return true;
        };
        let (word, bit) = (item / 64, 1_u64 << (item % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let is_first = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        is_first
    }
}

impl ResultRow<'_> {
    /// Writes the names of the columns as a line of CSV.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_header(to: &mut impl Write) -> io::Result<()> {
        let names: Vec<&str> = Self::columns().collect();
        writeln!(to, "{}", names.join(","))
    }

    /// Writes the row as a line of CSV.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_csv(&self, to: &mut impl Write) -> io::Result<()> {
        let cells: Vec<String> = self
            .values()
            .map(|value| value.map_or_else(String::new, |value| csv_cell(&value.text())))
            .collect();
        writeln!(to, "{}", cells.join(","))
    }
}

/// Writes a cell of a CSV file (RFC 4180). What a spreadsheet would take for a formula is kept from
/// being one.
#[must_use]
pub fn csv_cell(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_formulas_defused() {
        assert_eq!(csv_cell("plain"), "plain");
        assert_eq!(csv_cell("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(csv_cell("=HYPERLINK(1)"), "'=HYPERLINK(1)");
    }

    #[test]
    fn an_item_is_first_once() {
        let mut table = ResultTable::default();
        let first: Vec<bool> = [1, 200, 1, 64, 64, 0].map(|item| table.note(item)).to_vec();
        assert_eq!(first, [true, true, false, true, false, true]);
    }
}
