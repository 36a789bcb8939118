//! Mappings whose keys are names that the user chooses: hosts, sites, services.

use std::fmt::{Debug, Display};

use serde_json::{Value as Json, json};

use crate::problem::ConfigProblem;
use crate::reader::MapReader;
use crate::section::{ConfigKey, Section};

/// A kind of name.
pub trait Naming: Clone + Default {
    /// The type of a parsed name.
    type Name: Clone + Debug + Display + PartialEq;

    /// The placeholder for the name in the documentation: `HOST`.
    const PLACEHOLDER: &'static str;

    /// The noun for messages: `host`.
    const NOUN: &'static str;

    /// The pattern of a name in JSON schema; `None` if every text is a name.
    const PATTERN: Option<&'static str> = None;

    /// Parses a name.
    ///
    /// # Errors
    /// Returns a message if the text is not a name.
    fn name(text: &str) -> Result<Self::Name, String>;
}

/// The kind of names that accepts any text.
#[derive(Clone, Debug, Default)]
pub struct ByName;

impl Naming for ByName {
    type Name = String;
    const PLACEHOLDER: &'static str = "NAME";
    const NOUN: &'static str = "name";

    fn name(text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }
}

/// A section under each of several names.
#[derive(Clone, Debug)]
pub struct NamedSections<N: Naming, T>(pub Vec<(N::Name, T)>);

impl<N: Naming, T> Default for NamedSections<N, T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<N: Naming, T> NamedSections<N, T> {
    /// Returns each name with its section.
    pub fn iter(&self) -> std::slice::Iter<'_, (N::Name, T)> {
        self.0.iter()
    }
}

impl<'a, N: Naming, T> IntoIterator for &'a NamedSections<N, T> {
    type Item = &'a (N::Name, T);
    type IntoIter = std::slice::Iter<'a, (N::Name, T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<N: Naming, T: Section> Section for NamedSections<N, T> {
    /// Reads every entry. Several spellings of one name are a problem.
    fn read(reader: &mut MapReader<'_>) -> Self {
        let mut named: Vec<(N::Name, T)> = Vec::new();
        for (text, source, section) in reader.sections() {
            let problem = match N::name(&text) {
                Ok(name) if named.iter().any(|(known, _)| *known == name) => {
                    format!("the {} {name} is there twice", N::NOUN)
                }
                Ok(name) => {
                    named.push((name, section));
                    continue;
                }
                Err(message) => message,
            };
            reader.complain(ConfigProblem::new(&source, reader.key(&text), problem));
        }
        Self(named)
    }

    /// Merges each section with the lower section of the same name.
    fn over(self, lower: Self) -> Self {
        let mut lower = lower.0;
        for (name, upper) in self.0 {
            match lower.iter().position(|(known, _)| *known == name) {
                Some(index) => {
                    let below = std::mem::take(&mut lower[index].1);
                    lower[index].1 = upper.over(below);
                }
                None => lower.push((name, upper)),
            }
        }
        Self(lower)
    }

    fn keys(prefix: &str, keys: &mut Vec<ConfigKey>) {
        T::keys(&format!("{prefix}{}.", N::PLACEHOLDER), keys);
    }

    fn schema() -> Json {
        let mut schema = json!({ "type": "object", "additionalProperties": T::schema() });
        if let Some(pattern) = N::PATTERN {
            schema["propertyNames"] = json!({ "pattern": pattern });
        }
        schema
    }

    fn show(&self) -> Json {
        let shown = self
            .iter()
            .map(|(name, section)| (name.to_string(), section.show()));
        Json::Object(shown.collect())
    }
}
