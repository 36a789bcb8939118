//! Reading typed values out of a written tree, collecting every problem on the way.

use std::num::NonZeroU32;

use docstokg_policy::host::Host;
use docstokg_policy::rate::{Window, format_rates};
use serde_json::{Value as Json, json};

use super::node::{Entry, Node, Value};
use super::problem::{Problem, Source, Sourced, nearest};

/// Reads one mapping: takes the keys it knows, and complains about the rest.
pub(crate) struct MapReader<'a> {
    path: String,
    entries: Vec<Entry>,
    known: Vec<&'static str>,
    pub(crate) problems: &'a mut Vec<Problem>,
}

/// A type that can be read from a written value.
pub(crate) trait FromNode: Sized {
    /// The kind, in words for the documentation.
    const KIND: &'static str;

    /// Reads it, or says what is wrong.
    fn from_node(node: &Node) -> Result<Self, String>;

    /// Describes it as JSON schema.
    fn schema() -> Json;

    /// Shows it, for `config show`.
    fn show(&self) -> Json;
}

/// A group of keys.
pub(crate) trait Section: Default {
    /// Reads the keys it knows.
    fn read(reader: &mut MapReader<'_>) -> Self;
}

/// Short names of keys, each with its full one.
pub(crate) type Aliases<const N: usize> = [(&'static str, &'static str); N];

/// Reads one group of keys, and complains about the keys that it does not know.
pub(crate) fn read<T: Section>(
    path: &str,
    node: Node,
    aliases: &[(&str, &str)],
    problems: &mut Vec<Problem>,
) -> T {
    let mut reader = MapReader::new(path, node, problems);
    for (short, name) in aliases {
        reader.alias(short, name);
    }
    let section = T::read(&mut reader);
    reader.finish();
    section
}

impl<'a> MapReader<'a> {
    fn new(path: &str, node: Node, problems: &'a mut Vec<Problem>) -> Self {
        let entries = match node.value {
            Value::Map(entries) => entries,
            Value::Null => Vec::new(),
            _ => {
                let message = format!("expected a mapping of keys, found {}", node.describe());
                problems.push(Problem {
                    source: node.source,
                    key: path.to_owned(),
                    message,
                    suggestion: None,
                });
                Vec::new()
            }
        };
        Self {
            path: path.to_owned(),
            entries,
            known: Vec::new(),
            problems,
        }
    }

    fn key(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    fn pull(&mut self, name: &'static str) -> Option<Entry> {
        self.known.push(name);
        let place = self.entries.iter().position(|entry| entry.key == name)?;
        Some(self.entries.remove(place))
    }

    /// Takes a value, if it is there and right.
    pub(crate) fn take<T: FromNode>(&mut self, name: &'static str) -> Option<Sourced<T>> {
        let entry = self.pull(name)?;
        match T::from_node(&entry.node) {
            Ok(value) => Some(Sourced::new(value, entry.node.source)),
            Err(message) => {
                self.complain(&self.key(name), entry.node.source, message, None);
                None
            }
        }
    }

    /// Takes a nested group of keys.
    pub(crate) fn section<T: Section>(&mut self, name: &'static str) -> T {
        let Some(entry) = self.pull(name) else {
            return T::default();
        };
        read(&self.key(name), entry.node, &[], self.problems)
    }

    /// Takes a nested group of keys that may be written as one word: the value of `key`.
    pub(crate) fn section_or_word<T: Section>(&mut self, name: &'static str, key: &str) -> T {
        let Some(entry) = self.pull(name) else {
            return T::default();
        };
        let node = if matches!(entry.node.value, Value::Text(_)) {
            Node::nested(&[key], entry.node)
        } else {
            entry.node
        };
        read(&self.key(name), node, &[], self.problems)
    }

    /// Takes a nested mapping whose keys are names of the user's.
    pub(crate) fn named<T: Section>(&mut self, name: &'static str) -> Vec<(String, Source, T)> {
        let Some(entry) = self.pull(name) else {
            return Vec::new();
        };
        let path = self.key(name);
        let entries = MapReader::new(&path, entry.node, self.problems).entries;
        entries
            .into_iter()
            .map(|entry| {
                let section = read(
                    &format!("{path}.{}", entry.key),
                    entry.node,
                    &[],
                    self.problems,
                );
                (entry.key, entry.source, section)
            })
            .collect()
    }

    /// Takes a nested mapping whose keys are hosts: each in canonical form, none twice.
    pub(crate) fn hosts<T: Section>(&mut self, name: &'static str) -> Vec<(Host, T)> {
        let path = self.key(name);
        let mut hosts: Vec<(Host, T)> = Vec::new();
        for (key, source, section) in self.named(name) {
            match Host::parse(&key) {
                Ok(host) if hosts.iter().any(|(known, _)| *known == host) => {
                    self.complain(
                        &format!("{path}.{key}"),
                        source,
                        format!("the host {host} is there twice"),
                        None,
                    );
                }
                Ok(host) => hosts.push((host, section)),
                Err(error) => {
                    self.complain(&format!("{path}.{key}"), source, error.to_string(), None)
                }
            }
        }
        hosts
    }

    /// Gives a key its full name where flags and variables have a short one.
    fn alias(&mut self, short: &str, name: &str) {
        for entry in self.entries.iter_mut().filter(|entry| entry.key == short) {
            name.clone_into(&mut entry.key);
        }
    }

    pub(crate) fn complain(
        &mut self,
        key: &str,
        source: Source,
        message: String,
        suggestion: Option<String>,
    ) {
        self.problems.push(Problem {
            source,
            key: key.to_owned(),
            message,
            suggestion,
        });
    }

    /// Complains about every key that nobody took.
    fn finish(mut self) {
        for entry in std::mem::take(&mut self.entries) {
            let suggestion = nearest(&entry.key, self.known.iter().copied());
            let message = match &suggestion {
                Some(_) => "unknown key".to_owned(),
                None => format!("unknown key; known here: {}", self.known.join(", ")),
            };
            self.complain(&self.key(&entry.key), entry.source, message, suggestion);
        }
    }
}

fn whole(node: &Node) -> Result<u64, String> {
    let number = match &node.value {
        Value::Int(number) => Some(*number),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if number < 0 => Err(format!(
            "{number} is negative; expected a whole number of zero or more"
        )),
        Some(number) => u64::try_from(number).map_err(|_| format!("{number} is too large")),
        None => Err(format!(
            "expected a whole number, found {}",
            node.describe()
        )),
    }
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl FromNode for Hidden {
    const KIND: &'static str = "text, never shown";

    fn from_node(node: &Node) -> Result<Self, String> {
        // The value may be a key: it is not repeated in the message.
        String::from_node(node)
            .map(Self)
            .map_err(|_| "expected a text".to_owned())
    }

    fn schema() -> Json {
        String::schema()
    }

    fn show(&self) -> Json {
        json!("***")
    }
}

impl FromNode for u64 {
    const KIND: &'static str = "whole number";

    fn from_node(node: &Node) -> Result<Self, String> {
        whole(node)
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 0 })
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

impl FromNode for u32 {
    const KIND: &'static str = "whole number";

    fn from_node(node: &Node) -> Result<Self, String> {
        let number = whole(node)?;
        Self::try_from(number).map_err(|_| format!("{number} is too large"))
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 0, "maximum": Self::MAX })
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

/// A bound that may be absent: a number from 1, or `null` or 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling(pub Option<NonZeroU32>);

impl FromNode for Ceiling {
    const KIND: &'static str = "whole number, or null";

    fn from_node(node: &Node) -> Result<Self, String> {
        match &node.value {
            Value::Null => Ok(Self(None)),
            Value::Text(text)
                if matches!(text.trim().to_ascii_lowercase().as_str(), "null" | "none") =>
            {
                Ok(Self(None))
            }
            _ => u32::from_node(node).map(|number| Self(NonZeroU32::new(number))),
        }
    }

    fn schema() -> Json {
        json!({ "type": ["integer", "null"], "minimum": 0, "maximum": u32::MAX })
    }

    fn show(&self) -> Json {
        json!(self.0.map(NonZeroU32::get))
    }
}

impl FromNode for NonZeroU32 {
    const KIND: &'static str = "whole number from 1";

    fn from_node(node: &Node) -> Result<Self, String> {
        Self::new(u32::from_node(node)?)
            .ok_or_else(|| "0 is too small; expected 1 or more".to_owned())
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX })
    }

    fn show(&self) -> Json {
        json!(self.get())
    }
}

impl FromNode for f64 {
    const KIND: &'static str = "number";

    fn from_node(node: &Node) -> Result<Self, String> {
        let number = match &node.value {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a setting beyond 2^53 is refused by its range"
            )]
            Value::Int(number) => Some(*number as Self),
            Value::Float(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        match number {
            Some(number) if number.is_finite() && number >= 0.0 => Ok(number),
            Some(number) => Err(format!(
                "{number} is negative or not finite; expected zero or more"
            )),
            None => Err(format!("expected a number, found {}", node.describe())),
        }
    }

    fn schema() -> Json {
        json!({ "type": "number", "minimum": 0 })
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

impl FromNode for bool {
    const KIND: &'static str = "true or false";

    fn from_node(node: &Node) -> Result<Self, String> {
        match &node.value {
            Value::Bool(value) => Ok(*value),
            Value::Text(text) => text
                .trim()
                .to_ascii_lowercase()
                .parse()
                .map_err(|_| format!("expected true or false, found '{text}'")),
            _ => Err(format!("expected true or false, found {}", node.describe())),
        }
    }

    fn schema() -> Json {
        json!({ "type": "boolean" })
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

impl FromNode for String {
    const KIND: &'static str = "text";

    fn from_node(node: &Node) -> Result<Self, String> {
        match &node.value {
            Value::Text(text) => Ok(text.trim().to_owned()),
            Value::Int(number) => Ok(number.to_string()),
            _ => Err(format!("expected a text, found {}", node.describe())),
        }
    }

    fn schema() -> Json {
        json!({ "type": "string" })
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

/// Windows that all hold: a list of rates, or one text with `+` between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates(pub Vec<Window>);

impl FromNode for Rates {
    const KIND: &'static str = "list of rates";

    fn from_node(node: &Node) -> Result<Self, String> {
        let texts: Vec<&Node> = match &node.value {
            Value::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        let mut windows = Vec::new();
        for item in texts {
            let Value::Text(text) = &item.value else {
                return Err(format!(
                    "expected a rate such as 10/SECOND, found {}",
                    item.describe()
                ));
            };
            windows.extend(
                docstokg_policy::rate::parse_rates(text).map_err(|error| error.to_string())?,
            );
        }
        Ok(Self(windows))
    }

    fn schema() -> Json {
        json!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string", "pattern": "^\\s*\\d+\\s*/\\s*\\d*\\s*[A-Za-z]+\\s*$" } }] })
    }

    fn show(&self) -> Json {
        if self.0.is_empty() {
            json!([])
        } else {
            json!(format_rates(&self.0).split('+').collect::<Vec<_>>())
        }
    }
}

/// A list of HTTP statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(pub Vec<u16>);

impl FromNode for Statuses {
    const KIND: &'static str = "list of statuses";

    fn from_node(node: &Node) -> Result<Self, String> {
        let Value::List(items) = &node.value else {
            return Err(format!(
                "expected a list of statuses, found {}",
                node.describe()
            ));
        };
        let status = |item: &Node| {
            let number = whole(item)?;
            u16::try_from(number)
                .ok()
                .filter(|status| (100..=599).contains(status))
                .ok_or_else(|| format!("{number} is no HTTP status (100 to 599)"))
        };
        items.iter().map(status).collect::<Result<_, _>>().map(Self)
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": { "type": "integer", "minimum": 100, "maximum": 599 } })
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

/// A list of hosts, in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(pub Vec<Host>);

impl FromNode for Hosts {
    const KIND: &'static str = "list of hosts";

    fn from_node(node: &Node) -> Result<Self, String> {
        let Value::List(items) = &node.value else {
            return Err(format!(
                "expected a list of hosts, found {}",
                node.describe()
            ));
        };
        let host =
            |item: &Node| Host::parse(&String::from_node(item)?).map_err(|error| error.to_string());
        items.iter().map(host).collect::<Result<_, _>>().map(Self)
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": { "type": "string" } })
    }

    fn show(&self) -> Json {
        json!(self.0.iter().map(Host::as_str).collect::<Vec<_>>())
    }
}
