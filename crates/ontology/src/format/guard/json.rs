//! Guards JSON readers against very long strings and numbers, deep nesting and ambiguous values.

use std::io::{self, Read};

mod values;

use self::values::ValueScan;
use super::contexts::{ContextScan, SharedBudget};
use super::{SharedWatch, refuse};
use crate::format::FormatLimits;
use crate::format::report::FormatProblem;

/// Passes JSON on, with limits on the length of strings and numbers.
///
/// [`JsonGuard::with_depth`] adds a limit on nesting, and refuses values that readers interpret
/// differently.
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
    values: Option<ValueScan>,
    contexts: Option<(ContextScan, SharedBudget)>,
}

impl<R: Read> JsonGuard<R> {
    pub(crate) fn new(inner: R, limits: &FormatLimits, watch: SharedWatch) -> Self {
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
            values: None,
            contexts: None,
        }
    }

    /// Limits the nesting of objects and arrays. Also refuses numbers that do not fit a double, and
    /// incomplete surrogate pairs.
    pub(crate) fn with_depth(mut self, max_depth: usize) -> Self {
        self.max_depth = Some(max_depth);
        self.values = Some(ValueScan::default());
        self
    }

    /// Also checks the contexts of a JSON-LD file. Requires [`JsonGuard::with_depth`].
    pub(crate) fn with_contexts(mut self, scan: ContextScan, budget: SharedBudget) -> Self {
        self.contexts = Some((scan, budget));
        self
    }

    /// Checks brackets and numbers in bytes outside of strings.
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
                return Err(refuse(
                    &self.watch,
                    FormatProblem::at_line(self.line, message),
                ));
            }
        }
        self.judge_values(|values| values.pass_code(bytes))
    }

    /// Returns an error for a value that readers would interpret differently, if such values are
    /// checked.
    fn judge_values(
        &mut self,
        judge: impl FnOnce(&mut ValueScan) -> Result<(), String>,
    ) -> io::Result<()> {
        let judged = self.values.as_mut().map_or(Ok(()), judge);
        judged.map_err(|reason| refuse(&self.watch, FormatProblem::at_line(self.line, reason)))
    }

    fn examine(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_escaped {
                self.is_escaped = false;
                self.judge_values(|values| values.pass_escaped(bytes[at]))?;
                at += 1;
                continue;
            }
            let rest = &bytes[at..];
            let step = if self.is_string {
                memchr::memchr3(b'"', b'\\', b'\n', rest)
            } else {
                memchr::memchr2(b'"', b'\n', rest)
            };
            let passed = &rest[..step.unwrap_or(rest.len())];
            if self.is_string {
                self.judge_values(|values| values.pass_text(passed))?;
            } else {
                self.judge_code(passed)?;
            }
            self.length += step.unwrap_or(rest.len());
            if self.length > self.limit {
                let message = format!("a text or number is longer than {} bytes", self.limit);
                return Err(refuse(
                    &self.watch,
                    FormatProblem::at_line(self.line, message),
                ));
            }
            let Some(step) = step else { return Ok(()) };
            at += step;
            match bytes[at] {
                b'\n' => self.line += 1,
                b'\\' => self.is_escaped = true,
                _ => {
                    self.judge_values(ValueScan::end_text)?;
                    self.is_string = !self.is_string;
                }
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
            return Err(refuse(
                &self.watch,
                FormatProblem::at_line(self.line, reason),
            ));
        }
        Ok(read)
    }
}
