//! The text of a list as UTF-8: byte order marks are removed, and UTF-16 is converted.

use std::io::{self, BufRead, Read};

/// The longest beginning by which the format of a list is recognised, in bytes.
const MAX_BEGINNING_BYTES: usize = 4096;
/// The byte order marks, with the order of bytes in UTF-16 where they mean it.
const BYTE_ORDER_MARKS: [(&[u8], Option<ByteOrder>); 3] = [
    (b"\xef\xbb\xbf", None),
    (b"\xff\xfe", Some(ByteOrder::Little)),
    (b"\xfe\xff", Some(ByteOrder::Big)),
];

/// The order of the two bytes of a UTF-16 unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

/// A reader of the converted text. Text in other encodings than UTF-16 passes unchanged.
#[derive(Debug)]
pub(super) struct TextSource<R> {
    reader: R,
    /// Converted bytes, of which the first `taken` were consumed.
    ready: Vec<u8>,
    taken: usize,
    has_begun: bool,
    wide: Option<WideDecoder>,
}

/// Converts UTF-16 piece by piece.
#[derive(Debug)]
struct WideDecoder {
    order: ByteOrder,
    /// The first byte of a unit, or the first unit of a pair, whose rest has not been read.
    rest: Vec<u8>,
}

impl<R: BufRead> TextSource<R> {
    pub(super) const fn new(reader: R) -> Self {
        Self {
            reader,
            ready: Vec::new(),
            taken: 0,
            has_begun: false,
            wide: None,
        }
    }

    /// Returns the first bytes of the text, enough to recognise its format. The call waits only
    /// for the first character that is not white space, or in XML for 4 KiB.
    pub(super) fn beginning(&mut self) -> &[u8] {
        // An error is returned again by the next read.
        let _ = self.begin();
        &self.ready[self.taken..]
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.has_begun {
            return Ok(());
        }
        while is_mark_cut(&self.ready) && self.read_more()? {}
        for (mark, order) in BYTE_ORDER_MARKS {
            if self.ready.starts_with(mark) {
                let rest = self.ready.split_off(mark.len());
                self.ready.clear();
                self.wide = order.map(|order| WideDecoder {
                    order,
                    rest: Vec::new(),
                });
                match &mut self.wide {
                    Some(wide) => wide.convert(&rest, &mut self.ready),
                    None => self.ready = rest,
                }
                break;
            }
        }
        while !is_telling(&self.ready) && self.read_more()? {}
        self.has_begun = true;
        Ok(())
    }

    /// Converts the next bytes of the reader. Returns `false` at the end.
    fn read_more(&mut self) -> io::Result<bool> {
        let chunk = loop {
            match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                chunk => break chunk?,
            }
        };
        // A part of the chunk suffices: the rest is read later.
        let chunk = &chunk[..chunk.len().min(MAX_BEGINNING_BYTES)];
        let length = chunk.len();
        match &mut self.wide {
            Some(wide) if length == 0 => wide.end(&mut self.ready),
            Some(wide) => wide.convert(chunk, &mut self.ready),
            None => self.ready.extend_from_slice(chunk),
        }
        self.reader.consume(length);
        Ok(length > 0)
    }
}

impl<R: BufRead> BufRead for TextSource<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.begin()?;
        if self.taken == self.ready.len() {
            self.ready.clear();
            self.taken = 0;
            if self.wide.is_none() {
                return self.reader.fill_buf();
            }
            while self.ready.is_empty() && self.read_more()? {}
        }
        Ok(&self.ready[self.taken..])
    }

    fn consume(&mut self, amount: usize) {
        if self.taken < self.ready.len() {
            self.taken += amount;
        } else {
            self.reader.consume(amount);
        }
    }
}

impl<R: BufRead> Read for TextSource<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let length = available.len().min(buffer.len());
        buffer[..length].copy_from_slice(&available[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl WideDecoder {
    fn convert(&mut self, bytes: &[u8], to: &mut Vec<u8>) {
        self.rest.extend_from_slice(bytes);
        let unit = |pair: &[u8]| match self.order {
            ByteOrder::Little => u16::from_le_bytes([pair[0], pair[1]]),
            ByteOrder::Big => u16::from_be_bytes([pair[0], pair[1]]),
        };
        let mut units: Vec<u16> = self.rest.chunks_exact(2).map(unit).collect();
        let is_open = |unit: &u16| (0xd800..0xdc00).contains(unit);
        if units.last().is_some_and(is_open) {
            units.pop();
        }
        self.rest.drain(..2 * units.len());
        for character in char::decode_utf16(units) {
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            to.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }

    /// Converts what is left at the end: a cut character.
    fn end(&mut self, to: &mut Vec<u8>) {
        if !std::mem::take(&mut self.rest).is_empty() {
            let mut bytes = [0; 4];
            to.extend_from_slice(
                char::REPLACEMENT_CHARACTER
                    .encode_utf8(&mut bytes)
                    .as_bytes(),
            );
        }
    }
}

/// Tells whether the bytes may be the beginning of a byte order mark.
fn is_mark_cut(bytes: &[u8]) -> bool {
    let is_part = |(mark, _): &(&[u8], _)| mark.len() > bytes.len() && mark.starts_with(bytes);
    BYTE_ORDER_MARKS.iter().any(is_part)
}

/// Tells whether the bytes suffice to recognise the format of a list.
fn is_telling(bytes: &[u8]) -> bool {
    match bytes.trim_ascii_start().first() {
        _ if bytes.len() >= MAX_BEGINNING_BYTES => true,
        None | Some(b'<') => false,
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, as a slow pipe may.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let available = self.fill_buf()?;
            let length = available.len().min(buffer.len());
            buffer[..length].copy_from_slice(&available[..length]);
            self.consume(length);
            Ok(length)
        }
    }

    impl BufRead for Drops<'_> {
        fn fill_buf(&mut self) -> io::Result<&[u8]> {
            Ok(&self.0[..self.0.len().min(1)])
        }

        fn consume(&mut self, amount: usize) {
            self.0 = &self.0[amount..];
        }
    }

    fn read(bytes: &[u8]) -> String {
        let mut whole = String::new();
        TextSource::new(bytes).read_to_string(&mut whole).unwrap();
        let mut dropped = String::new();
        let mut slow = TextSource::new(Drops(bytes));
        slow.beginning();
        slow.read_to_string(&mut dropped).unwrap();
        assert_eq!(whole, dropped);
        whole
    }

    #[test]
    fn text_is_the_same_with_every_mark_and_in_every_piece() {
        let text = "  10.1000/\u{e4}, \u{1d538}\nend";
        let wide = |mark: [u8; 2], bytes: fn(u16) -> [u8; 2]| {
            let mut encoded = mark.to_vec();
            encoded.extend(text.encode_utf16().flat_map(bytes));
            encoded
        };
        assert_eq!(read(text.as_bytes()), text);
        assert_eq!(read(format!("\u{feff}{text}").as_bytes()), text);
        assert_eq!(read(&wide([0xff, 0xfe], u16::to_le_bytes)), text);
        assert_eq!(read(&wide([0xfe, 0xff], u16::to_be_bytes)), text);
        let cut = wide([0xff, 0xfe], u16::to_le_bytes);
        assert_eq!(
            read(&cut[..cut.len() - 1]),
            text.replace("end", "en\u{fffd}")
        );
        for short in ["", "a", "\u{feff}"] {
            assert_eq!(read(short.as_bytes()), short.trim_start_matches('\u{feff}'));
        }
    }

    #[test]
    fn a_beginning_is_long_enough_for_what_it_says() {
        let mut list = TextSource::new(Drops(b" \n [1]"));
        assert_eq!(list.beginning(), b" \n [");
        let mut xml = TextSource::new(Drops(b"<?xml?>\n<xml>"));
        assert_eq!(xml.beginning(), b"<?xml?>\n<xml>");
    }
}
