//! Ontology files: which format the bytes have, whether they can be read, and what they say.
//!
//! [`detect()`] names a format by the first bytes of a file, [`validate()`] reads the whole file and
//! reports counts, version, licence and faults with their lines, [`normalize()`] writes sorted
//! N-Triples, and [`unpack`] opens compressed and packed files. All of them take hostile input:
//! memory is bounded by [`Limits`], and a file that exceeds one of them is refused by name.
//! Nothing here reaches the network; remote JSON-LD contexts come through a [`ContextLoader`].

mod canonical;
mod detect;
mod guard;
mod header;
mod jsonld;
mod kind;
mod limits;
mod line;
mod normalize;
mod obo;
mod obograph;
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
pub use detect::{Detected, HEAD_BYTES, Refusal, detect};
pub use kind::{Format, Packing};
pub use limits::{ContextLoader, Limits, Options};
pub use normalize::{NormalizeError, Normalized, normalize};
pub use report::{
    ContentHash, Licence, OboCounts, Outcome, Problem, Report, Version, VersionOrigin,
};
pub use validate::validate;
pub use version_name::directory_name;

pub(crate) use obo::{Clause, OboEvent, identifier, quoted_text, read_obo, unescape};
pub(crate) use obograph::{GraphPart, read_obograph};
pub(crate) use statements::{Problems, Stop, read_statements};
