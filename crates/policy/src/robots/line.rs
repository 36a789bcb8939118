//! The lines of a robots.txt, parsed as crawlers have always done.
//!
//! The grammar is that of RFC 9309. In other respects, the parser follows the one that Google
//! published. It accepts `user agent` with a space and the usual misspellings of `disallow`. White
//! space replaces a missing colon if the line has exactly two words.

/// The meaning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RobotsLine<'a> {
    /// The following rules are for this robot.
    UserAgent(&'a str),
    /// These paths may be fetched.
    Allow(&'a str),
    /// These paths must not be fetched.
    Disallow(&'a str),
    /// The number of seconds between requests.
    CrawlDelay(&'a str),
}

const USER_AGENT: [&str; 3] = ["user-agent", "useragent", "user agent"];
const DISALLOW: [&str; 6] = [
    "disallow",
    "dissallow",
    "dissalow",
    "disalow",
    "diasllow",
    "disallaw",
];

impl<'a> RobotsLine<'a> {
    /// Parses a line. Returns `None` for comments, sitemaps and unknown keys, which have no effect
    /// (RFC 9309 section 2.2.4).
    pub(super) fn read(line: &'a str) -> Option<Self> {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (key, value) = line.split_once(':').or_else(|| two_words(line))?;
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        let is = |names: &[&str]| names.iter().any(|name| key.starts_with(name));
        if is(&USER_AGENT) {
            Some(Self::UserAgent(value))
        } else if is(&["allow"]) {
            Some(Self::Allow(value))
        } else if is(&DISALLOW) {
            Some(Self::Disallow(value))
        } else if is(&["crawl-delay"]) {
            Some(Self::CrawlDelay(value))
        } else {
            None
        }
    }
}

/// Splits a line of exactly two words, whose colon is missing.
fn two_words(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once([' ', '\t'])?;
    let value = value.trim_start();
    (!value.contains([' ', '\t'])).then_some((key, value))
}
