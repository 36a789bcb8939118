//! Ontologies: where they are listed, which formats they have, and how their versions are kept.
