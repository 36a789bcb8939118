//! The URL patterns of PDFs on publishing platforms.

use serde_json::Value;
use url::Url;

/// Path fragments of PDFs, with the platforms that have them.
const PDF_PATHS: [&str; 18] = [
    "/pdf/",
    "/_pdf/", // J-Stage
    "/pdfft",
    "/pdfdirect",
    "/epdf/",
    "/pdfplus/",
    "/download/pdf",
    "/article-pdf/",
    "/articlepdf/",       // RSC
    "/article/download/", // OJS
    "/content/pdf/",
    "/docserver/fulltext/", // Annual Reviews and other Ingenta sites
    "/deliver/fulltext/",
    "viewcontent.cgi", // bepress
    "delivery.cfm",    // SSRN
    "showpdf",
    "/viewpdf",
    "/fulltextpdf",
];

/// Path endings of PDFs.
const PDF_ENDINGS: [&str; 5] = [".pdf", "/pdf", "/_pdf", "/document", "/pdf-file"];

/// Query fragments that select the PDF.
const PDF_QUERIES: [&str; 6] = [
    "representation=pdf", // PLOS until 2013
    "pdf=render",
    "type=printable",
    "format=pdf",
    "mimetype=pdf",
    "mimetype=application/pdf",
];

/// Tells whether a link looks like the URL of a PDF.
pub(super) fn looks_like_pdf(link: &str) -> bool {
    let link = link.trim().to_ascii_lowercase();
    let (path, query) = link.split_once('?').unwrap_or((&link, ""));
    let path = path.split('#').next().unwrap_or_default();
    PDF_ENDINGS.iter().any(|end| path.ends_with(end))
        || PDF_PATHS.iter().any(|part| path.contains(part))
        || PDF_QUERIES.iter().any(|part| query.contains(part))
}

/// Returns the URL of the file behind a link. Returns `None` if nothing indicates a file.
///
/// A viewer is replaced by the file that it shows: `/epdf/` by the PDF, and an OJS galley page for
/// a PDF by its download.
pub(super) fn as_file(url: &Url, says_pdf: bool) -> Option<Url> {
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    let mut file = url.clone();
    if url.path().contains("/epdf/") {
        file.set_path(&url.path().replace("/epdf/", "/pdf/"));
    }
    if let Some(download) = ojs_download(url.path()).filter(|_| says_pdf) {
        file.set_path(&download);
    }
    looks_like_pdf(file.as_str()).then_some(file)
}

/// Returns the download of an OJS galley, which `/article/view/ARTICLE/GALLEY` shows in a frame.
fn ojs_download(path: &str) -> Option<String> {
    let (before, behind) = path.split_once("/article/view/")?;
    let mut parts = behind.split('/');
    let (article, galley) = (parts.next()?, parts.next()?);
    let is_id = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    (is_id(article) && is_id(galley) && parts.next().is_none())
        .then(|| format!("{before}/article/download/{article}/{galley}"))
}

/// Tells whether a link leads to an earlier version of the file.
pub(super) fn is_old_version(url: &Url) -> bool {
    let path = url.path().to_ascii_lowercase();
    path.contains("/history/") || path.contains("/archive/") || path.contains("/previous/")
}

/// Finds the file in the JSON that `ScienceDirect` embeds in its pages, at
/// `pdfDownload.urlMetadata`.
pub(super) fn science_direct(value: &Value) -> Option<String> {
    match value {
        Value::Object(object) => {
            if let Some(found) = object
                .get("pdfDownload")
                .and_then(|download| download.get("urlMetadata"))
                .and_then(science_direct_url)
            {
                return Some(found);
            }
            object.values().find_map(science_direct)
        }
        Value::Array(items) => items.iter().find_map(science_direct),
        _ => None,
    }
}

fn science_direct_url(metadata: &Value) -> Option<String> {
    let text = |value: &Value, key: &str| {
        value
            .get(key)
            .and_then(Value::as_str)
            .map(str::to_owned)
            .filter(|text| !text.is_empty())
    };
    let path = text(metadata, "path")?;
    let pii = text(metadata, "pii")?;
    let extension = text(metadata, "pdfExtension").unwrap_or_else(|| "/pdfft".to_owned());
    let mut link = format!("/{}/{pii}{extension}", path.trim_matches('/'));
    let parameters = metadata.get("queryParams");
    let pairs: Vec<String> = ["md5", "pid"]
        .iter()
        .filter_map(|key| Some(format!("{key}={}", text(parameters?, key)?)))
        .collect();
    if !pairs.is_empty() {
        link.push_str(&format!("?{}", pairs.join("&")));
    }
    Some(link)
}
