//! The check whether a PDF is complete and undamaged.
//!
//! A cut file lacks its end, and with it the table of its objects. A file with a hole has objects
//! that the table does not find, or zeros in them. So the end mark, the table, the beginning of
//! every object, the page tree and runs of zeros are checked. A file with a wrong table is complete
//! if a scan finds every object: readers repair such files. The content of pages is not checked.
//!
//! A file is read at most three times: for its objects, its zeros and its streams. Constants of
//! `cross_reference`, `objects` and `source` bound all further costs. Parts that would cost more
//! count as complete.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

mod cross_reference;
mod inflate;
mod objects;
mod pages;
mod source;
mod syntax;
mod zeros;

use crate::reason::Reason;
use cross_reference::{CrossReference, MAX_OBJECTS, ObjectPosition, ReadBudget};
use objects::{Objects, find, packed_objects};
use source::PdfSource;
use syntax::ValueReader;
pub(crate) use syntax::is_regular;

/// The number of bytes at the beginning of a file in which its header may be.
const HEADER_WINDOW_BYTES: u64 = 1 << 10;
/// The number of bytes at the end of a file that contain the end mark and the position of the
/// table.
const TAIL_BYTES: u64 = 2 << 10;
/// The end mark of a PDF.
const END_MARK: &[u8] = b"%%EOF";
/// Maximum number of objects that are searched for the catalogue of a file without a table.
const MAX_CATALOGUE_PLACES: usize = 100_000;

/// The damage of a PDF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PdfDamage {
    /// The end of the file is missing.
    EndMissing,
    /// The table has objects beyond the end of the file.
    ObjectsBeyondEnd,
    /// The pages of the file cannot be found.
    PagesMissing,
    /// The file has zeros in place of its content.
    Zeros,
    /// The file cannot be read.
    Unreadable,
}

impl PdfDamage {
    /// Returns the [`Reason`] under which the damage is recorded.
    pub(crate) const fn reason(self) -> Reason {
        match self {
            Self::EndMissing | Self::ObjectsBeyondEnd => Reason::PdfEofMissing,
            Self::PagesMissing | Self::Zeros | Self::Unreadable => Reason::PdfDamaged,
        }
    }

    /// Describes the damage for people.
    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Self::EndMissing => "its end is missing",
            Self::ObjectsBeyondEnd => "its own table names objects beyond its end",
            Self::PagesMissing => "its pages cannot be found in it",
            Self::Zeros => "it has zeros where data should be",
            Self::Unreadable => "it cannot be read",
        }
    }
}

/// Looks for [`PdfDamage`] in a PDF.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn damage_of(path: &Path) -> io::Result<Option<PdfDamage>> {
    inspect(&mut PdfSource::open(path)?)
}

fn inspect(source: &mut PdfSource) -> io::Result<Option<PdfDamage>> {
    let Some(end) = PdfEnding::read(source)? else {
        return Ok(Some(PdfDamage::EndMissing));
    };
    let head = source.window(0, HEADER_WINDOW_BYTES)?;
    if is_longer_by_itself(&head, source.length) {
        return Ok(Some(PdfDamage::ObjectsBeyondEnd));
    }
    let mut objects = None;
    let shifts = shifts(source)?;
    for shift in &shifts {
        let shift = *shift;
        if let Some(start) = end.table
            && let Some(table) = CrossReference::read(source, start, shift, &mut ReadBudget::new())?
        {
            let read = Objects::new(table, shift);
            let misplaced = read.misplaced(source)?;
            if misplaced.is_empty() || shifts.last() == Some(&shift) {
                objects = Some((read, misplaced));
            }
            if objects
                .as_ref()
                .is_some_and(|(_, misplaced)| misplaced.is_empty())
            {
                break;
            }
        }
    }
    let mut objects = match objects {
        Some((objects, misplaced)) if misplaced.is_empty() => objects,
        found => match repaired(source, found)? {
            Ok(objects) => objects,
            Err(damage) => return Ok(Some(damage)),
        },
    };
    if !pages::find_pages(source, &mut objects)? {
        return Ok(Some(PdfDamage::PagesMissing));
    }
    let begins: BTreeSet<u64> = objects
        .table
        .places
        .values()
        .filter_map(|place| match place {
            ObjectPosition::At(at) => Some(at.saturating_add(objects.shift)),
            ObjectPosition::In(_) => None,
        })
        .collect();
    let begins: Vec<u64> = begins.into_iter().collect();
    let is_holed = zeros::are_misplaced(source, &mut objects, &begins, end.mark)?;
    Ok(is_holed.then_some(PdfDamage::Zeros))
}

/// The end of a file.
struct PdfEnding {
    /// The position of the end mark.
    mark: u64,
    /// The declared position of the table.
    table: Option<u64>,
}

impl PdfEnding {
    fn read(source: &mut PdfSource) -> io::Result<Option<Self>> {
        let from = source.length.saturating_sub(TAIL_BYTES);
        let tail = source.window(from, TAIL_BYTES)?;
        let Some(mark) = rfind(&tail, END_MARK) else {
            return Ok(None);
        };
        // Content after the last end mark begins a later part of the file, which was cut.
        let mut behind = tail[mark + END_MARK.len()..].iter();
        if behind.any(|byte| !byte.is_ascii_whitespace() && *byte != 0) {
            return Ok(None);
        }
        let place = rfind(&tail[..mark], b"startxref");
        let table =
            place.and_then(|at| ValueReader::new(&tail[at + b"startxref".len()..mark]).number());
        Ok(Some(Self {
            mark: from + mark as u64,
            table,
        }))
    }
}

/// Tells whether a linearised file declares a greater length than it has.
fn is_longer_by_itself(head: &[u8], length: u64) -> bool {
    let Some(at) = find(head, b"/Linearized") else {
        return false;
    };
    let dictionary = head[..at].iter().rposition(|byte| *byte == b'<');
    let dictionary = dictionary.and_then(|begin| {
        let value = ValueReader::new(&head[begin.saturating_sub(1)..]).value(0)?;
        value.as_dictionary()?.number(b"L")
    });
    // Some servers remove the end of the last line.
    dictionary.is_some_and(|stated| stated > length + 64)
}

/// Finds the objects of a file with a wrong table by a scan of the whole file.
fn repaired(
    source: &mut PdfSource,
    found: Option<(Objects, Vec<u32>)>,
) -> io::Result<Result<Objects, PdfDamage>> {
    let scanned = Objects::scan(source)?;
    let Some((mut objects, misplaced)) = found else {
        let root = root_by_reading(source, &scanned)?;
        if root.is_none() && scanned.len() <= MAX_CATALOGUE_PLACES {
            return Ok(Err(PdfDamage::PagesMissing));
        }
        let mut table = CrossReference {
            root,
            is_partial: true,
            ..CrossReference::default()
        };
        let places = scanned.into_iter();
        table.places = places
            .map(|(number, at)| (number, ObjectPosition::At(at)))
            .collect();
        return Ok(Ok(Objects::new(table, 0)));
    };
    let shift = objects.shift;
    for number in misplaced {
        // Some programs count objects as used that they never wrote.
        let place = objects.table.places.remove(&number);
        match (place, scanned.get(&number)) {
            (_, Some(at)) => {
                let place = ObjectPosition::At(at.saturating_sub(shift));
                objects.table.places.insert(number, place);
            }
            (Some(ObjectPosition::At(at)), None) if at >= source.length => {
                return Ok(Err(PdfDamage::ObjectsBeyondEnd));
            }
            (Some(ObjectPosition::At(at)), None)
                if zeros::cover(source, at.saturating_add(shift))? =>
            {
                return Ok(Err(PdfDamage::Zeros));
            }
            _ => {}
        }
    }
    Ok(Ok(objects))
}

/// Finds the catalogue of a file whose table cannot be read.
fn root_by_reading(
    source: &mut PdfSource,
    scanned: &BTreeMap<u32, u64>,
) -> io::Result<Option<u32>> {
    let mut root = None;
    for at in scanned.values().take(MAX_CATALOGUE_PLACES) {
        let Some(object) = Objects::short_at(source, *at)? else {
            continue;
        };
        let Some(dictionary) = object.value.as_dictionary() else {
            continue;
        };
        if dictionary.has_type(b"Catalog") {
            return Ok(Some(object.number));
        }
        if dictionary.has_type(b"XRef") {
            root = root.or_else(|| dictionary.reference(b"Root"));
        }
    }
    Ok(root)
}

/// Tells whether the tables of a PDF can be kept in memory, row by row, at a bounded cost.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn has_bounded_tables(path: &Path) -> io::Result<bool> {
    let mut source = PdfSource::open(path)?;
    let Some(PdfEnding {
        table: Some(start), ..
    }) = PdfEnding::read(&mut source)?
    else {
        return Ok(true);
    };
    for shift in shifts(&mut source)? {
        let mut budget = ReadBudget::new();
        let table = CrossReference::read(&mut source, start, shift, &mut budget)?;
        if budget.rows > MAX_OBJECTS || table.is_some_and(|table| table.is_partial) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the offsets to add to positions in tables: some programs count from the header, most
/// from the beginning of the file.
fn shifts(source: &mut PdfSource) -> io::Result<BTreeSet<u64>> {
    let head = source.window(0, HEADER_WINDOW_BYTES)?;
    Ok(BTreeSet::from([
        0,
        find(&head, b"%PDF-").unwrap_or(0) as u64,
    ]))
}

/// Tells whether the objects of an object stream, whose index ends at `first`, do not overlap, so
/// that a reader reads each byte once.
pub(crate) fn are_packed_apart(content: &[u8], first: usize) -> bool {
    packed_objects(content, first).is_some()
}

fn rfind(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).rposition(|part| part == word)
}

#[cfg(test)]
mod costs;
#[cfg(test)]
mod tests;
