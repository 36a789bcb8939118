//! The metas of a page, and where a stub sends browsers on to.

use scraper::Html;
use url::Url;

use super::each;
use crate::location::is_link;

/// A meta of a page.
#[derive(Debug)]
pub(super) struct MetaTag {
    /// Its name, or property where it has no name, in lower case.
    pub(super) name: String,
    /// What its content is, where that is said, in lower case.
    pub(super) scheme: String,
    pub(super) content: String,
}

impl MetaTag {
    /// Tells whether its content may be a DOI: nothing says that it is another name.
    pub(super) fn may_be_doi(&self) -> bool {
        self.scheme.is_empty()
            || ["doi", "uri", "url"]
                .iter()
                .any(|scheme| self.scheme.contains(scheme))
    }
}

/// Returns the metas of a page in document order.
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

/// A refresh after more seconds than this is a page that is read meanwhile.
const MAX_REFRESH_S: u32 = 10;
/// A page with more text than this is no stub.
const MAX_STUB_CHARS: usize = 2_000;

/// Returns where a refresh or the hidden field of a redirect form leads, on a stub that only sends
/// browsers on.
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
