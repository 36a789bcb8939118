//! The anchors and links of a page that mdBook made.

use std::collections::BTreeSet;

/// The anchors of a page, and the targets of its links.
pub(super) struct BuiltPage {
    /// The `id` attributes.
    pub(super) anchors: BTreeSet<String>,
    /// The `href` and `src` attributes without a scheme, in order.
    pub(super) targets: Vec<String>,
}

impl BuiltPage {
    /// Reads the attributes of a page. mdBook quotes them with `"`, and escapes that in texts.
    pub(super) fn parse(html: &str) -> Self {
        let targets = attribute_values(html, "href").chain(attribute_values(html, "src"));
        let relative = targets.filter(|target| !target.is_empty() && !is_absolute(target));
        Self {
            anchors: attribute_values(html, "id").collect(),
            targets: relative.collect(),
        }
    }
}

fn is_absolute(target: &str) -> bool {
    ["http://", "https://", "mailto:", "data:"]
        .iter()
        .any(|scheme| target.starts_with(scheme))
}

/// Returns the values of an attribute, in order.
fn attribute_values<'a>(html: &'a str, name: &str) -> impl Iterator<Item = String> + 'a {
    let opening = format!(" {name}=\"");
    html.match_indices('<').flat_map(move |(at, _)| {
        let tag = tag_at(html, at);
        let values = tag.split(opening.as_str()).skip(1);
        values
            .filter_map(|rest| rest.split('"').next())
            .map(unescaped)
            .collect::<Vec<_>>()
    })
}

/// Returns the tag that begins at a byte, with its attributes.
fn tag_at(html: &str, at: usize) -> &str {
    let rest = &html[at..];
    let mut is_quoted = false;
    let end = rest.find(|letter| {
        is_quoted ^= letter == '"';
        letter == '>' && !is_quoted
    });
    &rest[..end.unwrap_or(rest.len())]
}

/// Returns a value without character references.
fn unescaped(value: &str) -> String {
    value.replace("&quot;", "\"").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_from_tags_alone() {
        let page = BuiltPage::parse(
            r#"<h1 class="x" id="a-b">T id="no"</h1>
            <a title="x > y" href="c.html?a&amp;b#d">href="no"</a><a href="https://x.example">x</a><a href="">x</a>"#,
        );
        assert_eq!(page.anchors, BTreeSet::from(["a-b".to_owned()]));
        assert_eq!(page.targets, ["c.html?a&b#d"]);
    }
}
