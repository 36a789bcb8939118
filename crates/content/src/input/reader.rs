//! The reader of lists, whatever their format.

use std::collections::VecDeque;
use std::io::BufRead;

use super::fields::FieldRow;
use super::json_items::ItemSplitter;
use super::raw::{RawLine, RawLines};
use super::recognition::FirstLine;
use super::records::{Collector, Notation, TextRecord};
use super::table::Table;
use super::{
    BadLine, LINE_LIMIT_BYTES, ListFormat, NumberedWork, bad, json, line_of, prose, unreadable,
};
use crate::charset;
use crate::identifier::Identifier;

/// Maximum number of messages about sentences with identifiers in them.
const MAX_PROSE_NOTICES: u64 = 3;

/// The message about a list in another encoding.
const OTHER_ENCODING: &str = "the list is not UTF-8 text, and is read as Windows-1252 (Latin-1)";

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
    pub(super) lines: RawLines<R>,
    pub(super) shape: ListShape,
    /// The line up to which an open quote is known to stay open. A record that is inside quotes at
    /// the end of an earlier line is also inside quotes at the end of this line.
    pub(super) open_through: u64,
    /// The works and bad lines that were read and not yet returned.
    read: VecDeque<Result<NumberedWork, BadLine>>,
    encoding: EncodingNotice,
    /// The number of sentences whose identifiers were reported.
    reported_sentences: u64,
}

/// The state of the message [`OTHER_ENCODING`], which is given with the first work behind the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EncodingNotice {
    NotNeeded,
    Due,
    Given,
}

#[derive(Debug)]
pub(super) enum ListShape {
    Unknown,
    Lines,
    /// Lines with one title each.
    Titles,
    Jsonl,
    /// CSV whose header has not been read yet.
    Headless,
    Csv(Table),
    /// Records of several lines.
    Records(Collector),
    /// JSON values, split without regard to lines, and the number of those read.
    Items(ItemSplitter, u64),
    /// The records of an XML file, read as a whole.
    Rows(std::vec::IntoIter<FieldRow>, u64),
}

impl<R: BufRead> InputReader<R> {
    /// Creates a reader. Nothing is read before the first call of `next`.
    pub fn new(reader: R, format: ListFormat) -> Self {
        let records = |notation| ListShape::Records(Collector::new(notation));
        let shape = match format {
            ListFormat::Auto => ListShape::Unknown,
            ListFormat::Lines => ListShape::Lines,
            ListFormat::Titles => ListShape::Titles,
            ListFormat::Csv => ListShape::Headless,
            ListFormat::Jsonl => ListShape::Jsonl,
            ListFormat::Bibtex => records(Notation::Bibtex),
            ListFormat::Ris => records(Notation::Ris),
            ListFormat::CslJson => ListShape::Items(ItemSplitter::default(), 0),
            ListFormat::Enw => records(Notation::EndNote),
            ListFormat::EndnoteXml => ListShape::Rows(Vec::new().into_iter(), 0),
            ListFormat::Nbib => records(Notation::Medline),
            ListFormat::Wos => records(Notation::Science),
        };
        Self {
            lines: RawLines::new(reader, LINE_LIMIT_BYTES),
            shape,
            open_through: 0,
            read: VecDeque::new(),
            encoding: EncodingNotice::NotNeeded,
            reported_sentences: 0,
        }
    }

    /// Reads the next line, item or record. Returns `false` at the end.
    fn read_next(&mut self) -> bool {
        self.recognise_whole_file();
        match self.shape {
            ListShape::Items(..) => return self.read_item(),
            ListShape::Rows(..) => return self.read_row(),
            _ => {}
        }
        match self.lines.next() {
            Some(Ok(RawLine::Line { number, bytes })) => self.read_line(number, bytes),
            Some(Ok(RawLine::Overlong { number, beginning })) => {
                self.add(Err(bad(number, &beginning, "it is longer than 64 KiB")));
            }
            Some(Err((number, error))) => self.add(Err(unreadable(number, &error))),
            None => {
                let ListShape::Records(collector) = &mut self.shape else {
                    return false;
                };
                let Some(record) = collector.end() else {
                    return false;
                };
                self.read_record(&record);
            }
        }
        true
    }

    fn read_line(&mut self, number: u64, bytes: Vec<u8>) {
        let bytes = match self.whole_record(number, bytes) {
            None => return,
            Some(Err(bad)) => return self.add(Err(bad)),
            Some(Ok(bytes)) => bytes,
        };
        let is_utf8 = std::str::from_utf8(&bytes).is_ok();
        if !is_utf8 && self.encoding == EncodingNotice::NotNeeded {
            self.encoding = EncodingNotice::Due;
        }
        let text = charset::text(&bytes).into_owned();
        let is_unknown = matches!(self.shape, ListShape::Unknown) && Notation::of(&text).is_none();
        // Lines are comments by `#`; in an unknown shape the comment of BibTeX (`%`) counts, too.
        let is_comment = text.trim_start().starts_with('#')
            || (is_unknown && text.trim_start().starts_with('%'));
        if !matches!(self.shape, ListShape::Records(_)) {
            if text.trim().is_empty() || is_comment {
                return;
            }
            if let Some(notation) = is_unknown.then(|| self.notation_ahead(&text)).flatten() {
                self.shape = ListShape::Records(Collector::new(notation));
                return;
            }
        }
        match self.recognise(&text) {
            FirstLine::Consumed => {}
            FirstLine::UnknownHeader => {
                let problem = "no column of the header is known; known are doi, arxiv_id, pmid, pmcid, openalex_id, id, url";
                self.add(Err(bad(number, text.as_bytes(), problem)));
            }
            FirstLine::Content => self.read_content(number, &text, is_utf8),
        }
    }

    fn read_content(&mut self, number: u64, text: &str, is_utf8: bool) {
        match &mut self.shape {
            ListShape::Records(collector) => {
                if let Some(record) = collector.take(number, text) {
                    self.read_record(&record);
                }
            }
            ListShape::Csv(table) => {
                let row = Ok(table.row(text));
                self.add(line_of(number, row, text.as_bytes()));
            }
            ListShape::Jsonl => {
                let Some(row) = json::row(text).transpose() else {
                    return;
                };
                let recorded_file = json::recorded_file(text).map(Box::new);
                let line = line_of(number, row, text.as_bytes());
                self.add(line.map(|line| NumberedWork {
                    recorded_file,
                    ..line
                }));
            }
            ListShape::Titles => {
                let row = Ok(FieldRow::of_title(text));
                self.add(line_of(number, row, text.as_bytes()));
            }
            _ => self.read_plain(number, text, is_utf8),
        }
    }

    /// Reads a line that is an identifier, or a sentence with identifiers in it.
    fn read_plain(&mut self, number: u64, text: &str, is_utf8: bool) {
        let parsed = Identifier::parse(text);
        let is_sentence = parsed.is_err() || text.trim().contains([' ', '\t', ',', ';']);
        let mut found = if is_sentence {
            prose::works(text)
        } else {
            Vec::new()
        };
        if !is_utf8 {
            let is_ascii = |id: Identifier| id.to_string().is_ascii();
            found.retain(|work| work.strongest().is_some_and(is_ascii));
        }
        let takes_sentence = match parsed {
            Err(_) => !found.is_empty(),
            Ok(_) if !is_utf8 => !found.is_empty(),
            Ok(Identifier::Url(_)) => !found.is_empty() && text.trim().contains([' ', '\t']),
            // Labels, versions and commas are parts of one identifier.
            Ok(_) => found.len() > 1,
        };
        if !takes_sentence {
            let row = if is_utf8 {
                FieldRow::of_identifier(text)
            } else {
                // Titles may contain any bytes, but an identifier must be UTF-8.
                if self.encoding == EncodingNotice::Due {
                    self.encoding = EncodingNotice::NotNeeded;
                }
                Err("it is not UTF-8 text".to_owned())
            };
            return self.add(line_of(number, row, text.as_bytes()));
        }
        self.reported_sentences += 1;
        let is_reported = self.reported_sentences <= MAX_PROSE_NOTICES;
        for identifiers in found {
            let row = Ok(FieldRow::of_identifiers(identifiers));
            let line = line_of(number, row, text.as_bytes());
            self.add(line.map(|mut line| {
                let name = line.work.shown_id();
                let notice = is_reported.then(|| format!("recognised in the text: {name}"));
                line.ignored.extend(notice);
                line
            }));
        }
    }

    /// Reads a record of several lines.
    fn read_record(&mut self, record: &TextRecord) {
        let ListShape::Records(collector) = &self.shape else {
            return;
        };
        if let Some(row) = collector.read(&record.text).transpose() {
            self.add(line_of(record.number, row, record.text.as_bytes()));
        }
    }

    /// Adds a work or a bad line to those to return.
    pub(super) fn add(&mut self, mut line: Result<NumberedWork, BadLine>) {
        if let Ok(work) = &mut line
            && self.encoding == EncodingNotice::Due
        {
            work.ignored.push(OTHER_ENCODING.to_owned());
            self.encoding = EncodingNotice::Given;
        }
        self.read.push_back(line);
    }
}

impl<R: BufRead> Iterator for InputReader<R> {
    type Item = Result<NumberedWork, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(line) = self.read.pop_front() {
                return Some(line);
            }
            if !self.read_next() {
                return None;
            }
        }
    }
}
