//! Files whose lines mean nothing: JSON values, and the XML of `EndNote`.

use std::io::BufRead;

use super::json_items::{ItemSplitter, JsonItem};
use super::reader::ListShape;
use super::{BadLine, ENDS_LIST, InputReader, bad, endnote, json, line_of};

/// The longest XML file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

impl<R: BufRead> InputReader<R> {
    /// Recognises a JSON array, a JSON object of several lines, or the XML of `EndNote`, and reads
    /// the XML as a whole.
    pub(super) fn recognise_whole_file(&mut self) {
        match self.shape {
            ListShape::Unknown => {
                let beginning = self.lines.beginning();
                if begins_endnote_xml(beginning) {
                    self.read_xml();
                } else if beginning.starts_with(b"[") || begins_object_of_lines(beginning) {
                    self.shape = ListShape::Items(ItemSplitter::default(), 0);
                }
            }
            ListShape::Rows(_, 0) => self.read_xml(),
            _ => {}
        }
    }

    fn read_xml(&mut self) {
        let read = self.lines.rest(MAX_FILE_BYTES);
        let (rows, problem) = match read {
            Err(error) => (Vec::new(), Some(error.to_string())),
            Ok(bytes) => {
                let (rows, is_whole) = endnote::read_records(&bytes);
                let problem = "it is not XML to its end".to_owned();
                (rows, (!is_whole).then_some(problem))
            }
        };
        self.shape = ListShape::Rows(rows.into_iter(), 1);
        if let Some(problem) = problem {
            self.add(Err(ends_list(1, &problem)));
        }
    }

    /// Reads the next record of an XML file. Returns `false` at the end.
    pub(super) fn read_row(&mut self) -> bool {
        let ListShape::Rows(rows, number) = &mut self.shape else {
            return false;
        };
        let Some(row) = rows.next() else {
            return false;
        };
        let at = *number;
        *number += 1;
        self.add(line_of(at, Ok(row), b"<record>"));
        true
    }

    /// Reads the next JSON value. Returns `false` at the end.
    pub(super) fn read_item(&mut self) -> bool {
        let ListShape::Items(splitter, number) = &mut self.shape else {
            return false;
        };
        let item = loop {
            match self.lines.next_byte() {
                Ok(Some(byte)) => {
                    if let Some(item) = splitter.push(byte) {
                        break Ok(Some(item));
                    }
                }
                Ok(None) => {
                    break splitter
                        .end()
                        .map_err(|()| "a bracket or quote of its JSON is not closed".to_owned());
                }
                Err(error) => break Err(error.to_string()),
            }
        };
        *number += 1;
        let at = *number;
        let problem = match item {
            Ok(Some(item)) => {
                self.add_item(at, item);
                return true;
            }
            Ok(None) => return false,
            Err(problem) => problem,
        };
        self.shape = ListShape::Rows(Vec::new().into_iter(), 1);
        self.add(Err(ends_list(at, &problem)));
        true
    }

    fn add_item(&mut self, number: u64, item: JsonItem) {
        match item {
            JsonItem::Overlong(beginning) => {
                self.add(Err(bad(number, &beginning, "it is longer than 1 MiB")));
            }
            JsonItem::Whole(bytes) => {
                let text = crate::charset::text(&bytes);
                if let Some(row) = json::item(&text).transpose() {
                    self.add(line_of(number, row, text.as_bytes()));
                }
            }
        }
    }
}

/// Describes the reason why the rest of a list cannot be read.
fn ends_list(number: u64, problem: &str) -> BadLine {
    BadLine {
        number,
        text_preview: String::new(),
        problem: format!("{ENDS_LIST}: {problem}"),
    }
}

/// Tells whether a file begins like the XML of `EndNote`.
fn begins_endnote_xml(beginning: &[u8]) -> bool {
    let has = |part: &[u8]| beginning.windows(part.len()).any(|found| found == part);
    beginning.starts_with(b"<") && (has(b"<xml>") || has(b"<records"))
}

/// Tells whether a file begins with a JSON object whose fields are on lines of their own.
fn begins_object_of_lines(beginning: &[u8]) -> bool {
    let first = beginning.strip_prefix(b"{");
    first.is_some_and(|rest| {
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        rest.len() > line.len() && line.trim_ascii().is_empty()
    })
}
