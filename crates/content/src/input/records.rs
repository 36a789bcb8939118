//! Records of several lines, as reference managers and databases write them.

use super::fields::{ColumnMeaning, FieldRow};
use super::{latex, tagged};

/// The notation of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    Bibtex,
    Ris,
    /// `EndNote`'s lines with `%`.
    EndNote,
    /// `PubMed`'s `.nbib`.
    Medline,
    /// Web of Science's plain text.
    Science,
}

impl Notation {
    /// Recognises the notation by the first line of a file or record.
    pub(super) fn of(line: &str) -> Option<Self> {
        let line = line.trim_start();
        let entry = line
            .strip_prefix('@')
            .and_then(|rest| rest.split_once(['{', '(']));
        if entry.is_some_and(|(kind, _)| {
            !kind.is_empty() && kind.trim().chars().all(|c| c.is_ascii_alphabetic())
        }) {
            return Some(Self::Bibtex);
        }
        if tagged::begins_science(line) {
            return Some(Self::Science);
        }
        [Self::Ris, Self::EndNote, Self::Medline]
            .into_iter()
            .find(|notation| notation.begins(line))
    }

    /// Tells whether a line begins a record.
    fn begins(self, line: &str) -> bool {
        let is = |tag: Option<(&str, &str)>, name: &str| tag.is_some_and(|(tag, _)| tag == name);
        match self {
            Self::Bibtex => line.trim_start().starts_with('@'),
            Self::Ris => is(tag(line), "TY"),
            Self::EndNote => is(tagged::endnote_tag(line), "0"),
            Self::Medline => is(tagged::medline_tag(line), "PMID"),
            Self::Science => is(tagged::science_tag(line), "PT"),
        }
    }

    /// Tells whether a record without an end mark ends at the beginning of the next.
    const fn ends_at_next(self) -> bool {
        !matches!(self, Self::Bibtex)
    }
}

/// Gathers the lines of one record.
#[derive(Debug)]
pub(super) struct Collector {
    notation: Notation,
    text: String,
    begun_at: u64,
    depth: i64,
    /// An opening brace or parenthesis of the record was read.
    is_opened: bool,
}

/// A record, and the number of its first line.
pub(super) struct TextRecord {
    pub(super) number: u64,
    pub(super) text: String,
}

/// The longest record, in bytes, and so the bound for a brace that is never closed.
const MAX_RECORD_BYTES: usize = 256 * 1024;

impl Collector {
    pub(super) fn new(notation: Notation) -> Self {
        Self {
            notation,
            text: String::new(),
            begun_at: 0,
            depth: 0,
            is_opened: false,
        }
    }

    /// Adds a line to the record. Returns the [`TextRecord`] if the line ends it.
    pub(super) fn take(&mut self, number: u64, line: &str) -> Option<TextRecord> {
        let begins = self.notation.begins(line);
        let before = if begins && self.notation.ends_at_next() {
            self.end()
        } else {
            None
        };
        if self.text.is_empty() {
            if !begins {
                // Text between records is ignored.
                return None;
            }
            (self.begun_at, self.depth, self.is_opened) = (number, 0, false);
        }
        self.text.push_str(line);
        self.text.push('\n');
        let is_ended = match self.notation {
            Notation::Bibtex => {
                self.depth += braces(line);
                self.is_opened |= line.contains(['{', '(']);
                self.depth <= 0 && self.is_opened
            }
            Notation::Ris => tag(line).is_some_and(|(name, _)| name == "ER"),
            Notation::Science => line.trim_end() == "ER",
            Notation::EndNote | Notation::Medline => false,
        };
        before.or_else(|| {
            (is_ended || self.text.len() > MAX_RECORD_BYTES)
                .then(|| self.end())
                .flatten()
        })
    }

    /// Returns the unfinished record at the end of the file.
    pub(super) fn end(&mut self) -> Option<TextRecord> {
        let text = std::mem::take(&mut self.text);
        (!text.is_empty()).then_some(TextRecord {
            number: self.begun_at,
            text,
        })
    }

    /// Reads a record. Returns `None` for a record without a work, such as a comment or a macro.
    pub(super) fn read(&self, text: &str) -> Result<Option<FieldRow>, String> {
        match self.notation {
            Notation::Bibtex => bibtex(text),
            Notation::Ris => Ok(Some(ris(text))),
            Notation::EndNote => Ok(Some(tagged::read_endnote(text))),
            Notation::Medline => Ok(Some(tagged::read_medline(text))),
            Notation::Science => Ok(Some(tagged::read_science(text))),
        }
    }
}

/// Returns the number of opening braces of a line minus that of closing braces.
fn braces(line: &str) -> i64 {
    let mut depth = 0;
    let mut escaped = false;
    for c in line.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    depth
}

/// Splits a line of RIS into its tag and value: `DO  - 10.1/a`.
fn tag(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = (line.get(..2)?, line.get(2..)?);
    let value = rest.trim_start_matches(' ').strip_prefix('-')?;
    (name
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && rest.starts_with(' '))
    .then(|| (name, value.trim()))
}

fn ris(text: &str) -> FieldRow {
    let mut row = FieldRow::default();
    for (name, value) in text.lines().filter_map(tag) {
        match name {
            "DO" => row.take(ColumnMeaning::Doi, value),
            "TI" | "T1" => row.take(ColumnMeaning::Title, value),
            "PY" | "Y1" => row.take(ColumnMeaning::Year, value),
            "AU" | "A1" => row.take(ColumnMeaning::Author, value),
            "C2" if value.to_ascii_uppercase().starts_with("PMC") => {
                row.take(ColumnMeaning::Pmcid, value);
            }
            // Some programs write the DOI into `M3`, others the kind of work.
            "M3" if value.starts_with("10.") => row.take_quietly(ColumnMeaning::Url, value),
            "UR" | "L1" | "L2" => row.take_quietly(ColumnMeaning::Url, value),
            _ => {}
        }
    }
    row
}

fn bibtex(text: &str) -> Result<Option<FieldRow>, String> {
    let (kind, body) = text
        .trim_start()
        .trim_start_matches('@')
        .split_once(['{', '('])
        .ok_or("it is not a BibTeX entry")?;
    if ["comment", "string", "preamble"]
        .iter()
        .any(|skipped| kind.trim().eq_ignore_ascii_case(skipped))
    {
        return Ok(None);
    }
    let body = body.split_once(',').map_or("", |(_, fields)| fields);
    let mut row = FieldRow::default();
    let (mut eprint, mut is_arxiv) = (None, false);
    for (name, value) in fields(body) {
        match name.as_str() {
            "doi" => row.take(ColumnMeaning::Doi, &latex::name(&value)),
            "pmid" => row.take(ColumnMeaning::Pmid, &value),
            "pmcid" | "pmc" => row.take(ColumnMeaning::Pmcid, &value),
            "title" => row.take(ColumnMeaning::Title, &latex::title(&value)),
            "year" | "date" => row.take(ColumnMeaning::Year, &value),
            "author" => row.take(ColumnMeaning::Author, &latex::title(&value)),
            "url" | "howpublished" => row.take_quietly(ColumnMeaning::Url, &latex::name(&value)),
            "eprint" => eprint = Some(latex::name(&value)),
            "archiveprefix" | "eprinttype" => is_arxiv = value.eq_ignore_ascii_case("arxiv"),
            _ => {}
        }
    }
    if let Some(eprint) =
        eprint.filter(|eprint| is_arxiv || eprint.to_ascii_lowercase().starts_with("arxiv:"))
    {
        row.take(ColumnMeaning::Arxiv, &eprint);
    }
    Ok(Some(row))
}

/// Reads the fields of an entry: `name = {value}`, `name = "value"` or `name = number`.
fn fields(body: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = body;
    while let Some((name, after)) = rest.split_once('=') {
        let name = name
            .trim()
            .trim_matches([',', '}', ')'])
            .trim()
            .to_ascii_lowercase();
        let after = after.trim_start();
        let (value, behind) = value(after);
        found.push((name, value.split_whitespace().collect::<Vec<_>>().join(" ")));
        rest = behind;
    }
    found
}

/// Splits off a value: the text in braces or quotes, or else the text before the next comma.
fn value(text: &str) -> (&str, &str) {
    let quoted = text.starts_with('"');
    if !quoted && !text.starts_with('{') {
        let end = text.find([',', '\n']).unwrap_or(text.len());
        return (text[..end].trim().trim_end_matches('}'), &text[end..]);
    }
    let (mut depth, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => depth += 1,
            '}' => depth -= 1,
            '"' if quoted && depth == 0 && at > 0 => return (&text[1..at], &text[at + 1..]),
            _ => {}
        }
        if !quoted && depth == 0 {
            return (&text[1..at], &text[at + 1..]);
        }
    }
    (text.trim_start_matches(['{', '"']), "")
}
