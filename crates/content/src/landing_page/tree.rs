//! Building the tree of a page, for no longer than a page is worth.

use std::time::Duration;

use html5ever::driver;
use html5ever::tendril::{StrTendril, TendrilSink};
use rustix::time::{ClockId, clock_gettime};
use scraper::{Html, HtmlTreeSink};

use super::bounds;

/// How much processor time a tree may take. Not time on the clock: a machine that is busy must not
/// lose pages.
const TIME_LIMIT: Duration = Duration::from_millis(200);
/// How much is given to the builder at a time.
const PIECE: usize = 8 << 10;

/// Builds the tree of a page, as far as that costs what honest pages cost. Says also whether that
/// was not the whole page.
pub(super) fn build(html: &str) -> (Html, bool) {
    let mut parser = driver::parse_document(
        HtmlTreeSink::new(Html::new_document()),
        driver::ParseOpts::default(),
    );
    let until = spent() + TIME_LIMIT;
    let mut rest = bounds::readable(html);
    let mut is_cut = rest.len() < html.len();
    while !rest.is_empty() {
        let mut end = rest.len().min(PIECE);
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, more) = rest.split_at(end);
        parser.process(StrTendril::from_slice(piece));
        rest = more;
        if spent() >= until && !rest.is_empty() {
            (rest, is_cut) = ("", true);
        }
    }
    (parser.finish(), is_cut)
}

/// Returns the processor time that this thread has used.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
