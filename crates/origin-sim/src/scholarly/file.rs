//! The files of the simulated web, whose bytes are generated from a seed, and responses with them.

use std::ops::Range;

use bytes::Bytes;
use md5::Md5;
use sha2::{Digest, Sha256};

use crate::ledger::Arrival;
use crate::pdf;
use crate::reply::ScriptedReply;

/// The version of a work's text that a file has. Files of the same version have the same bytes at
/// every location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TextVersion {
    /// The published text.
    Published,
    /// The accepted text, in a repository.
    Accepted,
    /// The text submitted to arXiv.
    Submitted,
}

impl TextVersion {
    /// Returns the name of the version in catalogues.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Published => "publishedVersion",
            Self::Accepted => "acceptedVersion",
            Self::Submitted => "submittedVersion",
        }
    }
}

/// Returns a PDF with random bytes in a stream. The same arguments give the same PDF.
pub(super) fn pdf(seed: u64, work: usize, version: TextVersion, sizes: &Range<usize>) -> Bytes {
    let mut random = random(seed, work, version as u64 + 1);
    let length = if sizes.is_empty() {
        sizes.start
    } else {
        random.usize(sizes.clone())
    };
    let head = format!("Work {work} version {}\n", version.word()).into_bytes();
    let rest = length.saturating_sub(pdf::carrying(&head).len()).max(1);
    let mut bytes = vec![0; rest];
    random.fill(&mut bytes);
    pdf::carrying(&[head, bytes].concat()).into()
}

/// Returns an article as JATS XML, with random paragraphs. The same arguments give the same
/// article.
pub(super) fn jats(seed: u64, work: usize, title: &str, doi: &str, pmcid: u64) -> Bytes {
    let mut random = random(seed, work, 9);
    let mut paragraphs = String::new();
    for number in 1..=random.usize(20..60) {
        paragraphs.push_str(&format!(
            "<p id=\"p{number}\">{:016x} {:016x} {:016x}</p>\n",
            random.u64(..),
            random.u64(..),
            random.u64(..)
        ));
    }
    let ids = format!(
        "<article-id pub-id-type=\"pmcid\">PMC{pmcid}</article-id>\
         <article-id pub-id-type=\"doi\">{}</article-id>",
        escaped(doi)
    );
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE article PUBLIC \
         \"-//NLM//DTD JATS (Z39.96) Journal Archiving and Interchange DTD v1.3 20210610//EN\" \
         \"JATS-archivearticle1-3.dtd\">\n<article article-type=\"research-article\"><front>\
         <article-meta>{ids}<title-group><article-title>{}</article-title></title-group>\
         </article-meta></front>\n<body>\n{paragraphs}</body></article>\n",
        escaped(title)
    );
    text.into()
}

/// Escapes a text for XML and HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn random(seed: u64, work: usize, purpose: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((work as u64) << 8) ^ purpose,
    )
}

/// Returns the first half of a PDF, followed by the HTML page of an error.
pub(super) fn spoilt(whole: &[u8]) -> Bytes {
    let mut bytes = whole[..whole.len() / 2].to_vec();
    bytes.extend_from_slice(
        b"\n<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>\n",
    );
    bytes.into()
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

pub(super) fn md5(bytes: &[u8]) -> String {
    format!("{:x}", Md5::digest(bytes))
}

/// The `Last-Modified` date of all files.
const CHANGED: &str = "Tue, 03 Mar 2026 08:00:00 GMT";

/// Serves a file: as a whole, in part (RFC 9110, section 14), or with status 304.
pub(super) fn serve(arrival: &Arrival, bytes: &Bytes, kind: &str) -> ScriptedReply {
    let etag = format!("\"{}\"", &md5(bytes)[..20]);
    let known = |reply: ScriptedReply| {
        reply
            .header("etag", &etag)
            .header("last-modified", CHANGED)
            .header("accept-ranges", "bytes")
    };
    if arrival
        .header("if-none-match")
        .is_some_and(|value| value == "*" || value.split(',').any(|known| known.trim() == etag))
    {
        return known(ScriptedReply::status(304));
    }
    let same = arrival
        .header("if-range")
        .is_none_or(|value| value == etag || value == CHANGED);
    let wanted = arrival
        .header("range")
        .filter(|_| same)
        .map_or(RangePart::Whole, |value| part(value, bytes.len()));
    match wanted {
        RangePart::Whole => known(ScriptedReply::status(200))
            .header("content-type", kind)
            .body(bytes.clone()),
        RangePart::Some(range) => known(ScriptedReply::status(206))
            .header("content-type", kind)
            .header(
                "content-range",
                &format!("bytes {}-{}/{}", range.start, range.end - 1, bytes.len()),
            )
            .body(bytes.slice(range)),
        RangePart::Beyond => known(ScriptedReply::status(416))
            .header("content-range", &format!("bytes */{}", bytes.len())),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum RangePart {
    Whole,
    Some(Range<usize>),
    Beyond,
}

/// Reads a `Range` header into a [`RangePart`]. A header in an unknown form, or with several
/// ranges, is ignored.
fn part(value: &str, length: usize) -> RangePart {
    let Some((first, last)) = value
        .trim()
        .strip_prefix("bytes=")
        .and_then(|range| range.split_once('-'))
    else {
        return RangePart::Whole;
    };
    let range = match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
        (Ok(first), Ok(last)) if first <= last => first..length.min(last.saturating_add(1)),
        (Ok(first), Err(_)) if last.trim().is_empty() => first..length,
        (Err(_), Ok(count)) if first.trim().is_empty() => length.saturating_sub(count)..length,
        _ => return RangePart::Whole,
    };
    if range.is_empty() {
        RangePart::Beyond
    } else {
        RangePart::Some(range)
    }
}

#[cfg(test)]
mod tests {
    use docstokg_policy::time::BootInstant;

    use super::*;

    #[test]
    fn parts_are_read_as_the_rfc_has_them() {
        for (value, wanted) in [
            ("bytes=0-9", RangePart::Some(0..10)),
            ("bytes=90-", RangePart::Some(90..100)),
            ("bytes=90-500", RangePart::Some(90..100)),
            ("bytes=-10", RangePart::Some(90..100)),
            ("bytes=-500", RangePart::Some(0..100)),
            ("bytes=100-", RangePart::Beyond),
            ("bytes=-0", RangePart::Beyond),
            ("bytes=9-1", RangePart::Whole),
            ("bytes=0-1,5-6", RangePart::Whole),
            ("pages=1-2", RangePart::Whole),
        ] {
            assert_eq!(part(value, 100), wanted, "{value}");
        }
    }

    #[test]
    fn a_part_fits_the_whole_and_only_the_same_file_is_continued() {
        let bytes = pdf(1, 2, TextVersion::Published, &(4000..5000));
        let ask = |headers: &[(&str, &str)]| {
            let plain = Arrival::get("a", "/x.pdf", BootInstant::ZERO);
            serve(
                &headers
                    .iter()
                    .fold(plain, |arrival, (name, value)| arrival.with(name, value)),
                &bytes,
                "application/pdf",
            )
        };
        let whole = ask(&[]);
        let etag = whole
            .headers
            .iter()
            .find(|(name, _)| name == "etag")
            .map(|(_, value)| value.clone())
            .unwrap();
        let rest = ask(&[("range", "bytes=1000-"), ("if-range", &etag)]);
        assert_eq!(
            (rest.status, rest.length()),
            (206, bytes.len() as u64 - 1000)
        );
        assert!(rest.headers.contains(&(
            "content-range".to_owned(),
            format!("bytes 1000-{}/{}", bytes.len() - 1, bytes.len())
        )));
        assert_eq!(
            ask(&[("range", "bytes=1000-"), ("if-range", "\"other\"")]).status,
            200
        );
        assert_eq!(ask(&[("range", "bytes=90000-")]).status, 416);
        assert_eq!(ask(&[("if-none-match", &etag)]).status, 304);
    }

    #[test]
    fn a_pdf_begins_and_ends_as_one_and_follows_from_its_seed() {
        let file = |seed, work, version| pdf(seed, work, version, &(2000..3000));
        let one = file(1, 1, TextVersion::Published);
        assert!(
            one.starts_with(b"%PDF-1.7\n")
                && one.ends_with(b"%%EOF\n")
                && (2000..3000).contains(&one.len())
        );
        assert_eq!(one, file(1, 1, TextVersion::Published));
        for other in [
            file(2, 1, TextVersion::Published),
            file(1, 2, TextVersion::Published),
            file(1, 1, TextVersion::Accepted),
        ] {
            assert_ne!(one, other);
        }
        assert_eq!(md5(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
