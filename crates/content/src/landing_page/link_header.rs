//! Files in the `Link` header (RFC 8288), a convention called signposting.

use http::HeaderMap;
use http::header::LINK;

/// Returns the targets of links with relation `item` or `alternate` and type `application/pdf`.
pub(super) fn pdf_items(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all(LINK)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(links)
        .filter(|(_, parameters)| is_pdf_item(parameters))
        .map(|(target, _)| target)
        .collect()
}

/// Splits a header into targets and their parameters. Commas inside brackets and quotes do not
/// separate.
fn links(value: &str) -> Vec<(String, String)> {
    let mut links = Vec::new();
    let mut rest = value;
    while let Some((_, after)) = rest.split_once('<') {
        let Some((target, after)) = after.split_once('>') else {
            break;
        };
        let mut quoted = false;
        let end = after
            .find(|c: char| {
                quoted ^= c == '"';
                c == ',' && !quoted
            })
            .unwrap_or(after.len());
        links.push((target.to_owned(), after[..end].to_ascii_lowercase()));
        rest = &after[end..];
    }
    links
}

fn is_pdf_item(parameters: &str) -> bool {
    let value = |name: &str| {
        parameters.split(';').find_map(|parameter| {
            let (key, value) = parameter.split_once('=')?;
            (key.trim() == name).then(|| value.trim().trim_matches('"'))
        })
    };
    value("type").is_some_and(|kind| kind.starts_with("application/pdf"))
        && value("rel").is_some_and(|rel| {
            rel.split_ascii_whitespace()
                .any(|word| matches!(word, "item" | "alternate"))
        })
}
