//! Configuration by section: what is written, where it is written, and what is wrong with it.
//!
//! A crate that has settings declares them with [`section!`]: each key with its type, its default
//! and its documentation. Reading, layering, the JSON schema, `config show` and the list of keys in
//! `docs/reference/configuration.md` all come from that declaration. A program lists the sections
//! that it uses in one section of its own, reads [`Layers`] (defaults < file < environment < flags),
//! and resolves them: every problem at once, each with its position and the nearest known word.
//!
//! This crate knows no section. What a value means, and which values contradict each other, is up
//! to the crate that declares the section.

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

/// What the exported macros name.
#[doc(hidden)]
pub mod macros {
    pub use serde_json::{Map, Value as Json};
}

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
