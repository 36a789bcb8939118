//! DOIs in the URLs of publishers: `/doi/10.x/...`, `/doi/pdf/10.x/...`, `/article/10.x/...`,
//! `?doi=10.x/...`.

use url::Url;

use super::Doi;
use super::spelling::percent_decoded;

/// Path segments that publishers append to the DOI.
const TRAILING_SEGMENTS: [&str; 22] = [
    "pdf",
    "ampdf",
    "pdfplus",
    "epdf",
    "pdfft",
    "full",
    "abstract",
    "abs",
    "html",
    "xml",
    "meta",
    "summary",
    "references",
    "citedby",
    "citations",
    "fulltext",
    "full-text",
    "figures",
    "download",
    "export",
    "metrics",
    "read",
];

/// Endings that publishers append to the DOI.
const TRAILING_ENDINGS: [&str; 13] = [
    ".article-info",
    ".article-metrics",
    ".supplementary-material",
    ".full.pdf+html",
    ".full.pdf",
    ".full-text",
    ".full",
    ".abstract",
    ".short",
    ".pdf",
    ".html",
    ".xml",
    ".epub",
];

impl Doi {
    /// Reads the DOI in the path or query of a URL. Returns `None` if neither contains a DOI.
    ///
    /// ```
    /// use docstokg_content::identifier::Doi;
    ///
    /// let url = "https://publisher.example/doi/full/10.1000/ABC.1".parse()?;
    /// let doi = Doi::in_url(&url).expect("a DOI in the path");
    /// assert_eq!((doi.as_str(), doi.prefix()), ("10.1000/abc.1", "10.1000"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn in_url(url: &Url) -> Option<Self> {
        let query = url.query_pairs().find_map(|(_, value)| within(&value));
        within(&percent_decoded(url.path())).or(query)
    }
}

/// Reads the [`Doi`] that begins at a boundary inside a text.
fn within(text: &str) -> Option<Doi> {
    let lower = text.to_ascii_lowercase();
    let mut from = 0;
    while let Some(at) = lower[from..].find("10.") {
        let at = from + at;
        from = at + 3;
        let at_boundary = lower[..at]
            .chars()
            .next_back()
            .is_none_or(|before| !before.is_ascii_alphanumeric() && before != '.');
        if at_boundary && let Some(Ok(doi)) = Doi::read_bare(&trimmed(&lower[at..])) {
            return Some(doi);
        }
    }
    None
}

/// Removes the [`TRAILING_SEGMENTS`] and [`TRAILING_ENDINGS`] after a DOI.
fn trimmed(text: &str) -> String {
    // A SICI contains semicolons and slashes, so the text is not trimmed.
    if text.contains("(sici)") {
        return text
            .split(['&', '?', '#'])
            .next()
            .unwrap_or_default()
            .trim_end_matches('/')
            .to_owned();
    }
    let mut text = text.split([';', '&', '?', '#']).next().unwrap_or_default();
    // Cut from the first segment that no DOI contains: `/pdf/...`, `/figures/1`.
    let mut length = 0;
    for (place, part) in text.split('/').enumerate() {
        if place > 1 && TRAILING_SEGMENTS.contains(&part) {
            text = &text[..length - 1];
            break;
        }
        length += part.len() + 1;
    }
    loop {
        let before = text.len();
        text = text.trim_end_matches('/');
        // A file name after the DOI is cut. A number may be the last part of the DOI itself.
        if let Some((head, last)) = text.rsplit_once('/')
            && head.contains('/')
            && let Some(name) = TRAILING_ENDINGS
                .iter()
                .find_map(|ending| last.strip_suffix(ending))
            && name.bytes().any(|byte| byte.is_ascii_alphabetic())
        {
            text = head;
        }
        text = TRAILING_ENDINGS
            .iter()
            .find_map(|ending| text.strip_suffix(ending))
            .unwrap_or(text);
        if text.len() == before {
            break;
        }
    }
    // Oxford appends an article number to the DOI.
    if text.starts_with("10.1093/")
        && let Some((head, last)) = text.rsplit_once('/')
        && head.matches('/').count() > 1
        && last.len() > 5
        && last.bytes().all(|byte| byte.is_ascii_digit())
    {
        text = head;
    }
    // bioRxiv and medRxiv append the version directly to the DOI.
    if text.starts_with("10.1101/")
        && let Some((head, version)) = text.rsplit_once('v')
        && !version.is_empty()
        && version.bytes().all(|byte| byte.is_ascii_digit())
    {
        text = head;
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// URLs, each with the DOI that the URL contains.
    const URLS: &[(&str, Option<&str>)] = &[
        (
            "https://www.tandfonline.com/doi/full/10.1080/01621459.2020.1711",
            Some("10.1080/01621459.2020.1711"),
        ),
        (
            "https://onlinelibrary.wiley.com/doi/pdf/10.1002/anie.2019",
            Some("10.1002/anie.2019"),
        ),
        (
            "https://onlinelibrary.wiley.com/doi/epdf/10.1002/anie.2019",
            Some("10.1002/anie.2019"),
        ),
        (
            "https://link.springer.com/article/10.1007/s00134-020-05991-x",
            Some("10.1007/s00134-020-05991-x"),
        ),
        (
            "https://link.springer.com/content/pdf/10.1007%2Fs00134-020-05991-x.pdf",
            Some("10.1007/s00134-020-05991-x"),
        ),
        (
            "https://journals.plos.org/plosone/article/file?id=10.1371/journal.pone.0213978&type=printable",
            Some("10.1371/journal.pone.0213978"),
        ),
        (
            "https://iopscience.iop.org/article/10.1088/1742-6596/1/1/012/pdf",
            Some("10.1088/1742-6596/1/1/012"),
        ),
        (
            "https://www.frontiersin.org/articles/10.3389/fpsyg.2020.00001/full",
            Some("10.3389/fpsyg.2020.00001"),
        ),
        (
            "https://www.biorxiv.org/content/10.1101/2020.01.30.927871v2.full.pdf",
            Some("10.1101/2020.01.30.927871"),
        ),
        (
            "https://x.example/landing?doi=10.1234/a.b",
            Some("10.1234/a.b"),
        ),
        (
            "https://x.example/landing?DOI=10.1234%2Fa.b",
            Some("10.1234/a.b"),
        ),
        (
            "https://x.example/doi/abs/10.1234/a;jsessionid=77",
            Some("10.1234/a"),
        ),
        (
            "https://academic.oup.com/bib/advance-article/doi/10.1093/bib/bbaa123/5866098",
            Some("10.1093/bib/bbaa123"),
        ),
        (
            "https://iopscience.iop.org/article/10.1088/1748-9326/ab1234/ampdf",
            Some("10.1088/1748-9326/ab1234"),
        ),
        (
            "https://iopscience.iop.org/article/10.1088/1742-6596/1/1/012.pdf",
            Some("10.1088/1742-6596/1/1/012"),
        ),
        (
            "https://www.frontiersin.org/articles/10.3389/fpsyg.2020.00001/pdf/fpsyg-11-00001.pdf",
            Some("10.3389/fpsyg.2020.00001"),
        ),
        (
            "https://www.annualreviews.org/docserver/fulltext/soc/10.1146/annurev-soc-073117-041107/soc44.pdf",
            Some("10.1146/annurev-soc-073117-041107"),
        ),
        (
            "https://www.biorxiv.org/content/10.1101/2020.01.30.927871v2.article-info",
            Some("10.1101/2020.01.30.927871"),
        ),
        (
            "https://link.springer.com/article/10.1007/s00134-020-05991-x/figures/1",
            Some("10.1007/s00134-020-05991-x"),
        ),
        (
            "https://onlinelibrary.wiley.com/doi/abs/10.1002/(SICI)1097-4636(199823)43:4%3C338::AID-JBM16%3E3.0.CO;2-B",
            Some("10.1002/(sici)1097-4636(199823)43:4<338::aid-jbm16>3.0.co;2-b"),
        ),
        ("https://x.example/v10.12/a", None),
        ("https://x.example/10.12/a", None),
        (
            "https://x.example/release-10.1234/notes",
            Some("10.1234/notes"),
        ),
        ("https://x.example/about", None),
    ];

    #[test]
    fn the_doi_of_a_publishers_url_is_read() {
        for (url, doi) in URLS {
            assert_eq!(
                Doi::in_url(&Url::parse(url).unwrap())
                    .as_ref()
                    .map(Doi::as_str),
                *doi,
                "{url}"
            );
        }
    }
}
