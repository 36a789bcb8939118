//! `sources.yaml`: a list of ontologies, with defaults for all of them.
//!
//! ```yaml
//! defaults:
//!   prefer_source: [obo, ols, bioportal]
//!   accept_licenses: [CC-BY-4.0, CC0-1.0]
//!   target_formats: [owl, obo]
//! ontologies:
//!   - id: hp
//!     resolver: obo
//!   - id: foaf
//!     resolver: direct
//!     extras: { url: "https://xmlns.com/foaf/spec/index.rdf" }
//! ```

use std::path::Path;

use docstokg_config::node::ConfigValue;
use docstokg_config::{
    ConfigNode, ConfigProblem, ConfigProblems, Setting, ValueSource, nearest, read_file, read_text,
};
use url::Url;

use super::{FileChecksum, OntologyId, TargetFormat, WantedOntology};
use crate::source;

/// Defaults for all ontologies of a [`SpecFile`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecDefaults {
    /// The sources to query, in this order; `None` for the default order.
    pub prefer_source: Option<Vec<String>>,
    /// The licences that are accepted; `None` for those of the configuration.
    pub accept_licenses: Option<Vec<String>>,
    /// The requested formats, the best first.
    pub target_formats: Vec<TargetFormat>,
}

/// A list of ontologies, from `sources.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecFile {
    /// Defaults for all ontologies of the list.
    pub defaults: SpecDefaults,
    /// The ontologies, in the order of the file.
    pub ontologies: Vec<WantedOntology>,
}

/// The keys of one ontology.
const KEYS: [&str; 10] = [
    "id",
    "resolver",
    "url",
    "version",
    "license",
    "checksum",
    "checksum_url",
    "target_formats",
    "extras",
    "title",
];

impl SpecFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigProblems`] with every problem at once, each with its line.
    pub fn read(path: &Path) -> Result<Self, ConfigProblems> {
        let mut problems = Vec::new();
        let node = read_file(path, &mut problems);
        Self::of(node, problems)
    }

    /// Reads text. Messages use `name` for the origin of the text.
    ///
    /// # Errors
    /// [`ConfigProblems`] with every problem at once, each with its line.
    pub fn from_text(text: &str, name: &str) -> Result<Self, ConfigProblems> {
        let mut problems = Vec::new();
        let node = read_text(text, name, &mut problems);
        Self::of(node, problems)
    }

    fn of(
        node: Option<ConfigNode>,
        mut problems: Vec<ConfigProblem>,
    ) -> Result<Self, ConfigProblems> {
        let mut spec = Self::default();
        if let Some(node) = node {
            let mut reader = ListReader {
                problems: &mut problems,
            };
            spec = reader.spec(&node);
        }
        if problems.is_empty() {
            Ok(spec)
        } else {
            Err(ConfigProblems::sorted(problems))
        }
    }
}

struct ListReader<'a> {
    problems: &'a mut Vec<ConfigProblem>,
}

impl ListReader<'_> {
    fn complain(&mut self, source: &ValueSource, key: &str, message: impl Into<String>) {
        self.problems.push(ConfigProblem::new(source, key, message));
    }

    /// Visits the entries of a mapping, and reports unknown keys.
    fn entries<'n>(
        &mut self,
        node: &'n ConfigNode,
        path: &str,
        known: &[&str],
    ) -> Vec<(&'n str, &'n ConfigNode)> {
        let ConfigValue::Map(entries) = &node.value else {
            if !matches!(node.value, ConfigValue::Null) {
                let message = format!("expected a mapping of keys, found {}", node.describe());
                self.complain(&node.source, path, message);
            }
            return Vec::new();
        };
        let mut found = Vec::new();
        for entry in entries {
            if known.contains(&entry.key.as_str()) {
                found.push((entry.key.as_str(), &entry.node));
            } else {
                let problem = ConfigProblem::new(
                    &entry.source,
                    join(path, &entry.key),
                    "there is no such key",
                );
                let suggestion = nearest(&entry.key, known.iter().copied());
                self.problems.push(problem.suggesting(suggestion));
            }
        }
        found
    }

    fn spec(&mut self, node: &ConfigNode) -> SpecFile {
        let mut spec = SpecFile::default();
        let mut list = None;
        for (key, node) in self.entries(node, "", &["version", "defaults", "ontologies"]) {
            match key {
                "defaults" => spec.defaults = self.defaults(node),
                "ontologies" => list = Some(node),
                _ => {}
            }
        }
        let Some(list) = list else {
            self.complain(
                &node.source,
                "ontologies",
                "it is missing: list the ontologies there",
            );
            return spec;
        };
        let ConfigValue::List(items) = &list.value else {
            let message = format!("expected a list of ontologies, found {}", list.describe());
            self.complain(&list.source, "ontologies", message);
            return spec;
        };
        for (index, item) in items.iter().enumerate() {
            let Some(wanted) = self.wanted(item, &format!("ontologies[{index}]"), &spec.defaults)
            else {
                continue;
            };
            if spec
                .ontologies
                .iter()
                .any(|other: &WantedOntology| other.id == wanted.id)
            {
                let message = format!("the ontology {} is there twice", wanted.id);
                self.complain(&item.source, "ontologies", message);
            }
            spec.ontologies.push(wanted);
        }
        spec
    }

    fn defaults(&mut self, node: &ConfigNode) -> SpecDefaults {
        let mut defaults = SpecDefaults::default();
        let known = ["prefer_source", "accept_licenses", "target_formats"];
        for (key, node) in self.entries(node, "defaults", &known) {
            let path = join("defaults", key);
            match key {
                "prefer_source" => defaults.prefer_source = Some(self.sources(node, &path)),
                "accept_licenses" => defaults.accept_licenses = Some(self.texts(node, &path)),
                _ => defaults.target_formats = self.formats(node, &path),
            }
        }
        defaults
    }

    fn wanted(
        &mut self,
        node: &ConfigNode,
        path: &str,
        defaults: &SpecDefaults,
    ) -> Option<WantedOntology> {
        // A text in place of a mapping is the id of the ontology.
        if let ConfigValue::Text(text) = &node.value {
            let mut wanted = self.named(text, &node.source, path)?;
            wanted.formats.clone_from(&defaults.target_formats);
            return Some(wanted);
        }
        let entries = self.entries(node, path, &KEYS);
        let id = entries.iter().find(|(key, _)| *key == "id");
        let Some((_, id)) = id else {
            if matches!(node.value, ConfigValue::Map(_)) {
                self.complain(&node.source, &join(path, "id"), "it is missing");
            }
            return None;
        };
        let id = self.text(id, &join(path, "id"))?;
        let mut wanted = self.named(&id, &node.source, path)?;
        for (key, node) in entries {
            self.take(&mut wanted, key, node, &join(path, key));
        }
        if wanted.formats.is_empty() {
            wanted.formats.clone_from(&defaults.target_formats);
        }
        Some(wanted)
    }

    fn named(&mut self, id: &str, source: &ValueSource, path: &str) -> Option<WantedOntology> {
        match OntologyId::parse(id) {
            Ok(id) => Some(WantedOntology::new(id)),
            Err(message) => {
                self.complain(source, path, message);
                None
            }
        }
    }

    fn take(&mut self, wanted: &mut WantedOntology, key: &str, node: &ConfigNode, path: &str) {
        match key {
            "resolver" => wanted.sources = self.sources(node, path),
            "target_formats" => wanted.formats = self.formats(node, path),
            "url" => wanted.url = self.url(node, path),
            "checksum_url" => wanted.checksum_url = self.url(node, path),
            "version" => wanted.version = self.text(node, path),
            "license" => wanted.license = self.text(node, path),
            "checksum" => wanted.checksum = self.checksum(node, path),
            "extras" => self.extras(wanted, node, path),
            _ => {}
        }
    }

    /// Reads the options that only some sources use, under `extras`. The keys `url` and `checksum`
    /// are also accepted there.
    fn extras(&mut self, wanted: &mut WantedOntology, node: &ConfigNode, path: &str) {
        let ConfigValue::Map(entries) = &node.value else {
            let message = format!("expected a mapping of keys, found {}", node.describe());
            return self.complain(&node.source, path, message);
        };
        for entry in entries {
            let path = join(path, &entry.key);
            match entry.key.as_str() {
                "url" => wanted.url = self.url(&entry.node, &path),
                "checksum_url" => wanted.checksum_url = self.url(&entry.node, &path),
                "checksum" => wanted.checksum = self.checksum(&entry.node, &path),
                key => {
                    if let Some(text) = self.text(&entry.node, &path) {
                        wanted.extras.insert(key.to_owned(), text);
                    }
                }
            }
        }
    }

    fn text(&mut self, node: &ConfigNode, path: &str) -> Option<String> {
        match String::read(node) {
            Ok(text) => Some(text),
            Err(message) => {
                self.complain(&node.source, path, message);
                None
            }
        }
    }

    fn texts(&mut self, node: &ConfigNode, path: &str) -> Vec<String> {
        if let ConfigValue::List(items) = &node.value {
            return items
                .iter()
                .filter_map(|item| self.text(item, path))
                .collect();
        }
        let text = self.text(node, path).unwrap_or_default();
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    }

    fn sources(&mut self, node: &ConfigNode, path: &str) -> Vec<String> {
        let names = self.texts(node, path);
        names
            .into_iter()
            .filter_map(|name| match source::check_name(&name) {
                Ok(name) => Some(name),
                Err(message) => {
                    self.complain(&node.source, path, message);
                    None
                }
            })
            .collect()
    }

    fn formats(&mut self, node: &ConfigNode, path: &str) -> Vec<TargetFormat> {
        let texts = self.texts(node, path);
        texts
            .into_iter()
            .filter_map(|text| match text.parse() {
                Ok(format) => Some(format),
                Err(message) => {
                    self.complain(&node.source, path, message);
                    None
                }
            })
            .collect()
    }

    fn url(&mut self, node: &ConfigNode, path: &str) -> Option<Url> {
        let text = self.text(node, path)?;
        match Url::parse(&text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Some(url),
            _ => {
                // The text may contain a password, so the message must not repeat it.
                self.complain(&node.source, path, "this is not an http or https URL");
                None
            }
        }
    }

    fn checksum(&mut self, node: &ConfigNode, path: &str) -> Option<FileChecksum> {
        let text = self.text(node, path)?;
        match FileChecksum::parse(&text) {
            Ok(checksum) => Some(checksum),
            Err(message) => {
                self.complain(&node.source, path, message);
                None
            }
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
