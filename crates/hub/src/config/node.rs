//! Written configuration as a tree in which every value knows its place. The one module that
//! touches the YAML library.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Options, Spanned};

use super::problem::{Problem, Source};

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) source: Source,
    pub(crate) value: Value,
}

/// What can be written.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One line of a mapping.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) source: Source,
    pub(crate) node: Node,
}

impl Node {
    /// Makes a text, as flags and variables have it.
    pub(crate) fn text(text: &str, source: &Source) -> Self {
        Self {
            source: source.clone(),
            value: Value::Text(text.to_owned()),
        }
    }

    /// Makes a mapping with one line.
    pub(crate) fn nested(path: &[&str], leaf: Self) -> Self {
        path.iter().rev().fold(leaf, |node, key| {
            let source = node.source.clone();
            let entry = Entry {
                key: (*key).to_owned(),
                source: source.clone(),
                node,
            };
            Self {
                source,
                value: Value::Map(vec![entry]),
            }
        })
    }

    /// Reads `key:value,key:value` (or with `=`), as flags and variables have it. A dot in a key
    /// leads into a group of keys.
    pub(crate) fn pairs(text: &str, source: &Source, problems: &mut Vec<Problem>) -> Self {
        let mut entries = Vec::new();
        for pair in text
            .split(',')
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            match pair.split_once([':', '=']) {
                Some((key, value)) => {
                    put(&mut entries, key.trim(), Self::text(value.trim(), source))
                }
                None => problems.push(Problem {
                    source: source.clone(),
                    key: String::new(),
                    message: format!("'{pair}' is not KEY:VALUE"),
                    suggestion: None,
                }),
            }
        }
        Self {
            source: source.clone(),
            value: Value::Map(entries),
        }
    }

    /// Says what kind of value it is, for messages.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Text(text) => format!("'{text}'"),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Puts a value under a key, or under a path of keys with dots between them.
fn put(entries: &mut Vec<Entry>, path: &str, node: Node) {
    let source = node.source.clone();
    let Some((group, rest)) = path.split_once('.') else {
        return entries.push(Entry {
            key: path.to_owned(),
            source,
            node,
        });
    };
    let place = entries
        .iter()
        .position(|entry| entry.key == group && matches!(entry.node.value, Value::Map(_)));
    let place = place.unwrap_or_else(|| {
        let empty = Node {
            source: source.clone(),
            value: Value::Map(Vec::new()),
        };
        entries.push(Entry {
            key: group.to_owned(),
            source,
            node: empty,
        });
        entries.len() - 1
    });
    if let Value::Map(inner) = &mut entries[place].node.value {
        put(inner, rest, node);
    }
}

/// Reads YAML text. Says what is wrong and where; a duplicate key is reported and the rest is read
/// all the same.
pub(crate) fn parse(text: &str, path: &str, problems: &mut Vec<Problem>) -> Option<Node> {
    let path: Arc<str> = path.into();
    let place = |line: u64| Source::File {
        path: Arc::clone(&path),
        line,
    };
    if text.trim().is_empty() {
        return Some(Node {
            source: place(1),
            value: Value::Map(Vec::new()),
        });
    }
    let mut complain = |error: &serde_saphyr::Error| {
        let line = error.location().map_or(1, |location| location.line());
        let full = error.to_string();
        let first = full
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default();
        let message = first.strip_prefix("error: ").unwrap_or(first);
        let message = message.split(" at line ").next().unwrap_or(message);
        problems.push(Problem {
            source: place(line),
            key: String::new(),
            message: message.trim().to_owned(),
            suggestion: None,
        });
    };
    let read = |policy| serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options(policy));
    match read(DuplicateKeyPolicy::Error) {
        Ok(raw) => Some(placed(raw, &path)),
        Err(error) => {
            complain(&error);
            read(DuplicateKeyPolicy::FirstWins)
                .ok()
                .map(|raw| placed(raw, &path))
        }
    }
}

fn options(policy: DuplicateKeyPolicy) -> Options {
    serde_saphyr::options! { duplicate_keys: policy, with_snippet: false }
}

fn placed(raw: Spanned<Raw>, path: &Arc<str>) -> Node {
    let source = Source::File {
        path: Arc::clone(path),
        line: raw.referenced.line().max(1),
    };
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Bool(value) => Value::Bool(value),
        Raw::Int(value) => Value::Int(value),
        Raw::Float(value) => Value::Float(value),
        Raw::Text(text) => Value::Text(text),
        Raw::List(list) => Value::List(list.into_iter().map(|item| placed(item, path)).collect()),
        Raw::Map(map) => Value::Map(
            map.into_iter()
                .map(|(key, node)| {
                    let source = Source::File {
                        path: Arc::clone(path),
                        line: key.referenced.line().max(1),
                    };
                    let mut node = placed(node, path);
                    // The line of a nested mapping is that of its key: it is where a person looks.
                    if matches!(node.value, Value::Map(_) | Value::List(_) | Value::Null) {
                        node.source = source.clone();
                    }
                    Entry {
                        key: key.value,
                        source,
                        node,
                    }
                })
                .collect(),
        ),
    };
    Node { source, value }
}

/// The tree as the library hands it out.
enum Raw {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Raw::Map(map))
    }
}
