//! Reads title, DOI and first page of a PDF. All costs are bounded, so that a hostile file fails
//! its own examination and not the run.

use std::panic::resume_unwind;
use std::path::Path;

use docstokg_bulk::panic_containment::contained;
use lopdf::{Document, LoadOptions, Object, ObjectId};

use super::{codespaces, forms, packed_pdf, weight};
use crate::identifier::Doi;
use crate::pdf_structure::has_bounded_tables;
use crate::titles;

/// Maximum size of a file that is examined.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// Maximum size of a stream after decompression.
const MAX_STREAM_BYTES: usize = 16 << 20;
/// Maximum length of a value of the Info dictionary that is read.
const MAX_INFO_BYTES: usize = 64 << 10;
/// Maximum length of the text that is kept of the first page.
const MAX_TEXT_CHARS: usize = 20_000;
/// The length of text below which a first page counts as a title page.
const MIN_TEXT_BYTES: usize = 400;
/// Maximum number of pages that are read if the first is a title page.
const MAX_FIRST_PAGES: usize = 3;
/// Maximum number of forms that are read on these pages.
const MAX_FORMS: usize = 4;

/// Keys of the Info dictionary whose value is a DOI, or a citation with a DOI.
const INFO_DOI_KEYS: [&[u8]; 6] = [
    b"doi",
    b"DOI",
    b"WPS-ARTICLEDOI",
    b"Subject",
    b"Keywords",
    b"prism:doi",
];
/// Names of XMP elements and attributes whose value is the DOI.
const XMP_DOI_NAMES: [&str; 7] = [
    "prism:doi",
    "pdfx:doi",
    "crossmark:DOI",
    "crossmark:doi",
    "pdfx:WPS-ARTICLEDOI",
    "dc:identifier",
    "prism:url",
];

/// The title, the DOIs and the text with which a file identifies itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    /// The DOIs in the metadata, each once.
    pub(crate) metadata_dois: Vec<Doi>,
    /// The title in the metadata, unless it is a file name or names a program.
    pub(crate) title: Option<String>,
    /// The text of the first page.
    pub(crate) first_page: Option<String>,
}

/// Reads the [`FileIdentity`] of a file. Unreadable parts stay empty; if a parser panics, all of
/// them.
pub(crate) fn look_inside(path: &Path) -> FileIdentity {
    let is_small = std::fs::metadata(path).is_ok_and(|meta| meta.len() <= MAX_FILE_BYTES);
    let is_bounded = || contained(|| has_bounded_tables(path).unwrap_or(false)) == Some(true);
    if !is_small || !is_bounded() {
        return FileIdentity::default();
    }
    let Ok(bytes) = std::fs::read(path) else {
        return FileIdentity::default();
    };
    contained(|| read(&bytes)).unwrap_or_default()
}

fn read(bytes: &[u8]) -> FileIdentity {
    let mut inside = FileIdentity::default();
    // An uncompressed packet can be read even if the structure of the file is broken.
    let packet = xmp_packet(bytes);
    let mut document = load(bytes);
    let stored = document.as_ref().and_then(xmp_stream);
    for xmp in packet.into_iter().chain(stored) {
        take_xmp(&xmp, &mut inside);
    }
    if let Some(document) = &mut document {
        take_info(document, &mut inside);
        inside.first_page = first_page(document);
    }
    inside
}

/// Loads a file as a [`Document`]; `None` if it cannot be read, or costs too much.
pub(super) fn load(bytes: &[u8]) -> Option<Document> {
    if !weight::is_readable(bytes) {
        return None;
    }
    let options = LoadOptions {
        filter: Some(without_pictures),
        ..LoadOptions::with_max_decompressed_size(weight::MAX_OBJECTS_BYTES)
    };
    let mut bytes = bytes.to_vec();
    packed_pdf::hide(&mut bytes);
    let loaded = contained(|| Document::load_mem_with_options(&bytes, options));
    let mut document = loaded?.ok()?;
    packed_pdf::open(&mut document, &bytes)?;
    Some(document)
}

/// Drops pictures and font programs, which are most of a file and not needed here. Panics to end
/// the loading of a file that costs too much, because the library offers no other way to stop.
fn without_pictures(id: (u32, u16), object: &mut Object) -> Option<((u32, u16), Object)> {
    if !weight::spend(object) {
        resume_unwind(Box::new("the file costs too much"));
    }
    let is_left_out = object.as_stream().is_ok_and(|stream| {
        let kind = stream.dict.get(b"Subtype").and_then(Object::as_name);
        kind.is_ok_and(|kind| matches!(kind, b"Image" | b"Type1C" | b"CIDFontType0C" | b"OpenType"))
    });
    (!is_left_out).then(|| (id, object.clone()))
}

fn xmp_packet(bytes: &[u8]) -> Option<String> {
    let find = |needle: &[u8], from: usize| {
        bytes
            .get(from..)?
            .windows(needle.len())
            .position(|window| window == needle)
            .map(|at| from + at)
    };
    let begin = find(b"<x:xmpmeta", 0)?;
    let end = find(b"</x:xmpmeta>", begin)?;
    Some(String::from_utf8_lossy(&bytes[begin..end.min(begin + (1 << 20))]).into_owned())
}

fn xmp_stream(document: &Document) -> Option<String> {
    let metadata = document.catalog().ok()?.get(b"Metadata").ok()?;
    let (_, object) = document.dereference(metadata).ok()?;
    let stream = object.as_stream().ok()?;
    let content = stream
        .decompressed_content_with_limit(MAX_STREAM_BYTES)
        .ok()
        .unwrap_or_else(|| stream.content.clone());
    Some(String::from_utf8_lossy(&content).into_owned())
}

fn take_xmp(xmp: &str, inside: &mut FileIdentity) {
    for name in XMP_DOI_NAMES {
        for value in values(xmp, name) {
            take_doi(&value, inside);
        }
    }
    if inside.title.is_none() {
        let title = values(xmp, "dc:title")
            .into_iter()
            .next()
            .and_then(|value| {
                let inner = value
                    .split_once("<rdf:li")
                    .and_then(|(_, rest)| rest.split_once('>'))
                    .map_or(value.as_str(), |(_, rest)| rest);
                titles::clean(inner.split("</rdf:li").next().unwrap_or_default())
            });
        inside.title = title.filter(|title| is_title(title));
    }
}

/// Returns the contents of elements and attributes of a name.
fn values(xmp: &str, name: &str) -> Vec<String> {
    let (open, close, attribute) = (
        format!("<{name}>"),
        format!("</{name}>"),
        format!(" {name}=\""),
    );
    let elements = xmp.match_indices(&open).filter_map(|(at, _)| {
        xmp[at + open.len()..]
            .split_once(&close)
            .map(|(value, _)| value.to_owned())
    });
    let attributes = xmp.match_indices(&attribute).filter_map(|(at, _)| {
        xmp[at + attribute.len()..]
            .split_once('"')
            .map(|(value, _)| value.to_owned())
    });
    elements.chain(attributes).take(8).collect()
}

fn take_info(document: &Document, inside: &mut FileIdentity) {
    let Some(info) = document
        .trailer
        .get(b"Info")
        .ok()
        .and_then(|info| document.dereference(info).ok())
        .and_then(|(_, info)| info.as_dict().ok())
    else {
        return;
    };
    let text = |key: &[u8]| {
        let (_, object) = document.dereference(info.get(key).ok()?).ok()?;
        let is_short = object
            .as_str()
            .is_ok_and(|text| text.len() <= MAX_INFO_BYTES);
        is_short.then(|| lopdf::decode_text_string(object).ok())?
    };
    for value in INFO_DOI_KEYS.iter().filter_map(|key| text(key)) {
        take_doi(&value, inside);
    }
    if inside.title.is_none() {
        inside.title = text(b"Title")
            .and_then(|title| titles::clean(&title))
            .filter(|title| is_title(title));
    }
}

/// Takes the DOI from a value that is a DOI, or contains a DOI after `doi`.
fn take_doi(value: &str, inside: &mut FileIdentity) {
    let value = value.trim();
    let labelled = || {
        let at = value.to_ascii_lowercase().find("doi")?;
        let rest = value.get(at..)?;
        let begin = rest.find("10.")?;
        let word = rest
            .get(begin..)?
            .split([' ', ',', ';', '<', '\n'])
            .next()?;
        word.parse::<Doi>().ok()
    };
    let found = value.parse::<Doi>().ok().or_else(labelled);
    if let Some(doi) = found.filter(|doi| !inside.metadata_dois.contains(doi)) {
        inside.metadata_dois.push(doi);
    }
}

/// Tells whether a title is a real title. Programs write their own name or the file's there.
fn is_title(title: &str) -> bool {
    let lower = title.to_lowercase();
    let of_program = [
        "microsoft word",
        "untitled",
        "powerpoint",
        "template",
        "layout 1",
        "pii:",
    ]
    .iter()
    .any(|mark| lower.contains(mark));
    let of_file = [
        ".doc", ".docx", ".pdf", ".indd", ".tex", ".dvi", ".qxd", ".ps", ".fm",
    ]
    .iter()
    .any(|ending| lower.ends_with(ending));
    !of_program && !of_file && titles::words(title).len() >= 3
}

/// Returns the text of the first page. If that is a title page with few words, the text of the next
/// pages follows.
pub(super) fn first_page(document: &mut Document) -> Option<String> {
    let mut text = String::new();
    let mut forms_left = MAX_FORMS;
    for (number, page) in document.get_pages().into_iter().take(MAX_FIRST_PAGES) {
        if text.len() >= MIN_TEXT_BYTES || !add_text(document, (number, page), &mut text) {
            break;
        }
        let mut forms = forms::of_page(document, page, forms_left);
        while let Some(form) = forms.pop() {
            if text.len() >= MIN_TEXT_BYTES || forms_left == 0 {
                break;
            }
            forms_left -= 1;
            forms::show(document, page, form);
            add_text(document, (number, page), &mut text);
            forms.extend(forms::of_page(document, page, forms_left));
        }
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

/// Adds the text of a page. Returns `false` if the text cannot be read at a bounded cost.
fn add_text(document: &mut Document, (number, page): (u32, ObjectId), text: &mut String) -> bool {
    if !weight::is_page_readable(document, page) {
        return false;
    }
    codespaces::widen(document, page);
    for chunk in document
        .extract_text_chunks_with_limit(&[number], weight::MAX_PAGE_BYTES)
        .into_iter()
        .flatten()
    {
        text.push_str(&chunk);
        text.push(' ');
        if text.len() > MAX_TEXT_CHARS {
            break;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a PDF of one page with a title, a subject and a text.
    fn pdf(title: &str, subject: &str, text: &str) -> Vec<u8> {
        let content = format!("BT /F1 12 Tf 72 700 Td ({text}) Tj ET");
        let objects = [
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>".to_owned(),
            format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()),
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
            format!("<< /Title ({title}) /Subject ({subject}) >>"),
        ];
        let mut file = "%PDF-1.4\n".to_owned();
        let mut offsets = Vec::new();
        for (number, object) in objects.iter().enumerate() {
            offsets.push(file.len());
            file.push_str(&format!("{} 0 obj\n{object}\nendobj\n", number + 1));
        }
        let table = file.len();
        file.push_str(&format!(
            "xref\n0 {}\n0000000000 65535 f \n",
            objects.len() + 1
        ));
        for offset in offsets {
            file.push_str(&format!("{offset:010} 00000 n \n"));
        }
        file.push_str(&format!(
            "trailer << /Size {} /Root 1 0 R /Info 6 0 R >>\nstartxref\n{table}\n%%EOF\n",
            objects.len() + 1
        ));
        file.into_bytes()
    }

    #[test]
    fn title_doi_and_first_page_are_read() {
        let inside = read(&pdf(
            "Reeds of the northern coast",
            "Journal 3, doi: 10.1000/ABC.1, 2020",
            "First page of reeds",
        ));
        assert_eq!(inside.title.as_deref(), Some("Reeds of the northern coast"));
        assert_eq!(inside.metadata_dois, ["10.1000/abc.1".parse().unwrap()]);
        assert_eq!(inside.first_page.as_deref(), Some("First page of reeds"));
        let word = read(&pdf("Microsoft Word - final.doc", "", "Text"));
        assert_eq!((word.title, word.metadata_dois), (None, vec![]));
    }

    #[test]
    fn xmp_is_read_from_elements_and_attributes_even_in_a_broken_file() {
        let xmp = "%PDF-1.5 broken <x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf:Description prism:url=\"https://doi.org/10.1000/x.2\">\
                   <prism:doi>10.1000/x.1</prism:doi><dc:title><rdf:Alt><rdf:li xml:lang=\"x-default\">Reeds &amp;amp; rushes of lakes</rdf:li>\
                   </rdf:Alt></dc:title></rdf:Description></x:xmpmeta> %%EOF";
        let inside = read(xmp.as_bytes());
        assert_eq!(
            inside.metadata_dois,
            [
                "10.1000/x.1".parse().unwrap(),
                "10.1000/x.2".parse().unwrap()
            ]
        );
        assert_eq!(inside.title.as_deref(), Some("Reeds & rushes of lakes"));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(100), ..Default::default() })]

        /// The test calls the reader itself, without the containment around it: a panic would be
        /// caught there, a stack overflow would not.
        #[test]
        fn fuzz_papers_are_looked_into_soon(seed in proptest::prelude::any::<u64>(), which in 0..30_usize) {
            use docstokg_hub::clock::{Clock, SystemClock};
            static PAPERS: std::sync::LazyLock<Vec<(&str, Vec<u8>)>> = std::sync::LazyLock::new(docstokg_origin_sim::hostile::papers);
            let paper = docstokg_origin_sim::hostile::paper("A title", "doi:10.5555/x and more text");
            let original = PAPERS.get(which).map_or(paper, |(_, paper)| paper.clone());
            let bytes = docstokg_origin_sim::hostile::mutated(seed, &original);
            let begun = SystemClock.boot();
            let _ = contained(|| read(&bytes));
            let took = SystemClock.boot().since(begun);
            proptest::prop_assert!(took.as_secs() < 10, "{took:?}");
        }
    }

    #[test]
    fn file_identity_reads_any_bytes_without_a_panic() {
        let good = pdf("Reeds of the northern coast", "doi:10.1000/a", "Text");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f.pdf");
        for cut in (0..good.len()).step_by(7) {
            std::fs::write(&path, &good[..cut]).unwrap();
            look_inside(&path);
            let mut damaged = good.clone();
            damaged[cut] = b'(';
            std::fs::write(&path, &damaged).unwrap();
            look_inside(&path);
        }
        assert_eq!(
            look_inside(&directory.path().join("missing.pdf")),
            FileIdentity::default()
        );
    }
}
