//! The keys of a configuration as Markdown, for the documentation.

use crate::section::ConfigKey;

/// The number of columns of a line. Only code and links may be longer.
const LINE_COLUMNS: usize = 120;

/// Writes the keys as lists, one for each group of keys.
///
/// A group that has the same keys as an earlier one refers to it.
#[must_use]
pub fn markdown(keys: &[ConfigKey]) -> String {
    let mut groups: Vec<KeyGroup<'_>> = Vec::new();
    for key in keys {
        let (path, name) = key.path.rsplit_once('.').unwrap_or(("", &key.path));
        let item = list_item(key, name);
        match groups.iter_mut().find(|group| group.path == path) {
            Some(group) => group.items.push(item),
            None => groups.push(KeyGroup {
                path,
                items: vec![item],
            }),
        }
    }
    let sections = groups.iter().enumerate().map(|(at, group)| {
        let heading = match group.path {
            "" => "### Top level".to_owned(),
            path => format!("### `{path}`"),
        };
        let same = groups[..at]
            .iter()
            .find(|earlier| group.items.len() > 1 && earlier.items == group.items);
        let body = match same {
            Some(earlier) => format!("The same keys as `{}`.\n", earlier.path),
            None => group.items.concat(),
        };
        format!("{heading}\n\n{body}")
    });
    sections.collect::<Vec<_>>().join("\n")
}

/// The keys below one path.
struct KeyGroup<'a> {
    path: &'a str,
    items: Vec<String>,
}

/// Writes a [`ConfigKey`] as an item of a list, broken into lines.
fn list_item(key: &ConfigKey, name: &str) -> String {
    let text = format!(
        "- `{name}`: {} (default: {}). {}",
        key.kind, key.default, key.about
    );
    let mut item = String::new();
    let mut columns = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if columns > 0 && columns + 1 + length > LINE_COLUMNS {
            item.push_str("\n  ");
            columns = 2;
        } else if columns > 0 {
            item.push(' ');
            columns += 1;
        }
        item.push_str(word);
        columns += length;
    }
    item.push('\n');
    item
}
