//! Finds the header of an ontology: its IRI, version, imports and licence.
//!
//! The subject typed `owl:Ontology` may be anywhere in a file, and other subjects have versions and
//! licences too. So every statement that may belong to a header is kept, up to a limit, and the
//! header is determined at the end of the file.

use super::report::{DeclaredLicence, DeclaredVersion, FormatProblem, VersionOrigin};
use super::statement::{Object, RdfStatement, StatementNode};
use super::vocabulary::{
    OWL_IMPORTS, OWL_ONTOLOGY, OWL_VERSION_INFO, OWL_VERSION_IRI, RDF_TYPE, states_licence,
};

const MAX_FACTS: usize = 20_000;
const MAX_FACT_BYTES: usize = 4 << 20;
const MAX_ONTOLOGIES: usize = 1_000;
const MAX_VALUE_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
enum FactKind {
    Ontology,
    VersionIri,
    VersionInfo,
    Import,
    Licence(String),
}

#[derive(Debug, Clone)]
struct Fact {
    order: u64,
    subject: String,
    kind: FactKind,
    value: String,
}

/// Statements that may belong to the header of an ontology, resolved to an [`OntologyHeader`].
#[derive(Debug, Default)]
pub(crate) struct HeaderFacts {
    facts: Vec<Fact>,
    ontologies: Vec<Fact>,
    bytes: usize,
    is_incomplete: bool,
}

/// The header of an ontology.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct OntologyHeader {
    pub ontology_iri: Option<String>,
    pub versions: Vec<DeclaredVersion>,
    pub imports: Vec<String>,
    pub licences: Vec<DeclaredLicence>,
    pub warnings: Vec<FormatProblem>,
}

impl HeaderFacts {
    /// Keeps a statement if it may belong to a header. `order` is the position of the statement in
    /// the file.
    pub(crate) fn note(&mut self, order: u64, statement: &RdfStatement<'_>) {
        let predicate = statement.predicate;
        let kind = match predicate {
            RDF_TYPE if statement.object == Object::Node(StatementNode::Iri(OWL_ONTOLOGY)) => {
                FactKind::Ontology
            }
            OWL_VERSION_IRI => FactKind::VersionIri,
            OWL_VERSION_INFO => FactKind::VersionInfo,
            OWL_IMPORTS => FactKind::Import,
            _ if states_licence(predicate) => FactKind::Licence(predicate.to_owned()),
            _ => return,
        };
        let value = match statement.object {
            Object::Node(StatementNode::Iri(value)) | Object::Literal(value) => value.to_owned(),
            Object::Node(StatementNode::Blank(_)) => return,
        };
        let subject = match statement.subject {
            StatementNode::Iri(iri) => iri.to_owned(),
            StatementNode::Blank(label) => format!("_:{label}"),
        };
        self.keep(Fact {
            order,
            subject,
            kind,
            value,
        });
    }

    fn keep(&mut self, fact: Fact) {
        if fact.value.len() + fact.subject.len() > MAX_VALUE_BYTES {
            self.is_incomplete = true;
        } else if fact.kind == FactKind::Ontology {
            if self.ontologies.len() < MAX_ONTOLOGIES {
                self.ontologies.push(fact);
            }
        } else if self.facts.len() < MAX_FACTS && self.bytes < MAX_FACT_BYTES {
            self.bytes += fact.value.len() + fact.subject.len();
            self.facts.push(fact);
        } else {
            self.is_incomplete = true;
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.is_incomplete |= other.is_incomplete;
        other
            .facts
            .into_iter()
            .chain(other.ontologies)
            .for_each(|fact| self.keep(fact));
    }

    /// Returns the header of the file's ontology. If several subjects are typed `owl:Ontology`, the
    /// header is that of the subject with the most statements, and of equals that of the first.
    pub(crate) fn resolve(mut self) -> OntologyHeader {
        let mut resolved = OntologyHeader::default();
        self.facts.sort_by_key(|fact| fact.order);
        self.ontologies.sort_by_key(|fact| fact.order);
        let mut subjects: Vec<&str> = Vec::new();
        for fact in &self.ontologies {
            if !subjects.contains(&fact.subject.as_str()) {
                subjects.push(&fact.subject);
            }
        }
        let weight = |subject: &str| {
            let has = |kind: &FactKind| {
                self.facts
                    .iter()
                    .any(|fact| fact.kind == *kind && fact.subject == subject)
            };
            let imported = self
                .facts
                .iter()
                .any(|fact| fact.kind == FactKind::Import && fact.value == subject);
            (
                !imported,
                has(&FactKind::VersionIri),
                has(&FactKind::Import),
                has(&FactKind::VersionInfo),
            )
        };
        // `max_by_key` returns the last of several equal elements, but the first is wanted.
        let Some(main) = subjects
            .iter()
            .rev()
            .copied()
            .max_by_key(|subject| weight(subject))
        else {
            return resolved;
        };
        if subjects.len() > 1 {
            resolved.warnings.push(FormatProblem::of_file(format!(
                "{} subjects are typed owl:Ontology; the header is taken from {main}",
                subjects.len()
            )));
        }
        if self.is_incomplete {
            resolved.warnings.push(FormatProblem::of_file(
                "the file has so many versions, imports or licences that some are not considered",
            ));
        }
        resolved.ontology_iri = (!main.starts_with("_:")).then(|| main.to_owned());
        for fact in self.facts.iter().filter(|fact| fact.subject == main) {
            resolved.add(fact);
        }
        resolved
            .versions
            .sort_by_key(|version| version.origin != VersionOrigin::VersionIri);
        resolved
    }
}

impl OntologyHeader {
    fn add(&mut self, fact: &Fact) {
        let value = fact.value.clone();
        let version = |origin| DeclaredVersion {
            value: fact.value.clone(),
            origin,
        };
        match &fact.kind {
            FactKind::VersionIri => self.add_version(version(VersionOrigin::VersionIri)),
            FactKind::VersionInfo => self.add_version(version(VersionOrigin::VersionInfo)),
            FactKind::Import if !self.imports.contains(&value) => self.imports.push(value),
            FactKind::Ontology | FactKind::Import => (),
            FactKind::Licence(property) => {
                let licence = DeclaredLicence {
                    property: property.clone(),
                    value,
                };
                if !self.licences.contains(&licence) {
                    self.licences.push(licence);
                }
            }
        }
    }

    fn add_version(&mut self, version: DeclaredVersion) {
        if !version.value.trim().is_empty() && !self.versions.contains(&version) {
            self.versions.push(version);
        }
    }
}
