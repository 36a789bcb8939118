//! The position of a link on its page. Reference lists, footers, navigation and "related" blocks
//! contain other works' files.

use std::collections::HashMap;

use scraper::ElementRef;

/// Beginnings of words in the classes and ids of blocks with other works' files.
const FOREIGN_WORDS: [&str; 26] = [
    "reference",
    "bibliograph",
    "reflist",
    "citedby",
    "footnote",
    "related",
    "recommend",
    "similar",
    "suggest",
    "trending",
    "mostread",
    "popular",
    "sponsor",
    "advert",
    "promo",
    "cookie",
    "supplement",
    "supporting",
    "suppl",
    "footer",
    "endnote",
    "seealso",
    "alsoread",
    "sidebarad",
    "newsletter",
    "toc",
];

/// Complete words in the classes and ids of such blocks.
const FOREIGN_EXACT: [&str; 8] = [
    "ref",
    "refs",
    "xref",
    "bibr",
    "cited",
    "cites",
    "ads",
    "footnotes",
];

/// Pairs of adjacent words in the classes and ids of such blocks.
const FOREIGN_PAIRS: [(&str, &str); 8] = [
    ("ref", "list"),
    ("cited", "by"),
    ("most", "read"),
    ("see", "also"),
    ("also", "read"),
    ("more", "articles"),
    ("more", "from"),
    ("review", "history"),
];

/// Headings of sections with other works' files.
const FOREIGN_HEADINGS: [&str; 22] = [
    "references",
    "reference",
    "bibliography",
    "literature cited",
    "works cited",
    "cited literature",
    "citations",
    "cited by",
    "notes",
    "footnotes",
    "endnotes",
    "related",
    "recommended",
    "similar",
    "supplement",
    "supporting information",
    "further reading",
    "see also",
    "additional information",
    "about the author",
    "peer review",
    "literature",
];

/// The kind of block that contains a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkBlock {
    /// The article, or the space beside it.
    Own,
    /// Navigation, or a section with a heading such as "References": only a link that names the
    /// work counts.
    Doubtful,
    /// A list of other works' files.
    Foreign,
}

/// Classifies the blocks around links. The result for each element is cached.
#[derive(Default)]
pub(super) struct Blocks {
    known: HashMap<ego_tree::NodeId, LinkBlock>,
}

impl Blocks {
    /// Returns the [`LinkBlock`] of an element, by the elements around it.
    pub(super) fn around(&mut self, element: ElementRef<'_>) -> LinkBlock {
        let mut worst = LinkBlock::Own;
        for ancestor in
            std::iter::once(element).chain(element.ancestors().filter_map(ElementRef::wrap))
        {
            let block = *self
                .known
                .entry(ancestor.id())
                .or_insert_with(|| judge(ancestor));
            worst = worst.max(block);
            if worst == LinkBlock::Foreign {
                break;
            }
        }
        worst
    }
}

/// Tells whether a heading begins a section of other works' files.
pub(super) fn is_foreign_heading(heading: &str) -> bool {
    let heading = heading
        .trim()
        .trim_start_matches(|c: char| c.is_numeric() || ".) ".contains(c))
        .to_lowercase();
    heading.len() < 60
        && FOREIGN_HEADINGS
            .iter()
            .any(|foreign| heading.starts_with(foreign))
}

fn judge(element: ElementRef<'_>) -> LinkBlock {
    let value = element.value();
    let role = value.attr("role").unwrap_or_default();
    match value.name() {
        "html" | "body" | "main" | "head" => return LinkBlock::Own,
        "footer" => return LinkBlock::Foreign,
        "nav" => return LinkBlock::Doubtful,
        _ => {}
    }
    let named = ["class", "id", "data-title", "aria-label"]
        .iter()
        .filter_map(|name| value.attr(name))
        .any(is_foreign_name);
    let block = match role {
        "contentinfo" | "doc-bibliography" | "doc-endnotes" => LinkBlock::Foreign,
        "navigation" => LinkBlock::Doubtful,
        _ if named => LinkBlock::Foreign,
        _ => LinkBlock::Own,
    };
    // An element that contains the article's title is the page itself, whatever its name.
    if block != LinkBlock::Own && holds_the_title(element) {
        LinkBlock::Own
    } else {
        block
    }
}

fn holds_the_title(element: ElementRef<'_>) -> bool {
    element
        .descendants()
        .filter_map(ElementRef::wrap)
        .any(|inside| matches!(inside.value().name(), "h1" | "main"))
}

fn is_foreign_name(text: &str) -> bool {
    text.split_ascii_whitespace().any(|name| {
        let words = pieces(name);
        // The footer of a header is a part of the header.
        let is_of_header = |at: usize| at > 0 && words[at - 1] == "header" && words[at] == "footer";
        let one = words.iter().enumerate().any(|(at, word)| {
            FOREIGN_EXACT.contains(&word.as_str())
                || (!is_of_header(at)
                    && FOREIGN_WORDS
                        .iter()
                        .any(|foreign| word.starts_with(foreign)))
        });
        one || words
            .windows(2)
            .any(|pair| FOREIGN_PAIRS.contains(&(pair[0].as_str(), pair[1].as_str())))
    })
}

/// Splits `articleFooter`, `article-footer` and `article_footer` into words.
fn pieces(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before_lower) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        before_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_blocks_are_read_by_their_words() {
        for name in [
            "article-footer",
            "refList",
            "ref-list",
            "c-related",
            "RelatedArticles",
            "cited_by",
            "u-mb references",
            "xref",
            "suppl-data",
        ] {
            assert!(is_foreign_name(name), "{name}");
        }
        for name in [
            "article-tools",
            "pdf-download",
            "preferences",
            "toolbar",
            "c-article-body",
            "download-reflow",
            "article_header-footer",
            "articleHeaderFooter",
        ] {
            assert!(!is_foreign_name(name), "{name}");
        }
        assert!(
            is_foreign_heading("7. References")
                && is_foreign_heading("Related articles")
                && !is_foreign_heading("Download")
        );
    }
}
