//! Written configuration as a tree in which every value knows its position.

use crate::problem::Problem;
use crate::source::Source;

/// A value and its position.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it was written.
    pub source: Source,
    /// The value.
    pub value: Value,
}

/// What can be written.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing: `null`, or a key without a value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// A text; flags and variables have nothing else.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping of keys.
    Map(Vec<Entry>),
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i128> for Value {
    fn from(number: i128) -> Self {
        Self::Int(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for Value {
    /// Makes a list of defaults.
    fn from(items: [T; N]) -> Self {
        let item = |item: T| Node {
            source: Source::Default,
            value: item.into(),
        };
        Self::List(items.map(item).into())
    }
}

/// One entry of a mapping.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key was written.
    pub source: Source,
    /// What it maps to.
    pub node: Node,
}

impl Node {
    /// Makes a text, as flags and variables have it.
    #[must_use]
    pub fn text(text: &str, source: &Source) -> Self {
        Self {
            source: source.clone(),
            value: Value::Text(text.to_owned()),
        }
    }

    /// Makes a mapping with one entry, below a path of keys.
    #[must_use]
    pub fn nested(path: &[&str], leaf: Self) -> Self {
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
    pub fn pairs(text: &str, source: &Source, problems: &mut Vec<Problem>) -> Self {
        let mut entries = Vec::new();
        for pair in text
            .split(',')
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            match pair.split_once([':', '=']) {
                Some((key, value)) => {
                    put(&mut entries, key.trim(), Self::text(value.trim(), source));
                }
                None => problems.push(Problem::without_key(
                    source,
                    format!("'{pair}' is not KEY:VALUE"),
                )),
            }
        }
        Self {
            source: source.clone(),
            value: Value::Map(entries),
        }
    }

    /// Marks it, and all below it, as written at `source`.
    pub fn mark(&mut self, source: &Source) {
        self.source = source.clone();
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.mark(source)),
            Value::Map(entries) => {
                for entry in entries {
                    entry.source = source.clone();
                    entry.node.mark(source);
                }
            }
            _ => {}
        }
    }

    /// Says what kind of value it is, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
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
    let index = entries
        .iter()
        .position(|entry| entry.key == group && matches!(entry.node.value, Value::Map(_)));
    let index = index.unwrap_or_else(|| {
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
    if let Value::Map(inner) = &mut entries[index].node.value {
        put(inner, rest, node);
    }
}
