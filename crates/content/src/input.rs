//! Reads lists of works, one at a time, however long the list is.
//!
//! The shape of a list is a [`ListFormat`]: plain lines, sentences with identifiers in them, CSV
//! with or without a header, JSON, or the files of reference managers and databases. JSON includes
//! `OpenAlex` records and our own manifests. The shape is guessed from the first lines with content,
//! unless the caller names it. Notes may precede records. A bad line is reported with its number,
//! and reading continues.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::resolver::LookupOutcome;
use crate::work::Work;

mod csv_record;
mod databases;
mod endnote;
mod fields;
mod json;
mod json_items;
mod latex;
mod prose;
mod raw;
mod reader;
mod recognition;
mod records;
mod table;
mod tagged;
mod text_source;
mod whole_file;

use fields::FieldRow;
pub use reader::InputReader;
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

/// The shape of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListFormat {
    /// Guesses the shape from the first line that is neither blank nor a comment.
    #[default]
    Auto,
    /// Lines with one identifier each, or sentences with identifiers in them.
    Lines,
    /// Lines with one title each, or an identifier.
    Titles,
    /// Comma, semicolon or tab separated, usually with a header.
    Csv,
    /// Lines with one JSON object each.
    Jsonl,
    /// A BibTeX file.
    Bibtex,
    /// A RIS file.
    Ris,
    /// A JSON array of CSL items, identifiers or objects, or JSON objects of several lines.
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
    /// Messages about the line: fields that could not be read beside a readable field, each with
    /// the reason, and unusual ways of reading it.
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

impl std::error::Error for BadLine {}

impl BadLine {
    /// Tells whether the rest of the list behind this line cannot be read.
    #[must_use]
    pub fn ends_list(&self) -> bool {
        self.number == 0 || self.problem.starts_with(ENDS_LIST)
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

/// Describes a line that names no work.
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
