//! Bounded reading of lines as bytes: a list that is one endless line does not fill the memory.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read as _};

use super::text_source::TextSource;

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

/// Reads lines of a [`TextSource`] that end with LF, CRLF or the end of the input.
#[derive(Debug)]
pub(super) struct RawLines<R> {
    reader: TextSource<R>,
    limit: usize,
    number: u64,
    /// Lines that were inspected by [`RawLines::peek`] and not yet returned.
    ahead: VecDeque<RawLineResult>,
    ended: bool,
}

impl<R: BufRead> RawLines<R> {
    pub(super) const fn new(reader: R, limit: usize) -> Self {
        Self {
            reader: TextSource::new(reader),
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
        self.reader.beginning().trim_ascii_start()
    }

    /// Returns the next byte, without regard to lines; `None` at the end.
    pub(super) fn next_byte(&mut self) -> io::Result<Option<u8>> {
        let byte = loop {
            match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                available => break available?.first().copied(),
            }
        };
        self.reader.consume(usize::from(byte.is_some()));
        Ok(byte)
    }

    /// Reads the rest of the input, up to a number of bytes.
    pub(super) fn rest(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader.by_ref().take(most).read_to_end(&mut bytes)?;
        self.ended = true;
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
        match self.read() {
            Ok(line) => line.map(Ok),
            Err(error) => {
                self.ended = true;
                Some(Err((self.number, error)))
            }
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
