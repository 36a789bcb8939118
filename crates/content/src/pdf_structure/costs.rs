//! Tests of the cost of hostile files: bytes read, bytes inspected and bytes kept.

use super::cross_reference::entries;
use super::inflate::{InflateResult, all_of};
use super::source::CHUNK_BYTES;
use super::syntax::MAX_VALUES;
use super::tests::{noise, packed, written};
use super::*;

const CATALOGUE: &[u8] = b"<< /Type /Catalog /Pages 2 0 R >>";
const PAGES: &[u8] = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
const PAGE: &[u8] = b"<< /Type /Page >>";

/// Opens a file of these bytes as a [`PdfSource`](crate::pdf_structure::source::PdfSource).
fn source(bytes: &[u8]) -> PdfSource {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.pdf");
    std::fs::write(&path, bytes).unwrap();
    PdfSource::open(&path).unwrap()
}

/// Judges a file. Also returns the bytes read in total, and the largest number read at once.
fn cost(bytes: &[u8]) -> (Option<PdfDamage>, u64, u64) {
    let mut source = source(bytes);
    let damage = inspect(&mut source).unwrap();
    let (all, at_once) = source.read;
    (damage, all, at_once)
}

/// An index may name the same long object many times, which must not be read as often.
#[test]
fn objects_of_a_stream_that_overlap_are_not_read() {
    let packed = |offsets: &[usize], objects: &str| {
        let numbered = (1..).zip(offsets);
        let index: Vec<String> = numbered
            .map(|(number, at)| format!("{number} {at}"))
            .collect();
        let index = format!("{} ", index.join(" "));
        packed_objects(format!("{index}{objects}").as_bytes(), index.len())
    };
    let array = format!("[{}]", "1 ".repeat(1_000));
    let length = array.len();
    let apart = packed(&[0, length, length + 2], &format!("{array}2 3"));
    assert_eq!(apart.map(|objects| objects.len()), Some(3));
    assert!(packed(&[0, 0, 0], &array).is_none(), "the same one");
    assert!(
        packed(&[0, 1, 2], &format!("[[{array}]]")).is_none(),
        "one in another"
    );
    assert!(
        packed(&[0, 1, 2], &"[".repeat(1_000)).is_none(),
        "without an end"
    );
}

#[test]
fn a_list_of_pages_that_many_nodes_share_is_read_once() {
    const NODES: usize = 500;
    let numbers = 4..NODES + 4;
    let list: Vec<String> = numbers.map(|number| format!("{number} 0 R ")).collect();
    let list = list.concat();
    let mut objects = vec![
        CATALOGUE.to_vec(),
        b"<< /Type /Pages /Kids 3 0 R >>".to_vec(),
        format!("[{list}]").into_bytes(),
    ];
    objects.extend(vec![objects[1].clone(); NODES - 1]);
    objects.push(PAGE.to_vec());
    let (damage, all, _) = cost(&written(&objects));
    assert_eq!(damage, None);
    assert!(all < NODES as u64 * 4 * 1_024, "{all} bytes");
}

#[test]
fn tables_of_any_number_and_stated_size_are_read_within_bounds() {
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut before = 0;
    for _ in 0..1_100 {
        let begin = file.len();
        file.extend(format!("xref\n0 0\ntrailer\n<< /Prev {before} >>\n").bytes());
        before = begin;
    }
    let mut source = source(&file);
    let table =
        CrossReference::read(&mut source, before as u64, 0, &mut ReadBudget::new()).unwrap();
    assert!(table.is_some_and(|table| table.is_partial));
    let stated = b"<< /W [1 0 0] /Size 99999999999 >>";
    let stated = ValueReader::new(stated).value(0).unwrap();
    let rows = vec![1; MAX_OBJECTS + 100];
    let found = entries(&rows, stated.as_dictionary().unwrap()).unwrap();
    assert_eq!(found.len(), MAX_OBJECTS);
}

/// The file has a thousand tables of half a megabyte, each of which could be read to the end of the
/// file.
#[test]
fn large_tables_are_not_read_far_beyond_their_end() {
    const TABLES: u64 = 20;
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut before = 0;
    for _ in 0..TABLES {
        let begin = file.len();
        let entries = "0000000009 00000 f \n".repeat(5_000);
        file.extend(format!("xref\n0 5000\n{entries}trailer\n<< /Prev {before} >>\n").bytes());
        before = begin;
    }
    let mut source = source(&file);
    let table =
        CrossReference::read(&mut source, before as u64, 0, &mut ReadBudget::new()).unwrap();
    assert!(table.is_some_and(|table| !table.is_partial));
    assert!(source.read.0 < TABLES * 600 * 1_024, "{:?}", source.read);
}

#[test]
fn what_does_not_fit_is_taken_from_the_budget_too() {
    let mut left = 100_000;
    let zeros = packed(&vec![0; 1 << 20]);
    assert!(matches!(all_of(&zeros, &mut left), InflateResult::TooLarge));
    assert_eq!(left, 0);
}

#[test]
fn a_long_stream_with_zeros_is_read_in_pieces() {
    let mut content = noise(8 * CHUNK_BYTES).into_bytes();
    content.splice(0..0, [0; 64]);
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::none());
    io::Write::write_all(&mut packer, &content).unwrap();
    let data = packer.finish().unwrap();
    let head = format!(
        "<< /Filter /FlateDecode /Length {} >>\nstream\n",
        data.len()
    );
    let stream = [head.as_bytes(), &data, b"\nendstream"].concat();
    let objects = [CATALOGUE, PAGES, PAGE, &stream].map(<[u8]>::to_vec);
    let file = written(&objects);
    let (damage, all, at_once) = cost(&file);
    assert_eq!(damage, None);
    assert!(
        all > file.len() as u64 + data.len() as u64,
        "it was unpacked"
    );
    assert!(at_once <= CHUNK_BYTES as u64, "{at_once} bytes");
    let middle = file.len() / 2;
    let mut holed = file;
    holed[middle..middle + 512].fill(0);
    assert_eq!(cost(&holed).0, Some(PdfDamage::Zeros));
}

#[test]
fn streams_that_overlap_are_not_read_again_and_again() {
    const STREAMS: usize = 100;
    let data = [vec![0; 64], noise(8_000).into_bytes()].concat();
    let mut objects = [CATALOGUE, PAGES, PAGE].map(<[u8]>::to_vec).to_vec();
    for number in 0..STREAMS {
        let length = (STREAMS - number) * data.len();
        let head = format!("<< /Filter /DCTDecode /Length {length} >>\nstream\n");
        objects.push([head.as_bytes(), &data, b"\nendstream"].concat());
    }
    let file = written(&objects);
    let (damage, all, _) = cost(&file);
    assert_eq!(damage, None);
    assert!(all < 5 * file.len() as u64, "{all} of {} bytes", file.len());
}

/// A hundred streams of a kilobyte each may have a hundred million rows.
#[test]
fn files_whose_tables_have_too_many_rows_are_known() {
    let with = |rows: usize, type_name: &str| {
        let data = packed(&vec![0; rows]);
        let mut file = b"%PDF-1.5\n".to_vec();
        let mut before = String::new();
        for number in 1..=3 {
            let begin = file.len();
            let head = format!(
                "{number} 0 obj\n<< {type_name} /W [1 0 0] /Size {rows} {before} \
                 /Filter /FlateDecode /Length {} >>\nstream\n",
                data.len()
            );
            file.extend([head.as_bytes(), &data, b"\nendstream\nendobj\n"].concat());
            before = format!("/Prev {begin}");
        }
        let begin = before.trim_start_matches("/Prev ");
        file.extend(format!("startxref\n{begin}\n%%EOF\n").bytes());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f.pdf");
        std::fs::write(&path, file).unwrap();
        has_bounded_tables(&path).unwrap()
    };
    assert!(with(1_000, "/Type /XRef"));
    assert!(!with(MAX_OBJECTS / 2, "/Type /XRef"));
    assert!(!with(MAX_OBJECTS / 2, ""), "of no type");
}

#[test]
fn a_value_with_too_many_in_it_is_not_kept() {
    let array = |values: usize| format!("[{}]", "1 ".repeat(values));
    let value = |text: &str| ValueReader::new(text.as_bytes()).value(0);
    assert!(value(&array(MAX_VALUES - 1)).is_some());
    assert!(value(&array(MAX_VALUES)).is_none());
}
