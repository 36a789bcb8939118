//! The objects of a PDF: read by number, or found by a scan if the tables do not lead to them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::rc::Rc;

use super::cross_reference::{CrossReference, MAX_OBJECTS, ObjectPosition};
use super::inflate::{self, InflateResult};
use super::source::PdfSource;
use super::syntax::{ObjectText, PdfValue, ValueReader};

/// The numbers of bytes of an object that are read, in successive tries, without the data of its
/// stream.
const OBJECT_BYTES: [u64; 3] = [1 << 10, 64 << 10, 4 << 20];
/// The number of bytes that are read to check whether an object begins at a position.
const HEADER_BYTES: u64 = 40;
/// Maximum size of all object streams of a file after decompression. A value takes many times the
/// memory of its text.
const MAX_UNPACKED_BYTES: usize = 8 << 20;
/// The number of bytes of an object that are read to check whether it is a catalogue.
const CATALOGUE_BYTES: u64 = 4 << 10;
/// The number of bytes after an object that show that no stream follows.
const BEHIND_BYTES: usize = 16;
/// Maximum number of objects in one object stream.
const MAX_PACKED: usize = 100_000;

/// The result of [`Objects::get`].
pub(super) enum FoundObject {
    /// The object was found.
    Value(Rc<PdfValue>),
    /// The file has no such object.
    Nothing,
    /// The object cannot be read, because it is encrypted, compressed in an unknown way, or costs
    /// too much.
    Unknown,
}

/// The content at the position of an object.
pub(super) enum ObjectAt {
    Object(ObjectText),
    /// No readable object.
    Nothing,
    /// Reading the object would cost too much.
    TooCostly,
}

/// The objects of a PDF, by the numbers in its [`CrossReference`].
pub(super) struct Objects {
    pub(super) table: CrossReference,
    /// The number of bytes before the header of the file, if its tables do not count them.
    pub(super) shift: u64,
    /// Object streams that were decompressed.
    packed: BTreeMap<u32, ObjectStream>,
    /// The remaining allowance for decompression.
    left: usize,
}

impl Objects {
    pub(super) const fn new(table: CrossReference, shift: u64) -> Self {
        Self {
            table,
            shift,
            packed: BTreeMap::new(),
            left: MAX_UNPACKED_BYTES,
        }
    }

    /// Reads the object that begins at a position, as an [`ObjectAt`].
    pub(super) fn at(source: &mut PdfSource, at: u64) -> io::Result<ObjectAt> {
        for most in OBJECT_BYTES {
            let is_again = most > OBJECT_BYTES[0];
            if is_again && !source.spend_on_objects(most.min(source.length)) {
                return Ok(ObjectAt::TooCostly);
            }
            let bytes = source.window(at, most)?;
            let mut reader = ValueReader::new(&bytes);
            let object = reader.object();
            let is_all = (bytes.len() as u64) < most;
            // A stream may begin right after the bytes that were read.
            let is_whole = object.as_ref().is_some_and(|object| {
                object.data_at.is_some() || reader.at + BEHIND_BYTES < bytes.len()
            });
            if is_whole || is_all {
                return Ok(object.map_or(ObjectAt::Nothing, ObjectAt::Object));
            }
        }
        Ok(ObjectAt::Nothing)
    }

    /// Reads a short object, such as a catalogue, that begins at a position, as an [`ObjectText`].
    pub(super) fn short_at(source: &mut PdfSource, at: u64) -> io::Result<Option<ObjectText>> {
        let bytes = source.window(at, CATALOGUE_BYTES)?;
        Ok(ValueReader::new(&bytes).object())
    }

    /// Reads an object by its number, as a [`FoundObject`].
    pub(super) fn get(&mut self, source: &mut PdfSource, number: u32) -> io::Result<FoundObject> {
        match self.table.places.get(&number) {
            Some(ObjectPosition::At(at)) => {
                Ok(match Self::at(source, at.saturating_add(self.shift))? {
                    ObjectAt::Object(object) if object.number == number => {
                        FoundObject::Value(Rc::new(object.value))
                    }
                    ObjectAt::Object(_) | ObjectAt::Nothing => FoundObject::Nothing,
                    ObjectAt::TooCostly => FoundObject::Unknown,
                })
            }
            Some(ObjectPosition::In(_)) if self.table.is_encrypted => Ok(FoundObject::Unknown),
            Some(ObjectPosition::In(stream)) => self.packed_in(source, *stream, number),
            _ if self.table.is_partial => Ok(FoundObject::Unknown),
            _ => Ok(FoundObject::Nothing),
        }
    }

    fn packed_in(
        &mut self,
        source: &mut PdfSource,
        stream: u32,
        number: u32,
    ) -> io::Result<FoundObject> {
        let unpacked = match self.packed.entry(stream) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let Some(ObjectPosition::At(at)) = self.table.places.get(&stream) else {
                    return Ok(FoundObject::Nothing);
                };
                let at = at.saturating_add(self.shift);
                unknown.insert(unpack(source, at, &mut self.left)?)
            }
        };
        Ok(match unpacked {
            ObjectStream::Objects(objects) => match objects.get(&number) {
                Some(value) => FoundObject::Value(Rc::clone(value)),
                None => FoundObject::Nothing,
            },
            ObjectStream::Unknown => FoundObject::Unknown,
            ObjectStream::Damaged => FoundObject::Nothing,
        })
    }

    /// Returns the numbers of the objects whose position in the table is not the beginning of an
    /// object.
    pub(super) fn misplaced(&self, source: &mut PdfSource) -> io::Result<Vec<u32>> {
        let mut misplaced = Vec::new();
        for (number, place) in &self.table.places {
            let ObjectPosition::At(at) = place else {
                continue;
            };
            let bytes = source.window(at.saturating_add(self.shift), HEADER_BYTES)?;
            if !begins_object(&bytes, *number) {
                misplaced.push(*number);
            }
        }
        Ok(misplaced)
    }

    /// Finds every object by a scan of the whole file. The last object of each number counts. At
    /// most [`MAX_OBJECTS`] are returned.
    pub(super) fn scan(source: &mut PdfSource) -> io::Result<BTreeMap<u32, u64>> {
        const OVERLAP: usize = 64;
        let mut found = BTreeMap::new();
        source.each_chunk(OVERLAP, |from, bytes| {
            for at in places_of(bytes, b"obj") {
                // An object that begins before this piece was found in the previous piece.
                if from > 0 && at < OVERLAP / 2 {
                    continue;
                }
                if let Some((number, begin)) = header_before(bytes, at)
                    && (found.len() < MAX_OBJECTS || found.contains_key(&number))
                {
                    found.insert(number, from + begin as u64);
                }
            }
        })?;
        Ok(found)
    }
}

/// An object stream, decompressed or refused.
enum ObjectStream {
    Objects(BTreeMap<u32, Rc<PdfValue>>),
    /// The stream is compressed in an unknown way, or costs too much.
    Unknown,
    Damaged,
}

/// Reads an [`ObjectStream`], if its decompressed size is within the allowance.
fn unpack(source: &mut PdfSource, at: u64, left: &mut usize) -> io::Result<ObjectStream> {
    let object = match Objects::at(source, at)? {
        ObjectAt::Object(object) => object,
        ObjectAt::Nothing => return Ok(ObjectStream::Damaged),
        ObjectAt::TooCostly => return Ok(ObjectStream::Unknown),
    };
    let (Some(dictionary), Some(data_at)) = (object.value.as_dictionary(), object.data_at) else {
        return Ok(ObjectStream::Damaged);
    };
    let Some(length) = dictionary.number(b"Length") else {
        return Ok(ObjectStream::Unknown);
    };
    if !matches!(dictionary.first_filter(), Some(b"FlateDecode" | b"Fl")) {
        return Ok(ObjectStream::Unknown);
    }
    let length = length.min(MAX_UNPACKED_BYTES as u64);
    if *left == 0 || !source.spend_on_objects(length.min(source.length)) {
        return Ok(ObjectStream::Unknown);
    }
    let data = source.window(at + data_at as u64, length)?;
    let content = match inflate::all_of(&data, left) {
        InflateResult::Whole(content) => inflate::without_predictor(content, dictionary),
        InflateResult::TooLarge => return Ok(ObjectStream::Unknown),
        InflateResult::Broken => return Ok(ObjectStream::Damaged),
    };
    let first = dictionary.number(b"First").unwrap_or(0);
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    Ok(packed_objects(&content, first).map_or(ObjectStream::Unknown, ObjectStream::Objects))
}

/// Reads the objects of an object stream whose index ends at `first`. Returns `None` if the objects
/// overlap or are too many: the cost must not exceed the length of the content.
pub(super) fn packed_objects(content: &[u8], first: usize) -> Option<BTreeMap<u32, Rc<PdfValue>>> {
    let index = content.get(..first).unwrap_or_default();
    let mut index = std::str::from_utf8(index)
        .unwrap_or_default()
        .split_whitespace();
    let (mut objects, mut count, mut left) = (BTreeMap::new(), 0, content.len());
    while let (Some(number), Some(offset)) = (index.next(), index.next()) {
        count += 1;
        if count > MAX_PACKED {
            return None;
        }
        let begin = offset.parse::<usize>().ok();
        let text = begin.and_then(|begin| content.get(first.checked_add(begin)?..));
        let (Ok(number), Some(text)) = (number.parse(), text) else {
            continue;
        };
        let mut reader = ValueReader::new(text);
        let value = reader.value(0);
        // A value that cannot be read here may be readable to another program, so all of it counts.
        let length = value.as_ref().map_or(text.len(), |_| reader.at);
        left = left.checked_sub(length)?;
        objects.extend(value.map(|value| (number, Rc::new(value))));
    }
    Some(objects)
}

/// Tells whether an object of this number begins here.
fn begins_object(bytes: &[u8], number: u32) -> bool {
    let mut reader = ValueReader::new(bytes);
    let is_it = reader.number() == Some(u64::from(number)) && reader.number().is_some();
    reader.skip_space();
    is_it && bytes[reader.at..].starts_with(b"obj")
}

/// Returns the number of the object whose `obj` keyword is at a position, and the start of the
/// object.
fn header_before(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let before = &bytes[at.saturating_sub(24)..at];
    let text = before.trim_ascii_end();
    let is_apart = text.len() < before.len();
    let generation = trailing_digits(text)?;
    let rest = &text[..text.len() - generation.len()];
    let number_part = rest.trim_ascii_end();
    let number = trailing_digits(number_part)?;
    let begin = at - before.len() + number_part.len() - number.len();
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    (is_apart && number_part.len() < rest.len()).then_some((number, begin))
}

fn trailing_digits(text: &[u8]) -> Option<&[u8]> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let count = digits.count();
    (count > 0).then(|| &text[text.len() - count..])
}

/// Returns every position of a word.
fn places_of<'a>(bytes: &'a [u8], word: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let found = bytes.windows(word.len()).enumerate();
    found
        .filter(move |(_, part)| *part == word)
        .map(|(at, _)| at)
}

pub(super) fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    places_of(bytes, word).next()
}
