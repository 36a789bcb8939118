//! The reader of sections from a tree of nodes, which collects every problem.

use crate::node::{ConfigNode, ConfigValue, MappingEntry};
use crate::problem::{ConfigProblem, nearest};
use crate::section::Section;
use crate::setting::Setting;
use crate::source::{SourcedValue, ValueSource};

/// A reader of one mapping, which reports the keys that no caller takes.
#[derive(Debug)]
pub struct MapReader<'a> {
    path: String,
    entries: Vec<MappingEntry>,
    known: Vec<&'static str>,
    problems: &'a mut Vec<ConfigProblem>,
}

/// The short names of keys, each with its full name.
pub type Aliases<const N: usize> = [(&'static str, &'static str); N];

/// Reads a [`Section`], and reports unknown keys. `path` is the key of the section, empty for a
/// whole file.
pub fn read<T: Section>(
    path: &str,
    node: ConfigNode,
    aliases: &[(&str, &str)],
    problems: &mut Vec<ConfigProblem>,
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
    fn new(path: &str, node: ConfigNode, problems: &'a mut Vec<ConfigProblem>) -> Self {
        let entries = match node.value {
            ConfigValue::Map(entries) => entries,
            ConfigValue::Null => Vec::new(),
            _ => {
                let message = format!("expected a mapping of keys, found {}", node.describe());
                problems.push(ConfigProblem::new(&node.source, path, message));
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

    /// Returns the full name of a key of this mapping, with dots between its parts.
    #[must_use]
    pub fn key(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    fn pull(&mut self, name: &'static str) -> Option<MappingEntry> {
        self.known.push(name);
        let index = self.entries.iter().position(|entry| entry.key == name)?;
        Some(self.entries.remove(index))
    }

    /// Returns a [`SourcedValue`] if its key exists and the value is valid; reports a problem if it
    /// is invalid.
    pub fn take<T: Setting>(&mut self, name: &'static str) -> Option<SourcedValue<T>> {
        let entry = self.pull(name)?;
        match T::read(&entry.node) {
            Ok(value) => Some(SourcedValue::new(value, entry.node.source)),
            Err(message) => {
                let problem = ConfigProblem::new(&entry.node.source, self.key(name), message);
                self.problems.push(problem);
                None
            }
        }
    }

    /// Returns a nested [`Section`].
    pub fn section<T: Section>(&mut self, name: &'static str) -> T {
        let Some(entry) = self.pull(name) else {
            return T::default();
        };
        read(&self.key(name), entry.node, &[], self.problems)
    }

    /// Returns a nested [`Section`], which may be written as one word: the value of `key`.
    pub fn section_or_word<T: Section>(&mut self, name: &'static str, key: &str) -> T {
        let Some(entry) = self.pull(name) else {
            return T::default();
        };
        let node = if matches!(entry.node.value, ConfigValue::Text(_)) {
            ConfigNode::nested(&[key], entry.node)
        } else {
            entry.node
        };
        read(&self.key(name), node, &[], self.problems)
    }

    /// Returns all remaining entries as sections: name, position of the name, [`Section`].
    pub fn sections<T: Section>(&mut self) -> Vec<(String, ValueSource, T)> {
        let entries = std::mem::take(&mut self.entries);
        entries
            .into_iter()
            .map(|entry| {
                let path = self.key(&entry.key);
                let section = read(&path, entry.node, &[], self.problems);
                (entry.key, entry.source, section)
            })
            .collect()
    }

    /// Drops all remaining entries unread.
    pub fn skip_rest(&mut self) {
        self.entries.clear();
    }

    /// Checks `version`, which must be 1 if present.
    pub fn version(&mut self) {
        if let Some(version) = self.take::<u64>("version")
            && version.value != 1
        {
            let message = format!(
                "version {} is not known; this program reads version 1",
                version.value
            );
            self.complain(ConfigProblem::new(&version.source, "version", message));
        }
    }

    /// Replaces the short name of a key in flags and variables by its full name.
    fn alias(&mut self, short: &str, name: &str) {
        for entry in self.entries.iter_mut().filter(|entry| entry.key == short) {
            name.clone_into(&mut entry.key);
        }
    }

    /// Adds a [`ConfigProblem`].
    pub fn complain(&mut self, problem: ConfigProblem) {
        self.problems.push(problem);
    }

    /// Reports every key that was not taken.
    fn finish(mut self) {
        for entry in std::mem::take(&mut self.entries) {
            let suggestion = nearest(&entry.key, self.known.iter().copied());
            let message = match &suggestion {
                Some(_) => "unknown key".to_owned(),
                None => format!("unknown key; known here: {}", self.known.join(", ")),
            };
            let problem = ConfigProblem::new(&entry.source, self.key(&entry.key), message);
            self.complain(problem.suggesting(suggestion));
        }
    }
}
