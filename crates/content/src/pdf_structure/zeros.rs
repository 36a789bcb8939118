//! Runs of zeros in a PDF: holes left by a transfer or a disk, or regular content.

use std::io;
use std::ops::Range;

use super::inflate;
use super::objects::{FoundObject, ObjectAt, Objects};
use super::source::{CHUNK_BYTES, PdfSource};
use super::syntax::PdfValue;

/// The shortest run that is inspected: compressed data contain no such run by chance.
const MIN_RUN_BYTES: u64 = 32;
/// The run length that is too long for data compressed without a checksum. The same applies to
/// texts of objects, in which passwords are padded with zeros.
const LONG_RUN_BYTES: u64 = 128;
/// The run length that is too long for data in which zeros are regular content.
const EVEN_RUN_BYTES: u64 = 1 << 10;
/// The run length that is too long for large pictures in which zeros stand for an even area. Among
/// 2,486 files, one had a longer run; the next longest had 3,780 bytes.
const LARGE_EVEN_RUN_BYTES: u64 = 4 << 10;
/// The number of pixels for which a byte of zeros may stand. A zero byte codes at least two squares
/// of 8 by 8 pixels, and an even area covers at most half of its picture.
const PIXELS_PER_EVEN_BYTE: u64 = 256;
/// The shortest beginning of an object: `1 0 obj`.
const MIN_HEADER_BYTES: u64 = 7;
/// Maximum number of runs that are inspected.
const MAX_RUNS: usize = 2_000;
/// The number of bytes on each side of a run that decide whether a stream is text.
const TEXT_SAMPLE_BYTES: u64 = 4 << 10;
/// The length below which bytes may look like text by chance.
const MIN_TEXT_BYTES: usize = 16;
/// The number of bytes of a picture that are searched for its tables.
const PICTURE_HEAD_BYTES: u64 = 1 << 20;

/// A run of zeros.
#[derive(Clone, Copy, Debug)]
struct ZeroRun {
    begin: u64,
    end: u64,
}

/// Tells whether a file has zeros before `end` that are not regular content. `begins` are the
/// positions of its objects, in order.
pub(super) fn are_misplaced(
    source: &mut PdfSource,
    objects: &mut Objects,
    begins: &[u64],
    end: u64,
) -> io::Result<bool> {
    let mut checked = None;
    let mut picture = Picture::default();
    for run in runs(source)?.into_iter().filter(|run| run.begin < end) {
        let number = begins.partition_point(|begin| *begin <= run.begin);
        let Some(begin) = number.checked_sub(1).map(|number| begins[number]) else {
            return Ok(true);
        };
        if checked == Some(begin) {
            // The stream was decompressed to its end.
            continue;
        }
        match judge_run(source, objects, &mut picture, begin, run)? {
            ZeroJudgement::Misplaced => return Ok(true),
            ZeroJudgement::WholeStream => checked = Some(begin),
            ZeroJudgement::Unclear => {}
        }
    }
    Ok(false)
}

/// Tells whether a run of zeros covers the beginning of the object that belongs at this position.
pub(super) fn cover(source: &mut PdfSource, at: u64) -> io::Result<bool> {
    let from = at.saturating_sub(MIN_RUN_BYTES - 1);
    let bytes = source.window(from, at - from + MIN_HEADER_BYTES + MIN_RUN_BYTES - 1)?;
    let mut runs = bytes.chunk_by(|left, right| (*left == 0) == (*right == 0));
    Ok(runs.any(|run| run[0] == 0 && run.len() as u64 >= MIN_RUN_BYTES))
}

enum ZeroJudgement {
    Misplaced,
    /// The whole stream is intact.
    WholeStream,
    /// The zeros may be regular content.
    Unclear,
}

impl ZeroJudgement {
    const fn of(is_misplaced: bool) -> Self {
        if is_misplaced {
            Self::Misplaced
        } else {
            Self::Unclear
        }
    }
}

fn judge_run(
    source: &mut PdfSource,
    objects: &mut Objects,
    picture: &mut Picture,
    begin: u64,
    run: ZeroRun,
) -> io::Result<ZeroJudgement> {
    let object = match Objects::at(source, begin)? {
        ObjectAt::Object(object) => object,
        ObjectAt::Nothing => return Ok(ZeroJudgement::Misplaced),
        ObjectAt::TooCostly => return Ok(ZeroJudgement::Unclear),
    };
    let is_in_text = |text: &Range<usize>| {
        begin + text.start as u64 <= run.begin && run.end <= begin + text.end as u64
    };
    if object.long_texts.iter().any(is_in_text) {
        // Palettes and signatures are written as texts.
        return Ok(ZeroJudgement::Unclear);
    }
    let is_long = run.end - run.begin >= LONG_RUN_BYTES;
    let (Some(dictionary), Some(data_at)) = (object.value.as_dictionary(), object.data_at) else {
        let is_behind = run.end > begin + object.value_end as u64;
        return Ok(ZeroJudgement::of(is_long || is_behind));
    };
    let length = match dictionary.get(b"Length") {
        Some(PdfValue::Reference(number)) => match objects.get(source, *number)? {
            FoundObject::Value(value) => value.as_integer(),
            _ => None,
        },
        stated => stated.and_then(PdfValue::as_integer),
    };
    let Some(length) = length.and_then(|length| u64::try_from(length).ok()) else {
        return Ok(ZeroJudgement::Unclear);
    };
    let data_at = begin + data_at as u64;
    if run.end <= data_at || run.begin >= data_at.saturating_add(length) {
        return Ok(ZeroJudgement::Misplaced);
    }
    let is_misplaced = match dictionary.first_filter() {
        // Encrypted data look random.
        Some(_) if objects.table.is_encrypted && !dictionary.has_type(b"XRef") => true,
        Some(b"FlateDecode" | b"Fl") => match check_stream(source, data_at, length)? {
            Some(true) => return Ok(ZeroJudgement::WholeStream),
            Some(false) => true,
            None => false,
        },
        Some(b"DCTDecode" | b"DCT") => {
            let head = picture.head(source, data_at, length)?;
            let shortest = shortest_misplaced(head, run.begin.saturating_sub(data_at));
            shortest.is_some_and(|shortest| run.end - run.begin >= shortest)
        }
        Some(b"ASCIIHexDecode" | b"AHx" | b"ASCII85Decode" | b"A85") => true,
        Some(b"JPXDecode" | b"CCITTFaxDecode" | b"CCF" | b"LZWDecode" | b"LZW") => is_long,
        Some(_) => run.end - run.begin >= EVEN_RUN_BYTES,
        None => {
            let data = (data_at, data_at.saturating_add(length));
            let may_have_pictures = !dictionary.has_type(b"Metadata");
            is_text_around(source, data, run, may_have_pictures)?
        }
    };
    Ok(ZeroJudgement::of(is_misplaced))
}

/// Tells whether a stream can be decompressed to its end. Returns `None` if reading would cost too
/// much. The stream is read in pieces, whatever its length.
fn check_stream(source: &mut PdfSource, begin: u64, length: u64) -> io::Result<Option<bool>> {
    let end = begin.saturating_add(length).min(source.length);
    if !source.spend_on_streams(end.saturating_sub(begin)) {
        return Ok(None);
    }
    let (mut at, mut left) = (begin, source.expanded_left);
    let next = || {
        let piece = source.window(at, end.saturating_sub(at).min(CHUNK_BYTES as u64))?;
        at += piece.len() as u64;
        Ok(piece)
    };
    let is_whole = inflate::is_whole(next, &mut left)?;
    source.expanded_left = left;
    Ok(Some(is_whole))
}

/// The beginning of the latest picture, kept because a picture may have many runs.
#[derive(Default)]
struct Picture {
    data_at: u64,
    head: Vec<u8>,
}

impl Picture {
    /// Returns the beginning of a picture; empty if reading would cost too much.
    fn head(&mut self, source: &mut PdfSource, data_at: u64, length: u64) -> io::Result<&[u8]> {
        if self.data_at != data_at {
            let most = length.min(PICTURE_HEAD_BYTES).min(source.length);
            self.data_at = data_at;
            self.head = if source.spend_on_streams(most) {
                source.window(data_at, most)?
            } else {
                Vec::new()
            };
        }
        Ok(&self.head)
    }
}

/// Tells whether the bytes around a run in a stream are text, like metadata or the operators of a
/// page. An inline picture, which begins with `BI`, may contain zeros.
fn is_text_around(
    source: &mut PdfSource,
    (begin, end): (u64, u64),
    run: ZeroRun,
    may_have_pictures: bool,
) -> io::Result<bool> {
    let from = run.begin.saturating_sub(TEXT_SAMPLE_BYTES).max(begin);
    let before = source.window(from, run.begin.saturating_sub(from))?;
    let behind = end.min(run.end + TEXT_SAMPLE_BYTES).saturating_sub(run.end);
    let behind = source.window(run.end, behind)?;
    let is_text = |byte: &u8| *byte >= b' ' || byte.is_ascii_whitespace();
    let has_text = before.len() + behind.len() >= MIN_TEXT_BYTES;
    let is_all_text = before.iter().chain(&behind).all(is_text);
    let mut words = before.split(u8::is_ascii_whitespace);
    let has_picture = may_have_pictures && words.any(|word| word == b"BI");
    Ok(has_text && is_all_text && !has_picture)
}

/// Returns the minimum length of a misplaced run of zeros at a position of a JPEG picture. Returns
/// `None` within its tables and comments. In its data long runs are misplaced, unless zeros code an
/// even area.
fn shortest_misplaced(picture: &[u8], place: u64) -> Option<u64> {
    let mut at = 2;
    let mut is_even_area_zero = false;
    let mut even_run = EVEN_RUN_BYTES;
    while let Some(&[0xff, marker, high, low]) = picture.get(at..at + 4) {
        if marker == 0xff {
            // Markers may be preceded by fill bytes.
            at += 1;
            continue;
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        let segment = picture.get(at + 4..at + 2 + length).unwrap_or_default();
        if let (0xc0..=0xc2, Some(pixels)) = (marker, pixels(segment)) {
            let plausible = pixels / PIXELS_PER_EVEN_BYTE;
            even_run = plausible.clamp(EVEN_RUN_BYTES, LARGE_EVEN_RUN_BYTES);
        }
        match marker {
            0xc4 => is_even_area_zero |= has_zero_code_for_end(segment),
            // A progressive picture begins with the even parts of all areas.
            0xc2 => is_even_area_zero = true,
            // The compressed data begin here.
            0xda if place < (at + 2 + length) as u64 => return None,
            0xda if is_even_area_zero => return Some(even_run),
            0xda => return Some(LONG_RUN_BYTES),
            _ => {}
        }
        at += 2 + length.max(2);
    }
    // The head of the picture is longer than the bytes that were read, or the zeros replace a
    // marker.
    (at + 4 <= picture.len()).then_some(LONG_RUN_BYTES)
}

/// Returns the number of pixels of a picture, from its frame segment.
fn pixels(frame: &[u8]) -> Option<u64> {
    let size = |at: usize| {
        let bytes = frame.get(at..at + 2)?;
        Some(u64::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    };
    Some(size(1)? * size(3)?)
}

/// Tells whether a Huffman table for areas assigns its first code, which is all zeros, to a symbol
/// without a value after it.
fn has_zero_code_for_end(mut tables: &[u8]) -> bool {
    while let Some(counts) = tables.get(1..17) {
        let symbols: usize = counts.iter().map(|count| usize::from(*count)).sum();
        let is_of_areas = tables[0] >> 4 == 1;
        if is_of_areas
            && tables
                .get(17)
                .is_some_and(|first| first.trailing_zeros() >= 4)
        {
            return true;
        }
        tables = tables.get(17 + symbols..).unwrap_or_default();
    }
    false
}

/// Finds the [`ZeroRun`]s of a file.
fn runs(source: &mut PdfSource) -> io::Result<Vec<ZeroRun>> {
    let mut found: Vec<ZeroRun> = Vec::new();
    let mut current: Option<ZeroRun> = None;
    source.each_chunk(0, |from, bytes| {
        for (at, byte) in (from..).zip(bytes) {
            match (*byte, &mut current) {
                (0, Some(run)) => run.end = at + 1,
                (0, none) => {
                    *none = Some(ZeroRun {
                        begin: at,
                        end: at + 1,
                    });
                }
                (_, run) => {
                    let has_room = found.len() < MAX_RUNS;
                    let ended = run
                        .take()
                        .filter(|run| run.end - run.begin >= MIN_RUN_BYTES);
                    found.extend(ended.filter(|_| has_room));
                }
            }
        }
    })?;
    Ok(found)
}
