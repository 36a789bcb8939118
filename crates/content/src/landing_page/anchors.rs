//! Links that a person would click to get the file.

use scraper::Html;
use url::Url;

use super::each;

/// Most links taken from a page: an issue's table of contents has hundreds.
const MOST_ANCHORS: usize = 8;

/// Parts of paths under which publishers keep PDFs.
const PDF_PATHS: [&str; 7] = ["/pdf/", "/pdfft", "/pdfdirect", "/epdf/", "/pdfplus/", "/download/pdf", "/article-pdf/"];

/// Words of links that lead to something else than the article.
const NOT_THE_ARTICLE: [&str; 9] = ["suppl", "moesm", "guideline", "instruction", "policy", "policies", "checklist", "permission", "copyright"];

/// Returns whether a link looks as if a PDF were behind it.
pub(super) fn looks_like_pdf(link: &str) -> bool {
    let link = link.trim().to_ascii_lowercase();
    let path = link.split(['?', '#']).next().unwrap_or_default();
    [".pdf", "/pdf"].iter().any(|end| path.ends_with(end)) || PDF_PATHS.iter().any(|part| path.contains(part)) || link.contains("pdf=render")
}

/// Returns the links of a page that look like the article's file, best first: those that say so, then those on the same host.
pub(super) fn ranked(document: &Html, base: &Url) -> Vec<String> {
    let mut links: Vec<(u8, String)> = Vec::new();
    for element in each(document, "a, button") {
        let text = element.text().collect::<String>().to_ascii_lowercase();
        let named = element
            .value()
            .attrs()
            .any(|(name, value)| matches!(name, "class" | "id" | "title" | "aria-label") && value.to_ascii_lowercase().contains("pdf"));
        let says_pdf = text.contains("pdf") || named;
        let values = element.value().attrs().filter(|(name, _)| *name == "href" || name.starts_with("data-"));
        for (_, value) in values.filter(|(_, value)| looks_like_pdf(value)) {
            let lower = value.to_ascii_lowercase();
            if NOT_THE_ARTICLE.iter().any(|word| lower.contains(word) || text.contains(word)) {
                continue;
            }
            let Ok(url) = base.join(value.trim()) else { continue };
            let home = url.host() == base.host();
            // A foreign PDF is somebody else's paper in the references, unless the link says that it is the PDF.
            let rank = match (says_pdf, home) {
                (true, true) => 0,
                (false, true) => 1,
                (true, false) => 2,
                (false, false) => continue,
            };
            links.push((rank, value.replace("/epdf/", "/pdf/")));
        }
    }
    links.sort_by_key(|(rank, _)| *rank);
    links.into_iter().map(|(_, link)| link).take(MOST_ANCHORS).collect()
}
