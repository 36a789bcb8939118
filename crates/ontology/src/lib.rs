//! Ontologies: where they are listed, which formats they have, and how their versions are kept.
//!
//! [`facade`] is for programs that make their own requests and want the same limits: one call
//! before each attempt. The pull itself does not use it, because the hub charges the budget of a
//! service beside that of its host.

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
