//! What reading a file found.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::OntologyFormat;

/// How a validation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValidationOutcome {
    /// The whole file was read without an error.
    Valid,
    /// The file has at least one error.
    Invalid,
    /// The file was not judged: its format is not parsed here, or a part of it (a remote JSON-LD
    /// context) is not available. A warning says which.
    NotValidated,
}

/// An error or a warning, with its position in the file where it has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatProblem {
    /// Line, from 1.
    pub line: Option<u64>,
    /// Column, from 1.
    pub column: Option<u64>,
    /// What is wrong, as a sentence without a full stop.
    pub message: String,
}

impl FormatProblem {
    /// A problem of the whole file.
    #[must_use]
    pub fn of_file(message: impl Into<String>) -> Self {
        Self {
            line: None,
            column: None,
            message: message.into(),
        }
    }

    /// A problem at a line.
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

/// A licence as the file states it, neither normalised nor judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredLicence {
    /// The property that states it, such as `http://purl.org/dc/terms/license`.
    pub property: String,
    /// An address or free text.
    pub value: String,
}

/// Where a version is stated.
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

/// A version as the file states it. It may hold slashes, spaces and newlines:
/// [`directory_name`](super::directory_name) makes a file name of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredVersion {
    /// The text.
    pub value: String,
    /// Where it is stated.
    pub origin: VersionOrigin,
}

/// A hash of what a file says, which does not depend on the order in which it says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentHash {
    /// What is hashed. Hashes are comparable within one scheme.
    pub scheme: String,
    /// The hash, 64 hexadecimal digits.
    pub hex: String,
}

/// What the stanzas of an OBO file hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OboCounts {
    /// `[Term]` stanzas.
    pub terms: u64,
    /// `[Typedef]` stanzas.
    pub typedefs: u64,
    /// `[Instance]` stanzas.
    pub instances: u64,
    /// Stanzas of other kinds.
    pub other_stanzas: u64,
    /// `id` clauses.
    pub ids: u64,
    /// `name` clauses.
    pub names: u64,
    /// `is_a` clauses.
    pub is_a: u64,
}

/// The result of [`validate`](super::validate()).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidationReport {
    /// The format that the file was read as.
    pub format: OntologyFormat,
    /// How it ended.
    pub outcome: ValidationOutcome,
    /// Bytes read.
    pub bytes: u64,
    /// RDF statements; clauses of OBO stanzas; nodes and edges of OBO graphs. Statements that
    /// occur twice count twice.
    pub statements: u64,
    /// Statements with a blank node.
    pub statements_with_blank_nodes: u64,
    /// Declared terms: distinct IRIs typed as class, property, individual or concept, or stanzas.
    pub terms: u64,
    /// Distinct terms that are marked as obsolete.
    pub obsolete: u64,
    /// Whether `terms` and `obsolete` count distinct terms. False where there are more than
    /// [`FormatLimits::max_distinct_terms`](super::FormatLimits::max_distinct_terms).
    pub terms_exact: bool,
    /// The IRI of the ontology.
    pub ontology_iri: Option<String>,
    /// Its version, in order of preference: IRI, data-version, info.
    pub versions: Vec<DeclaredVersion>,
    /// The ontologies that it imports, in order of appearance.
    pub imports: Vec<String>,
    /// The licences that it states.
    pub licences: Vec<DeclaredLicence>,
    /// The hash of the content, if the file was read to its end.
    pub content_hash: Option<ContentHash>,
    /// Stanzas of an OBO file.
    pub obo: Option<OboCounts>,
    /// Remote contexts that were not available.
    pub contexts_not_loaded: Vec<String>,
    /// Errors, at most [`FormatLimits::max_problems`](super::FormatLimits::max_problems).
    pub errors: Vec<FormatProblem>,
    /// How many errors there are; reading stops at the limit.
    pub error_count: u64,
    /// Warnings.
    pub warnings: Vec<FormatProblem>,
    /// Whether it is invalid only because it is too large for the order that its keys have: what
    /// it says is not known.
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

    /// Whether the whole file was read without an error.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.outcome == ValidationOutcome::Valid
    }

    /// The preferred version, if the file states one.
    #[must_use]
    pub fn version(&self) -> Option<&DeclaredVersion> {
        self.versions.first()
    }
}
