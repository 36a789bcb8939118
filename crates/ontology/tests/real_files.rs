//! Validates every file of a directory, for comparison with other parsers.
//!
//! `ONTOLOGY_FILES=DIRECTORY cargo test -p docstokg-ontology --test real_files -- --ignored
//! --nocapture` prints one JSON object per file: path, format, report, and how many distinct
//! statements its normalised form has. `cargo xtask real-ontologies` compares them with what other
//! parsers count.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(
    clippy::print_stdout,
    reason = "the result is for another program to read"
)]

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use docstokg_ontology::format::unpack::{UnpackLimits, gunzip};
use docstokg_ontology::format::{
    DetectedFormat, HEAD_BYTES, OntologyFormat, Packing, ReadOptions, detect, normalize, validate,
};

fn files_below(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn open(path: &Path) -> (Vec<u8>, Box<dyn Read + Send>) {
    let plain = || BufReader::new(File::open(path).unwrap());
    let head_of = |reader: &mut dyn Read| {
        let mut head = Vec::new();
        reader
            .take(HEAD_BYTES as u64)
            .read_to_end(&mut head)
            .unwrap();
        head
    };
    let head = head_of(&mut plain());
    if detect(&head, None) == DetectedFormat::Packed(Packing::Gzip) {
        let unpacked = || gunzip(plain(), UnpackLimits::default());
        return (head_of(&mut unpacked()), Box::new(unpacked()));
    }
    (head, Box::new(plain()))
}

#[test]
#[ignore = "needs ONTOLOGY_FILES, a directory of ontologies"]
fn real_files_are_read() {
    let directory = std::env::var("ONTOLOGY_FILES").unwrap();
    let mut files = Vec::new();
    files_below(Path::new(&directory), &mut files);
    files.sort();
    assert!(!files.is_empty(), "{directory} has no files");
    let scratch = tempfile::tempdir().unwrap();
    for path in files {
        let (head, reader) = open(&path);
        let name = path.to_str().unwrap().trim_end_matches(".gz");
        let (format, report, distinct) = match detect(&head, OntologyFormat::from_file_name(name)) {
            DetectedFormat::Ontology(format) => {
                let options = ReadOptions::with_base(format!("file://{}", path.display()));
                let report = validate(reader, format, &options).unwrap();
                let target = scratch.path().join("statements.nt");
                let distinct = (report.is_valid() && format.is_rdf()).then(|| {
                    let normalized = normalize(open(&path).1, format, &options, &target);
                    normalized.unwrap().statements
                });
                (format!("{format:?}"), Some(report), distinct)
            }
            DetectedFormat::Packed(packing) => (format!("{packing:?}"), None, None),
            DetectedFormat::Refused(refusal) => (format!("refused: {refusal}"), None, None),
        };
        println!(
            "{}",
            serde_json::json!({
                "path": path, "format": format, "report": report, "distinct": distinct,
            })
        );
    }
}
