//! A whole configuration file: the sections of a program, and the version of the format.

mod key_list;

use serde_json::{Map, Value as Json, json};

pub use key_list::markdown;

use crate::node::ConfigNode;
use crate::problem::ConfigProblem;
use crate::reader::{self, MapReader};
use crate::section::{ConfigKey, Section, closed_schema, merge};

/// The sections of a program as the top level of a file, beside `version`.
#[derive(Clone, Default)]
struct Document<T>(T);

/// The key `version` in a section that may be a separate file: the key is checked, but not listed.
#[derive(Clone, Debug, Default)]
pub struct VersionKey;

impl Section for VersionKey {
    fn read(reader: &mut MapReader<'_>) -> Self {
        reader.version();
        Self
    }

    fn over(self, _: Self) -> Self {
        self
    }

    fn keys(_: &str, _: &mut Vec<ConfigKey>) {}

    fn schema() -> Json {
        closed_schema(
            [("version".to_owned(), json!({ "const": 1 }))]
                .into_iter()
                .collect(),
        )
    }

    fn show(&self) -> Json {
        json!({})
    }
}

impl<T: Section> Section for Document<T> {
    fn read(reader: &mut MapReader<'_>) -> Self {
        VersionKey::read(reader);
        Self(T::read(reader))
    }

    fn over(self, lower: Self) -> Self {
        Self(self.0.over(lower.0))
    }

    fn defaults() -> Self {
        Self(T::defaults())
    }

    fn keys(prefix: &str, keys: &mut Vec<ConfigKey>) {
        keys.push(ConfigKey {
            path: format!("{prefix}version"),
            kind: "1",
            default: "1".to_owned(),
            about: "The version of this format",
        });
        T::keys(prefix, keys);
    }

    fn schema() -> Json {
        let mut properties = Map::new();
        merge(&mut properties, VersionKey::schema()["properties"].take());
        merge(&mut properties, T::schema()["properties"].take());
        closed_schema(properties)
    }

    fn show(&self) -> Json {
        show(&self.0)
    }
}

/// Reads a whole file into a [`Section`]. The problem of an unknown key suggests the nearest key
/// that any section knows.
pub fn read<T: Section>(node: ConfigNode, problems: &mut Vec<ConfigProblem>) -> T {
    let Document(sections) = reader::read("", node, &[], problems);
    sections
}

/// Returns every [`ConfigKey`].
///
/// ```
/// use docstokg_config::{document, section};
///
/// section! {
///     /// The settings of a program.
///     Settings {
///         /// Attempts in all
///         attempts: u32 = 4,
///     }
/// }
/// let paths: Vec<String> = document::keys::<Settings>().into_iter().map(|key| key.path).collect();
/// assert_eq!(paths, ["version", "attempts"]);
/// ```
#[must_use]
pub fn keys<T: Section>() -> Vec<ConfigKey> {
    let mut keys = Vec::new();
    Document::<T>::keys("", &mut keys);
    keys
}

/// Returns the JSON schema of a configuration file.
#[must_use]
pub fn schema<T: Section>(title: &str) -> Json {
    let mut schema = Map::new();
    schema.insert(
        "$schema".to_owned(),
        json!("https://json-schema.org/draft/2020-12/schema"),
    );
    schema.insert("title".to_owned(), json!(title));
    merge(&mut schema, Document::<T>::schema());
    Json::Object(schema)
}

/// Returns the values that are set, without secrets. The result is valid as a configuration file.
#[must_use]
pub fn show<T: Section>(sections: &T) -> Json {
    let mut shown = Map::new();
    shown.insert("version".to_owned(), json!(1));
    merge(&mut shown, sections.show());
    Json::Object(shown)
}
