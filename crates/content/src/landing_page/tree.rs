//! Building of a page's tree within limits of time and memory.

use std::time::Duration;

use ego_tree::Tree;
use html5ever::driver;
use html5ever::tendril::{StrTendril, TendrilSink};
use scraper::{Html, HtmlTreeSink, Node};

use super::bounds;
use super::processor::ProcessorDeadline;

/// Maximum processor time for building a tree, including [`bounds::readable`]. Later steps cost
/// about half as much per node.
const TIME_LIMIT: Duration = Duration::from_millis(125);
/// Maximum number of nodes of a tree. Reopened elements are not known before the tree is built.
const MAX_TREE_NODES: usize = 160_000;
/// The number of bytes that the builder receives at a time.
const BUILDER_PIECE_BYTES: usize = 8 << 10;

/// Builds the tree of a page within the limits. The flag tells whether the tree lacks a part of the
/// page.
pub(super) fn build(html: &str) -> (Html, bool) {
    let deadline = ProcessorDeadline::after(TIME_LIMIT);
    let bounds::Readable {
        html: mut rest,
        nodes,
    } = bounds::readable(html);
    let mut is_cut = rest.len() < html.len();
    // A growing vector leaves as much memory behind as it has, and the allocator keeps it.
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
