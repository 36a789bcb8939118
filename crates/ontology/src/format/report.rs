//! The findings about a file: outcome, counts, versions, licences and problems.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::OntologyFormat;

/// The outcome of a validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValidationOutcome {
    /// The whole file was read without an error.
    Valid,
    /// The file has at least one error.
    Invalid,
    /// The file was not checked completely: its format is not parsed here, or a remote JSON-LD
    /// context was not available. A warning says which.
    NotValidated,
}

/// An error or a warning, with its position in the file if the position is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatProblem {
    /// The line of the problem, from 1.
    pub line: Option<u64>,
    /// The column of the problem, from 1.
    pub column: Option<u64>,
    /// The fault, as a sentence without a full stop.
    pub message: String,
}

impl FormatProblem {
    /// Creates a problem of the whole file.
    #[must_use]
    pub fn of_file(message: impl Into<String>) -> Self {
        Self {
            line: None,
            column: None,
            message: message.into(),
        }
    }

    /// Creates a problem at a line.
    #[must_use]
    pub fn at_line(line: u64, message: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            column: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for FormatProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(f, "line {line}, column {column}: ")?,
            (Some(line), None) => write!(f, "line {line}: ")?,
            (None, _) => (),
        }
        f.write_str(&self.message)
    }
}

/// A licence as the file declares it, without normalisation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredLicence {
    /// The property that declares the licence, such as `http://purl.org/dc/terms/license`.
    pub property: String,
    /// The licence, as an address or free text.
    pub value: String,
}

/// The property of a file that declares its [`DeclaredVersion`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionOrigin {
    /// `owl:versionIRI` of the ontology, or `meta.version` of an OBO graph.
    VersionIri,
    /// `owl:versionInfo` of the ontology.
    VersionInfo,
    /// `data-version` of an OBO header.
    DataVersion,
}

/// A version as the file declares it. The text may have slashes, spaces and newlines, so use
/// [`directory_name`](super::directory_name) to make a file name from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredVersion {
    /// The text of the version.
    pub value: String,
    /// The property that declares the version.
    pub origin: VersionOrigin,
}

/// A hash of the content of a file that does not depend on the order of its statements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentHash {
    /// The name of the rules by which content is hashed. Only hashes of the same scheme are
    /// comparable.
    pub scheme: String,
    /// The hash, 64 hexadecimal digits.
    pub hex: String,
}

/// Numbers of stanzas and clauses of an OBO file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OboCounts {
    /// Number of `[Term]` stanzas.
    pub terms: u64,
    /// Number of `[Typedef]` stanzas.
    pub typedefs: u64,
    /// Number of `[Instance]` stanzas.
    pub instances: u64,
    /// Number of stanzas of other kinds.
    pub other_stanzas: u64,
    /// Number of `id` clauses.
    pub ids: u64,
    /// Number of `name` clauses.
    pub names: u64,
    /// Number of `is_a` clauses.
    pub is_a: u64,
}

/// The result of [`validate`](super::validate()): outcome, counts and problems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidationReport {
    /// The [`OntologyFormat`] that the file was read as.
    pub format: OntologyFormat,
    /// The outcome of the validation.
    pub outcome: ValidationOutcome,
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of RDF statements, clauses of OBO stanzas, or nodes and edges of an OBO graph.
    /// Statements that occur twice count twice.
    pub statements: u64,
    /// Number of statements with a blank node.
    pub statements_with_blank_nodes: u64,
    /// Number of declared terms. In OBO files these are stanzas, in RDF files distinct IRIs that
    /// are typed as class, property, individual or concept.
    pub terms: u64,
    /// Number of distinct terms that are marked as obsolete.
    pub obsolete: u64,
    /// True if `terms` and `obsolete` are numbers of distinct terms. False if the file has more
    /// terms than [`FormatLimits::max_distinct_terms`](super::FormatLimits::max_distinct_terms).
    pub terms_exact: bool,
    /// The IRI of the ontology.
    pub ontology_iri: Option<String>,
    /// Versions of the ontology, in order of preference: IRI, data-version, info.
    pub versions: Vec<DeclaredVersion>,
    /// The IRIs of imported ontologies, in order of appearance.
    pub imports: Vec<String>,
    /// The licences that the file declares.
    pub licences: Vec<DeclaredLicence>,
    /// The [`ContentHash`], if the file was read to its end.
    pub content_hash: Option<ContentHash>,
    /// Counts of an OBO file; `None` for other formats.
    pub obo: Option<OboCounts>,
    /// The URLs of remote contexts that could not be loaded.
    pub contexts_not_loaded: Vec<String>,
    /// Errors, at most [`FormatLimits::max_problems`](super::FormatLimits::max_problems).
    pub errors: Vec<FormatProblem>,
    /// Number of errors. Reading stops at the limit on listed errors, so there may be more.
    pub error_count: u64,
    /// Warnings about the file, which do not make it invalid.
    pub warnings: Vec<FormatProblem>,
    /// True if the file is invalid only because it is too large to be read with its keys in this
    /// order. Then its content is not known.
    #[serde(default)]
    pub is_unordered: bool,
}

impl ValidationReport {
    pub(crate) fn empty(format: OntologyFormat) -> Self {
        Self {
            format,
            outcome: ValidationOutcome::NotValidated,
            bytes: 0,
            statements: 0,
            statements_with_blank_nodes: 0,
            terms: 0,
            obsolete: 0,
            terms_exact: true,
            ontology_iri: None,
            versions: Vec::new(),
            imports: Vec::new(),
            licences: Vec::new(),
            content_hash: None,
            obo: None,
            contexts_not_loaded: Vec::new(),
            errors: Vec::new(),
            error_count: 0,
            warnings: Vec::new(),
            is_unordered: false,
        }
    }

    /// Returns true if the whole file was read without an error.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.outcome == ValidationOutcome::Valid
    }

    /// Returns the preferred [`DeclaredVersion`], if the file declares one.
    #[must_use]
    pub fn version(&self) -> Option<&DeclaredVersion> {
        self.versions.first()
    }
}
