//! Guards JSON readers against strings that do not end.

use std::io::{self, Read};

use super::{SharedWatch, refuse};
use crate::format::Limits;
use crate::format::report::Problem;

/// Passes JSON on; strings, and numbers, are limited in length.
pub(crate) struct JsonGuard<R> {
    inner: R,
    limit: usize,
    watch: SharedWatch,
    is_string: bool,
    is_escaped: bool,
    length: usize,
    line: u64,
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
        }
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
        Ok(read)
    }
}
