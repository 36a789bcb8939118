//! Written configuration as a tree in which every value knows its position.

use crate::problem::ConfigProblem;
use crate::source::ValueSource;

/// A value and its position.
#[derive(Clone, Debug)]
pub struct ConfigNode {
    /// The position of the value.
    pub source: ValueSource,
    /// The [`ConfigValue`].
    pub value: ConfigValue,
}

/// A value of the configuration.
#[derive(Clone, Debug)]
pub enum ConfigValue {
    /// An absent value: `null`, or a key without a value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// A text; flags and variables have only this kind.
    Text(String),
    /// A list.
    List(Vec<ConfigNode>),
    /// A mapping of keys, as [`MappingEntry`] values.
    Map(Vec<MappingEntry>),
}

impl From<bool> for ConfigValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i128> for ConfigValue {
    fn from(number: i128) -> Self {
        Self::Int(number)
    }
}

impl From<f64> for ConfigValue {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<&str> for ConfigValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for ConfigValue {
    /// Creates a list, as for the default of a key.
    fn from(items: [T; N]) -> Self {
        let item = |item: T| ConfigNode {
            source: ValueSource::Default,
            value: item.into(),
        };
        Self::List(items.map(item).into())
    }
}

/// An entry of a mapping.
#[derive(Clone, Debug)]
pub struct MappingEntry {
    /// The key.
    pub key: String,
    /// The position of the key.
    pub source: ValueSource,
    /// The value of the key.
    pub node: ConfigNode,
}

impl ConfigNode {
    /// Creates a text, as in flags and variables.
    #[must_use]
    pub fn text(text: &str, source: &ValueSource) -> Self {
        Self {
            source: source.clone(),
            value: ConfigValue::Text(text.to_owned()),
        }
    }

    /// Creates nested mappings for a path of keys, with `leaf` as the innermost value.
    #[must_use]
    pub fn nested(path: &[&str], leaf: Self) -> Self {
        path.iter().rev().fold(leaf, |node, key| {
            let source = node.source.clone();
            let entry = MappingEntry {
                key: (*key).to_owned(),
                source: source.clone(),
                node,
            };
            Self {
                source,
                value: ConfigValue::Map(vec![entry]),
            }
        })
    }

    /// Parses `key:value,key:value` (or with `=`), as in flags and variables. A dot in a key
    /// separates a group of keys from a key in it.
    pub fn pairs(text: &str, source: &ValueSource, problems: &mut Vec<ConfigProblem>) -> Self {
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
                None => problems.push(ConfigProblem::without_key(
                    source,
                    format!("'{pair}' is not KEY:VALUE"),
                )),
            }
        }
        Self {
            source: source.clone(),
            value: ConfigValue::Map(entries),
        }
    }

    /// Sets the [`ValueSource`] of this node, and of all nodes below.
    pub fn mark(&mut self, source: &ValueSource) {
        self.source = source.clone();
        match &mut self.value {
            ConfigValue::List(items) => items.iter_mut().for_each(|item| item.mark(source)),
            ConfigValue::Map(entries) => {
                for entry in entries {
                    entry.source = source.clone();
                    entry.node.mark(source);
                }
            }
            _ => {}
        }
    }

    /// Describes the value, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.value {
            ConfigValue::Null => "nothing".to_owned(),
            ConfigValue::Bool(value) => value.to_string(),
            ConfigValue::Int(value) => value.to_string(),
            ConfigValue::Float(value) => value.to_string(),
            ConfigValue::Text(text) => format!("'{text}'"),
            ConfigValue::List(_) => "a list".to_owned(),
            ConfigValue::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Adds a value under a key, or under a path of keys with dots between them.
fn put(entries: &mut Vec<MappingEntry>, path: &str, node: ConfigNode) {
    let source = node.source.clone();
    let Some((group, rest)) = path.split_once('.') else {
        return entries.push(MappingEntry {
            key: path.to_owned(),
            source,
            node,
        });
    };
    let index = entries
        .iter()
        .position(|entry| entry.key == group && matches!(entry.node.value, ConfigValue::Map(_)));
    let index = index.unwrap_or_else(|| {
        let empty = ConfigNode {
            source: source.clone(),
            value: ConfigValue::Map(Vec::new()),
        };
        entries.push(MappingEntry {
            key: group.to_owned(),
            source,
            node: empty,
        });
        entries.len() - 1
    });
    if let ConfigValue::Map(inner) = &mut entries[index].node.value {
        put(inner, rest, node);
    }
}
