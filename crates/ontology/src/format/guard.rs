//! Readers between a file and its parser that refuse input with excessive costs.
//!
//! The parsers are streaming, but limit neither nesting nor lengths nor expansion. A guard passes
//! the bytes on, follows just enough of the syntax to count, and returns a read error if a limit is
//! exceeded. The caller shares a [`GuardReport`] with the guard to learn the exact problem, because
//! parsers wrap the errors of their readers.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::report::FormatProblem;

pub(crate) mod contexts;
pub(crate) mod doctype;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod read_ahead;
pub(crate) mod stack;
pub(crate) mod turtle;
pub(crate) mod utf8;
pub(crate) mod xml;

/// The findings of a guard, which the caller reads after the parser has ended.
#[derive(Debug, Default)]
pub(crate) struct GuardReport {
    /// The problem for which the guard refused the file.
    pub failure: Option<FormatProblem>,
    pub warnings: Vec<FormatProblem>,
    pub lines: lines::LineIndex,
}

pub(crate) type SharedWatch = Arc<Mutex<GuardReport>>;

/// Records the problem of a refused file, and returns the error that ends the read.
pub(crate) fn refuse(watch: &SharedWatch, problem: FormatProblem) -> io::Error {
    let message = problem.message.clone();
    watch.lock().failure.get_or_insert(problem);
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Removes and returns the problem for which the guard refused the file; `None` if the file was not
/// refused.
pub(crate) fn take_failure(watch: &SharedWatch) -> Option<FormatProblem> {
    watch.lock().failure.take()
}

/// Counts bytes, refuses input beyond a limit, and skips a byte order mark.
pub(crate) struct CountedReader<R> {
    inner: R,
    count: Arc<AtomicU64>,
    limit: u64,
    /// The first bytes of the input; `is_started` is true once they were read.
    start: Vec<u8>,
    is_started: bool,
    /// True if the input was too long.
    pub exceeded: Arc<AtomicBool>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl<R: Read> CountedReader<R> {
    pub(crate) fn new(inner: R, count: Arc<AtomicU64>, limit: u64) -> Self {
        Self {
            inner,
            count,
            limit,
            start: Vec::new(),
            is_started: false,
            exceeded: Arc::default(),
        }
    }

    fn count(&self, read: usize) -> io::Result<()> {
        let total = self.count.fetch_add(read as u64, Ordering::Relaxed) + read as u64;
        if total <= self.limit {
            return Ok(());
        }
        self.exceeded.store(true, Ordering::Relaxed);
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the file is larger than the limit of {} bytes", self.limit),
        ))
    }

    fn read_start(&mut self) -> io::Result<()> {
        self.is_started = true;
        let length = BYTE_ORDER_MARK.len() as u64;
        self.inner
            .by_ref()
            .take(length)
            .read_to_end(&mut self.start)?;
        self.count(self.start.len())?;
        if self.start == BYTE_ORDER_MARK {
            self.start.clear();
        }
        Ok(())
    }
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.is_started {
            self.read_start()?;
        }
        if !self.start.is_empty() {
            let read = self.start.as_slice().read(out)?;
            self.start.drain(..read);
            return Ok(read);
        }
        let read = loop {
            match self.inner.read(out) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                other => break other?,
            }
        };
        self.count(read)?;
        Ok(read)
    }
}
