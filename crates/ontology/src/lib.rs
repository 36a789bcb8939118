//! Ontologies: their sources, their formats, and the library of their versions.
//!
//! [`facade`] is for other programs, which send their own requests within the same limits: they
//! call the facade before each attempt. A pull does not use the facade, because the hub checks the
//! budget of a service together with that of its host.

pub mod config;
pub mod contexts;
pub mod diff;
pub mod examiner;
pub mod facade;
pub mod format;
pub mod library;
pub mod licence;
pub mod lock;
mod memory_budget;
pub mod plan;
pub mod pull;
pub mod source;
pub mod url_check;
pub mod wanted_ontology;
mod xbrl_package;

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
