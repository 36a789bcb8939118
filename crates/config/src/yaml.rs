//! YAML text as a tree of nodes. The only module that uses the YAML library.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Options, Spanned};

use crate::node::{ConfigNode, ConfigValue, MappingEntry};
use crate::problem::ConfigProblem;
use crate::read_limited;
use crate::source::ValueSource;

/// The largest file that is read, in bytes. The longest lists of hosts have a few hundred KiB, and
/// the tree of a file uses a multiple of its size.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Reads a file as a tree, or adds a [`ConfigProblem`].
pub fn read_file(path: &Path, problems: &mut Vec<ConfigProblem>) -> Option<ConfigNode> {
    let shown = path.display().to_string();
    let hint = "which no configuration is; name the right file";
    match read_limited::read_text(path, MAX_FILE_BYTES, hint) {
        Ok(text) => read_text(&text, &shown, problems),
        Err(error) => {
            let source = ValueSource::File {
                path: Arc::from(shown.as_str()),
                line: 1,
            };
            problems.push(ConfigProblem::without_key(
                &source,
                format!("the file cannot be read: {error}"),
            ));
            None
        }
    }
}

/// Reads YAML text as a tree, and adds a [`ConfigProblem`] with its position for each error. After
/// a duplicate key, the rest is still read.
pub fn read_text(text: &str, path: &str, problems: &mut Vec<ConfigProblem>) -> Option<ConfigNode> {
    let path: Arc<str> = path.into();
    let at = |line: u64| ValueSource::File {
        path: Arc::clone(&path),
        line,
    };
    if text.trim().is_empty() {
        return Some(ConfigNode {
            source: at(1),
            value: ConfigValue::Map(Vec::new()),
        });
    }
    let mut complain = |error: &serde_saphyr::Error| {
        let line = error.location().map_or(1, |location| location.line());
        problems.push(ConfigProblem::without_key(&at(line), message(error)));
    };
    let read =
        |policy| serde_saphyr::from_str_with_options::<Spanned<RawNode>>(text, options(policy));
    match read(DuplicateKeyPolicy::Error) {
        Ok(raw) => Some(positioned(raw, &path)),
        Err(error) => {
            complain(&error);
            read(DuplicateKeyPolicy::FirstWins)
                .ok()
                .map(|raw| positioned(raw, &path))
        }
    }
}

/// The deepest nesting that is read. Sections have far fewer levels, and each level uses stack.
const MAX_DEPTH: usize = 16;

fn options(policy: DuplicateKeyPolicy) -> Options {
    serde_saphyr::options! {
        duplicate_keys: policy,
        with_snippet: false,
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
    }
}

/// Returns the message of a library error in one line, without the position.
fn message(error: &serde_saphyr::Error) -> String {
    let full = error.to_string();
    let first = full
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first);
    let message = message.split(" at line ").next().unwrap_or(message).trim();
    if message.starts_with("budget breached: Depth") || message == "recursion limit exceeded" {
        return format!("it is nested more than {MAX_DEPTH} levels deep");
    }
    message.to_owned()
}

fn positioned(raw: Spanned<RawNode>, path: &Arc<str>) -> ConfigNode {
    let source = ValueSource::File {
        path: Arc::clone(path),
        line: raw.referenced.line().max(1),
    };
    let value = match raw.value {
        RawNode::Null => ConfigValue::Null,
        RawNode::Bool(value) => ConfigValue::Bool(value),
        RawNode::Int(value) => ConfigValue::Int(value),
        RawNode::Float(value) => ConfigValue::Float(value),
        RawNode::Text(text) => ConfigValue::Text(text),
        RawNode::List(list) => ConfigValue::List(
            list.into_iter()
                .map(|item| positioned(item, path))
                .collect(),
        ),
        RawNode::Map(map) => ConfigValue::Map(
            map.into_iter()
                .map(|(key, node)| {
                    let source = ValueSource::File {
                        path: Arc::clone(path),
                        line: key.referenced.line().max(1),
                    };
                    let mut node = positioned(node, path);
                    // The position of a nested mapping is the line of its key, because a user looks
                    // there.
                    if matches!(
                        node.value,
                        ConfigValue::Map(_) | ConfigValue::List(_) | ConfigValue::Null
                    ) {
                        node.source = source.clone();
                    }
                    MappingEntry {
                        key: key.value,
                        source,
                        node,
                    }
                })
                .collect(),
        ),
    };
    ConfigNode { source, value }
}

/// The tree as the library returns it.
enum RawNode {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Spanned<RawNode>>),
    Map(Vec<(Spanned<String>, Spanned<RawNode>)>),
}

impl<'de> Deserialize<'de> for RawNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawNode, E> {
        Ok(RawNode::Null)
    }

    fn visit_none<E>(self) -> Result<RawNode, E> {
        Ok(RawNode::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<RawNode, E> {
        Ok(RawNode::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<RawNode, E> {
        Ok(RawNode::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<RawNode, E> {
        Ok(RawNode::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<RawNode, E> {
        Ok(RawNode::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<RawNode, E> {
        Ok(RawNode::Float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<RawNode, E> {
        Ok(RawNode::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RawNode, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(RawNode::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawNode, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(RawNode::Map(map))
    }
}
