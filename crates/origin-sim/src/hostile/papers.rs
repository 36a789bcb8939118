//! PDFs that are made to harm their readers.

/// Writes a PDF of these objects, numbered from 1, with a table of where they are. The first is the
/// catalogue.
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
    // Small files count as stubs, which are not read.
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

/// Makes a paper with one page, as it should be.
#[must_use]
pub fn paper(title: &str, text: &str) -> Vec<u8> {
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> /MediaBox [0 0 600 800] >>".to_owned(),
        stream("", &format!("BT /F1 12 Tf 50 700 Td ({text}) Tj ET")),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
        format!("<< /Title ({title}) >>"),
    ];
    pdf(&objects, "/Info 6 0 R")
}

/// Makes papers that are not as they should be, with what is wrong with them.
pub(super) fn papers() -> Vec<(&'static str, Vec<u8>)> {
    let catalogue = || "<< /Type /Catalog /Pages 2 0 R >>".to_owned();
    let page = |content: &str| {
        let mut objects = vec![
            catalogue(),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
            "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>".to_owned(),
        ];
        objects.push(content.to_owned());
        objects.push("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned());
        objects
    };
    let deep = |open: &str, close: &str, depth: usize| {
        format!("{}1{}", open.repeat(depth), close.repeat(depth))
    };
    let text = |content: &str| pdf(&page(&stream("", content)), "");
    vec![
        (
            "arrays in arrays",
            pdf(&[catalogue(), deep("[", "]", 200_000)], ""),
        ),
        (
            "dictionaries in dictionaries",
            pdf(&[catalogue(), deep("<</A ", ">>", 200_000)], ""),
        ),
        (
            "an info of arrays",
            pdf(&[catalogue(), deep("[", "]", 50_000)], "/Info 2 0 R"),
        ),
        (
            "arrays in a trailer",
            pdf(
                &[catalogue()],
                &format!("/Info {}", deep("[", "]", 100_000)),
            ),
        ),
        (
            "an array that is wide",
            pdf(&[catalogue(), format!("[{}]", "1 ".repeat(4 << 20))], ""),
        ),
        (
            "many objects",
            pdf(
                &[
                    vec![catalogue()],
                    vec!["[1 1 1 1 1 1 1 1 1 1]".to_owned(); 100_000],
                ]
                .concat(),
                "",
            ),
        ),
        (
            "brackets in a text",
            pdf(&[catalogue(), deep("(", ")", 500_000)], "/Info 2 0 R"),
        ),
        (
            "arrays in a page's contents",
            text(&format!("BT {} TJ ET", deep("[", "]", 200_000))),
        ),
        (
            "dictionaries in a page's contents",
            text(&format!("/P {} BDC", deep("<</A ", ">>", 200_000))),
        ),
        (
            "a tree of pages that is a ring",
            pdf(
                &[
                    catalogue(),
                    "<< /Type /Pages /Kids [2 0 R] /Count 1 >>".to_owned(),
                ],
                "",
            ),
        ),
        (
            "a tree of pages that is wide",
            pdf(
                &[
                    catalogue(),
                    format!(
                        "<< /Type /Pages /Kids [{}] /Count 9 >>",
                        "3 0 R ".repeat(100_000)
                    ),
                    "<< /Type /Page >>".to_owned(),
                ],
                "",
            ),
        ),
        ("a tree of pages that is deep", {
            let depth = 20_000;
            let inner =
                |number: usize| format!("<< /Type /Pages /Kids [{} 0 R] /Count 1 >>", number + 3);
            pdf(
                &[
                    vec![catalogue()],
                    (0..depth).map(inner).collect(),
                    vec!["<< /Type /Page >>".to_owned()],
                ]
                .concat(),
                "",
            )
        }),
        (
            "references that are a ring",
            pdf(
                &["2 0 R".to_owned(), "3 0 R".to_owned(), "2 0 R".to_owned()],
                "/Info 2 0 R",
            ),
        ),
        (
            "a length that is a ring",
            pdf(&page("<< /Length 4 0 R >>\nstream\nBT ET\nendstream"), ""),
        ),
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
        ("tables that are a ring", {
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
        }),
        (
            "a size beyond numbers",
            pdf(&[catalogue()], "/Size 99999999999999999999"),
        ),
        (
            "filters upon filters",
            pdf(
                &page(&stream(
                    &format!("/Filter [{}]", "/ASCIIHexDecode ".repeat(10_000)),
                    "00>",
                )),
                "",
            ),
        ),
        ("a font that is a ring", {
            let mut objects = page(&stream("", "BT /F1 12 Tf (a) Tj ET"));
            "<< /Type /Font /Subtype /Type0 /DescendantFonts [5 0 R] /ToUnicode 5 0 R /Encoding 5 0 R >>".clone_into(&mut objects[4]);
            pdf(&objects, "")
        }),
        (
            "text without end",
            text(&format!(
                "BT /F1 12 Tf {} ET",
                "(aaaaaaaaaaaaaaaaaaaa) Tj ".repeat(100_000)
            )),
        ),
        (
            "metadata that is deep",
            pdf(
                &[
                    "<< /Type /Catalog /Metadata 2 0 R >>".to_owned(),
                    stream(
                        "/Type /Metadata /Subtype /XML",
                        &format!("<x:xmpmeta><rdf:RDF>{}", "<a>".repeat(200_000)),
                    ),
                ],
                "",
            ),
        ),
        (
            "metadata of entities",
            pdf(
                &[
                    "<< /Type /Catalog /Metadata 2 0 R >>".to_owned(),
                    stream(
                        "/Type /Metadata /Subtype /XML",
                        "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;\">]><x:xmpmeta><dc:title>&c;&c;</dc:title>",
                    ),
                ],
                "",
            ),
        ),
    ]
}
