//! Configuration by section: values, their positions, and problems.
//!
//! A crate that has settings declares them with [`section!`]: each key with its type, its default
//! and its documentation. That declaration is the source of reading, layering, the JSON schema,
//! `config show` and the list of keys in `docs/reference/configuration.md`. A program combines its
//! sections in one section, reads [`Layers`] (defaults < file < environment < flags), and resolves
//! them. Problems are reported together, each with its position and the nearest known word.
//!
//! This crate contains no sections. The crate that declares a section defines the meaning of its
//! values, and the contradictions between them.

pub mod document;
mod layers;
mod named_sections;
pub mod node;
mod problem;
pub mod read_limited;
pub mod reader;
pub mod section;
pub mod setting;
mod source;
pub mod word;
mod yaml;

pub use layers::Layers;
pub use named_sections::{ByName, NamedSections, Naming};
pub use node::ConfigNode;
pub use problem::{ConfigProblem, ConfigProblems, both, nearest};
pub use reader::{MapReader, read};
pub use section::{ConfigKey, Section, UnreadSection};
pub use setting::{Ceiling, HiddenText, NameList, Setting};
pub use source::{SourcedValue, ValueSource};
pub use yaml::{read_file, read_text};

/// The items that the exported macros use.
#[doc(hidden)]
pub mod macros {
    pub use serde_json::{Map, Value as Json};
}

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
