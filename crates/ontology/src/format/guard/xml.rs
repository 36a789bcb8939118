//! Guards the RDF/XML parser, which on its own would accept a truncated file as complete if it is
//! cut between two tags, and would expand entities without limit.

use std::collections::HashMap;
use std::io::{self, Read};

use super::doctype::{self, MAX_PROLOG_BYTES, ScannedProlog};
use super::utf8::Utf8Check;
use super::{SharedWatch, refuse};
use crate::format::FormatLimits;
use crate::format::report::FormatProblem;

mod elements;

use elements::Element;

const MAX_ENTITY_NAME_BYTES: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq)]
enum XmlState {
    /// In the text between tags.
    Text,
    /// After `<`, before it is known what follows.
    Markup,
    /// In a start or end tag, outside quotes.
    Tag,
    /// In an attribute's value, until this quote.
    Value(u8),
    Comment,
    CData,
    Instruction,
}

/// Passes an XML file on, with entities expanded in the document type.
pub(crate) struct XmlGuard<R> {
    inner: R,
    limits: FormatLimits,
    watch: SharedWatch,
    /// Bytes that were read ahead to find the root element; the first `ahead_at` of them are passed
    /// on.
    ahead: Vec<u8>,
    ahead_at: usize,
    is_started: bool,
    entities: HashMap<String, usize>,
    utf8: Utf8Check,
    within: XmlState,
    tag: Vec<u8>,
    /// The last two bytes so far of the current comment, section or instruction.
    tail: [u8; 2],
    /// The name of the reference that is being read.
    reference: Option<Vec<u8>>,
    open: Vec<Element>,
    has_root: bool,
    namespaces: usize,
    /// Size of the declarations of the namespaces in scope, in bytes.
    namespace_bytes: usize,
    id_bytes: usize,
    /// Size so far of the current text, attribute value or XML literal, in bytes.
    token_bytes: usize,
    literal_bytes: usize,
    literal_depth: usize,
    passed: u64,
    expanded: u64,
    /// Size of the expanded entities in the current tag, in bytes.
    expanded_in_tag: usize,
}

impl<R: Read> XmlGuard<R> {
    pub(crate) fn new(inner: R, limits: FormatLimits, watch: SharedWatch) -> Self {
        Self {
            inner,
            limits,
            watch,
            ahead: Vec::new(),
            ahead_at: 0,
            is_started: false,
            entities: HashMap::new(),
            utf8: Utf8Check::default(),
            within: XmlState::Text,
            tag: Vec::new(),
            tail: [0; 2],
            reference: None,
            open: Vec::new(),
            has_root: false,
            namespaces: 0,
            namespace_bytes: 0,
            id_bytes: 0,
            token_bytes: 0,
            literal_bytes: 0,
            literal_depth: 0,
            passed: 0,
            expanded: 0,
            expanded_in_tag: 0,
        }
    }

    fn refuse(&self, message: impl Into<String>) -> io::Error {
        let line = self.watch.lock().lines.last_line();
        refuse(&self.watch, FormatProblem::at_line(line, message))
    }

    /// Reads up to the root element and expands the entities.
    fn start(&mut self) -> io::Result<()> {
        self.is_started = true;
        let mut wanted = 8 << 10;
        loop {
            let before = self.ahead.len();
            self.inner
                .by_ref()
                .take((wanted - before) as u64)
                .read_to_end(&mut self.ahead)?;
            match doctype::scan(&self.ahead, &self.limits) {
                ScannedProlog::Complete(prolog) => {
                    self.watch
                        .lock()
                        .warnings
                        .extend(prolog.warnings.into_iter().map(FormatProblem::of_file));
                    self.entities = prolog.entities;
                    let mut body = self.ahead.split_off(prolog.root_at);
                    self.check_utf8(&self.ahead.clone())?;
                    if let Some((from, to)) = prolog.doctype {
                        self.ahead.splice(from..to, prolog.replacement);
                    }
                    self.watch.lock().lines.pass(&self.ahead);
                    self.examine(&body)?;
                    self.ahead.append(&mut body);
                    return Ok(());
                }
                ScannedProlog::Refused(at, reason) => {
                    let line = memchr::memchr_iter(b'\n', &self.ahead[..at]).count() as u64 + 1;
                    return Err(refuse(&self.watch, FormatProblem::at_line(line, reason)));
                }
                ScannedProlog::Incomplete if self.ahead.len() < wanted => {
                    self.watch.lock().lines.pass(&self.ahead);
                    return Err(self.refuse("the file ends before its root element"));
                }
                ScannedProlog::Incomplete if wanted >= MAX_PROLOG_BYTES => {
                    return Err(self.refuse(format!(
                        "the text before the root element is longer than {MAX_PROLOG_BYTES} bytes"
                    )));
                }
                ScannedProlog::Incomplete => wanted *= 2,
            }
        }
    }

    /// Checks at the end of the file that every element is closed.
    fn finish(&self) -> io::Result<()> {
        if self.within != XmlState::Text || !self.open.is_empty() {
            let open = self.open.len();
            return Err(self.refuse(match self.within {
                XmlState::Text => format!("the file is cut short: {open} elements are not closed"),
                _ => format!("the file is cut short within markup, {open} elements deep"),
            }));
        }
        if !self.has_root {
            return Err(self.refuse("the file has no root element"));
        }
        Ok(())
    }

    fn examine(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.watch.lock().lines.pass(bytes);
        self.check_utf8(bytes)?;
        self.passed += bytes.len() as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.reference.is_some() {
                rest = self.continue_reference(rest)?;
                continue;
            }
            rest = match self.within {
                XmlState::Text => self.text(rest)?,
                XmlState::Markup => self.markup(rest)?,
                XmlState::Tag => self.tag(rest)?,
                XmlState::Value(quote) => self.value(rest, quote)?,
                XmlState::Comment => self.until_tail(rest, *b"--")?,
                XmlState::CData => self.until_tail(rest, *b"]]")?,
                XmlState::Instruction => self.until_tail(rest, [0, b'?'])?,
            };
        }
        Ok(())
    }

    fn check_utf8(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.utf8.pass(bytes) {
            return Ok(());
        }
        Err(self.refuse("the file is not valid UTF-8 (on this line or shortly before)"))
    }

    fn lengthen(&mut self, by: usize) -> io::Result<()> {
        self.token_bytes += by;
        if self.literal_depth > 0 {
            self.literal_bytes += by;
        }
        if self.token_bytes.max(self.literal_bytes) > self.limits.max_token_bytes {
            return Err(self.refuse(format!(
                "a text or tag is longer than {} bytes",
                self.limits.max_token_bytes
            )));
        }
        Ok(())
    }

    fn text<'b>(&mut self, bytes: &'b [u8]) -> io::Result<&'b [u8]> {
        let Some(at) = memchr::memchr2(b'<', b'&', bytes) else {
            self.lengthen(bytes.len())?;
            return Ok(&[]);
        };
        self.lengthen(at)?;
        if bytes[at] == b'<' {
            self.within = XmlState::Markup;
            self.tag.clear();
            self.token_bytes = 0;
        } else {
            self.reference = Some(Vec::new());
        }
        Ok(&bytes[at + 1..])
    }

    /// Determines, byte by byte, whether a comment, section, instruction or tag follows `<`.
    fn markup<'b>(&mut self, bytes: &'b [u8]) -> io::Result<&'b [u8]> {
        self.tag.push(bytes[0]);
        match self.tag.as_slice() {
            [b'?'] => self.within = XmlState::Instruction,
            b"!--" => self.within = XmlState::Comment,
            b"![CDATA[" => self.within = XmlState::CData,
            tag if b"!--".starts_with(tag) || b"![CDATA[".starts_with(tag) => (),
            [b'!', ..] => return Err(self.refuse("a declaration within the document")),
            _ => {
                self.tag.clear();
                self.within = XmlState::Tag;
                return Ok(bytes);
            }
        }
        self.tail = [0; 2];
        Ok(&bytes[1..])
    }

    /// Skips to the `>` that directly follows the bytes in `end`. A zero in `end[0]` stands for any
    /// byte.
    fn until_tail<'b>(&mut self, bytes: &'b [u8], end: [u8; 2]) -> io::Result<&'b [u8]> {
        for at in memchr::memchr_iter(b'>', bytes) {
            let before = match at {
                0 => self.tail,
                1 => [self.tail[1], bytes[0]],
                _ => [bytes[at - 2], bytes[at - 1]],
            };
            if before[1] == end[1] && (end[0] == 0 || before[0] == end[0]) {
                self.lengthen(at + 1)?;
                self.within = XmlState::Text;
                return Ok(&bytes[at + 1..]);
            }
        }
        self.lengthen(bytes.len())?;
        self.tail = match bytes {
            [.., first, second] => [*first, *second],
            [only] => [self.tail[1], *only],
            [] => self.tail,
        };
        Ok(&[])
    }

    fn tag<'b>(&mut self, bytes: &'b [u8]) -> io::Result<&'b [u8]> {
        let Some(at) = memchr::memchr3(b'>', b'"', b'\'', bytes) else {
            self.lengthen(bytes.len())?;
            self.tag.extend_from_slice(bytes);
            return Ok(&[]);
        };
        self.lengthen(at + 1)?;
        self.tag.extend_from_slice(&bytes[..at]);
        if bytes[at] == b'>' {
            self.within = XmlState::Text;
            self.token_bytes = 0;
            self.close_tag()?;
        } else {
            self.tag.push(b'"');
            self.within = XmlState::Value(bytes[at]);
        }
        Ok(&bytes[at + 1..])
    }

    fn value<'b>(&mut self, bytes: &'b [u8], quote: u8) -> io::Result<&'b [u8]> {
        let Some(at) = memchr::memchr2(quote, b'&', bytes) else {
            self.lengthen(bytes.len())?;
            self.keep_value(bytes);
            return Ok(&[]);
        };
        self.lengthen(at + 1)?;
        self.keep_value(&bytes[..at]);
        if bytes[at] == quote {
            self.tag.push(b'"');
            self.within = XmlState::Tag;
        } else {
            self.reference = Some(Vec::new());
        }
        Ok(&bytes[at + 1..])
    }

    /// Keeps an attribute's value as part of the tag. Quotes within the value are replaced, because
    /// `"` delimits values in the kept tag.
    fn keep_value(&mut self, bytes: &[u8]) {
        let start = self.tag.len();
        self.tag.extend_from_slice(bytes);
        self.tag[start..]
            .iter_mut()
            .filter(|byte| **byte == b'"')
            .for_each(|byte| *byte = b'_');
    }

    fn continue_reference<'b>(&mut self, bytes: &'b [u8]) -> io::Result<&'b [u8]> {
        let Some(name) = &mut self.reference else {
            return Ok(bytes);
        };
        let end = bytes
            .iter()
            .position(|&byte| matches!(byte, b';' | b'<' | b'"' | b'\'' | b' '));
        name.extend_from_slice(&bytes[..end.unwrap_or(bytes.len()).min(MAX_ENTITY_NAME_BYTES)]);
        if name.len() >= MAX_ENTITY_NAME_BYTES {
            return Err(self.refuse("an & that starts no reference"));
        }
        let Some(end) = end else { return Ok(&[]) };
        let name = self.reference.take().unwrap_or_default();
        let length = std::str::from_utf8(&name)
            .ok()
            .and_then(|name| self.entities.get(name));
        let length = length.copied().unwrap_or(4);
        self.lengthen(length)?;
        self.expanded += length as u64;
        if matches!(self.within, XmlState::Value(_)) {
            self.expanded_in_tag += length;
        }
        if self.expanded > self.limits.expansion_allowed(self.passed) {
            return Err(self.refuse("the entities of the file expand to too much text"));
        }
        Ok(&bytes[end..])
    }
}

impl<R> Read for XmlGuard<R>
where
    R: Read,
{
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.is_started {
            self.start()?;
        }
        if self.ahead_at < self.ahead.len() {
            let read = (&self.ahead[self.ahead_at..]).read(out)?;
            self.ahead_at += read;
            if self.ahead_at == self.ahead.len() {
                self.ahead = Vec::new();
                self.ahead_at = 0;
            }
            return Ok(read);
        }
        let read = self.inner.read(out)?;
        if read == 0 && !out.is_empty() {
            self.finish()?;
        }
        self.examine(&out[..read])?;
        Ok(read)
    }
}

#[cfg(test)]
#[path = "xml_tests.rs"]
mod tests;
