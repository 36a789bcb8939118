//! Ontology files: their format, their validity and their content.
//!
//! - [`detect()`] names a format by the first bytes of a file.
//! - [`validate()`] reads the whole file and reports counts, version, licence and faults by line.
//! - [`normalize()`] writes sorted N-Triples.
//! - [`unpack`] opens compressed and packed files.
//!
//! All of them accept hostile input: memory is bounded by [`FormatLimits`], and a file that exceeds
//! a limit is refused with its name. Files never cause requests from here; remote JSON-LD contexts
//! come through a [`ContextLoader`].

mod canonical;
mod detect;
mod guard;
mod jsonld;
mod kind;
mod limits;
mod line;
mod normalize;
mod obo;
mod obograph;
mod ontology_header;
mod owlxml;
mod report;
mod sort;
mod statement;
mod statements;
mod tally;
pub mod unpack;
mod validate;
mod version_name;
pub(crate) mod vocabulary;

pub use canonical::StatementHash;
pub use detect::{ContentRefusal, DetectedFormat, HEAD_BYTES, detect};
pub use kind::{OntologyFormat, Packing};
pub use limits::{ContextLoader, FormatLimits, ReadOptions};
pub use normalize::{NormalizeError, NormalizedFile, normalize};
pub use report::{
    ContentHash, DeclaredLicence, DeclaredVersion, FormatProblem, OboCounts, ValidationOutcome,
    ValidationReport, VersionOrigin,
};
pub use validate::validate;
pub use version_name::directory_name;

pub(crate) use obo::{OboNames, read_obo_statements};
pub(crate) use obograph::{GraphPart, read_obograph};
pub(crate) use ontology_header::HeaderFacts;
pub(crate) use statement::RdfStatement;
pub(crate) use statements::{FormatProblems, Stop, read_statements};
pub(crate) use tally::term_key;
