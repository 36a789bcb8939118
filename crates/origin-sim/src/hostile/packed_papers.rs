//! Small PDFs whose streams are very large once they are unpacked.

use std::fmt::Write;

use super::bombs::deflate;
use super::papers::{pdf, stream};

/// Compresses the content of a PDF stream, and encodes it in hexadecimal so that the file stays
/// text.
fn packed(content: &str) -> String {
    let mut hex = String::new();
    for byte in deflate(content.as_bytes()) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex.push('>');
    stream("/Filter [/ASCIIHexDecode /FlateDecode]", &hex)
}

/// Creates a PDF of one page with the given content, whose font has the given character table.
fn of_one_page(content: &str, table: &str) -> Vec<u8> {
    pdf(
        &[
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
            "<< /Type /Page /Parent 2 0 R /Contents 4 0 R \
             /Resources << /Font << /F1 5 0 R >> >> >>"
                .to_owned(),
            packed(content),
            "<< /Type /Font /Subtype /Type0 /BaseFont /F /Encoding /Identity-H \
             /ToUnicode 6 0 R >>"
                .to_owned(),
            packed(table),
        ],
        "",
    )
}

/// Creates PDFs whose first page is expensive to read, each with the name of its fault.
pub(super) fn papers() -> Vec<(&'static str, Vec<u8>)> {
    let codes: String = (0..400_000).fold(String::new(), |mut codes, code| {
        let _ = writeln!(codes, "<{:04x}> <{:04x}>", code % 0xffff, code % 0xd7ff);
        codes
    });
    let table = format!(
        "begincmap 1 begincodespacerange <0000> <ffff> endcodespacerange \
         400000 beginbfchar {codes} endbfchar endcmap"
    );
    let page = |operators: &str, times: usize| {
        of_one_page(&format!("BT /F1 12 Tf {} ET", operators.repeat(times)), "")
    };
    vec![
        ("packed operators", page("()Tj ", 3_000_000)),
        ("packed arrays", page("[]TJ ", 3_000_000)),
        ("packed numbers", page("1 ", 7_000_000)),
        (
            "a packed table of a font",
            of_one_page("BT /F1 12 Tf <0001> Tj ET", &table),
        ),
    ]
}
