//! The positions of the objects of a PDF, from its cross-reference tables.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::inflate::{self, InflateResult};
use super::source::PdfSource;
use super::syntax::{Dictionary, PdfValue, ValueReader};

/// The numbers of bytes of a table that are read, in successive tries: most tables are small.
const TABLE_BYTES: [u64; 4] = [64 << 10, 512 << 10, 4 << 20, 32 << 20];
/// Maximum number of bytes that are read for all tables of a file.
const MAX_TABLES_BYTES: u64 = 128 << 20;
/// Maximum size of all cross-reference streams of a file after decompression.
const MAX_STREAMS_BYTES: usize = 64 << 20;
/// Maximum number of objects, of a table and in total.
pub(super) const MAX_OBJECTS: usize = 1_000_000;
/// Maximum number of tables that refer to each other.
const MAX_TABLES: usize = 1_000;

/// The remaining allowance for the tables of a file.
pub(super) struct ReadBudget {
    read_left: u64,
    expanded_left: usize,
    /// The number of rows in cross-reference streams. A reader that keeps each row needs memory for
    /// all.
    pub(super) rows: usize,
}

impl ReadBudget {
    pub(super) const fn new() -> Self {
        Self {
            read_left: MAX_TABLES_BYTES,
            expanded_left: MAX_STREAMS_BYTES,
            rows: 0,
        }
    }
}

/// The position of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectPosition {
    /// The object begins at this byte of the file.
    At(u64),
    /// The object is in the object stream with this number.
    In(u32),
}

/// The positions of the objects of a PDF.
#[derive(Debug, Default)]
pub(super) struct CrossReference {
    pub(super) places: BTreeMap<u32, ObjectPosition>,
    /// The number of the catalogue object.
    pub(super) root: Option<u32>,
    pub(super) is_encrypted: bool,
    /// A part was not read, because it is larger than any paper's or compressed in an unknown way.
    pub(super) is_partial: bool,
}

impl CrossReference {
    /// Reads the table at a position and the tables that it refers to, newest first. Returns `None`
    /// if a table is missing. Tables that would cost too much are skipped.
    pub(super) fn read(
        source: &mut PdfSource,
        start: u64,
        shift: u64,
        budget: &mut ReadBudget,
    ) -> io::Result<Option<Self>> {
        let mut table = Self::default();
        let mut next = vec![start];
        let mut seen = BTreeSet::new();
        while let Some(at) = next.pop() {
            if seen.contains(&at) {
                continue;
            }
            if seen.len() >= MAX_TABLES || budget.read_left == 0 {
                table.is_partial = true;
                break;
            }
            seen.insert(at);
            let at = at.saturating_add(shift);
            let Some(trailer) = table.read_one(source, at, budget)? else {
                return Ok(None);
            };
            table.root = table.root.or_else(|| trailer.reference(b"Root"));
            table.is_encrypted |= trailer.get(b"Encrypt").is_some();
            // The stream beside a table precedes the earlier table.
            next.extend(trailer.number(b"Prev").filter(|at| *at > 0));
            next.extend(trailer.number(b"XRefStm"));
        }
        Ok(Some(table))
    }

    fn read_one(
        &mut self,
        source: &mut PdfSource,
        at: u64,
        budget: &mut ReadBudget,
    ) -> io::Result<Option<Dictionary>> {
        if at >= source.length {
            return Ok(None);
        }
        for most in TABLE_BYTES {
            let bytes = source.window(at, most)?;
            budget.read_left = budget.read_left.saturating_sub(bytes.len() as u64);
            let mut reader = ValueReader::new(&bytes);
            let read = if reader.takes(b"xref") {
                self.read_table(&mut reader)
            } else {
                self.read_stream(&bytes, budget)
            };
            if read.is_some() || (bytes.len() as u64) < most {
                return Ok(read);
            }
        }
        Ok(None)
    }

    fn read_table(&mut self, reader: &mut ValueReader<'_>) -> Option<Dictionary> {
        let mut found = Vec::new();
        let mut is_partial = false;
        while !reader.takes(b"trailer") {
            let first = u32::try_from(reader.number()?).ok()?;
            let count = u32::try_from(reader.number()?).ok()?;
            for number in first..first.checked_add(count)? {
                // Some tables declare more rows than they have.
                let begin = reader.at;
                if reader.takes(b"trailer") {
                    reader.at = begin;
                    break;
                }
                let at = reader.number()?;
                reader.number()?;
                // A number that is free here may be an object's in another table: writers differ.
                match reader.word() {
                    b"n" if found.len() < MAX_OBJECTS => {
                        found.push((number, ObjectPosition::At(at)));
                    }
                    b"n" => is_partial = true,
                    b"f" => {}
                    _ => return None,
                }
            }
        }
        let trailer = reader.value(0)?;
        self.is_partial |= is_partial;
        self.add(found);
        trailer.as_dictionary().cloned()
    }

    fn read_stream(&mut self, bytes: &[u8], budget: &mut ReadBudget) -> Option<Dictionary> {
        let object = ValueReader::new(bytes).object()?;
        let dictionary = object.value.as_dictionary()?.clone();
        let data = bytes.get(object.data_at?..)?;
        let length = usize::try_from(dictionary.number(b"Length").unwrap_or(u64::MAX));
        let data = &data[..length.unwrap_or(usize::MAX).min(data.len())];
        // The type entry may be missing.
        dictionary.get(b"W")?;
        let content = match dictionary.first_filter() {
            None => data.to_vec(),
            Some(b"FlateDecode" | b"Fl") => {
                match inflate::all_of(data, &mut budget.expanded_left) {
                    InflateResult::Whole(content) => content,
                    InflateResult::TooLarge => {
                        self.is_partial = true;
                        return Some(dictionary);
                    }
                    InflateResult::Broken => return None,
                }
            }
            Some(_) => {
                self.is_partial = true;
                return Some(dictionary);
            }
        };
        let content = inflate::without_predictor(content, &dictionary);
        let found = entries(&content, &dictionary)?;
        let widths = dictionary.get(b"W").and_then(PdfValue::as_array)?.iter();
        let width: i64 = widths.filter_map(PdfValue::as_integer).sum();
        budget.rows += content.len() / usize::try_from(width).ok()?.max(1);
        self.is_partial |= found.len() >= MAX_OBJECTS;
        self.add(found);
        Some(dictionary)
    }

    /// Adds positions. Positions from newer tables are kept.
    fn add(&mut self, found: Vec<(u32, ObjectPosition)>) {
        for (number, place) in found {
            if self.places.len() >= MAX_OBJECTS {
                self.is_partial = true;
                return;
            }
            self.places.entry(number).or_insert(place);
        }
    }
}

/// Reads the entries of a cross-reference stream, up to [`MAX_OBJECTS`].
pub(super) fn entries(
    content: &[u8],
    dictionary: &Dictionary,
) -> Option<Vec<(u32, ObjectPosition)>> {
    let numbers = |values: &[PdfValue]| -> Option<Vec<u64>> {
        let number = |value: &PdfValue| u64::try_from(value.as_integer()?).ok();
        values.iter().map(number).collect()
    };
    let widths = numbers(dictionary.get(b"W")?.as_array()?)?;
    let &[kind, second, third] = widths.get(..3)? else {
        return None;
    };
    if widths.iter().any(|width| *width > 8) {
        return None;
    }
    let width = kind + second + third;
    if width == 0 {
        return None;
    }
    let sections = match dictionary.get(b"Index").and_then(PdfValue::as_array) {
        Some(sections) => numbers(sections)?,
        None => vec![0, dictionary.number(b"Size")?],
    };
    let mut rows = content.chunks_exact(usize::try_from(width).ok()?);
    let mut found = Vec::new();
    let field = |row: &[u8], from: u64, width: u64| {
        let (from, width) = (usize::try_from(from).ok()?, usize::try_from(width).ok()?);
        let bytes = row.get(from..from + width)?.iter();
        Some(bytes.fold(0_u64, |number, byte| (number << 8) | u64::from(*byte)))
    };
    for section in sections.chunks_exact(2) {
        for number in section[0]..section[0].checked_add(section[1])? {
            // The declared sizes may be arbitrarily large.
            let Some(row) = rows.next().filter(|_| found.len() < MAX_OBJECTS) else {
                return Some(found);
            };
            let number = u32::try_from(number).ok()?;
            // Without a type field, all entries are positions in the file.
            let stated = field(row, 0, kind)?.max(u64::from(kind == 0));
            let place = match stated {
                1 => ObjectPosition::At(field(row, kind, second)?),
                2 => ObjectPosition::In(u32::try_from(field(row, kind, second)?).ok()?),
                _ => continue,
            };
            found.push((number, place));
        }
    }
    Some(found)
}
