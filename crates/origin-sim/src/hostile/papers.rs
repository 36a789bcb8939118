//! PDFs that try to harm their readers.

/// Writes a PDF of these objects, numbered from 1, and the table of their offsets. The first object
/// is the document catalogue.
pub(super) fn pdf(objects: &[String], trailer: &str) -> Vec<u8> {
    let mut out = String::from("%PDF-1.7\n");
    let mut offsets = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        offsets.push(out.len());
        out.push_str(&format!("{} 0 obj\n{object}\nendobj\n", number + 1));
    }
    let table = out.len();
    out.push_str(&format!(
        "xref\n0 {}\n0000000000 65535 f \n",
        objects.len() + 1
    ));
    for offset in &offsets {
        out.push_str(&format!("{offset:010} 00000 n \n"));
    }
    out.push_str(&format!(
        "trailer\n<< /Size {} /Root 1 0 R {trailer} >>\nstartxref\n{table}\n%%EOF\n",
        objects.len() + 1
    ));
    // Readers take very small files for stubs and do not parse them, so make the file larger.
    let padding = format!("%{}\n", " ".repeat(2_000));
    out.push_str(&padding);
    out.push_str(&format!("startxref\n{table}\n%%EOF\n"));
    out.into_bytes()
}

pub(super) fn stream(dictionary: &str, content: &str) -> String {
    format!(
        "<< {dictionary} /Length {} >>\nstream\n{content}\nendstream",
        content.len()
    )
}

/// Creates a correct paper with one page.
#[must_use]
pub fn paper(title: &str, text: &str) -> Vec<u8> {
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /Contents 4 0 R \
         /Resources << /Font << /F1 5 0 R >> >> /MediaBox [0 0 600 800] >>"
            .to_owned(),
        stream("", &format!("BT /F1 12 Tf 50 700 Td ({text}) Tj ET")),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
        format!("<< /Title ({title}) >>"),
    ];
    pdf(&objects, "/Info 6 0 R")
}

/// The name and the bytes of a PDF.
type NamedPaper = (&'static str, Vec<u8>);

/// Creates faulty papers, each with the name of its fault.
pub(super) fn papers() -> Vec<NamedPaper> {
    [
        nested(),
        page_trees(),
        references(),
        lengths_and_filters(),
        metadata(),
    ]
    .concat()
}

const CATALOGUE: &str = "<< /Type /Catalog /Pages 2 0 R >>";

/// Returns the objects of a document with one page of this content.
fn page(content: &str) -> Vec<String> {
    [
        CATALOGUE,
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        content,
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn deep(open: &str, close: &str, depth: usize) -> String {
    format!("{}1{}", open.repeat(depth), close.repeat(depth))
}

/// Creates a PDF of one page with this content.
fn text(content: &str) -> Vec<u8> {
    pdf(&page(&stream("", content)), "")
}

/// Creates a PDF with a catalogue and one other object.
fn two(object: String, trailer: &str) -> Vec<u8> {
    pdf(&[CATALOGUE.to_owned(), object], trailer)
}

/// Creates PDFs with deeply nested values, and with very many values.
fn nested() -> Vec<NamedPaper> {
    let many = [
        vec![CATALOGUE.to_owned()],
        vec!["[1 1 1 1 1 1 1 1 1 1]".to_owned(); 100_000],
    ];
    let in_trailer = format!("/Info {}", deep("[", "]", 100_000));
    vec![
        ("arrays in arrays", two(deep("[", "]", 200_000), "")),
        (
            "dictionaries in dictionaries",
            two(deep("<</A ", ">>", 200_000), ""),
        ),
        (
            "an info of arrays",
            two(deep("[", "]", 50_000), "/Info 2 0 R"),
        ),
        (
            "arrays in a trailer",
            pdf(&[CATALOGUE.to_owned()], &in_trailer),
        ),
        (
            "an array that is wide",
            two(format!("[{}]", "1 ".repeat(4 << 20)), ""),
        ),
        ("many objects", pdf(&many.concat(), "")),
        (
            "brackets in a text",
            two(deep("(", ")", 500_000), "/Info 2 0 R"),
        ),
        (
            "arrays in a page's contents",
            text(&format!("BT {} TJ ET", deep("[", "]", 200_000))),
        ),
        (
            "dictionaries in a page's contents",
            text(&format!("/P {} BDC", deep("<</A ", ">>", 200_000))),
        ),
    ]
}

/// Creates PDFs whose page trees are circular, very wide or very deep.
fn page_trees() -> Vec<NamedPaper> {
    let wide = format!(
        "<< /Type /Pages /Kids [{}] /Count 9 >>",
        "3 0 R ".repeat(100_000)
    );
    let wide = [CATALOGUE.to_owned(), wide, "<< /Type /Page >>".to_owned()];
    let inner = |number: usize| format!("<< /Type /Pages /Kids [{} 0 R] /Count 1 >>", number + 3);
    let deep = [
        vec![CATALOGUE.to_owned()],
        (0..20_000).map(inner).collect(),
        vec!["<< /Type /Page >>".to_owned()],
    ];
    let ring = "<< /Type /Pages /Kids [2 0 R] /Count 1 >>".to_owned();
    vec![
        ("a tree of pages that is a ring", two(ring, "")),
        ("a tree of pages that is wide", pdf(&wide, "")),
        ("a tree of pages that is deep", pdf(&deep.concat(), "")),
        ("a tree of pages in one comment", tree_in_a_comment()),
    ]
}

/// Creates a paper whose nodes each continue in a comment with all later nodes. Every node is then
/// megabytes long.
fn tree_in_a_comment() -> Vec<u8> {
    const NODES: usize = 2_000;
    const COMMENT_BYTES: usize = 3_900_000;
    let mut out = String::from("%PDF-1.7\n");
    let mut offsets = vec![out.len()];
    out.push_str("1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n");
    for number in 2..NODES {
        offsets.push(out.len());
        out.push_str(&format!("{number} 0 obj<</Kids[{} 0 R]%", number + 1));
    }
    offsets.push(out.len());
    out.push_str(&format!("{NODES} 0 obj<</Type/Page%"));
    out.push_str(&"x".repeat(COMMENT_BYTES));
    out.push_str("\n>>endobj\n");
    let table = out.len();
    out.push_str(&format!("xref\n0 {}\n0000000000 65535 f \n", NODES + 1));
    for offset in &offsets {
        out.push_str(&format!("{offset:010} 00000 n \n"));
    }
    out.push_str(&format!(
        "trailer<</Root 1 0 R/Size {}>>\nstartxref\n{table}\n%%EOF\n",
        NODES + 1
    ));
    out.into_bytes()
}

/// Creates PDFs with circular references.
fn references() -> Vec<NamedPaper> {
    let ring = ["2 0 R", "3 0 R", "2 0 R"].map(str::to_owned);
    let mut font = page(&stream("", "BT /F1 12 Tf (a) Tj ET"));
    "<< /Type /Font /Subtype /Type0 /DescendantFonts [5 0 R] /ToUnicode 5 0 R /Encoding 5 0 R >>"
        .clone_into(&mut font[4]);
    vec![
        ("references that are a ring", pdf(&ring, "/Info 2 0 R")),
        (
            "a length that is a ring",
            pdf(&page("<< /Length 4 0 R >>\nstream\nBT ET\nendstream"), ""),
        ),
        ("tables that are a ring", ring_of_tables()),
        ("a font that is a ring", pdf(&font, "")),
    ]
}

fn ring_of_tables() -> Vec<u8> {
    let mut bytes = paper("A", "b");
    let table = bytes
        .windows(4)
        .position(|window| window == b"xref")
        .unwrap_or_default();
    let at = bytes
        .windows(8)
        .position(|window| window == b"/Info 6 ")
        .unwrap_or_default();
    bytes.splice(at..at, format!("/Prev {table} ").into_bytes());
    bytes
}

/// Creates PDFs with wrong lengths and sizes, and with filters that take very long.
fn lengths_and_filters() -> Vec<NamedPaper> {
    let filters = format!("/Filter [{}]", "/ASCIIHexDecode ".repeat(10_000));
    vec![
        (
            "a length beyond the file",
            pdf(
                &page("<< /Length 99999999999 >>\nstream\nBT ET\nendstream"),
                "",
            ),
        ),
        (
            "a negative length",
            pdf(&page("<< /Length -5 >>\nstream\nBT ET\nendstream"), ""),
        ),
        (
            "a size beyond numbers",
            pdf(&[CATALOGUE.to_owned()], "/Size 99999999999999999999"),
        ),
        (
            "filters upon filters",
            pdf(&page(&stream(&filters, "00>")), ""),
        ),
        (
            "text without end",
            text(&format!(
                "BT /F1 12 Tf {} ET",
                "(aaaaaaaaaaaaaaaaaaaa) Tj ".repeat(100_000)
            )),
        ),
    ]
}

/// Creates PDFs whose XML metadata is deeply nested, or grows when its entities are expanded.
fn metadata() -> Vec<NamedPaper> {
    let with_metadata = |xml: &str| {
        pdf(
            &[
                "<< /Type /Catalog /Metadata 2 0 R >>".to_owned(),
                stream("/Type /Metadata /Subtype /XML", xml),
            ],
            "",
        )
    };
    let deep = format!("<x:xmpmeta><rdf:RDF>{}", "<a>".repeat(200_000));
    let entities = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\">\
                    <!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">\
                    <!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;\">]>\
                    <x:xmpmeta><dc:title>&c;&c;</dc:title>";
    vec![
        ("metadata that is deep", with_metadata(&deep)),
        ("metadata of entities", with_metadata(entities)),
    ]
}
