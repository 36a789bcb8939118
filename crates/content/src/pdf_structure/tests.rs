//! Tests with files that were cut or zeroed at every position, and with real files.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use docstokg_origin_sim::hostile;
use docstokg_origin_sim::pdf::carrying;

use super::*;

/// Looks for [`PdfDamage`](crate::pdf_structure::PdfDamage) in bytes.
fn damage(bytes: &[u8]) -> Option<PdfDamage> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.pdf");
    std::fs::write(&path, bytes).unwrap();
    damage_of(&path).unwrap()
}

/// Compresses the data of a stream.
pub(super) fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// Writes a file of these objects, numbered from 1; the first is its catalogue.
pub(super) fn written(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut table = String::new();
    for (number, object) in (1..).zip(objects) {
        table.push_str(&format!("{:010} 00000 n \n", file.len()));
        let begin = format!("{number} 0 obj\n");
        file.extend([begin.as_bytes(), object, b"\nendobj\n"].concat());
    }
    let (begin, count) = (file.len(), objects.len() + 1);
    let table = format!(
        "xref\n0 {count}\n0000000000 65535 f \n{table}\
         trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{begin}\n%%EOF\n"
    );
    file.extend(table.bytes());
    file
}

/// Writes a file with an object stream and a cross-reference stream, like most papers of today.
fn packed_paper(text: &str) -> Vec<u8> {
    let stream = |number: u32, dictionary: &str, data: &[u8]| {
        let length = data.len();
        let head = format!(
            "{number} 0 obj\n<< {dictionary} /Filter /FlateDecode /Length {length} >>\nstream\n"
        );
        [head.as_bytes(), data, b"\nendstream\nendobj\n"].concat()
    };
    let mut file = b"%PDF-1.5\n".to_vec();
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >> ",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >> ",
        "<< /Type /Page /Parent 2 0 R /Contents 5 0 R >> ",
    ];
    let (mut index, mut at) = (String::new(), 0);
    for (number, object) in (1..).zip(objects) {
        index.push_str(&format!("{number} {at} "));
        at += object.len();
    }
    let first = index.len();
    let objects = packed(format!("{index}{}", objects.concat()).as_bytes());
    let places = file.len();
    file.extend(stream(
        4,
        &format!("/Type /ObjStm /N 3 /First {first}"),
        &objects,
    ));
    let content = file.len();
    file.extend(stream(5, "", &packed(text.as_bytes())));
    let table = file.len();
    let mut rows = vec![0, 0, 0, 0];
    for index in 0..3 {
        rows.extend([2, 0, 4, index]);
    }
    for place in [places, content, table] {
        let [.., high, low] = place.to_be_bytes();
        rows.extend([1, high, low, 0]);
    }
    file.extend(stream(
        6,
        "/Type /XRef /Size 7 /W [1 2 1] /Root 1 0 R",
        &packed(&rows),
    ));
    file.extend(format!("startxref\n{table}\n%%EOF\n").as_bytes());
    file
}

/// Returns a text that compresses badly.
pub(super) fn noise(length: usize) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    (0..length).map(|_| random.alphanumeric()).collect()
}

#[test]
fn whole_files_have_no_damage() {
    assert_eq!(damage(&hostile::paper("A title", "text")), None);
    assert_eq!(damage(&carrying(noise(5_000).as_bytes())), None);
    assert_eq!(damage(&packed_paper(&noise(5_000))), None);
    let before = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), carrying(b"text")].concat();
    assert_eq!(damage(&before), None, "the table counts from the header");
    let behind = [carrying(b"text"), vec![0; 600]].concat();
    assert_eq!(damage(&behind), None, "zeros behind the end");
}

#[test]
fn a_file_that_is_cut_anywhere_is_damaged() {
    for file in [
        carrying(noise(3_000).as_bytes()),
        packed_paper(&noise(3_000)),
    ] {
        // Losing only the line end after the end mark is not damage.
        for length in 0..file.len() - 1 {
            assert!(
                damage(&file[..length]).is_some(),
                "{length} of {}",
                file.len()
            );
        }
    }
}

#[test]
fn a_revision_that_is_cut_is_damaged() {
    let one = carrying(noise(3_000).as_bytes());
    let revision = "1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n";
    for length in 1..revision.len() {
        let file = [&one, &revision.as_bytes()[..length]].concat();
        assert_eq!(damage(&file), Some(PdfDamage::EndMissing), "{length}");
    }
}

/// An update that begins with `xref` also follows the end mark of an earlier part.
#[test]
fn whatever_stands_behind_the_last_end_mark_was_cut() {
    let one = carrying(b"text");
    for behind in ["xref\n0 1\n0000000000 65535 f \n", "<< /A", "%a"] {
        let file = [&one, behind.as_bytes()].concat();
        assert_eq!(damage(&file), Some(PdfDamage::EndMissing), "{behind}");
    }
    let start = one.len();
    let hybrid = format!(
        "xref\n0 0\ntrailer\n<< /Root 1 0 R /Prev {} >>\nstartxref\n{start}\n%%EOF\n",
        one.windows(6).position(|part| part == b"\nxref\n").unwrap() + 1
    );
    assert_eq!(damage(&[&one, hybrid.as_bytes()].concat()), None);
}

/// The length of the stream is a separate object, which is lost together with the end of the
/// stream.
#[test]
fn zeros_over_an_object_of_the_table_are_damage() {
    let data = packed(noise(3_000).as_bytes());
    let mut stream = b"<< /Filter /FlateDecode /Length 5 0 R >>\nstream\n".to_vec();
    stream.extend([&data[..], b"\nendstream"].concat());
    let mut file = written(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>".to_vec(),
        stream,
        data.len().to_string().into_bytes(),
        // The objects after the hole are found.
        b"[]".to_vec(),
    ]);
    assert_eq!(damage(&file), None);
    let place = |word: &[u8]| file.windows(word.len()).position(|part| part == word);
    let (length, next) = (place(b"5 0 obj").unwrap(), place(b"6 0 obj").unwrap());
    file[length - 500..next].fill(0);
    assert_eq!(damage(&file), Some(PdfDamage::Zeros));
}

#[test]
fn zeros_in_texts_are_no_damage() {
    let with = |object: &[u8]| {
        written(&[
            b"<< /Type /Catalog /Pages 2 0 R /Perms 4 0 R >>".to_vec(),
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
            b"<< /Type /Page /Parent 2 0 R >>".to_vec(),
            object.to_vec(),
        ])
    };
    let zeros = |count: usize| vec![0; count];
    let palette = [
        b"[/Indexed /DeviceRGB 255 (\\)(a)".as_slice(),
        &zeros(700),
        b"abc)]",
    ];
    assert_eq!(damage(&with(&palette.concat())), None);
    let signature = [b"<< /Contents (".as_slice(), &zeros(5_000), b") >>"];
    assert_eq!(damage(&with(&signature.concat())), None);
    let picture = [
        b"<< /ColorSpace ".as_slice(),
        &palette.concat(),
        b" /Length 1 >>\nstream\nx\nendstream",
    ];
    assert_eq!(damage(&with(&picture.concat())), None, "beside a stream");
    for lost in [
        [b"<< /A (text) ".as_slice(), &zeros(700), b" /B (text) >>"],
        [b"<< /Length 1 ".as_slice(), &zeros(40), b" >>\nstream\nx"],
    ] {
        assert_eq!(damage(&with(&lost.concat())), Some(PdfDamage::Zeros));
    }
}

#[test]
fn a_file_with_zeros_in_it_is_damaged() {
    let file = packed_paper(&noise(6_000));
    for length in [64, 512, file.len() / 10] {
        for begin in (0..file.len() - length).step_by(97) {
            let mut emptied = file.clone();
            emptied[begin..begin + length].fill(0);
            // Without its header the file is not a PDF, which an earlier check reports.
            if begin >= 8 {
                assert!(damage(&emptied).is_some(), "{length} zeros at {begin}");
            }
        }
    }
}

#[test]
fn zeros_in_unpacked_operators_are_damage_and_in_binary_streams_are_not() {
    let with = |content: &[u8]| {
        let length = content.len();
        let mut stream = format!("<< /Length {length} >>\nstream\n").into_bytes();
        stream.extend([content, b"\nendstream"].concat());
        written(&[
            b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
            b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>".to_vec(),
            stream,
        ])
    };
    let operators = "BT /F1 12 Tf 50 700 Td (some text) Tj ET\n".repeat(400);
    let mut holed = operators.clone().into_bytes();
    holed[4_000..8_096].fill(0);
    assert_eq!(damage(&with(operators.as_bytes())), None);
    assert_eq!(damage(&with(&holed)), Some(PdfDamage::Zeros));
    let picture = [b"BI /W 64 /H 64 ID ".as_slice(), &[0; 512], b" EI Q"].concat();
    assert_eq!(damage(&with(&picture)), None, "a picture within operators");
    let letters = [
        b"/9j/BIAQ AB\n".repeat(20),
        vec![0; 512],
        b"BIo=\n".repeat(20),
    ]
    .concat();
    assert_eq!(
        damage(&with(&letters)),
        Some(PdfDamage::Zeros),
        "letters of a packed picture"
    );
    let metadata = |content: &[u8]| {
        let file = with(&[b"<x:xmpmeta> BI ".as_slice(), content, b"</x:xmpmeta>"].concat());
        // The spaces do not change the positions in the table.
        let at = file
            .windows(9)
            .position(|part| part == b"<< /Lengt")
            .unwrap();
        [&file[..at], b"<< /Type /Metadata", &file[at + 2..]].concat()
    };
    assert_eq!(damage(&metadata(b"text")), None);
    assert_eq!(damage(&metadata(&[0; 512])), Some(PdfDamage::Zeros));
    let glyphs: Vec<u8> = (0..2_000_u16)
        .flat_map(|glyph| if glyph % 300 < 50 { glyph } else { 0 }.to_be_bytes())
        .collect();
    assert_eq!(damage(&with(&glyphs)), None, "a table of glyphs");
}

/// Pictures have zeros in their comments, and in their data if the code of an even area is zero.
#[test]
fn zeros_in_pictures_are_told_apart() {
    let segment = |mark: u8, data: &[u8]| {
        let [high, low] = u16::try_from(data.len() + 2).unwrap().to_be_bytes();
        [&[0xff, mark, high, low][..], data].concat()
    };
    // A table with a single code of one bit for this symbol.
    let table = |symbol: u8| {
        let mut table = vec![0x10, 1];
        table.extend([0; 15]);
        segment(0xc4, &[&table[..], &[symbol]].concat())
    };
    let sized = |side: u16, note: usize, frame: u8, symbol: u8, zeros: usize| {
        let [high, low] = side.to_be_bytes();
        let data = [
            noise(500).into_bytes(),
            vec![0; zeros],
            noise(500).into_bytes(),
        ]
        .concat();
        let parts = [
            vec![0xff, 0xd8],
            segment(0xe1, &vec![0; note]),
            segment(frame, &[8, high, low, high, low, 1]),
            table(symbol),
            segment(0xda, &[1, 1, 0, 0, 63, 0]),
            data,
            vec![0xff, 0xd9],
        ];
        let data = parts.concat();
        let head = format!(
            "4 0 obj\n<< /Subtype /Image /Filter /DCTDecode /Length {} >>\nstream\n",
            data.len()
        );
        let stream = [head.as_bytes(), &data, b"\nendstream\nendobj\n"].concat();
        // Replaces the unfiltered stream that `carrying` writes.
        let file = carrying(b"");
        let at = file.windows(7).position(|part| part == b"4 0 obj").unwrap();
        let end = file.windows(4).position(|part| part == b"xref").unwrap();
        [&file[..at], &stream, &file[end..]].concat()
    };
    let picture = |note, frame, symbol, zeros| sized(1, note, frame, symbol, zeros);
    assert_eq!(damage(&picture(20, 0xc0, 1, 0)), None);
    assert_eq!(damage(&picture(3_000, 0xc0, 1, 0)), None, "in a note");
    assert_eq!(damage(&picture(20, 0xc0, 0, 500)), None, "an even area");
    assert_eq!(
        damage(&picture(20, 0xc2, 1, 500)),
        None,
        "a progressive one"
    );
    let [small, large] = [300, 2_000];
    assert_eq!(damage(&picture(20, 0xc0, 1, small)), Some(PdfDamage::Zeros));
    assert_eq!(damage(&picture(20, 0xc0, 0, large)), Some(PdfDamage::Zeros));
    assert_eq!(damage(&picture(20, 0xc2, 1, large)), Some(PdfDamage::Zeros));
    let blank = |zeros| sized(3_000, 20, 0xc0, 0, zeros);
    assert_eq!(damage(&blank(3_780)), None, "a large blank page");
    assert_eq!(damage(&blank(4_096)), Some(PdfDamage::Zeros));
}

#[test]
fn a_file_whose_table_is_wrong_is_whole_if_its_objects_are_found() {
    let file = String::from_utf8_lossy(&hostile::paper("A title", "text")).into_owned();
    let moved = file.replace("%PDF-1.7\n", "%PDF-1.7\n%a line more\n");
    assert_eq!(damage(moved.as_bytes()), None);
    let without = file.replace("3 0 obj", "9 0 obj");
    assert_eq!(damage(without.as_bytes()), Some(PdfDamage::PagesMissing));
}

#[test]
fn hostile_files_are_judged_soon() {
    use docstokg_hub::clock::{Clock, SystemClock};
    for (name, file) in hostile::papers() {
        let begun = SystemClock.boot();
        let _ = damage(&file);
        assert!(SystemClock.boot().since(begun).as_secs() < 20, "{name}");
    }
}

/// Returns every PDF below a directory.
fn papers_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut papers: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "pdf"))
        .collect();
    papers.sort();
    papers
}

#[test]
#[ignore = "needs a directory of papers: cargo xtask real-papers DIR"]
#[expect(clippy::print_stderr, reason = "figures for the person who runs it")]
fn real_papers_are_whole_and_their_cuts_are_not() {
    let directory = std::env::var("DOCSTOKG_PAPERS").expect("DOCSTOKG_PAPERS names a directory");
    let papers = papers_in(Path::new(&directory));
    let (mut refused, mut cuts_kept, mut holes_kept, mut cuts, mut holes) = (0, 0, 0, 0, 0);
    for path in &papers {
        if let Some(damage) = damage_of(path).unwrap() {
            refused += 1;
            eprintln!("{}: {damage:?}", path.display());
            continue;
        }
        let bytes = std::fs::read(path).unwrap();
        let length = bytes.len();
        for cut in [length / 2, length * 9 / 10, length - 1_024, length - 40] {
            cuts += 1;
            if damage(&bytes[..cut]).is_none() {
                cuts_kept += 1;
                eprintln!("{} is kept when cut at {cut} of {length}", path.display());
            }
        }
        let hole = (length / 10, length / 2);
        let small = (512, length / 3);
        let page = (4_096, length * 2 / 3);
        for (zeros, begin) in [hole, small, page, (length / 10, length - length / 10)] {
            holes += 1;
            let mut emptied = bytes.clone();
            emptied[begin..(begin + zeros).min(length)].fill(0);
            if damage(&emptied).is_none() {
                holes_kept += 1;
                eprintln!(
                    "{} is kept with {zeros} zeros at {begin} of {length}",
                    path.display()
                );
            }
        }
    }
    let whole = papers.len();
    eprintln!(
        "{whole} papers: {refused} refused; {cuts_kept} of {cuts} cuts kept; \
         {holes_kept} of {holes} holes kept"
    );
}
