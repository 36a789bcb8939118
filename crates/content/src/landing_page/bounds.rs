//! How much of a page is read: up to the point where building its tree would cost more than any
//! honest page does.
//!
//! The tree builder walks the open elements at many tags, compares the attributes of an element
//! with each other, and opens formatting elements anew in every block: deep nesting, very many
//! attributes and very many unclosed formatting elements cost the square of their number. What
//! comes before them (the head with its metas, as a rule) is read all the same.

/// The largest page that is read, in bytes.
pub(super) const MAX_PAGE_BYTES: usize = 2 << 20;
/// How many elements may be open at once.
const MAX_OPEN_ELEMENTS: usize = 400;
/// How many formatting elements may be opened anew, all in all: each block opens all that are not
/// closed.
const MAX_REOPENED_ELEMENTS: usize = 300_000;
/// How many attributes an element may have.
const MAX_ELEMENT_ATTRIBUTES: usize = 200;

/// How many nodes a tree may have, an element with many attributes counted as several. Each takes
/// some hundred bytes, however little of the page it was.
const MAX_PAGE_NODES: usize = 80_000;
/// How many attributes take as much as a node.
const ATTRIBUTES_PER_NODE: usize = 4;
/// How many open elements may be compared with tags, all in all: a tag that closes nothing is
/// compared with all of them.
const MAX_TAG_COMPARISONS: usize = 20_000_000;

/// Elements that have no end.
const VOID_ELEMENTS: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Elements that the tree builder opens anew in every block until they are closed.
const FORMATTING_ELEMENTS: [&str; 14] = [
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
];
/// Elements that one of their kind closes.
const SELF_CLOSING: [&str; 8] = ["p", "li", "dt", "dd", "tr", "td", "th", "option"];
/// Elements beyond which nothing is closed by one of its kind: a row in a table within a cell ends
/// no row of the outer table.
const SCOPE_ELEMENTS: [&str; 14] = [
    "table",
    "ul",
    "ol",
    "dl",
    "select",
    "object",
    "template",
    "button",
    "caption",
    "marquee",
    "svg",
    "math",
    "foreignobject",
    "applet",
];
/// The same, for what stands in the cells of a table.
const CELL_ELEMENTS: [&str; 2] = ["td", "th"];
/// Elements whose contents are text, up to their own end.
const RAW_TEXT_ELEMENTS: [&str; 6] = ["script", "style", "textarea", "title", "noscript", "xmp"];

/// The part of a page whose tree can be built in bounded time.
pub(super) struct Readable<'a> {
    pub(super) html: &'a str,
    /// About as many nodes as its tree has.
    pub(super) nodes: usize,
}

/// Returns the part of a page whose tree can be built in bounded time.
pub(super) fn readable(html: &str) -> Readable<'_> {
    let mut end = html.len().min(MAX_PAGE_BYTES);
    while !html.is_char_boundary(end) {
        end -= 1;
    }
    let html = &html[..end];
    let mut scan = OpenElements::default();
    Readable {
        html: &html[..scan.read_up_to_bound(html)],
        nodes: scan.nodes.min(MAX_PAGE_NODES),
    }
}

fn is(tag: &Tag<'_>, names: &[&str]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(tag.name))
}

/// What follows a tag.
#[derive(PartialEq, Eq)]
enum TagContent {
    /// Elements and text.
    Elements,
    /// Text up to the tag that closes it.
    Raw,
}

/// What is open at a point of a page.
#[derive(Default)]
struct OpenElements<'a> {
    open: Vec<&'a str>,
    formatting: usize,
    reopened: usize,
    links: usize,
    drawings: usize,
    nodes: usize,
    compared: usize,
}

impl<'a> OpenElements<'a> {
    /// Reads a page, and returns where it stops being readable, or its length.
    fn read_up_to_bound(&mut self, html: &'a str) -> usize {
        let mut at = 0;
        while let Some(found) = find(html.as_bytes(), b'<', at) {
            // The text before it.
            self.nodes += usize::from(found > at);
            let Some(tag) = Tag::read(html, found) else {
                at = found + 1;
                continue;
            };
            self.nodes += usize::from(!tag.closes || tag.name.is_empty())
                + tag.attributes / ATTRIBUTES_PER_NODE;
            if tag.attributes > MAX_ELEMENT_ATTRIBUTES
                || self.nodes > MAX_PAGE_NODES
                || self.compared > MAX_TAG_COMPARISONS
            {
                return found;
            }
            at = tag.end;
            if tag.closes {
                self.close(&tag);
            } else if is(&tag, &VOID_ELEMENTS) || (self.drawings > 0 && tag.closes_itself) {
                // Within drawings and formulas any element may close itself.
            } else if self.begin(&tag) == TagContent::Raw {
                at = after_raw(html, at, tag.name);
            } else if self.is_too_deep() {
                return found;
            }
        }
        html.len()
    }

    fn position(&mut self, name: &str) -> Option<usize> {
        let found = self
            .open
            .iter()
            .rposition(|open| open.eq_ignore_ascii_case(name));
        self.compared += self.open.len() - found.unwrap_or(0);
        found
    }

    fn close(&mut self, tag: &Tag<'_>) {
        if is(tag, &FORMATTING_ELEMENTS) {
            self.formatting = self.formatting.saturating_sub(1);
        }
        if is(tag, &["a"]) {
            self.links = 0;
        }
        if is(tag, &["svg", "math"]) {
            self.drawings = self.drawings.saturating_sub(1);
        }
        if let Some(index) = self.position(tag.name) {
            self.open.truncate(index);
        }
    }

    fn begin(&mut self, tag: &Tag<'a>) -> TagContent {
        self.drawings += usize::from(is(tag, &["svg", "math"]));
        if is(tag, &["a"]) {
            // A link within a link closes it.
            if self.links > 0 {
                self.formatting = self.formatting.saturating_sub(1);
                if let Some(index) = self.position("a") {
                    self.open.remove(index);
                }
            }
            self.links = 1;
        }
        if is(tag, &RAW_TEXT_ELEMENTS) {
            return TagContent::Raw;
        }
        if is(tag, &SELF_CLOSING)
            && let Some(index) = closed_by(tag.name, &self.open)
        {
            self.open.truncate(index);
        }
        self.formatting += usize::from(is(tag, &FORMATTING_ELEMENTS));
        self.reopened += self.formatting;
        self.open.push(tag.name);
        TagContent::Elements
    }

    fn is_too_deep(&self) -> bool {
        // Unclosed formatting elements are not what makes a page deep.
        self.open.len().saturating_sub(self.formatting) > MAX_OPEN_ELEMENTS
            || self.formatting > MAX_OPEN_ELEMENTS
            || self.reopened > MAX_REOPENED_ELEMENTS
    }
}

/// Returns the open element that one of its kind closes.
fn closed_by(name: &str, open: &[&str]) -> Option<usize> {
    let is = |one: &str, names: &[&str]| names.iter().any(|other| other.eq_ignore_ascii_case(one));
    let of_tables = is(name, &["tr", "td", "th"]);
    for (place, other) in open.iter().enumerate().rev().take(8) {
        if other.eq_ignore_ascii_case(name) {
            return Some(place);
        }
        if is(other, &SCOPE_ELEMENTS) || (!of_tables && is(other, &CELL_ELEMENTS)) {
            return None;
        }
    }
    None
}

/// A tag of a page.
struct Tag<'a> {
    name: &'a str,
    closes: bool,
    /// It ends with `/>`.
    closes_itself: bool,
    attributes: usize,
    /// Where the text after it begins.
    end: usize,
}

impl<'a> Tag<'a> {
    /// Reads the tag that begins at `start`; `None` where it is none, or a comment.
    fn read(html: &'a str, start: usize) -> Option<Self> {
        let bytes = html.as_bytes();
        if let Some(comment) = html[start..].strip_prefix("<!--") {
            return Some(Self {
                name: "",
                closes: true,
                closes_itself: false,
                attributes: 0,
                end: start + 4 + length_of_comment(comment),
            });
        }
        let closes = bytes.get(start + 1) == Some(&b'/');
        let from = start + 1 + usize::from(closes);
        if !bytes.get(from).is_some_and(u8::is_ascii_alphabetic) {
            return None;
        }
        let mut at = from;
        while bytes
            .get(at)
            .is_some_and(|byte| !byte.is_ascii_whitespace() && !matches!(byte, b'>' | b'/'))
        {
            at += 1;
        }
        let name = html.get(from..at)?;
        let mut attributes = 0;
        let mut place = InTag::Between;
        while let Some(byte) = bytes.get(at) {
            at += 1;
            let next = place.after(*byte);
            attributes += usize::from(next == InTag::Name && place.begins_name());
            place = next;
            if place == InTag::End {
                break;
            }
        }
        let closes_itself = at >= 2 && bytes.get(at - 2) == Some(&b'/');
        Some(Self {
            name,
            closes,
            closes_itself,
            attributes,
            end: at,
        })
    }
}

/// Where in a tag a character stands, as the tokenizer of the HTML standard has it: a quote opens a
/// value only right behind an equals sign.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InTag {
    Between,
    Name,
    BehindName,
    BeforeValue,
    Value,
    Quoted(u8),
    End,
}

impl InTag {
    const fn begins_name(self) -> bool {
        matches!(self, Self::Between | Self::BehindName)
    }

    const fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Quoted(open), byte) if byte == open => Self::Between,
            (Self::Quoted(_), _) => self,
            (_, b'>') => Self::End,
            (Self::Name | Self::BehindName, b'=') => Self::BeforeValue,
            (Self::Name | Self::BehindName | Self::Between, b'/') => Self::Between,
            (Self::Name, byte) if byte.is_ascii_whitespace() => Self::BehindName,
            (Self::Value, byte) if byte.is_ascii_whitespace() => Self::Between,
            (_, byte) if byte.is_ascii_whitespace() => self,
            (Self::BeforeValue, b'"' | b'\'') => Self::Quoted(byte),
            (Self::BeforeValue | Self::Value, _) => Self::Value,
            _ => Self::Name,
        }
    }
}

/// Returns how long a comment is, from behind its beginning to behind its end.
fn length_of_comment(text: &str) -> usize {
    if text.starts_with('>') {
        return 1;
    }
    if text.starts_with("->") {
        return 2;
    }
    // One pass: of two searches the one for the rarer end would read the whole page each time.
    let bytes = text.as_bytes();
    let mut ends = (0..bytes.len()).filter_map(|at| {
        let end = ["-->", "--!>"]
            .into_iter()
            .find(|end| bytes[at..].starts_with(end.as_bytes()))?;
        Some(at + end.len())
    });
    ends.next().unwrap_or(text.len())
}

fn find(bytes: &[u8], byte: u8, from: usize) -> Option<usize> {
    bytes
        .get(from..)?
        .iter()
        .position(|other| *other == byte)
        .map(|place| from + place)
}

/// Returns where the contents of an element end whose contents are text.
fn after_raw(html: &str, from: usize, name: &str) -> usize {
    let bytes = html.as_bytes();
    let mut at = from;
    while let Some(found) = find(bytes, b'<', at) {
        let is_end = bytes.get(found + 1) == Some(&b'/')
            && html
                .get(found + 2..found + 2 + name.len())
                .is_some_and(|text| text.eq_ignore_ascii_case(name));
        if is_end {
            return found;
        }
        at = found + 1;
    }
    html.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_pages_are_read_whole() {
        let table: String = "<tr><td><p>x<td>y".repeat(5_000);
        let list: String = "<li><a href=/x>y</a>".repeat(5_000);
        for page in [
            "<html><head><meta name=a content=b></head><body><div><p>text<p>text</div></body></html>".to_owned(),
            format!("<table>{table}</table><ul>{list}</ul>"),
            "<script>if (a < b) { document.write('<div><div><div>') }</script>".repeat(1_000),
            "<!-- <div> -->".repeat(2_000),
            "<a id=x/>text <p>".repeat(500),
            "<a name=x><p>text".repeat(500),
            format!("{}{}", "<font size=2>".repeat(45), "<p>text".repeat(2_000)),
            format!("<svg>{}</svg><a href=/x.pdf>PDF</a>", "<path d='M0 0'/>".repeat(2_000)),
            format!("{}{}", "<div>".repeat(200), "</div>".repeat(200)).repeat(20),
            // Stray quotes are parts of names; an apostrophe in a value without quotes is one of it.
            "<li class=\"x\" \"=\"\"><a href=/x.pdf title=\"a b\">it's</a>".repeat(300),
            format!("<p class=\"x\"\">a</p>{}", "<p id=\"y\" data-a=b>text</p>".repeat(300)),
            format!("<p title=5' class>a</p>{}", "<p id='y' data-a=b>text</p>".repeat(300)),
            format!("<p ' class>a</p>{}", "<p id='y' data-a=b>text</p>".repeat(300)),
        ] {
            assert_eq!(readable(&page).html.len(), page.len(), "{}", &page[..60]);
        }
    }

    #[test]
    fn comments_end_where_the_tree_builder_ends_them() {
        let nested = "<div>".repeat(1_000);
        for comment in ["<!-->", "<!--->", "<!-- a --!>", "<!-- a -->"] {
            let page = format!("{comment}{nested}");
            assert!(readable(&page).html.len() < page.len(), "{comment}");
        }
        let open = format!("<!-- a {nested}");
        assert_eq!(readable(&open).html.len(), open.len());
    }

    #[test]
    fn what_costs_too_much_is_cut_off_and_the_head_stays() {
        let head = "<html><head><meta name=citation_pdf_url content=/x.pdf></head>";
        let attributes = (0..100_000)
            .map(|n| format!("a{n}=1 "))
            .collect::<Vec<_>>()
            .concat();
        for rest in [
            "<div>".repeat(400_000),
            format!("<p {attributes}>"),
            (0..10_000)
                .map(|n| format!("<font size={n}><p>"))
                .collect::<Vec<_>>()
                .concat(),
            // A row closes no row of the table around its own; paragraphs and breaks cost more than
            // their letters.
            "<table><tr><td>".repeat(1_000),
            "<ul><li>".repeat(1_000),
            "<p>".repeat(100_000),
            "<br>x".repeat(50_000),
            format!("{}{}", "<div>".repeat(399), "</x>".repeat(400_000)),
            "x".repeat(5 << 20),
            "é".repeat(3 << 20),
        ] {
            let page = format!("{head}{rest}");
            let read = readable(&page).html;
            assert!(
                read.len() >= head.len() && read.len() <= MAX_PAGE_BYTES && read.len() < page.len()
            );
        }
    }
}
