//! Object streams and encryption, hidden from the library while it loads a file.
//!
//! The library would unpack and decrypt at once, at any cost. Both happen afterwards, within
//! bounds.

use lopdf::xref::XrefEntry;
use lopdf::{Dictionary, Document, Object, ObjectId, ObjectStream};

use super::weight;
use crate::pdf_structure::is_regular;

/// Names by which the library recognises streams to unpack and files to decrypt.
const FILTER_NAMES: [&[u8]; 3] = [b"Encrypt", b"ObjStm", b"First"];
/// The hidden forms of these names: the last letter is replaced.
const HIDDEN_ENCRYPT: &[u8] = b"Encrypx";
const HIDDEN_STREAM: &[u8] = b"ObjStx";
const HIDDEN_FIRST: &[u8] = b"Firsx";

/// Hides the names of [`FILTER_NAMES`] in a file, in all their spellings. No byte changes its
/// position.
pub(super) fn hide(bytes: &mut [u8]) {
    for at in 0..bytes.len() {
        if bytes[at] != b'/' {
            continue;
        }
        for name in FILTER_NAMES {
            let Some(length) = length_of(name, &bytes[at + 1..]) else {
                continue;
            };
            let end = at + 1 + length;
            if name.last() == Some(&bytes[end - 1]) {
                bytes[end - 1] = b'x';
            } else {
                // The hexadecimal digits of `x`.
                bytes[end - 2..end].copy_from_slice(b"78");
            }
        }
    }
}

/// Returns the length of a name at the beginning of a text. Letters may be spelled as `#` and two
/// digits.
fn length_of(name: &[u8], text: &[u8]) -> Option<usize> {
    let mut at = 0;
    for letter in name {
        at += match text.get(at)? {
            plain if plain == letter => 1,
            b'#' if escaped(&text[at..]) == Some(*letter) => 3,
            _ => return None,
        };
    }
    let goes_on = match text.get(at) {
        Some(b'#') => escaped(&text[at..]).is_some(),
        behind => behind.is_some_and(|byte| is_regular(*byte)),
    };
    (!goes_on).then_some(at)
}

fn escaped(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    u8::try_from(16 * digit(1)? + digit(2)?).ok()
}

/// Decrypts a document that opens without a password, and unpacks its object streams. `bytes` is
/// the file of the document. Returns `None` if the document stays encrypted, or costs too much.
pub(super) fn open(document: &mut Document, bytes: &[u8]) -> Option<()> {
    let encryption = document.trailer.remove(HIDDEN_ENCRYPT);
    let is_encrypted = encryption.is_some();
    if let Some(encryption) = encryption {
        document.trailer.set("Encrypt", encryption);
        // An object that cannot be decrypted does not prevent the reading of others.
        let _ = document.decrypt("");
        if document.is_encrypted() {
            return None;
        }
    }
    unpack(document)?;
    if is_encrypted {
        return Some(());
    }
    fill(document, bytes)
}

/// Unpacks object streams. If the table names the stream of an object, the object is taken from
/// that stream only.
fn unpack(document: &mut Document) -> Option<()> {
    let is_packed = |object: &Object| {
        let stream = object.as_stream();
        stream.is_ok_and(|stream| stream.dict.has_type(HIDDEN_STREAM))
    };
    let objects = document.objects.iter();
    let packed = objects.filter(|(_, object)| is_packed(object));
    let packed: Vec<ObjectId> = packed.map(|(id, _)| *id).collect();
    for container in packed {
        let Some(Object::Stream(mut stream)) = document.objects.remove(&container) else {
            continue;
        };
        restore(&mut stream.dict);
        if !weight::fits(&stream) {
            continue;
        }
        let limit = Some(weight::MAX_OBJECTS_BYTES);
        let Ok(unpacked) = ObjectStream::new_with_limit(&stream, limit) else {
            continue;
        };
        for (id, object) in unpacked.objects {
            let is_elsewhere = matches!(
                document.reference_table.get(id.0),
                Some(XrefEntry::Compressed { container: named, .. }) if *named != container.0
            );
            if !weight::spend(&object) {
                return None;
            }
            if !is_elsewhere {
                document.objects.entry(id).or_insert(object);
            }
        }
    }
    Some(())
}

fn restore(dictionary: &mut Dictionary) {
    if let Some(first) = dictionary.remove(HIDDEN_FIRST) {
        dictionary.set("First", first);
    }
}

/// Reads the data of streams whose length was in an object stream.
fn fill(document: &mut Document, bytes: &[u8]) -> Option<()> {
    // The library counts positions from the header.
    let header = bytes.windows(5).position(|part| part == b"%PDF-")?;
    let range_of = |object: &Object| {
        let stream = object.as_stream().ok()?;
        let begin = stream
            .start_position
            .filter(|_| stream.content.is_empty())?
            .checked_add(header)?;
        let length = stream.dict.get_deref(b"Length", document).ok()?;
        let length = usize::try_from(length.as_i64().ok()?).ok()?;
        Some(begin..begin.checked_add(length)?)
    };
    let objects = document.objects.iter();
    let ranges = objects.filter_map(|(id, object)| Some((*id, range_of(object)?)));
    for (id, range) in ranges.collect::<Vec<_>>() {
        let object = document.objects.get_mut(&id);
        if let Some(Object::Stream(stream)) = object
            && let Some(data) = bytes.get(range)
        {
            if !weight::spend_bytes(data.len()) {
                return None;
            }
            stream.set_content(data.to_vec());
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use docstokg_origin_sim::hostile::paper;
    use lopdf::{EncryptionState, EncryptionVersion, Permissions, Stream};

    use super::super::file_identity::load;
    use super::*;

    const TITLE: &str = "Reeds of the northern coast";

    /// Adds an object stream to a document: numbers with their positions, and the objects.
    fn add_packed(document: &mut Document, index: &str, objects: &str) {
        let mut dictionary = Dictionary::new();
        // The library does not write streams of the types that it knows.
        dictionary.set("Type", Object::Name(HIDDEN_STREAM.to_vec()));
        dictionary.set("First", Object::Integer(index.len().try_into().unwrap()));
        dictionary.set("N", Object::Integer(1));
        let mut stream = Stream::new(dictionary, format!("{index}{objects}").into_bytes());
        stream.compress().unwrap();
        document.add_object(stream);
    }

    fn encrypt(document: &mut Document) {
        let id = Object::string_literal("0123456789abcdef");
        let ids = Object::Array(vec![id.clone(), id]);
        document.trailer.set("ID", ids);
        let version = EncryptionVersion::V2 {
            document,
            owner_password: "owner",
            user_password: "",
            key_length: 128,
            permissions: Permissions::all(),
        };
        let state = EncryptionState::try_from(version).unwrap();
        document.encrypt(&state).unwrap();
    }

    fn bytes_of(mut document: Document) -> Vec<u8> {
        let mut bytes = Vec::new();
        document.save_to(&mut bytes).unwrap();
        let hidden = b"/ObjStx";
        let places = bytes.windows(hidden.len()).enumerate();
        let places = places.filter(|(_, part)| part == hidden);
        let places: Vec<usize> = places.map(|(at, _)| at).collect();
        assert_eq!(places.len(), 1);
        bytes[places[0]..][..hidden.len()].copy_from_slice(b"/ObjStm");
        bytes
    }

    fn title_of(document: &Document) -> Option<String> {
        let info = document.trailer.get_deref(b"Info", document).ok()?;
        let title = info.as_dict().ok()?.get(b"Title").ok()?;
        Some(String::from_utf8_lossy(title.as_str().ok()?).into_owned())
    }

    #[test]
    fn names_are_hidden_however_they_are_spelled() {
        for (spelled, hidden) in [
            ("/Encrypt 5 0 R", "/Encrypx 5 0 R"),
            ("/#45ncrypt#20", "/#45ncrypt#20"),
            ("/#45ncryp#74/A", "/#45ncryp#78/A"),
            ("/Type/ObjStm/First 5", "/Type/ObjStx/Firsx 5"),
            ("/ObjSt#6D", "/ObjSt#78"),
            ("/Encrypt#zz", "/Encrypx#zz"),
            (
                "/EncryptMetadata /FirstChar /N",
                "/EncryptMetadata /FirstChar /N",
            ),
            ("/Firs", "/Firs"),
            ("/Firs#7", "/Firs#7"),
        ] {
            let mut bytes = spelled.as_bytes().to_vec();
            hide(&mut bytes);
            assert_eq!(bytes, hidden.as_bytes(), "{spelled}");
        }
    }

    #[test]
    fn packed_objects_are_read_from_plain_and_from_encrypted_files() {
        for is_encrypted in [false, true] {
            let mut document = Document::load_mem(&paper("Another", "text")).unwrap();
            add_packed(&mut document, "90 0 ", &format!("<< /Title ({TITLE}) >>"));
            document.trailer.set("Info", Object::Reference((90, 0)));
            if is_encrypted {
                encrypt(&mut document);
            }
            let document = load(&bytes_of(document)).unwrap();
            assert_eq!(
                title_of(&document).as_deref(),
                Some(TITLE),
                "{is_encrypted}"
            );
            assert_eq!(document.get_pages().len(), 1);
        }
    }

    /// A stream of two megabytes has an index that names one long array at every position. Reading
    /// all of them would cost the array once for each entry.
    #[test]
    fn packed_objects_that_overlap_are_left_out() {
        for is_encrypted in [false, true] {
            let mut document = Document::load_mem(&paper("A title", "text")).unwrap();
            let index: Vec<String> = (100..1_100).map(|number| format!("{number} 0 ")).collect();
            let index = index.concat();
            add_packed(&mut document, &index, &format!("[{}]", "1 ".repeat(100)));
            let objects = document.objects.len();
            if is_encrypted {
                encrypt(&mut document);
            }
            let document = load(&bytes_of(document)).unwrap();
            assert!(document.objects.len() <= objects, "{is_encrypted}");
        }
    }

    /// A table may put every object at the position of the same long object.
    #[test]
    fn files_whose_objects_overlap_are_not_read() {
        let array = format!("[{}]", "1 ".repeat(20_000));
        let object = format!("%PDF-1.4\n1 0 obj\n{array}\nendobj\n");
        let entries = "0000000009 00000 n \n".repeat(100);
        let file = format!(
            "{object}xref\n1 100\n{entries}trailer\n<< /Size 101 /Root 1 0 R >>\nstartxref\n{}\n%%EOF\n",
            object.len()
        );
        assert!(load(file.as_bytes()).is_none());
    }

    #[test]
    fn a_stream_whose_length_is_packed_is_read() {
        let text = "BT /F1 12 Tf (Reeds) Tj ET";
        let index = "9 0 ";
        let objects = [
            (1, "<< /Type /Catalog /Pages 2 0 R >>".to_owned()),
            (2, "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned()),
            (
                3,
                "<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>".to_owned(),
            ),
            (4, format!("<< /Length 9 0 R >>\nstream\n{text}\nendstream")),
            (
                5,
                format!(
                    "<< /Type /ObjStm /N 1 /First {} /Length {} >>\nstream\n{index}{}\nendstream",
                    index.len(),
                    index.len() + 2,
                    text.len()
                ),
            ),
        ];
        let mut file = "before it\n%PDF-1.5\n".to_owned();
        for (number, object) in objects {
            file.push_str(&format!("{number} 0 obj\n{object}\nendobj\n"));
        }
        // The file has no cross-reference table, so the library searches for objects.
        file.push_str("trailer\n<< /Root 1 0 R >>\n%%EOF\n");
        let document = load(file.as_bytes()).unwrap();
        let page = *document.get_pages().values().next().unwrap();
        let content = document.get_page_content(page);
        assert_eq!(content.trim_ascii_end(), text.as_bytes());
    }
}
