//! Bounded reading of lines as bytes: a list that is one endless line does not fill the memory.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read as _};

/// A line, without its end.
#[derive(Debug)]
pub(super) enum RawLine {
    /// The whole line.
    Line { number: u64, bytes: Vec<u8> },
    /// The beginning of a line longer than allowed; the rest was skipped.
    Overlong { number: u64, beginning: Vec<u8> },
}

/// A [`RawLine`], or the error of the reader and the number of the line before it.
pub(super) type RawLineResult = Result<RawLine, (u64, io::Error)>;

/// Reads lines that end with LF, CRLF or the end of the input; a byte order mark before the first
/// is skipped.
#[derive(Debug)]
pub(super) struct RawLines<R> {
    reader: R,
    limit: usize,
    number: u64,
    /// Lines that were inspected by [`RawLines::peek`] and not yet returned.
    ahead: VecDeque<RawLineResult>,
    ended: bool,
}

impl<R: BufRead> RawLines<R> {
    pub(super) fn new(reader: R, limit: usize) -> Self {
        Self {
            reader,
            limit,
            number: 0,
            ahead: VecDeque::new(),
            ended: false,
        }
    }

    /// Returns a following line without consuming it; the next line has index 0.
    pub(super) fn peek(&mut self, index: usize) -> Option<&RawLineResult> {
        while self.ahead.len() <= index {
            let line = self.read_next()?;
            self.ahead.push_back(line);
        }
        self.ahead.get(index)
    }

    /// Returns the bytes read ahead of the first line, without leading white space.
    pub(super) fn beginning(&mut self) -> &[u8] {
        if self.number > 0 {
            return &[];
        }
        let Ok(beginning) = self.reader.fill_buf() else {
            return &[];
        };
        let beginning = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning);
        beginning.trim_ascii_start()
    }

    /// Reads the rest of the input, up to a number of bytes.
    pub(super) fn rest(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader.by_ref().take(most).read_to_end(&mut bytes)?;
        self.ended = true;
        if bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        Ok(bytes)
    }

    /// Returns the next line; `None` at the end. An error of the reader is returned once and ends
    /// the input.
    pub(super) fn next(&mut self) -> Option<RawLineResult> {
        self.ahead.pop_front().or_else(|| self.read_next())
    }

    fn read_next(&mut self) -> Option<RawLineResult> {
        if self.ended {
            return None;
        }
        match self.is_wide().and_then(|()| self.read()) {
            Ok(line) => line.map(Ok),
            Err(error) => {
                self.ended = true;
                Some(Err((self.number, error)))
            }
        }
    }

    /// Refuses a file that begins with the byte order mark of UTF-16.
    fn is_wide(&mut self) -> io::Result<()> {
        let begins_wide = self.number == 0
            && self.reader.fill_buf().is_ok_and(|begin| {
                begin.starts_with(&[0xff, 0xfe]) || begin.starts_with(&[0xfe, 0xff])
            });
        if begins_wide {
            Err(io::Error::other(
                "it is UTF-16 text; save it as UTF-8, for instance with iconv -f UTF-16 -t UTF-8",
            ))
        } else {
            Ok(())
        }
    }

    fn read(&mut self) -> io::Result<Option<RawLine>> {
        let mut bytes = Vec::new();
        let mut any = false;
        let mut overlong = false;
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                self.ended = true;
                break;
            }
            any = true;
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = &available[..end.unwrap_or(available.len())];
            let room = self.limit.saturating_sub(bytes.len());
            bytes.extend_from_slice(&piece[..piece.len().min(room)]);
            overlong |= piece.len() > room;
            let used = end.map_or(available.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !any {
            return Ok(None);
        }
        self.number += 1;
        if self.number == 1 && bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        let number = self.number;
        Ok(Some(if overlong {
            RawLine::Overlong {
                number,
                beginning: bytes,
            }
        } else {
            RawLine::Line { number, bytes }
        }))
    }
}
