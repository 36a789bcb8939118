//! Guards JSON readers against strings that do not end.

use std::io::{self, Read};

use super::contexts::{ContextScan, SharedBudget};
use super::{SharedWatch, refuse};
use crate::format::Limits;
use crate::format::report::Problem;

/// The longest number that is judged: more digits than the largest double has.
const MAX_NUMBER_BYTES: usize = 1024;
/// How much of a number is quoted.
const QUOTED_NUMBER_BYTES: usize = 24;

/// A search for numbers that do not fit a double, in the parts of JSON outside its strings.
#[derive(Debug, Default)]
struct NumberScan {
    /// The beginning of the current number.
    number: Vec<u8>,
}

impl NumberScan {
    /// Looks at the next bytes; says which number is too large.
    fn pass(&mut self, bytes: &[u8]) -> Result<(), String> {
        for &byte in bytes {
            let is_first = byte.is_ascii_digit() || byte == b'-';
            let is_further = is_first || matches!(byte, b'+' | b'.' | b'e' | b'E');
            if is_first || (is_further && !self.number.is_empty()) {
                if self.number.len() < MAX_NUMBER_BYTES {
                    self.number.push(byte);
                }
            } else if !self.number.is_empty() {
                self.end()?;
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let number = std::mem::take(&mut self.number);
        let text = str::from_utf8(&number).unwrap_or_default();
        if text.parse::<f64>().is_ok_and(f64::is_infinite) {
            let quoted: String = text.chars().take(QUOTED_NUMBER_BYTES).collect();
            let rest = if quoted.len() < text.len() { "…" } else { "" };
            return Err(format!("the number {quoted}{rest} is too large to be read"));
        }
        Ok(())
    }
}

/// Passes JSON on; strings and numbers are limited in length, and nesting in depth and numbers in
/// size if asked for.
pub(crate) struct JsonGuard<R> {
    inner: R,
    limit: usize,
    watch: SharedWatch,
    is_string: bool,
    is_escaped: bool,
    length: usize,
    line: u64,
    depth: usize,
    max_depth: Option<usize>,
    numbers: NumberScan,
    contexts: Option<(ContextScan, SharedBudget)>,
}

impl<R: Read> JsonGuard<R> {
    pub(crate) fn new(inner: R, limits: &Limits, watch: SharedWatch) -> Self {
        let limit = limits.max_token_bytes;
        Self {
            inner,
            limit,
            watch,
            is_string: false,
            is_escaped: false,
            length: 0,
            line: 1,
            depth: 0,
            max_depth: None,
            numbers: NumberScan::default(),
            contexts: None,
        }
    }

    /// Bounds how deep objects and arrays are nested, and refuses numbers that do not fit a double.
    pub(crate) fn with_depth(mut self, max_depth: usize) -> Self {
        self.max_depth = Some(max_depth);
        self
    }

    /// Judges the contexts of a JSON-LD file as well. Needs a bound of depth.
    pub(crate) fn with_contexts(mut self, scan: ContextScan, budget: SharedBudget) -> Self {
        self.contexts = Some((scan, budget));
        self
    }

    /// Judges brackets and numbers in bytes that are not within a string.
    fn judge_code(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(max_depth) = self.max_depth else {
            return Ok(());
        };
        for byte in bytes {
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => (),
            }
            if self.depth > max_depth {
                let message = format!("objects and arrays are nested more than {max_depth} deep");
                return Err(refuse(&self.watch, Problem::at_line(self.line, message)));
            }
        }
        let judged = self.numbers.pass(bytes);
        judged.map_err(|reason| refuse(&self.watch, Problem::at_line(self.line, reason)))
    }

    fn examine(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_escaped {
                self.is_escaped = false;
                at += 1;
                continue;
            }
            let rest = &bytes[at..];
            let step = if self.is_string {
                memchr::memchr3(b'"', b'\\', b'\n', rest)
            } else {
                memchr::memchr2(b'"', b'\n', rest)
            };
            if !self.is_string {
                self.judge_code(&rest[..step.unwrap_or(rest.len())])?;
            }
            self.length += step.unwrap_or(rest.len());
            if self.length > self.limit {
                let message = format!("a text or number is longer than {} bytes", self.limit);
                return Err(refuse(&self.watch, Problem::at_line(self.line, message)));
            }
            let Some(step) = step else { return Ok(()) };
            at += step;
            match bytes[at] {
                b'\n' => self.line += 1,
                b'\\' => self.is_escaped = true,
                _ => self.is_string = !self.is_string,
            }
            if bytes[at] != b'\\' {
                self.length = 0;
            }
            at += 1;
        }
        Ok(())
    }
}

impl<R: Read> Read for JsonGuard<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.examine(&out[..read])?;
        if let Some((scan, budget)) = &mut self.contexts
            && let Err(reason) = scan.pass(&out[..read], &mut budget.lock())
        {
            return Err(refuse(&self.watch, Problem::at_line(self.line, reason)));
        }
        Ok(read)
    }
}
