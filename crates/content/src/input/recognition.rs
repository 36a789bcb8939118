//! Recognition of the format of a list by its first lines.

use std::io::BufRead;

use super::InputReader;
use super::prose;
use super::raw::RawLine;
use super::reader::ListShape;
use super::records::{Collector, Notation};
use super::table::Table;
use crate::charset;
use crate::identifier::Identifier;

/// Maximum number of lines before the first record of a file of records.
const MAX_LINES_BEFORE_RECORD: usize = 200;
/// Maximum number of lines before the header of a table.
const MAX_LINES_BEFORE_HEADER: usize = 5;
/// The number of lines by which a table without a header is recognised.
const SAMPLED_LINES: usize = 12;

/// The part of a first line in its list.
pub(super) enum FirstLine {
    /// The line is a header, or a note before the content.
    Consumed,
    /// The line is a header without a known name.
    UnknownHeader,
    /// The line belongs to the content.
    Content,
}

impl<R: BufRead> InputReader<R> {
    /// Decides on the shape by the first line with content, if the shape is unknown.
    pub(super) fn recognise(&mut self, text: &str) -> FirstLine {
        match self.shape {
            ListShape::Unknown => self.recognise_unknown(text),
            ListShape::Headless => self.recognise_table(text),
            _ => FirstLine::Content,
        }
    }

    fn recognise_unknown(&mut self, text: &str) -> FirstLine {
        if let Some(notation) = Notation::of(text) {
            self.shape = ListShape::Records(Collector::new(notation));
            return FirstLine::Content;
        }
        if text.trim_start().starts_with('{') {
            self.shape = ListShape::Jsonl;
            return FirstLine::Content;
        }
        if let Some(table) = Table::from_header(text) {
            self.shape = ListShape::Csv(table);
            return FirstLine::Consumed;
        }
        if let Some((table, has_header)) = self.table_ahead(text) {
            self.shape = ListShape::Csv(table);
            return if has_header {
                FirstLine::Consumed
            } else {
                FirstLine::Content
            };
        }
        if self.has_header_ahead(text) {
            return FirstLine::Consumed;
        }
        self.shape = ListShape::Lines;
        FirstLine::Content
    }

    fn recognise_table(&mut self, text: &str) -> FirstLine {
        if let Some(table) = Table::from_header(text) {
            self.shape = ListShape::Csv(table);
            return FirstLine::Consumed;
        }
        let rows = self.table_ahead(text);
        if let Some((table, _)) = rows.filter(|(_, has_header)| !has_header) {
            self.shape = ListShape::Csv(table);
            return FirstLine::Content;
        }
        self.shape = ListShape::Csv(Table::guess(text));
        FirstLine::UnknownHeader
    }

    /// Recognises a table without a header by its first lines.
    fn table_ahead(&mut self, text: &str) -> Option<(Table, bool)> {
        // Most lists have one identifier per line, and should not wait for further lines.
        if !text.contains(['\t', ';', ',', '|']) {
            return None;
        }
        let mut lines = vec![text.to_owned()];
        let mut index = 0;
        while lines.len() < SAMPLED_LINES {
            let Some(Ok(RawLine::Line { bytes, .. })) = self.lines.peek(index) else {
                break;
            };
            let line = charset::text(bytes);
            if !line.trim().is_empty() && !line.starts_with('#') {
                lines.push(line.into_owned());
            }
            index += 1;
            if index > 2 * SAMPLED_LINES {
                break;
            }
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        Table::from_rows(&lines)
    }

    /// Tells whether a line is a note before the header of a table.
    fn has_header_ahead(&mut self, text: &str) -> bool {
        if says_something(text) {
            return false;
        }
        for index in 0..MAX_LINES_BEFORE_HEADER {
            let Some(Ok(RawLine::Line { bytes, .. })) = self.lines.peek(index) else {
                return false;
            };
            let line = charset::text(bytes);
            if Table::from_header(&line).is_some_and(|table| table.known_columns() > 1) {
                return true;
            }
            if says_something(&line) {
                return false;
            }
        }
        false
    }

    /// Recognises records that follow lines about the origin of the file, if this is such a line.
    pub(super) fn notation_ahead(&mut self, text: &str) -> Option<Notation> {
        if says_something(text)
            || text.trim_start().starts_with('{')
            || Table::from_header(text).is_some()
        {
            return None;
        }
        for index in 0..MAX_LINES_BEFORE_RECORD {
            let Some(Ok(RawLine::Line { bytes, .. })) = self.lines.peek(index) else {
                return None;
            };
            let line = charset::text(bytes);
            if let Some(notation) = Notation::of(&line) {
                return Some(notation);
            }
            // An identifier shows that the list consists of identifiers and not of records.
            if matches!(Identifier::parse(&line), Ok(found) if !matches!(found, Identifier::Url(_)))
            {
                return None;
            }
        }
        None
    }
}

/// Tells whether a line names a work.
fn says_something(text: &str) -> bool {
    Identifier::parse(text).is_ok() || !prose::works(text).is_empty()
}
