//! Where the objects of a PDF are, by its own tables.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::inflate::{self, InflateResult};
use super::source::PdfSource;
use super::syntax::{Dictionary, PdfValue, ValueReader};

/// How much of a table is read, at first and at most: most are small.
const TABLE_BYTES: [u64; 4] = [64 << 10, 512 << 10, 4 << 20, 32 << 20];
/// How much is read for the tables of a file, all together.
const MAX_TABLES_BYTES: u64 = 128 << 20;
/// The most that the streams of places of a file may expand to, all together.
const MAX_STREAMS_BYTES: usize = 64 << 20;
/// The most objects, of a table and of all.
pub(super) const MAX_OBJECTS: usize = 1_000_000;
/// The most tables that lead to each other.
const MAX_TABLES: usize = 1_000;

/// How much more is read for the tables of a file.
pub(super) struct ReadBudget {
    read_left: u64,
    expanded_left: usize,
    /// How many rows streams of places had: whoever keeps each of them needs memory for as many.
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

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectPosition {
    /// At this byte of the file.
    At(u64),
    /// In a stream of objects.
    In(u32),
}

/// Where the objects of a PDF are.
#[derive(Debug, Default)]
pub(super) struct CrossReference {
    pub(super) places: BTreeMap<u32, ObjectPosition>,
    /// The catalogue.
    pub(super) root: Option<u32>,
    pub(super) is_encrypted: bool,
    /// Not all of it was read: it is larger than that of any paper, or packed in an unknown way.
    pub(super) is_partial: bool,
}

impl CrossReference {
    /// Reads the table at a place and those that it leads to, newest first; `None` where one of
    /// them is not there. Tables that would cost too much are left out.
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
            // The stream beside a table comes before the earlier table.
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
                // Some tables state more than they have.
                let begin = reader.at;
                if reader.takes(b"trailer") {
                    reader.at = begin;
                    break;
                }
                let at = reader.number()?;
                reader.number()?;
                // A free number may be that of an object in another table: writers differ.
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
        // Its type may be missing.
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

    /// Adds places; those of newer tables stay.
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

/// Reads the entries of a stream of places, as many as objects are kept.
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
            // The sizes that are stated may be any.
            let Some(row) = rows.next().filter(|_| found.len() < MAX_OBJECTS) else {
                return Some(found);
            };
            let number = u32::try_from(number).ok()?;
            // Without a kind all are at places of the file.
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
