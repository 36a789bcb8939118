//! Reads lists of works, one at a time, however long the list is.
//!
//! The shape of a list is a [`ListFormat`]: plain lines, CSV with a header, JSON lines, or the
//! files of reference managers and databases. JSON lines include `OpenAlex` records and our own
//! manifests. The shape is guessed from the first line with content, unless the caller names it.
//! Notes may precede records. A bad line is reported with its number, and reading continues.

use std::fmt;
use std::io::{self, BufRead};
use std::path::PathBuf;

use crate::charset;
use crate::identifier::Identifier;
use crate::resolver::LookupOutcome;
use crate::work::Work;

mod databases;
mod endnote;
mod fields;
mod json;
mod latex;
mod raw;
mod records;
mod table;
mod tagged;
mod whole_file;

use fields::FieldRow;
use raw::{RawLine, RawLines};
use records::{Collector, Notation, TextRecord};
use serde_json::value::RawValue;
use table::{Quotes, Table};
use url::Url;

/// Maximum length of a line or CSV record, in bytes.
const LINE_LIMIT_BYTES: usize = 64 * 1024;

/// The most of a line that is recorded and shown, in characters.
const MAX_PREVIEW_CHARS: usize = 200;

/// The most of a line that a message shows, in characters.
const MAX_SHOWN_CHARS: usize = 60;

/// The longest problem that a message states; `unrecognised.csv` has the longer ones.
const MAX_SHOWN_PROBLEM_CHARS: usize = 80;

/// The beginning of the message about a list that cannot be read to its end.
const ENDS_LIST: &str = "the list cannot be read any further";

/// Maximum number of lines before the first record of a file of records.
const MAX_LINES_BEFORE_RECORD: usize = 200;

/// Maximum number of lines of one CSV record, and so the bound for a stray quote.
const MAX_JOINED_LINES: usize = 100;

/// The shape of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListFormat {
    /// Guesses the shape from the first line that is neither blank nor a comment.
    #[default]
    Auto,
    /// Lines with one identifier each.
    Lines,
    /// Comma, semicolon or tab separated, with a header.
    Csv,
    /// Lines with one JSON object each.
    Jsonl,
    /// A BibTeX file.
    Bibtex,
    /// A RIS file.
    Ris,
    /// A CSL-JSON file: one array of items.
    CslJson,
    /// An `EndNote` file whose lines begin with `%`.
    Enw,
    /// An `EndNote` file in XML.
    EndnoteXml,
    /// A `PubMed` file, also called MEDLINE.
    Nbib,
    /// A plain text file of Web of Science.
    Wos,
}

/// A [`Work`] with its position in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedWork {
    /// The number of the work's line, from 1.
    pub number: u64,
    /// The beginning of the line, without secrets.
    pub text: String,
    /// The work.
    pub work: Work,
    /// Messages about fields that could not be read beside a readable field, each with the reason.
    pub ignored: Vec<String>,
    /// The [`LookupOutcome`] of the `OpenAlex` query that named the work, so that the query need
    /// not be repeated.
    pub said: Option<Box<LookupOutcome>>,
    /// The [`RecordedFile`] of the work, if the list is a manifest.
    pub recorded_file: Option<Box<RecordedFile>>,
}

/// A file of a work, as a manifest records the file. Manifests are ours, or those of `DocsToKG`
/// (schema 5), whose names for these fields are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFile {
    /// The path of the file: absolute, below the directory of the manifest, or below the current
    /// directory.
    pub path: PathBuf,
    /// The SHA-256 of the file, in hex.
    pub sha256: String,
    /// The URL of the response that brought the file.
    pub url: Url,
    /// Media type, entity tag and date of that response, if the manifest records them.
    pub headers: [Option<String>; 3],
}

/// A line that names no work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The number of the line, from 1. The number is 0 if the input failed before its first line.
    pub number: u64,
    /// The beginning of the line.
    pub text_preview: String,
    /// The problem of the line.
    pub problem: String,
}

/// Reads [`NumberedWork`]s from a list, lazily.
///
/// ```
/// use docstokg_content::input::{InputReader, ListFormat};
///
/// let list = "doi\n10.1000/1\nnot an identifier\n";
/// let mut works = InputReader::new(list.as_bytes(), ListFormat::Auto);
/// let first = works.next().expect("two lines below the header")?;
/// assert_eq!((first.number, first.work.work_id().as_str()), (2, "doi:10.1000/1"));
/// assert!(works.next().is_some_and(|line| line.is_err_and(|bad| bad.number == 3)));
/// # Ok::<(), docstokg_content::input::BadLine>(())
/// ```
#[derive(Debug)]
pub struct InputReader<R> {
    lines: RawLines<R>,
    shape: ListShape,
    /// The line up to which an open quote is known to stay open. A record that is inside quotes at
    /// the end of an earlier line is also inside quotes at the end of this line.
    open_through: u64,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        if self.problem.chars().count() <= MAX_SHOWN_PROBLEM_CHARS || self.text_preview.is_empty() {
            return write!(f, "line {number}: {}", self.problem);
        }
        let mut letters = self.text_preview.chars();
        let shown: String = letters.by_ref().take(MAX_SHOWN_CHARS).collect();
        let more = if letters.next().is_some() { "…" } else { "" };
        write!(f, "line {number}: not recognised: {shown}{more}")
    }
}

impl BadLine {
    /// Tells whether the rest of the list behind this line cannot be read.
    #[must_use]
    pub fn ends_list(&self) -> bool {
        self.number == 0 || self.problem.starts_with(ENDS_LIST)
    }
}

#[derive(Debug)]
enum ListShape {
    Unknown,
    Lines,
    Jsonl,
    /// CSV whose header has not been read yet.
    Headless,
    Csv(Table),
    /// Records of several lines.
    Records(Collector),
    /// An array of items, read as a whole.
    Items(std::vec::IntoIter<Box<RawValue>>, u64),
    /// The records of an XML file, read as a whole.
    Rows(std::vec::IntoIter<FieldRow>, u64),
}

impl<R: BufRead> InputReader<R> {
    /// Creates a reader. Nothing is read before the first call of `next`.
    pub fn new(reader: R, format: ListFormat) -> Self {
        let shape = match format {
            ListFormat::Auto => ListShape::Unknown,
            ListFormat::Lines => ListShape::Lines,
            ListFormat::Csv => ListShape::Headless,
            ListFormat::Jsonl => ListShape::Jsonl,
            ListFormat::Bibtex => ListShape::Records(Collector::new(Notation::Bibtex)),
            ListFormat::Ris => ListShape::Records(Collector::new(Notation::Ris)),
            ListFormat::CslJson => ListShape::Items(Vec::new().into_iter(), 0),
            ListFormat::Enw => ListShape::Records(Collector::new(Notation::EndNote)),
            ListFormat::EndnoteXml => ListShape::Rows(Vec::new().into_iter(), 0),
            ListFormat::Nbib => ListShape::Records(Collector::new(Notation::Medline)),
            ListFormat::Wos => ListShape::Records(Collector::new(Notation::Science)),
        };
        Self {
            lines: RawLines::new(reader, LINE_LIMIT_BYTES),
            shape,
            open_through: 0,
        }
    }

    /// Decides on the shape if it is unknown. Tells whether the line was consumed as a header.
    fn recognise(&mut self, text: &str) -> HeaderRecognition {
        if !matches!(self.shape, ListShape::Unknown | ListShape::Headless) {
            return HeaderRecognition::Content;
        }
        let named = matches!(self.shape, ListShape::Headless);
        if let Some(notation) = Notation::of(text).filter(|_| !named) {
            self.shape = ListShape::Records(Collector::new(notation));
            return HeaderRecognition::Content;
        }
        if !named && text.trim_start().starts_with('{') {
            self.shape = ListShape::Jsonl;
            return HeaderRecognition::Content;
        }
        match Table::from_header(text) {
            Some(table) => {
                self.shape = ListShape::Csv(table);
                HeaderRecognition::Header
            }
            None if named => {
                self.shape = ListShape::Csv(Table::guess(text));
                HeaderRecognition::NoHeader
            }
            None => {
                self.shape = ListShape::Lines;
                HeaderRecognition::Content
            }
        }
    }

    fn read(&mut self, number: u64, bytes: Vec<u8>) -> Option<Result<NumberedWork, BadLine>> {
        let bytes = self.whole_record(number, bytes)?;
        let (text, is_utf8) = match bytes {
            Ok(bytes) => (
                charset::text(&bytes).into_owned(),
                std::str::from_utf8(&bytes).is_ok(),
            ),
            Err(bad) => return Some(Err(bad)),
        };
        if let ListShape::Records(collector) = &mut self.shape {
            let record = collector.take(number, &text)?;
            return self.record(record);
        }
        // Lines are comments by `#`; in an unknown shape the comment of BibTeX (`%`) counts, too.
        let is_unknown = matches!(self.shape, ListShape::Unknown) && Notation::of(&text).is_none();
        let is_comment = text.trim_start().starts_with('#')
            || (is_unknown && text.trim_start().starts_with('%'));
        if text.trim().is_empty() || is_comment {
            return None;
        }
        if let Some(notation) = is_unknown.then(|| self.notation_ahead(&text)).flatten() {
            self.shape = ListShape::Records(Collector::new(notation));
            return None;
        }
        let row = match self.recognise(&text) {
            HeaderRecognition::Header => return None,
            HeaderRecognition::NoHeader => {
                let problem = "no column of the header is known; known are doi, arxiv_id, pmid, pmcid, openalex_id, id, url";
                return Some(Err(bad(number, text.as_bytes(), problem)));
            }
            HeaderRecognition::Content if matches!(self.shape, ListShape::Records(_)) => {
                let ListShape::Records(collector) = &mut self.shape else {
                    return None;
                };
                let record = collector.take(number, &text)?;
                return self.record(record);
            }
            HeaderRecognition::Content => match &self.shape {
                ListShape::Csv(table) => Ok(table.row(&text)),
                ListShape::Jsonl => json::row(&text).transpose()?,
                // Titles may contain any bytes, but an identifier must be UTF-8.
                _ if !is_utf8 => Err("it is not UTF-8 text".to_owned()),
                _ => FieldRow::of_identifier(&text),
            },
        };
        let recorded_file = match &self.shape {
            ListShape::Jsonl => json::recorded_file(&text).map(Box::new),
            _ => None,
        };
        let line = line_of(number, row, text.as_bytes());
        Some(line.map(|line| NumberedWork {
            recorded_file,
            ..line
        }))
    }

    /// Recognises records that follow lines about the origin of the file, if this is such a line.
    fn notation_ahead(&mut self, text: &str) -> Option<Notation> {
        let says_something = Identifier::parse(text).is_ok()
            || text.trim_start().starts_with('{')
            || Table::from_header(text).is_some();
        if says_something {
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

    /// Reads a record of several lines.
    fn record(&self, record: TextRecord) -> Option<Result<NumberedWork, BadLine>> {
        let ListShape::Records(collector) = &self.shape else {
            return None;
        };
        let TextRecord { number, text } = record;
        let row = collector.read(&text).transpose()?;
        Some(line_of(number, row, text.as_bytes()))
    }

    /// Joins the lines of a CSV record whose quotes span line ends. A quote that is never closed
    /// costs only its own line.
    fn whole_record(&mut self, number: u64, first: Vec<u8>) -> Option<Result<Vec<u8>, BadLine>> {
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

enum HeaderRecognition {
    Header,
    NoHeader,
    Content,
}

impl<R: BufRead> Iterator for InputReader<R> {
    type Item = Result<NumberedWork, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(bad) = self.read_items() {
            return Some(Err(bad));
        }
        match self.shape {
            ListShape::Items(..) => return self.next_item(),
            ListShape::Rows(..) => return self.next_row(),
            _ => {}
        }
        loop {
            let Some(line) = self.lines.next() else {
                let ListShape::Records(collector) = &mut self.shape else {
                    return None;
                };
                let record = collector.end()?;
                return self.record(record);
            };
            match line {
                Ok(RawLine::Line { number, bytes }) => {
                    if let Some(item) = self.read(number, bytes) {
                        return Some(item);
                    }
                }
                Ok(RawLine::Overlong { number, beginning }) => {
                    return Some(Err(bad(number, &beginning, "it is longer than 64 KiB")));
                }
                Err((number, error)) => return Some(Err(unreadable(number, &error))),
            }
        }
    }
}

/// Converts a row into a line of the list, or returns the reason why the row names no work.
fn line_of(
    number: u64,
    row: Result<FieldRow, String>,
    text: &[u8],
) -> Result<NumberedWork, BadLine> {
    match row.and_then(FieldRow::into_work) {
        Ok((work, ignored)) => Ok(NumberedWork {
            number,
            text: preview(text),
            work,
            ignored,
            said: None,
            recorded_file: None,
        }),
        Err(problem) => Err(bad(number, text, &problem)),
    }
}

fn bad(number: u64, text: &[u8], problem: &str) -> BadLine {
    BadLine {
        number,
        text_preview: preview(text),
        problem: problem.to_owned(),
    }
}

/// Returns how a line begins, in one line and without secrets.
fn preview(text: &[u8]) -> String {
    let beginning = &text[..text.len().min(4 * MAX_PREVIEW_CHARS)];
    let shown: String = String::from_utf8_lossy(beginning)
        .chars()
        .take(MAX_PREVIEW_CHARS)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    docstokg_hub::redact_text(shown.trim())
}

fn unreadable(number: u64, error: &io::Error) -> BadLine {
    BadLine {
        number,
        text_preview: String::new(),
        problem: format!("{ENDS_LIST}: {error}"),
    }
}
