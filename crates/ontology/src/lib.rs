//! Ontologies: where they are listed, which formats they have, and how their versions are kept.

pub mod diff;
pub mod format;
