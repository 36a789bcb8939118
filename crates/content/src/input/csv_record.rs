//! CSV records whose quotes span line ends.

use std::io::BufRead;

use super::raw::RawLine;
use super::reader::ListShape;
use super::table::Quotes;
use super::{BadLine, InputReader, LINE_LIMIT_BYTES, bad};

/// Maximum number of lines of one CSV record, and so the bound for a stray quote.
const MAX_JOINED_LINES: usize = 100;

impl<R: BufRead> InputReader<R> {
    /// Joins the lines of a CSV record whose quotes span line ends. A quote that is never closed
    /// costs only its own line.
    pub(super) fn whole_record(
        &mut self,
        number: u64,
        first: Vec<u8>,
    ) -> Option<Result<Vec<u8>, BadLine>> {
        let ListShape::Csv(table) = &self.shape else {
            return Some(Ok(first));
        };
        if first.trim_ascii_start().starts_with(b"#") {
            return None;
        }
        if table.quotes_after(Quotes::Closed, &first) == Quotes::Closed {
            return Some(Ok(first));
        }
        let (mut joined, mut length) = (0, first.len());
        loop {
            let line = match self.lines.peek(joined) {
                Some(Ok(RawLine::Line { number, bytes }))
                    if length + bytes.len() < LINE_LIMIT_BYTES && joined < MAX_JOINED_LINES =>
                {
                    (*number, bytes)
                }
                _ => return Some(Err(bad(number, &first, "a quoted field is not closed"))),
            };
            joined += 1;
            length += 1 + line.1.len();
            // The state after an open line is the same for every record that reaches it. So the
            // next record need not read these lines again.
            if line.0 <= self.open_through {
                continue;
            }
            if table.quotes_after(Quotes::Open, line.1) == Quotes::Closed {
                break;
            }
            self.open_through = line.0;
        }
        Some(Ok(self.joined(first, joined)))
    }

    /// Consumes lines of the list and appends them to a record.
    fn joined(&mut self, first: Vec<u8>, count: usize) -> Vec<u8> {
        let mut record = first;
        for _ in 0..count {
            if let Some(Ok(RawLine::Line { bytes, .. })) = self.lines.next() {
                record.push(b'\n');
                record.extend_from_slice(&bytes);
            }
        }
        record
    }
}
