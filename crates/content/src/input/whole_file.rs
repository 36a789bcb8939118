//! Files that are read as a whole: one JSON array of CSL, or the XML of `EndNote`.

use std::io::BufRead;

use serde_json::value::RawValue;

use super::{
    BadLine, ENDS_LIST, InputReader, ListShape, NumberedWork, bad, endnote, json, line_of,
};

/// The longest file that is read as a whole, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// The longest item of such a file, in bytes. An abstract and a thousand authors fit.
const MAX_ITEM_BYTES: usize = 1 << 20;
/// The number of bytes at the beginning of a file by which the XML of `EndNote` is recognised.
const BEGINNING_BYTES: usize = 4096;

impl<R: BufRead> InputReader<R> {
    /// Reads the rest of the input as one JSON array or the XML of `EndNote`, if the input is or
    /// should be such a file.
    pub(super) fn read_items(&mut self) -> Option<BadLine> {
        let is_unknown = matches!(self.shape, ListShape::Unknown);
        let beginning = self.lines.beginning();
        let is_xml = matches!(&self.shape, ListShape::Rows(_, 0))
            || (is_unknown && begins_endnote_xml(beginning));
        let is_array = matches!(&self.shape, ListShape::Items(_, 0))
            || (is_unknown && beginning.starts_with(b"["));
        if !is_array && !is_xml {
            return None;
        }
        let read = self
            .lines
            .rest(MAX_FILE_BYTES)
            .map_err(|error| format!("{ENDS_LIST}: {error}"));
        let problem = match read {
            Err(problem) => {
                self.shape = ListShape::Rows(Vec::new().into_iter(), 1);
                Some(problem)
            }
            Ok(bytes) if is_xml => {
                let (rows, is_whole) = endnote::read_records(&bytes);
                self.shape = ListShape::Rows(rows.into_iter(), 1);
                (!is_whole).then(|| format!("{ENDS_LIST}: it is not XML to its end"))
            }
            Ok(bytes) => {
                let items = serde_json::from_slice::<Vec<Box<RawValue>>>(&bytes);
                let (items, problem) = match items {
                    Ok(items) => (items, None),
                    Err(error) => (
                        Vec::new(),
                        Some(format!("it is not a CSL-JSON file: {error}")),
                    ),
                };
                self.shape = ListShape::Items(items.into_iter(), 1);
                problem
            }
        };
        problem.map(|problem| BadLine {
            number: 1,
            text_preview: String::new(),
            problem,
        })
    }

    /// Returns the next record of an XML file as a [`NumberedWork`].
    pub(super) fn next_row(&mut self) -> Option<Result<NumberedWork, BadLine>> {
        let ListShape::Rows(rows, number) = &mut self.shape else {
            return None;
        };
        let row = rows.next()?;
        let at = *number;
        *number += 1;
        Some(line_of(at, Ok(row), b"<record>"))
    }

    /// Returns the next item of an array as a [`NumberedWork`].
    pub(super) fn next_item(&mut self) -> Option<Result<NumberedWork, BadLine>> {
        let ListShape::Items(items, number) = &mut self.shape else {
            return None;
        };
        let item = items.next()?;
        let at = *number;
        *number += 1;
        let text = item.get();
        if text.len() > MAX_ITEM_BYTES {
            return Some(Err(bad(at, text.as_bytes(), "it is longer than 1 MiB")));
        }
        Some(line_of(at, json::csl(text), text.as_bytes()))
    }
}

/// Tells whether a file begins like the XML of `EndNote`.
fn begins_endnote_xml(beginning: &[u8]) -> bool {
    let beginning = &beginning[..beginning.len().min(BEGINNING_BYTES)];
    let has = |part: &[u8]| beginning.windows(part.len()).any(|found| found == part);
    beginning.starts_with(b"<") && (has(b"<xml>") || has(b"<records"))
}
