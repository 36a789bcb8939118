//! Estimate of the memory that a PDF takes when it is read.
//!
//! The library uses some hundred bytes for every number, however short in the file: an array of 30
//! MiB took 3.5 GiB. So the values are counted first. Files with more values than any real paper
//! are not read.

use std::cell::Cell;

use lopdf::{Document, Object, ObjectId, Stream};

use crate::pdf_structure;

/// Maximum number of values of one file, in its own bytes and in its object streams.
const MAX_PDF_VALUES: usize = 400_000;
/// Maximum size of an object stream, or of a table of them, after decompression.
pub(super) const MAX_OBJECTS_BYTES: usize = 2 << 20;
/// Maximum number of values that are loaded. Overlapping objects are loaded more often than
/// counted.
const MAX_LOADED_VALUES: usize = 2 * MAX_PDF_VALUES;
/// Maximum size of texts, names and streams that are loaded, in bytes: twice the largest file.
const MAX_LOADED_BYTES: usize = 64 << 20;
/// Maximum number of values of the first page, with the tables of its fonts. Reading its text keeps
/// all of them in memory.
const MAX_PAGE_VALUES: usize = 100_000;
/// Maximum size of a page's content, or of one font table, after decompression.
pub(super) const MAX_PAGE_BYTES: usize = 4 << 20;
/// Maximum size of all font tables of a page together, after decompression.
const MAX_FONTS_BYTES: usize = 16 << 20;
/// The size of the blocks that [`count`] classifies as text or compressed data.
const WEIGHT_BLOCK_BYTES: usize = 4 << 10;
/// The number of bytes per value that separates text from compressed data. Compressed data looks
/// like a value about every thirty bytes; text has more values.
const BYTES_PER_VALUE: usize = 16;

/// The remaining allowance of a file: values and bytes.
#[derive(Clone, Copy, Default)]
struct WeightAllowance {
    /// Values in object streams.
    packed_values: usize,
    loaded_values: usize,
    loaded_bytes: usize,
}

thread_local! {
    /// The remaining allowance of the file that this thread reads.
    static THREAD_ALLOWANCE: Cell<WeightAllowance> = const {
        Cell::new(WeightAllowance {
            packed_values: 0,
            loaded_values: 0,
            loaded_bytes: 0,
        })
    };
}

/// Tells whether a file can be read at a bounded cost, and resets the allowance of this thread.
pub(super) fn is_readable(bytes: &[u8]) -> bool {
    let values = count(bytes);
    THREAD_ALLOWANCE.set(WeightAllowance {
        packed_values: MAX_PDF_VALUES.saturating_sub(values),
        loaded_values: MAX_LOADED_VALUES,
        loaded_bytes: MAX_LOADED_BYTES,
    });
    values <= MAX_PDF_VALUES
}

/// Subtracts the size of an object from the allowance of the file. Returns `false` if the allowance
/// is too small.
pub(super) fn spend(object: &Object) -> bool {
    let (values, bytes) = size_of(object);
    let mut left = THREAD_ALLOWANCE.get();
    let is_enough = values <= left.loaded_values;
    left.loaded_values = left.loaded_values.saturating_sub(values);
    THREAD_ALLOWANCE.set(left);
    spend_bytes(bytes) && is_enough
}

/// Subtracts bytes from the allowance of the file. Returns `false` if the allowance is too small.
pub(super) fn spend_bytes(bytes: usize) -> bool {
    let mut left = THREAD_ALLOWANCE.get();
    let is_enough = bytes <= left.loaded_bytes;
    left.loaded_bytes = left.loaded_bytes.saturating_sub(bytes);
    THREAD_ALLOWANCE.set(left);
    is_enough
}

/// Returns the number of values in an object, and the number of their bytes.
fn size_of(object: &Object) -> (usize, usize) {
    let add = |sum: (usize, usize), (values, bytes)| (sum.0 + values, sum.1 + bytes);
    let entries = |dictionary: &lopdf::Dictionary| {
        let sizes = dictionary.iter().map(|(name, value)| {
            let (values, bytes) = size_of(value);
            (values, bytes + name.len())
        });
        sizes.fold((1, 0), add)
    };
    match object {
        Object::Array(values) => values.iter().map(size_of).fold((1, 0), add),
        Object::Dictionary(dictionary) => entries(dictionary),
        Object::Stream(stream) => add(entries(&stream.dict), (0, stream.content.len())),
        Object::String(text, _) | Object::Name(text) => (1, text.len()),
        _ => (1, 0),
    }
}

/// Tells whether an object stream fits into the allowance of the file, and contains each object
/// once.
pub(super) fn fits(stream: &Stream) -> bool {
    let Ok(content) = stream.decompressed_content_with_limit(MAX_OBJECTS_BYTES) else {
        return false;
    };
    let (values, mut left) = (starts(&content), THREAD_ALLOWANCE.get());
    let is_enough = values <= left.packed_values;
    left.packed_values = left.packed_values.saturating_sub(values);
    THREAD_ALLOWANCE.set(left);
    let first = stream.dict.get(b"First").and_then(Object::as_i64).ok();
    let first = first.and_then(|first| usize::try_from(first).ok());
    is_enough && first.is_some_and(|first| pdf_structure::are_packed_apart(&content, first))
}

/// Tells whether the text of a page can be read at a bounded cost.
pub(super) fn is_page_readable(document: &Document, page: ObjectId) -> bool {
    let Ok(content) = document.get_page_content_with_limit(page, MAX_PAGE_BYTES) else {
        return false;
    };
    let Ok(fonts) = document.get_page_fonts(page) else {
        return false;
    };
    let mut left = MAX_PAGE_VALUES.checked_sub(starts(&content));
    let mut bytes_left = MAX_FONTS_BYTES;
    for font in fonts.values() {
        let table = font.get(b"ToUnicode").and_then(|table| {
            let (_, object) = document.dereference(table)?;
            object.as_stream()
        });
        if let Ok(table) = table {
            let limit = MAX_PAGE_BYTES.min(bytes_left);
            let Ok(content) = table.decompressed_content_with_limit(limit) else {
                return false;
            };
            bytes_left -= content.len().min(bytes_left);
            left = left.and_then(|left| left.checked_sub(starts(&content)));
        }
    }
    left.is_some()
}

/// Counts the values in those parts of a file that are written as text.
fn count(bytes: &[u8]) -> usize {
    bytes
        .chunks(WEIGHT_BLOCK_BYTES)
        .map(starts)
        .filter(|values| *values > WEIGHT_BLOCK_BYTES / BYTES_PER_VALUE)
        .sum()
}

/// Counts the positions at which a value may begin.
fn starts(bytes: &[u8]) -> usize {
    let is_between = |byte: u8| {
        matches!(
            byte,
            b'\0'
                | b'\t'
                | b'\n'
                | b'\x0c'
                | b'\r'
                | b' '
                | b'['
                | b']'
                | b'<'
                | b'>'
                | b'('
                | b')'
                | b'/'
        )
    };
    let mut before = true;
    let mut values = 0;
    for byte in bytes {
        let between = is_between(*byte);
        values += usize::from(before && !between && byte.is_ascii_graphic())
            + usize::from(matches!(byte, b'[' | b'<' | b'(' | b'/'));
        before = between;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_are_read_and_what_is_all_numbers_is_not() {
        assert!(is_readable(&docstokg_origin_sim::hostile::paper(
            "A title",
            &"words of a text ".repeat(2_000)
        )));
        let mut random = fastrand::Rng::with_seed(1);
        let compressed: Vec<u8> = (0..8 << 20).map(|_| random.u8(..)).collect();
        assert!(is_readable(&compressed), "{}", count(&compressed));
        for hostile in ["1 ", "[", "<<", "/A", "[]", "()", "1\0"] {
            assert!(
                !is_readable(hostile.repeat(2 << 20).as_bytes()),
                "{hostile}"
            );
        }
    }

    /// Reads every hostile paper. The attack suite measures the cost of each.
    #[test]
    fn pages_that_cost_too_much_are_not_read() {
        let packed = docstokg_origin_sim::hostile::papers()
            .into_iter()
            .filter(|(name, _)| name.contains("packed"));
        for (name, file) in packed {
            let document = Document::load_mem(&file).expect(name);
            let page = *document.get_pages().values().next().expect(name);
            assert!(!is_page_readable(&document, page), "{name}");
        }
        let honest = docstokg_origin_sim::hostile::paper("A title", &"words ".repeat(5_000));
        let document = Document::load_mem(&honest).expect("a paper");
        let page = *document.get_pages().values().next().expect("a page");
        assert!(is_page_readable(&document, page));
    }
}
