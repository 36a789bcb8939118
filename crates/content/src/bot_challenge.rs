//! Recognises pages that stand between a robot and a paper.
//!
//! A challenge is reported and never solved. Most marks also occur in good pages: a contact form
//! has a captcha, and a content network injects its script everywhere. So weak marks count only if
//! the status or the size of the page rules out other content. No mark counts on a page that
//! describes an article.

use http::StatusCode;

/// The number of bytes of a page that are searched for marks.
const WINDOW_BYTES: usize = 128 * 1024;

/// The largest size of a page without content, in bytes.
const THIN_PAGE_BYTES: usize = 12 * 1024;

/// Marks that only challenges carry.
const CHALLENGE_MARKS: [&str; 12] = [
    "<title>just a moment",
    "cf-chl",
    "cf_chl_",
    "attention required! | cloudflare",
    "verify you are human",
    "verifying you are human",
    "are you a robot",
    "request unsuccessful. incapsula",
    "_incapsula_resource",
    "checking your browser before accessing",
    "px-captcha",
    "enable javascript and cookies to continue",
];

/// Marks of [`CHALLENGE_MARKS`] that also occur in forms on good pages.
const ASKED_IN_FORMS: [&str; 4] = [
    "verify you are human",
    "verifying you are human",
    "are you a robot",
    "px-captcha",
];

/// Marks that also occur on good pages.
const AMBIGUOUS_MARKS: [&str; 8] = [
    "challenge-platform",
    "/cdn-cgi/",
    "captcha",
    "perimeterx",
    "just a moment",
    "unusual traffic",
    "access denied",
    "akamai",
];

/// Marks beside "access denied" that name the refusing party: a network that refuses robots, and
/// not an archive without the file.
const DENIED_BY_NETWORK: [&str; 8] = [
    "errors.edgesuite.net",
    "reference&#32;&#35;",
    "reference #",
    "akamai",
    "sucuri",
    "incident id",
    "automated",
    "robot",
];

/// Marks of pages that make their visitor wait and do not refuse.
const WAIT_PAGE_MARKS: [&str; 4] = [
    "preparing to download",
    "your download will begin",
    "pdf is being generated",
    "pow_challenge",
];

/// Marks of a page that describes an article.
const ARTICLE_MARKS: [&str; 6] = [
    "scholarlyarticle",
    "citation_title",
    "citation_pdf_url",
    "citation_doi",
    "publication_doi",
    "prism.doi",
];

/// Marks of an article page of Atypon's platform. Every such page has both.
const ATYPON_ARTICLE: [&str; 2] = ["\"dc.title\"", "\"dc.identifier\""];

/// The size from which marks inside URLs do not count: advertisements and trackers carry anything
/// in theirs.
const LARGE_PAGE_BYTES: usize = 64 * 1024;

/// A bot challenge in place of the requested page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BotChallenge {
    /// The page refuses robots, permanently for this URL.
    Robots {
        /// The mark that identified the page.
        marker: &'static str,
    },
    /// The page makes its visitor wait, or demands proof of work before the file.
    Interstitial {
        /// The mark that identified the page.
        marker: &'static str,
    },
}

impl BotChallenge {
    /// Returns the mark that identified the page.
    #[must_use]
    pub const fn marker(self) -> &'static str {
        match self {
            Self::Robots { marker } | Self::Interstitial { marker } => marker,
        }
    }

    /// Describes the challenge of a host for people.
    #[must_use]
    pub fn sentence(self, host: &str) -> String {
        let what = match self {
            Self::Robots { .. } => "keeps robots out",
            Self::Interstitial { .. } => "wants a browser to wait",
        };
        format!("{host} {what} (recognised by '{}')", self.marker())
    }
}

/// Tells whether a response refuses robots, so that another request would get the same response.
pub(crate) fn is_one(status: StatusCode, body: &[u8]) -> bool {
    matches!(detect(status, body), Some(BotChallenge::Robots { .. }))
}

/// Recognises a [`BotChallenge`]. Returns `None` for every other page, and for statuses with a
/// meaning of their own, such as 404 and 429.
///
/// ```
/// use docstokg_content::bot_challenge::detect;
/// use http::StatusCode;
///
/// let page = b"<html><title>Just a moment...</title><script src=\"/cdn-cgi/challenge-platform/x\">";
/// assert!(detect(StatusCode::FORBIDDEN, page).is_some());
/// assert!(detect(StatusCode::OK, b"<html><title>An article</title>").is_none());
/// ```
#[must_use]
pub fn detect(status: StatusCode, body: &[u8]) -> Option<BotChallenge> {
    let refused = matches!(status.as_u16(), 401 | 403 | 503);
    if !refused && !status.is_success() {
        return None;
    }
    let page = String::from_utf8_lossy(&body[..body.len().min(WINDOW_BYTES)]).to_ascii_lowercase();
    let first =
        |markers: &[&'static str]| markers.iter().copied().find(|marker| page.contains(marker));
    if first(&ARTICLE_MARKS).is_some() || ATYPON_ARTICLE.iter().all(|mark| page.contains(mark)) {
        return None;
    }
    let large = body.len() >= LARGE_PAGE_BYTES;
    // A large page with a good status may contain a form that tests for human visitors.
    let in_a_form = |marker: &str| large && !refused && ASKED_IN_FORMS.contains(&marker);
    let mut strong = CHALLENGE_MARKS
        .iter()
        .copied()
        .filter(|marker| !in_a_form(marker));
    let strong = strong.find(|marker| {
        page.match_indices(marker)
            .any(|(at, _)| !large || !is_in_url(&page, at))
    });
    if let Some(marker) = strong {
        return Some(BotChallenge::Robots { marker });
    }
    let thin = body.len() < THIN_PAGE_BYTES;
    if let Some(marker) = first(&WAIT_PAGE_MARKS).filter(|_| thin) {
        return Some(BotChallenge::Interstitial { marker });
    }
    let weak = first(&AMBIGUOUS_MARKS)?;
    // A plain "access denied" with status 200 may be about rights; a captcha on a thin page is a
    // challenge.
    let tells = if thin && !refused {
        matches!(
            weak,
            "challenge-platform" | "captcha" | "perimeterx" | "just a moment" | "unusual traffic"
        )
    } else {
        refused && (weak != "access denied" || first(&DENIED_BY_NETWORK).is_some())
    };
    tells.then_some(BotChallenge::Robots { marker: weak })
}

/// Tells whether the text at a position of a page is part of a URL, judged by the characters back
/// to the previous quote or blank.
fn is_in_url(page: &str, at: usize) -> bool {
    let begin = page[..at]
        .rfind(|c: char| c.is_whitespace() || "\"'<>()".contains(c))
        .map_or(0, |before| before + 1);
    let word = &page[begin..at];
    word.contains("://")
        || word.contains("%3a%2f%2f")
        || word.starts_with('/')
        || word.contains(".js?")
        || word.contains('?') && word.contains('=')
}
