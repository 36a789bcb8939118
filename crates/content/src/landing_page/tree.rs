//! Building the tree of a page, for no longer than a page is worth.

use std::time::Duration;

use docstokg_hub::clock::{Clock, SystemClock};
use html5ever::driver;
use html5ever::tendril::{StrTendril, TendrilSink};
use scraper::{Html, HtmlTreeSink};

use super::bounds;

/// How long a tree is built at most. What has been read by then is what there is.
const TIME_LIMIT: Duration = Duration::from_millis(200);
/// How much is given to the builder at a time.
const PIECE: usize = 8 << 10;

/// Builds the tree of a page, as far as that costs what honest pages cost.
pub(super) fn build(html: &str) -> Html {
    let mut parser = driver::parse_document(HtmlTreeSink::new(Html::new_document()), driver::ParseOpts::default());
    let until = SystemClock.boot() + TIME_LIMIT;
    let mut rest = bounds::readable(html);
    while !rest.is_empty() {
        let mut end = rest.len().min(PIECE);
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, more) = rest.split_at(end);
        parser.process(StrTendril::from_slice(piece));
        rest = if SystemClock.boot() < until { more } else { "" };
    }
    parser.finish()
}
