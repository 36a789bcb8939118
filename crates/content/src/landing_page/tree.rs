//! Building the tree of a page, for no longer than a page is worth.

use std::time::Duration;

use ego_tree::Tree;
use html5ever::driver;
use html5ever::tendril::{StrTendril, TendrilSink};
use scraper::{Html, HtmlTreeSink, Node};

use super::bounds;
use super::processor::ProcessorDeadline;

/// How much processor time a tree may take, with the look at how much of the page is readable. What
/// reads the tree costs about half as much for each of its nodes.
const TIME_LIMIT: Duration = Duration::from_millis(125);
/// How many nodes a tree may have. Elements that are opened anew are not seen beforehand.
const MAX_TREE_NODES: usize = 160_000;
/// How much is given to the builder at a time.
const BUILDER_PIECE_BYTES: usize = 8 << 10;

/// Builds the tree of a page, as far as that costs what honest pages cost. Says also whether that
/// was not the whole page.
pub(super) fn build(html: &str) -> (Html, bool) {
    let deadline = ProcessorDeadline::after(TIME_LIMIT);
    let bounds::Readable {
        html: mut rest,
        nodes,
    } = bounds::readable(html);
    let mut is_cut = rest.len() < html.len();
    // A vector that grows step by step leaves as much behind as it has, and the allocator keeps it.
    let mut document = Html::new_document();
    document.tree = Tree::with_capacity(Node::Document, nodes + nodes / 64 + 16);
    let mut parser =
        driver::parse_document(HtmlTreeSink::new(document), driver::ParseOpts::default());
    while !rest.is_empty() {
        let mut end = rest.len().min(BUILDER_PIECE_BYTES);
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, more) = rest.split_at(end);
        parser.process(StrTendril::from_slice(piece));
        rest = more;
        let nodes = parser.tokenizer.sink.sink.0.borrow().tree.values().len();
        if (deadline.is_over() || nodes > MAX_TREE_NODES) && !rest.is_empty() {
            (rest, is_cut) = ("", true);
        }
    }
    (parser.finish(), is_cut)
}
