//! The metas of a page, and the redirect of a stub page.

use scraper::Html;
use url::Url;

use super::each;
use crate::location::is_link;

/// A meta element of a page.
#[derive(Debug)]
pub(super) struct MetaTag {
    /// The name, or else the property, in lower case.
    pub(super) name: String,
    /// The declared scheme of the content, in lower case; empty without a declaration.
    pub(super) scheme: String,
    pub(super) content: String,
}

impl MetaTag {
    /// Tells whether the content may be a DOI: no scheme declares another kind of name.
    pub(super) fn may_be_doi(&self) -> bool {
        self.scheme.is_empty()
            || ["doi", "uri", "url"]
                .iter()
                .any(|scheme| self.scheme.contains(scheme))
    }
}

/// Returns the [`MetaTag`]s of a page in document order.
pub(super) fn metas(document: &Html) -> Vec<MetaTag> {
    each(document, "meta[content]")
        .into_iter()
        .filter_map(|meta| {
            let name = meta
                .attr("name")
                .or_else(|| meta.attr("property"))?
                .trim()
                .to_ascii_lowercase();
            let scheme = meta
                .attr("scheme")
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase();
            Some(MetaTag {
                name,
                scheme,
                content: meta.attr("content")?.trim().to_owned(),
            })
        })
        .collect()
}

/// Maximum delay of a refresh that counts as a redirect. A page with a longer delay is meant to be
/// read.
const MAX_REFRESH_S: u32 = 10;
/// Maximum length of the text of a stub, in characters.
const MAX_STUB_CHARS: usize = 2_000;

/// Returns the target of a refresh or of a redirect form, on a stub that only redirects browsers.
pub(super) fn next_hop(document: &Html, base: &Url, metas: &[MetaTag]) -> Option<Url> {
    let refresh = each(document, "meta[http-equiv][content]")
        .into_iter()
        .filter(|meta| {
            meta.attr("http-equiv")
                .is_some_and(|what| what.trim().eq_ignore_ascii_case("refresh"))
        })
        .find_map(|meta| {
            let content = meta.attr("content")?;
            let seconds = content
                .trim_start()
                .split(|c: char| !c.is_ascii_digit())
                .next()
                .and_then(|text| text.parse().ok())
                .unwrap_or(0);
            let at = content.to_ascii_lowercase().find("url")?;
            let target = content
                .get(at + 3..)?
                .trim_start()
                .strip_prefix('=')?
                .trim();
            (seconds <= MAX_REFRESH_S).then(|| target.trim_matches(['\'', '"']).to_owned())
        });
    let is_stub = || {
        let text = document
            .root_element()
            .text()
            .map(|text| text.trim().len())
            .sum::<usize>();
        let asks_password = !each(document, r#"input[type="password"]"#).is_empty();
        !asks_password
            && text <= MAX_STUB_CHARS
            && !metas.iter().any(|meta| meta.name.starts_with("citation_"))
    };
    let form = || {
        let field = each(document, "input[value]")
            .into_iter()
            .find(|field| {
                field
                    .attr("name")
                    .is_some_and(|name| name.eq_ignore_ascii_case("redirectURL"))
            })
            .filter(|_| is_stub())?;
        let value = field.attr("value")?;
        let decoded = percent_encoding::percent_decode_str(value)
            .decode_utf8_lossy()
            .into_owned();
        Some(if value.contains("://") {
            value.to_owned()
        } else {
            decoded
        })
    };
    let mut next = base.join(refresh.or_else(form)?.trim()).ok()?;
    next.set_fragment(None);
    is_link(&next).then_some(next)
}
