//! Reads OBO files: a scanner of stanzas that accepts real files and reports faults by line.
//!
//! The scanner streams, with one stanza in memory at a time. The checks are those that a reader
//! needs: stanzas with one id, clauses with tag and value, definitions with their quotes, booleans.
//! Tags that the specification does not define are accepted.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::guard::CountedReader;
use super::report::FormatProblem;
use super::statements::{FormatProblems, shorten};
use super::{FormatLimits, ReadOptions};

mod names;
mod statements;
mod summary;
mod value;

pub(crate) use names::OboNames;
pub(crate) use statements::read_obo_statements;
pub(crate) use summary::validate_obo;
use value::{identifier, quoted_text, unescape};

/// A `tag: value` line of an OBO file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clause {
    pub line: u64,
    pub tag: String,
    pub value: String,
}

/// An event of the scanner, in the order of the file.
#[derive(Debug)]
pub(crate) enum OboEvent<'a> {
    Header(&'a [Clause]),
    Stanza {
        kind: &'a str,
        id: &'a str,
        clauses: &'a [Clause],
    },
}

/// Reads an OBO file and returns its length in bytes.
///
/// # Errors
/// The I/O error of `reader`.
pub(crate) fn read_obo(
    reader: impl Read,
    options: &ReadOptions,
    problems: &mut FormatProblems,
    on_event: &mut dyn FnMut(OboEvent<'_>, &mut FormatProblems),
) -> io::Result<u64> {
    let count = Arc::new(AtomicU64::new(0));
    let counted = CountedReader::new(reader, Arc::clone(&count), options.limits.max_bytes);
    let too_large = Arc::clone(&counted.exceeded);
    let reader = BufReader::with_capacity(256 << 10, counted);
    let mut scanner = Scanner::new(&options.limits, problems, on_event);
    match scanner.scan(reader) {
        Err(error) if too_large.load(Ordering::Relaxed) => {
            problems.error(FormatProblem::of_file(error.to_string()));
        }
        other => other?,
    }
    Ok(count.load(Ordering::Relaxed))
}

struct Scanner<'a> {
    limits: &'a FormatLimits,
    problems: &'a mut FormatProblems,
    on_event: &'a mut dyn FnMut(OboEvent<'_>, &mut FormatProblems),
    line: u64,
    /// Kind and line of the current stanza; `None` within the header.
    stanza: Option<(String, u64)>,
    clauses: Vec<Clause>,
    clause_bytes: usize,
    is_too_long: bool,
    has_stanzas: bool,
    has_header: bool,
}

enum OboLine {
    Read,
    TooLong,
    End,
}

impl<'a> Scanner<'a> {
    fn new(
        limits: &'a FormatLimits,
        problems: &'a mut FormatProblems,
        on_event: &'a mut dyn FnMut(OboEvent<'_>, &mut FormatProblems),
    ) -> Self {
        Self {
            limits,
            problems,
            on_event,
            line: 0,
            stanza: None,
            clauses: Vec::new(),
            clause_bytes: 0,
            is_too_long: false,
            has_stanzas: false,
            has_header: false,
        }
    }

    fn scan(&mut self, mut reader: impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        let mut ends_with_newline = true;
        loop {
            match self.read_line(&mut reader, &mut line)? {
                OboLine::End => break,
                OboLine::TooLong => {
                    let message = format!(
                        "the line is longer than {} bytes",
                        self.limits.max_token_bytes
                    );
                    self.problems
                        .error(FormatProblem::at_line(self.line, message));
                    return Ok(());
                }
                OboLine::Read => (),
            }
            ends_with_newline = line.ends_with(b"\n");
            self.examine(&line);
            if self.problems.is_full() {
                return Ok(());
            }
        }
        self.end_stanza();
        if !ends_with_newline {
            let message = "the last line has no end; the file may be cut short";
            self.problems
                .warning(FormatProblem::at_line(self.line, message));
        }
        if !self.has_header && !self.has_stanzas {
            self.problems.error(FormatProblem::of_file(
                "the file has neither a header nor stanzas",
            ));
        } else if !self.has_stanzas {
            self.problems
                .warning(FormatProblem::of_file("the file has no stanzas"));
        }
        Ok(())
    }

    /// Reads one line, together with the lines that a backslash at its end joins to it.
    fn read_line(&mut self, reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<OboLine> {
        line.clear();
        let limit = self.limits.max_token_bytes as u64;
        loop {
            let room = (limit + 1).saturating_sub(line.len() as u64);
            let read = reader.by_ref().take(room).read_until(b'\n', line)?;
            if read == 0 {
                return Ok(if line.is_empty() {
                    OboLine::End
                } else {
                    OboLine::Read
                });
            }
            self.line += 1;
            if line.len() as u64 > limit {
                return Ok(OboLine::TooLong);
            }
            let text = line.trim_ascii_end();
            let backslashes = text.iter().rev().take_while(|&&byte| byte == b'\\').count();
            if backslashes % 2 == 0 || !line.ends_with(b"\n") {
                return Ok(OboLine::Read);
            }
            let length = text.len() - 1;
            line.truncate(length);
            line.push(b' ');
        }
    }

    fn examine(&mut self, line: &[u8]) {
        let Ok(text) = std::str::from_utf8(line) else {
            self.problems.error(FormatProblem::at_line(
                self.line,
                "the line is not valid UTF-8",
            ));
            return;
        };
        let text = text.trim();
        if text.is_empty() || text.starts_with('!') {
            return;
        }
        if let Some(rest) = text.strip_prefix('[') {
            let kind = rest.split_once(']').map(|(kind, _)| kind.trim());
            match kind {
                Some(kind) if !kind.is_empty() => self.start_stanza(kind),
                _ => {
                    let message = "a stanza name has no closing bracket";
                    self.problems
                        .error(FormatProblem::at_line(self.line, message));
                }
            }
            return;
        }
        match text.split_once(':') {
            Some((tag, value)) if is_tag(tag) => self.add_clause(tag, value.trim()),
            _ => {
                let message = format!("the line is no `tag: value`: {}", shorten(&start_of(text)));
                self.problems
                    .error(FormatProblem::at_line(self.line, message));
            }
        }
    }

    fn add_clause(&mut self, tag: &str, value: &str) {
        self.clause_bytes += tag.len() + value.len() + size_of::<Clause>();
        if self.clause_bytes > self.limits.max_token_bytes * 2 {
            if !std::mem::replace(&mut self.is_too_long, true) {
                let message = "the stanza or header is too long";
                self.problems
                    .error(FormatProblem::at_line(self.line, message));
            }
            return;
        }
        if let Some(fault) = value::fault(tag, value) {
            self.problems
                .error(FormatProblem::at_line(self.line, format!("{tag}: {fault}")));
        }
        let (tag, value) = (tag.to_owned(), value.to_owned());
        self.clauses.push(Clause {
            line: self.line,
            tag,
            value,
        });
    }

    fn start_stanza(&mut self, kind: &str) {
        self.end_stanza();
        self.has_stanzas = true;
        self.stanza = Some((kind.to_owned(), self.line));
    }

    /// Emits the header or the stanza that ends here.
    fn end_stanza(&mut self) {
        let clauses = std::mem::take(&mut self.clauses);
        self.clause_bytes = 0;
        self.is_too_long = false;
        match self.stanza.take() {
            None => {
                self.has_header |= !clauses.is_empty();
                (self.on_event)(OboEvent::Header(&clauses), self.problems);
            }
            Some((kind, line)) => {
                let mut ids = clauses.iter().filter(|clause| clause.tag == "id");
                let id = ids.next().map(|clause| identifier(&clause.value));
                if let Some(second) = ids.next() {
                    let message = format!("the [{kind}] of line {line} has a second id");
                    self.problems
                        .error(FormatProblem::at_line(second.line, message));
                }
                match id {
                    Some(id) if !id.is_empty() => {
                        let event = OboEvent::Stanza {
                            kind: &kind,
                            id,
                            clauses: &clauses,
                        };
                        (self.on_event)(event, self.problems);
                    }
                    _ => {
                        let message = format!("the [{kind}] has no id");
                        self.problems.error(FormatProblem::at_line(line, message));
                    }
                }
            }
        }
    }
}

fn is_tag(tag: &str) -> bool {
    !tag.is_empty() && tag.bytes().all(|b| b.is_ascii_graphic() && b != b'"')
}

fn start_of(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
#[path = "obo/tests.rs"]
mod tests;
