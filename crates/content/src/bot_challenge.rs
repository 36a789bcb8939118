//! Recognises pages that stand between a robot and a paper.
//!
//! A challenge is named and the page left alone: it is never solved. Most marks also occur in good pages (a
//! contact form has a captcha, a content network injects its script everywhere), so weak marks
//! count only where the status or the size of the page says that nothing else is there, and no mark
//! counts on a page that describes an article.

use http::StatusCode;

/// How much of a page is looked at.
const WINDOW_BYTES: usize = 128 * 1024;

/// Pages with content are longer than this.
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

/// Those of them that forms on good pages carry, too.
const ASKED_IN_FORMS: [&str; 4] = [
    "verify you are human",
    "verifying you are human",
    "are you a robot",
    "px-captcha",
];

/// Marks that good pages carry too.
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

/// Marks beside "access denied" that say who denies it: a network that keeps robots out, and not
/// the archive that has no such file, or not yet.
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

/// Marks of pages that say "wait", not "go away".
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

/// Marks of an article page that Atypon's platform makes: both stand on every one of them.
const ATYPON_ARTICLE: [&str; 2] = ["\"dc.title\"", "\"dc.identifier\""];

/// On pages of this size and more a mark inside a URL says nothing: advertisements and trackers
/// carry anything there.
const LARGE_PAGE_BYTES: usize = 64 * 1024;

/// A page that is not what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BotChallenge {
    /// It keeps robots out. Terminal for this URL.
    Robots {
        /// The mark it was recognised by.
        marker: &'static str,
    },
    /// It asks to wait, or proves work before the file.
    Interstitial {
        /// The mark it was recognised by.
        marker: &'static str,
    },
}

impl BotChallenge {
    /// Returns the mark it was recognised by.
    #[must_use]
    pub const fn marker(self) -> &'static str {
        match self {
            Self::Robots { marker } | Self::Interstitial { marker } => marker,
        }
    }

    /// Says what a host does, for people.
    #[must_use]
    pub fn sentence(self, host: &str) -> String {
        let what = match self {
            Self::Robots { .. } => "keeps robots out",
            Self::Interstitial { .. } => "wants a browser to wait",
        };
        format!("{host} {what} (recognised by '{}')", self.marker())
    }
}

/// Tells whether an answer keeps robots out: requested again it is the same.
pub(crate) fn is_one(status: StatusCode, body: &[u8]) -> bool {
    matches!(detect(status, body), Some(BotChallenge::Robots { .. }))
}

/// Recognises a challenge; `None` for every other page, and for statuses that speak for themselves, such
/// as 404 and 429.
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
    // A large page that was served may ask for a human in one of its forms.
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

/// Tells whether what stands at a place of a page is part of a URL: the characters before it, back
/// to a quote or blank, begin one.
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
