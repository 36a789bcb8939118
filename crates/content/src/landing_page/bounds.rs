//! The limit up to which a page is read, before its tree costs more than that of any honest page.
//!
//! The tree builder walks the open elements at many tags, and compares the attributes of an element
//! with each other. It also reopens unclosed formatting elements in every block. So deep nesting,
//! many attributes and many unclosed elements cost the square of their number. The part before the
//! limit is read: as a rule, this is at least the head with its metas.

/// Maximum size of a page that is read, in bytes.
pub(super) const MAX_PAGE_BYTES: usize = 2 << 20;
/// Maximum number of open elements at any position.
const MAX_OPEN_ELEMENTS: usize = 400;
/// Maximum number of formatting elements that are reopened in the whole page: each block reopens
/// all that are not closed.
const MAX_REOPENED_ELEMENTS: usize = 300_000;
/// Maximum number of attributes of an element.
const MAX_ELEMENT_ATTRIBUTES: usize = 200;

/// Maximum number of nodes of a tree. Each takes some hundred bytes, even for a short tag. An
/// element with many attributes counts as several nodes, see [`ATTRIBUTES_PER_NODE`].
const MAX_PAGE_NODES: usize = 80_000;
/// The number of attributes that take as much memory as a node.
const ATTRIBUTES_PER_NODE: usize = 4;
/// Maximum number of comparisons of open elements with tags in the whole page. A closing tag
/// without an open element is compared with all open elements.
const MAX_TAG_COMPARISONS: usize = 20_000_000;

/// Elements without content and without a closing tag.
const VOID_ELEMENTS: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Elements that the tree builder reopens in every block until they are closed.
const FORMATTING_ELEMENTS: [&str; 14] = [
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
];
/// Elements that end at the next element of the same kind.
const SELF_CLOSING: [&str; 8] = ["p", "li", "dt", "dd", "tr", "td", "th", "option"];
/// Elements that stop the search of [`closed_by`]: a row of a table within a cell does not end a
/// row of the outer table.
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
/// Further elements that stop the search of [`closed_by`], except for rows and cells: a list item
/// in a cell ends nothing outside the cell.
const CELL_ELEMENTS: [&str; 2] = ["td", "th"];
/// Elements whose content is text up to their own closing tag.
const RAW_TEXT_ELEMENTS: [&str; 6] = ["script", "style", "textarea", "title", "noscript", "xmp"];

/// The part of a page whose tree can be built in bounded time.
pub(super) struct Readable<'a> {
    pub(super) html: &'a str,
    /// An estimate of the number of nodes of its tree.
    pub(super) nodes: usize,
}

/// Returns the [`Readable`] part of a page, whose tree can be built in bounded time.
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

/// The content that follows a tag.
#[derive(PartialEq, Eq)]
enum TagContent {
    /// Elements and text.
    Elements,
    /// Text up to the closing tag.
    Raw,
}

/// The open elements at a position of a page.
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
    /// Reads a page. Returns the position of the limit, or the length of the page.
    fn read_up_to_bound(&mut self, html: &'a str) -> usize {
        let mut at = 0;
        while let Some(found) = find(html.as_bytes(), b'<', at) {
            // The text before the tag is a node.
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
                // Within SVG and MathML any element may close itself.
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
            // A link within a link closes the outer link.
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
        // Unclosed formatting elements do not count as depth.
        self.open.len().saturating_sub(self.formatting) > MAX_OPEN_ELEMENTS
            || self.formatting > MAX_OPEN_ELEMENTS
            || self.reopened > MAX_REOPENED_ELEMENTS
    }
}

/// Returns the index of the open element that the next element of its kind closes.
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
    /// The tag ends with `/>`.
    closes_itself: bool,
    attributes: usize,
    /// The position after the tag.
    end: usize,
}

impl<'a> Tag<'a> {
    /// Reads the tag that begins at `start`. Returns `None` for a comment, or for text that is not
    /// a tag.
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

/// The position of a character within a tag, as in the tokenizer of the HTML standard. A quote
/// opens a value only right after an equals sign.
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

/// Returns the length of a comment, from the end of its opening to the end of its closing mark.
fn length_of_comment(text: &str) -> usize {
    if text.starts_with('>') {
        return 1;
    }
    if text.starts_with("->") {
        return 2;
    }
    // A single pass. With two searches, that for the rarer end would read the whole page each time.
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

/// Returns the end of the content of an element whose content is text.
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
            // Stray quotes are parts of names. An apostrophe in an unquoted value is part of the
            // value.
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
            // A row does not close a row of the outer table. Paragraphs and line breaks cost more
            // than their letters.
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
