//! The terms of an ontology, from any format that can be read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{self, Read};

use oxrdf::{NamedOrBlankNode, Quad, Term as RdfTerm};

use super::expression::ClassExpressions;
use super::frames::{SUB_CLASS_OF, axiom_frame, characteristic, synonym_scope};
use super::term::{Term, TermAspect};
use crate::format::vocabulary::{
    IAO_DEFINITION, IAO_REPLACED_BY, OBO_IN_OWL, OWL_DEPRECATED, OWL_ONTOLOGY, RDF_TYPE,
    RDFS_LABEL, RDFS_SUB_CLASS_OF, RDFS_SUB_PROPERTY_OF, SKOS_BROADER, SKOS_DEFINITION,
    SKOS_PREF_LABEL, declares_term, deprecates, is_true,
};
use crate::format::{
    FormatProblem, FormatProblems, GraphPart, HeaderFacts, OboNames, OntologyFormat, RdfStatement,
    ReadOptions, Stop, read_obo_statements, read_obograph, read_statements, term_key,
};

/// Default limit on the memory of a [`TermTable`], in bytes.
pub const DEFAULT_TABLE_BYTES: usize = 2 << 30;
/// Memory of a term besides its texts, in bytes.
const TERM_BYTES: usize = 400;

/// The reason why [`TermTable::read`] fails.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The format is recognised, but not parsed.
    #[error("{0} is not parsed here, so its terms cannot be compared")]
    NotParsed(OntologyFormat),
    /// The file is invalid; this is the first error.
    #[error("the terms of the file cannot be compared: {0}")]
    Invalid(FormatProblem),
    /// The file could not be read, with the [`io::Error`] of the reader.
    #[error("cannot read the file: {0}")]
    Io(#[from] io::Error),
}

/// The `Term`s of one ontology, by IRI.
#[derive(Debug, Default)]
pub struct TermTable {
    terms: HashMap<String, Term>,
    header: BTreeMap<&'static str, BTreeSet<String>>,
    bytes: usize,
    limit: usize,
}

impl TermTable {
    /// Reads the terms of a file. Memory grows with the number of terms and the length of their
    /// texts, up to about `max_bytes`.
    ///
    /// # Errors
    /// [`TableError`] if the format is not parsed here, the file has an error or too many terms, or
    /// `reader` fails.
    pub fn read(
        reader: impl Read + Send,
        format: OntologyFormat,
        options: &ReadOptions,
        max_bytes: usize,
    ) -> Result<Self, TableError> {
        let mut table = Self {
            limit: max_bytes,
            ..Self::default()
        };
        let mut problems = FormatProblems::new(&options.limits);
        match format {
            OntologyFormat::Obo => table.read_obo(reader, options, &mut problems)?,
            OntologyFormat::OboGraph => {
                read_obograph(reader, options, &mut problems, &mut |part| {
                    table.add_part(part);
                })?;
            }
            _ if format.is_rdf() => table.read_rdf(reader, format, options, &mut problems)?,
            other => return Err(TableError::NotParsed(other)),
        }
        if table.bytes > max_bytes {
            let message = format!("its terms take more than {max_bytes} bytes of memory");
            problems.error(FormatProblem::of_file(message));
        }
        if let Some(url) = problems.contexts_not_loaded.first() {
            problems.error(FormatProblem::of_file(format!(
                "the remote context {url} is not loaded"
            )));
        }
        match problems.errors.into_iter().next() {
            Some(problem) => Err(TableError::Invalid(problem)),
            None => Ok(table),
        }
    }

    /// Returns the number of terms.
    #[must_use]
    pub fn len(&self) -> usize {
        self.terms.len()
    }

    /// Returns true if the table has no terms.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    pub(super) fn terms(&self) -> impl Iterator<Item = (&str, &Term)> {
        self.terms.iter().map(|(iri, term)| (iri.as_str(), term))
    }

    /// Returns the values of the header by field: version, imports, licence.
    pub(super) const fn header(&self) -> &BTreeMap<&'static str, BTreeSet<String>> {
        &self.header
    }

    pub(super) fn get(&self, iri: &str) -> Option<&Term> {
        self.terms.get(iri)
    }

    /// Changes a [`Term`], created if it is not in the table, and counts the bytes that `change`
    /// returns.
    fn change(&mut self, iri: &str, change: impl FnOnce(&mut Term) -> usize) {
        if self.bytes > self.limit {
            return;
        }
        if let Some(term) = self.terms.get_mut(iri) {
            self.bytes += change(term);
            return;
        }
        let mut term = Term::default();
        self.bytes += TERM_BYTES + iri.len() + change(&mut term);
        self.terms.insert(iri.to_owned(), term);
    }

    fn add(&mut self, iri: &str, aspect: TermAspect, value: &str) {
        self.change(iri, |term| term.add(aspect, value));
    }

    fn read_rdf(
        &mut self,
        reader: impl Read + Send,
        format: OntologyFormat,
        options: &ReadOptions,
        problems: &mut FormatProblems,
    ) -> io::Result<()> {
        let mut statements = TableStatements::default();
        read_statements(reader, format, options, problems, &mut |quad| {
            self.add_statement(&quad, &mut statements);
            if self.bytes > self.limit {
                Err(Stop::Done)
            } else {
                Ok(())
            }
        })?;
        self.conclude(statements, &OboNames::default());
        Ok(())
    }

    fn read_obo(
        &mut self,
        reader: impl Read,
        options: &ReadOptions,
        problems: &mut FormatProblems,
    ) -> io::Result<()> {
        let mut statements = TableStatements::default();
        let names = read_obo_statements(reader, options, problems, &mut |quad| {
            self.add_statement(&quad, &mut statements);
        })?;
        self.conclude(statements, &names);
        Ok(())
    }

    fn add_statement(&mut self, quad: &Quad, statements: &mut TableStatements) {
        statements.order += 1;
        let statement = RdfStatement::of(quad);
        statements.header.note(statements.order, &statement);
        let NamedOrBlankNode::NamedNode(subject) = &quad.subject else {
            if self.bytes <= self.limit {
                self.bytes += statements.expressions.add(quad);
            }
            return;
        };
        let subject = subject.as_str();
        match &quad.object {
            RdfTerm::Literal(text) => {
                self.add_text(
                    subject,
                    quad.predicate.as_str(),
                    text.value(),
                    text.language(),
                );
            }
            RdfTerm::NamedNode(object) => {
                self.add_link(
                    subject,
                    quad.predicate.as_str(),
                    object.as_str(),
                    statements,
                );
            }
            RdfTerm::BlankNode(object) => {
                if let Some(frame) = axiom_frame(quad.predicate.as_str())
                    && self.bytes <= self.limit
                {
                    self.bytes += subject.len() + 64;
                    let key = term_key(object.as_str());
                    statements.uses.push((subject.to_owned(), frame, key));
                }
            }
        }
    }

    fn add_text(&mut self, subject: &str, predicate: &str, text: &str, language: Option<&str>) {
        match predicate {
            RDFS_LABEL | SKOS_PREF_LABEL => {
                self.change(subject, |term| term.labels.add(text, language));
            }
            IAO_DEFINITION | SKOS_DEFINITION => {
                self.change(subject, |term| term.definitions.add(text, language));
            }
            OWL_DEPRECATED if is_true(text) => self.change(subject, |term| {
                term.is_obsolete = true;
                0
            }),
            _ => {
                if let Some(scope) = synonym_scope(predicate) {
                    self.add(subject, TermAspect::Synonym, &format!("{scope}: {text}"));
                } else if predicate.strip_prefix(OBO_IN_OWL) == Some("hasDbXref") {
                    self.add(subject, TermAspect::Xref, text);
                }
            }
        }
    }

    fn add_link(
        &mut self,
        subject: &str,
        predicate: &str,
        object: &str,
        statements: &mut TableStatements,
    ) {
        match predicate {
            RDF_TYPE if object == OWL_ONTOLOGY => {
                self.bytes += TERM_BYTES + subject.len();
                statements.ontologies.insert(subject.to_owned());
            }
            RDF_TYPE if declares_term(object) => self.change(subject, |term| {
                term.is_obsolete |= deprecates(object);
                term.is_property |= object.ends_with("Property");
                match characteristic(object) {
                    Some(name) => term.add(TermAspect::Axiom, &format!("Characteristics: {name}")),
                    None => 0,
                }
            }),
            RDFS_SUB_CLASS_OF | RDFS_SUB_PROPERTY_OF | SKOS_BROADER => {
                self.add(subject, TermAspect::Parent, object);
            }
            IAO_REPLACED_BY => self.change(subject, |term| {
                term.replaced_by = Some(object.to_owned());
                object.len()
            }),
            _ => {
                if predicate.strip_prefix(OBO_IN_OWL) == Some("hasDbXref") {
                    self.add(subject, TermAspect::Xref, object);
                } else if let Some(frame) = axiom_frame(predicate) {
                    self.add(subject, TermAspect::Axiom, &format!("{frame}: <{object}>"));
                }
            }
        }
    }

    /// Writes the axioms whose expressions are complete now, and resolves short names of relations.
    fn conclude(&mut self, statements: TableStatements, names: &OboNames) {
        for (subject, frame, key) in &statements.uses {
            let Some(expression) = statements.expressions.expression(*key) else {
                continue;
            };
            if *frame == SUB_CLASS_OF && expression.is_relationship {
                self.add(subject, TermAspect::Relationship, &expression.text);
            } else {
                let axiom = format!("{frame}: {}", expression.text);
                self.add(subject, TermAspect::Axiom, &axiom);
            }
        }
        for iri in &statements.ontologies {
            self.terms.remove(iri);
        }
        let header = statements.header.resolve();
        let versions = header.versions.into_iter().map(|version| version.value);
        let licences = header.licences.into_iter().map(|licence| licence.value);
        self.header = [
            ("version", versions.collect()),
            ("imports", header.imports.into_iter().collect()),
            ("licence", licences.collect()),
        ]
        .into();
        if names.has_aliases() {
            self.terms
                .values_mut()
                .for_each(|term| resolve(term, names));
        }
    }

    fn add_part(&mut self, part: GraphPart) {
        let names = OboNames::default();
        match part {
            GraphPart::Node(node) => {
                let Some(id) = node.id else { return };
                let iri = names.iri(&id);
                let meta = node.meta.unwrap_or_default();
                // Terms of other ontologies are listed with their id only.
                if node.lbl.is_none() && node.kind.is_none() && meta.definition.is_none() {
                    return;
                }
                self.change(&iri, |term| {
                    term.is_obsolete |= meta.deprecated == Some(true);
                    term.is_property |= node.kind.as_deref() == Some("PROPERTY");
                    let definition = meta.definition.and_then(|definition| definition.val);
                    node.lbl.map_or(0, |label| term.labels.add(&label, None))
                        + definition.map_or(0, |text| term.definitions.add(&text, None))
                });
                for synonym in meta.synonyms.values() {
                    let predicate = synonym.pred.as_deref().unwrap_or_default();
                    let predicate = format!("{OBO_IN_OWL}{predicate}");
                    let text = synonym.val.as_deref().unwrap_or_default();
                    self.add_text(&iri, &predicate, text, None);
                }
                for xref in meta.xrefs.values() {
                    let text = xref.val.as_deref().unwrap_or_default();
                    self.add(&iri, TermAspect::Xref, text);
                }
            }
            GraphPart::Edge(edge) => {
                let (Some(sub), Some(obj)) = (edge.sub, edge.obj) else {
                    return;
                };
                let (sub, obj) = (names.iri(&sub), names.iri(&obj));
                match edge.pred.as_deref() {
                    Some("is_a" | "subPropertyOf" | RDFS_SUB_CLASS_OF | RDFS_SUB_PROPERTY_OF) => {
                        self.add(&sub, TermAspect::Parent, &obj);
                    }
                    Some("inverseOf") => {
                        self.add(&sub, TermAspect::Axiom, &format!("InverseOf: <{obj}>"));
                    }
                    Some(relation) if relation.contains(':') => {
                        let text = format!("<{}> some <{obj}>", names.iri(relation));
                        self.add(&sub, TermAspect::Relationship, &text);
                    }
                    _ => (),
                }
            }
            GraphPart::Head { meta, imports, .. } => {
                let version = meta.and_then(|meta| meta.version);
                self.header = [
                    ("version", version.into_iter().collect()),
                    ("imports", imports.into_iter().collect()),
                ]
                .into();
            }
        }
    }
}

/// The statements that a table keeps until the end of the file.
#[derive(Default)]
struct TableStatements {
    order: u64,
    header: HeaderFacts,
    ontologies: HashSet<String>,
    expressions: ClassExpressions,
    /// Axioms about a blank node: the term, the frame and the node.
    uses: Vec<(String, &'static str, u64)>,
}

/// Gives relations with a short name their IRI.
fn resolve(term: &mut Term, names: &OboNames) {
    let parents = std::mem::take(term.values_mut(TermAspect::Parent));
    let resolved = parents.into_iter().map(|iri| match names.alias(&iri) {
        Some(meant) => meant.to_owned(),
        None => iri,
    });
    *term.values_mut(TermAspect::Parent) = resolved.collect();
    for aspect in [TermAspect::Relationship, TermAspect::Axiom] {
        let values = std::mem::take(term.values_mut(aspect));
        let resolved = values
            .into_iter()
            .map(|text| names.resolved(&text).unwrap_or(text));
        *term.values_mut(aspect) = resolved.collect();
    }
}
