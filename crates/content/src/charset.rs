//! Decoding of texts that are not UTF-8, or do not declare their encoding.

use std::borrow::Cow;

use encoding_rs::{Encoding, WINDOWS_1252};

/// The number of bytes at the beginning of a page that are searched for its encoding.
const HEAD_BYTES: usize = 2_048;

/// Decodes a text that should be UTF-8. Any other text is read as Windows-1252, in which every byte
/// is a character.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(
        |_| WINDOWS_1252.decode_without_bom_handling(bytes).0,
        Cow::Borrowed,
    )
}

/// Decodes a page by its header, else by its own head, else as UTF-8, else as Windows-1252.
pub(crate) fn page<'a>(bytes: &'a [u8], content_type: Option<&str>) -> Cow<'a, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => return Cow::Borrowed(text),
        // The page was cut within a character: the characters before show that the text is UTF-8.
        Err(error) if error.error_len().is_none() => {
            let whole = &bytes[..error.valid_up_to()];
            if !whole.is_ascii() {
                return String::from_utf8_lossy(whole);
            }
        }
        Err(_) => {}
    }
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES)]).to_ascii_lowercase();
    let stated = content_type
        .and_then(|text| label(&text.to_ascii_lowercase()))
        .or_else(|| label(&head));
    stated.unwrap_or(WINDOWS_1252).decode(bytes).0
}

/// Finds the encoding in `charset=...`. A page that declares UTF-8 and is not UTF-8 counts as a
/// page without a declaration.
fn label(text: &str) -> Option<&'static Encoding> {
    let (_, behind) = text.split_once("charset")?;
    let name = behind
        .trim_start()
        .strip_prefix('=')?
        .trim_start()
        .trim_start_matches(['"', '\'']);
    let end = name
        .find(|c: char| !c.is_ascii_alphanumeric() && !"-_:".contains(c))
        .unwrap_or(name.len());
    Encoding::for_label(&name.as_bytes()[..end]).filter(|encoding| *encoding != encoding_rs::UTF_8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_read_as_stated_or_as_old_texts_have_them() {
        assert_eq!(text("\u{c9}tude".as_bytes()), "\u{c9}tude");
        assert_eq!(text(b"\xc9tude \x96 x"), "\u{c9}tude \u{2013} x");
        assert_eq!(
            page(b"<title>\xc9tude</title>", Some("text/html; charset=utf-8")),
            "<title>\u{c9}tude</title>"
        );
        assert_eq!(
            page(&"\u{c9}tud\u{e9}".as_bytes()[..6], None),
            "\u{c9}tud",
            "cut within a character"
        );
        assert_eq!(
            page(b"\x93\xfa\x96\x7b", Some("text/html; charset=Shift_JIS")),
            "\u{65e5}\u{672c}"
        );
        assert_eq!(
            page(b"<meta charset='koi8-r'>\xd7", None),
            "<meta charset='koi8-r'>\u{432}"
        );
    }
}
