//! Repair of font tables from which the library would lose letters.
//!
//! The library checks each byte of a code by itself against the ranges of codes. Programs write
//! ranges whose last byte applies only in the first and the last hundreds (`<0003> <1029>`).

use lopdf::{Document, Object, ObjectId};

use super::weight;

const RANGES_BEGIN: &[u8] = b"begincodespacerange";
const RANGES_END: &[u8] = b"endcodespacerange";
/// The number of hexadecimal digits of a code of two bytes.
const DIGITS: usize = 4;

/// Widens the ranges of two-byte codes in the fonts of a page, in the loaded document. The caller
/// has checked the page with [`weight::is_page_readable`].
pub(super) fn widen(document: &mut Document, page: ObjectId) {
    let fonts = document.get_page_fonts(page).unwrap_or_default();
    let tables = fonts.values().filter_map(|font| {
        let table = font.get(b"ToUnicode").ok()?;
        document.dereference(table).ok()?.0
    });
    for table in tables.collect::<Vec<_>>() {
        let object = document.objects.get_mut(&table);
        let Some(Object::Stream(stream)) = object else {
            continue;
        };
        let Ok(mut content) = stream.get_plain_content_with_limit(weight::MAX_PAGE_BYTES) else {
            continue;
        };
        if widen_ranges(&mut content) {
            stream.set_plain_content(content);
        }
    }
}

/// Extends every range of two-byte codes to the first and the last code of all. Returns whether a
/// range changed.
fn widen_ranges(table: &mut [u8]) -> bool {
    let mut is_changed = false;
    let mut at = 0;
    while let Some(begin) = find(&table[at..], RANGES_BEGIN).map(|place| at + place) {
        let Some(length) = find(&table[begin..], RANGES_END) else {
            break;
        };
        at = begin + length;
        is_changed |= widen_section(&mut table[begin..at]);
    }
    is_changed
}

fn widen_section(section: &mut [u8]) -> bool {
    let begins = section.iter().enumerate();
    let begins = begins.filter(|(_, byte)| **byte == b'<');
    let digits = begins.map(|(at, _)| {
        let digits = section[at + 1..].iter();
        let count = digits.take_while(|byte| byte.is_ascii_hexdigit()).count();
        at + 1..at + 1 + count
    });
    let codes: Vec<_> = digits.collect();
    // Wide ranges would match the first bytes of longer codes.
    if codes.iter().any(|code| code.len() > DIGITS) {
        return false;
    }
    let mut is_changed = false;
    for range in codes.chunks_exact(2) {
        for (code, digit) in range.iter().zip(*b"0F") {
            if code.len() == DIGITS {
                is_changed |= section[code.clone()].iter().any(|own| *own != digit);
                section[code.clone()].fill(digit);
            }
        }
    }
    is_changed
}

fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::super::file_identity::{first_page, load};
    use super::*;

    #[test]
    fn ranges_of_two_byte_codes_are_widened() {
        for (written, widened) in [
            ("<0003> <1029>", "<0000> <FFFF>"),
            ("<00> <80> <8140><9ffc>", "<00> <80> <0000><FFFF>"),
            ("<0000> <FFFF>", "<0000> <FFFF>"),
            ("<00> <FF>", "<00> <FF>"),
            (
                "<0003> <1029> <110000> <11ffff>",
                "<0003> <1029> <110000> <11ffff>",
            ),
            ("<0003>", "<0003>"),
        ] {
            let table = |ranges: &str| {
                format!("1 begincodespacerange {ranges} endcodespacerange <0004> <0041>")
            };
            let mut bytes = table(written).into_bytes();
            assert_eq!(widen_ranges(&mut bytes), written != widened, "{written}");
            assert_eq!(String::from_utf8(bytes).unwrap(), table(widened));
        }
        assert!(!widen_ranges(
            b"begincodespacerange <0003> <1029>".to_vec().as_mut_slice()
        ));
    }

    /// The code of `j` has a higher last byte than the last code of the range.
    #[test]
    fn letters_beyond_the_last_byte_of_a_range_are_read() {
        let table = "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n\
            /CMapName /T def\n/CMapType 2 def\n1 begincodespacerange\n<0003> <1029>\n\
            endcodespacerange\n2 beginbfchar\n<0004> <0061>\n<004D> <006A>\nendbfchar\nendcmap\n\
            CMapName currentdict /CMap defineresource pop\nend\nend\n";
        let stream =
            |data: &str| format!("<< /Length {} >>\nstream\n{data}\nendstream", data.len());
        let objects = [
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
            "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>"
                .to_owned(),
            stream("BT /F1 12 Tf 72 700 Td <0004004D0004> Tj ET"),
            "<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 6 0 R >>".to_owned(),
            stream(table),
        ];
        let mut file = "%PDF-1.5\n".to_owned();
        for (number, object) in (1..).zip(objects) {
            file.push_str(&format!("{number} 0 obj\n{object}\nendobj\n"));
        }
        // The file has no cross-reference table, so the library searches for objects.
        file.push_str("trailer\n<< /Root 1 0 R >>\n%%EOF\n");
        let mut document = load(file.as_bytes()).unwrap();
        assert_eq!(first_page(&mut document).as_deref(), Some("aja"));
    }
}
