use std::io::Cursor;

use flate2::Compression;
use flate2::write::GzEncoder;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::*;

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        writer
            .start_file(*name, SimpleFileOptions::default())
            .unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Replaces a name in both headers of an entry by a name of the same length.
fn renamed(mut archive: Vec<u8>, from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let finder = memchr::memmem::Finder::new(from.as_bytes());
    let places: Vec<_> = finder.find_iter(&archive).collect();
    for at in places {
        archive[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    archive
}

fn extract(archive: Vec<u8>, limits: UnpackLimits) -> Result<Vec<ExtractedFile>, UnpackError> {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("out");
    let result = extract_zip(Cursor::new(archive), &target, limits);
    assert_eq!(target.exists(), result.is_ok());
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), usize::from(result.is_ok()), "{left:?}");
    result
}

fn refusal(archive: Vec<u8>) -> String {
    extract(archive, UnpackLimits::default())
        .unwrap_err()
        .to_string()
}

#[test]
fn gzip_streams_are_read_whole_and_not_when_cut() {
    let text = b"format-version: 1.2\n".repeat(1000);
    let mut packed = gzipped(&text);
    packed.extend(gzipped(b"more"));
    let mut out = Vec::new();
    gunzip(&packed[..], UnpackLimits::default())
        .read_to_end(&mut out)
        .unwrap();
    assert_eq!(out.len(), text.len() + 4);
    for end in 0..packed.len() - 1 {
        let first_member = gzipped(&text).len();
        let read = gunzip(&packed[..end], UnpackLimits::default()).read_to_end(&mut Vec::new());
        assert_eq!(read.is_ok(), end == first_member, "{end}");
    }
}

#[test]
fn gzip_bombs_are_refused() {
    let bomb = gzipped(&vec![0; 64 << 20]);
    let mut reader = gunzip(&bomb[..], UnpackLimits::default());
    let error = io::copy(&mut reader, &mut io::sink()).unwrap_err();
    assert!(error.to_string().contains("100 times its size"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("file");
    let error = extract_gzip(&bomb[..], &target, UnpackLimits::default()).unwrap_err();
    assert!(matches!(error, UnpackError::Refused(_)));
    assert!(
        std::fs::read_dir(directory.path())
            .unwrap()
            .next()
            .is_none()
    );
    let whole = extract_gzip(&gzipped(b"abc")[..], &target, UnpackLimits::default()).unwrap();
    assert_eq!(whole.bytes, 3);
    assert_eq!(std::fs::read(&target).unwrap(), b"abc");
}

#[test]
fn archives_are_extracted() {
    let files = extract(
        archive(&[
            ("top/META-INF/taxonomyPackage.xml", b"<a/>"),
            ("top/b.ttl", b"bb"),
        ]),
        UnpackLimits::default(),
    )
    .unwrap();
    let found: Vec<_> = files
        .iter()
        .map(|file| (file.path.to_str().unwrap(), file.bytes))
        .collect();
    assert_eq!(
        found,
        [("top/META-INF/taxonomyPackage.xml", 4), ("top/b.ttl", 2)]
    );
    assert_eq!(
        files[1].sha256,
        "3b64db95cb55c763391c707108489ae18b4112d783300de38e033b4c98c3deaf"
    );
}

#[test]
fn names_that_leave_the_directory_are_refused() {
    for bad in [
        "../a", "/abs", "a/..", "a\\b.", "C:/a", "a//b", "./aa", "a\nb.",
    ] {
        let plain = "xxxx";
        let bad = format!("{bad:x<4}");
        let archive = renamed(archive(&[(plain, b"data")]), plain, &bad[..4]);
        assert!(
            refusal(archive).starts_with("the archive is refused: "),
            "{bad}"
        );
    }
    let deep = format!("{}f", "d/".repeat(40));
    assert!(refusal(archive(&[(&deep, b"x")])).contains("32 directories deep"));
}

#[test]
fn links_duplicates_and_bombs_are_refused() {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer
        .add_symlink("link", "/etc/passwd", SimpleFileOptions::default())
        .unwrap();
    assert!(refusal(writer.finish().unwrap().into_inner()).contains("link"));

    let twice = renamed(archive(&[("same", b"1"), ("sane", b"2")]), "sane", "same");
    assert!(refusal(twice).contains("same name"));

    assert!(refusal(archive(&[("zeros", &vec![0; 64 << 20])])).contains("100 times its size"));

    let few = UnpackLimits {
        max_entries: 1,
        ..UnpackLimits::default()
    };
    let error = extract(archive(&[("a", b"1"), ("b", b"2")]), few).unwrap_err();
    assert!(error.to_string().contains("2 entries"));

    let small = UnpackLimits {
        max_total_bytes: 5,
        ..UnpackLimits::default()
    };
    let error = extract(archive(&[("a", b"123"), ("b", b"456")]), small).unwrap_err();
    assert!(error.to_string().contains("more than 5 bytes"));
}

#[test]
fn cut_and_corrupt_archives_are_refused() {
    let whole = archive(&[("a.ttl", &b"some text ".repeat(100))]);
    for end in 0..whole.len() {
        assert!(
            extract(whole[..end].to_vec(), UnpackLimits::default()).is_err(),
            "{end}"
        );
    }
    let mut corrupt = whole;
    corrupt[45] ^= 0xff;
    assert!(extract(corrupt, UnpackLimits::default()).is_err());
}
