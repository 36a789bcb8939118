//! How much a PDF would take when it is read. The library keeps some hundred bytes for every
//! number, however short it is in the file: an array of 30 MiB took 3.5 GiB. So the values are
//! counted first, and files with more than any paper has are not read.

use std::cell::Cell;

use lopdf::{Document, Object, ObjectId};

/// The most values of one file, in its own bytes and in its streams of objects.
const MOST_VALUES: usize = 400_000;
/// The most that a stream of objects, or a table of them, may expand to.
pub(super) const MAX_OBJECTS_BYTES: usize = 2 << 20;
/// The most values of the first page, with the tables of its fonts: reading its text keeps all of
/// them at once.
const MAX_PAGE_VALUES: usize = 100_000;
/// The most that the content of a page, or a table of a font, may expand to.
pub(super) const MAX_PAGE_BYTES: usize = 4 << 20;
/// What is looked at together.
const BLOCK: usize = 4 << 10;
/// Compressed pictures and text look like a value every thirty bytes or so; what is written as text
/// has more.
const BYTES_PER_VALUE: usize = 16;

thread_local! {
    /// What the file that this thread reads may still have.
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Tells whether a file can be read at a bounded cost, and begins to count what its streams hold.
pub(super) fn is_readable(bytes: &[u8]) -> bool {
    let values = count(bytes);
    LEFT.set(MOST_VALUES.saturating_sub(values));
    values <= MOST_VALUES
}

/// Tells whether a stream of objects fits into what is left for the file; every other object does.
pub(super) fn fits(object: &Object) -> bool {
    let Ok(stream) = object.as_stream() else {
        return true;
    };
    if !stream.dict.has_type(b"ObjStm") {
        return true;
    }
    let Ok(content) = stream.decompressed_content_with_limit(MAX_OBJECTS_BYTES) else {
        return false;
    };
    let (values, left) = (starts(&content), LEFT.get());
    LEFT.set(left.saturating_sub(values));
    values <= left
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
    for font in fonts.values() {
        let table = font.get(b"ToUnicode").and_then(|table| {
            let (_, object) = document.dereference(table)?;
            object.as_stream()
        });
        if let Ok(table) = table {
            let Ok(content) = table.decompressed_content_with_limit(MAX_PAGE_BYTES) else {
                return false;
            };
            left = left.and_then(|left| left.checked_sub(starts(&content)));
        }
    }
    left.is_some()
}

/// Counts the values in those parts of a file that are written as text.
fn count(bytes: &[u8]) -> usize {
    bytes
        .chunks(BLOCK)
        .map(starts)
        .filter(|values| *values > BLOCK / BYTES_PER_VALUE)
        .sum()
}

/// Counts the places at which a value may begin.
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

    /// Reads every hostile paper; what each costs is measured by the attack suite.
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
