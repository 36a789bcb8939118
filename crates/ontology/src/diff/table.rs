//! The terms of an ontology, from any format that can be read.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Read};

use oxrdf::{NamedOrBlankNode, Quad, Term as RdfTerm};

use crate::format::vocabulary::{
    IAO_DEFINITION, OWL_DEPRECATED, OWL_ONTOLOGY, RDF_TYPE, RDFS_LABEL, RDFS_SUB_CLASS_OF,
    RDFS_SUB_PROPERTY_OF, SKOS_BROADER, SKOS_DEFINITION, SKOS_PREF_LABEL, declares_term,
    deprecates, is_true,
};
use crate::format::{
    Clause, FormatProblem, FormatProblems, GraphPart, OboEvent, OntologyFormat, ReadOptions, Stop,
    identifier, quoted_text, read_obo, read_obograph, read_statements, unescape,
};

/// Default limit on the memory of a [`TermTable`], in bytes.
pub const DEFAULT_TABLE_BYTES: usize = 2 << 30;
/// Memory of a term besides its texts, in bytes.
const TERM_BYTES: usize = 256;
const OBO: &str = "http://purl.obolibrary.org/obo/";

/// Values of a property in the preferred language.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TermTexts {
    pub values: BTreeSet<String>,
    /// True if the values are in a language other than English. Values in English, or without a
    /// language, replace them.
    is_foreign: bool,
}

impl TermTexts {
    fn add(&mut self, value: &str, language: Option<&str>) -> usize {
        let is_foreign = language.is_some_and(|tag| tag != "en" && !tag.starts_with("en-"));
        if self.values.is_empty() || (self.is_foreign && !is_foreign) {
            self.values.clear();
            self.is_foreign = is_foreign;
        }
        if self.is_foreign == is_foreign && self.values.insert(value.to_owned()) {
            return value.len() + 64;
        }
        0
    }
}

/// A term of a [`TermTable`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Term {
    pub labels: TermTexts,
    pub definitions: TermTexts,
    pub parents: BTreeSet<String>,
    pub is_obsolete: bool,
}

impl Term {
    pub(super) fn label(&self) -> Option<&str> {
        self.labels.values.first().map(String::as_str)
    }
}

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

    fn read_rdf(
        &mut self,
        reader: impl Read + Send,
        format: OntologyFormat,
        options: &ReadOptions,
        problems: &mut FormatProblems,
    ) -> io::Result<()> {
        let mut ontologies = HashSet::new();
        read_statements(reader, format, options, problems, &mut |quad| {
            self.add_statement(&quad, &mut ontologies);
            if self.bytes > self.limit {
                Err(Stop::Done)
            } else {
                Ok(())
            }
        })?;
        for iri in ontologies {
            self.terms.remove(&iri);
        }
        Ok(())
    }

    fn add_statement(&mut self, quad: &Quad, ontologies: &mut HashSet<String>) {
        let NamedOrBlankNode::NamedNode(subject) = &quad.subject else {
            return;
        };
        let subject = subject.as_str();
        match (quad.predicate.as_str(), &quad.object) {
            (RDF_TYPE, RdfTerm::NamedNode(class)) => {
                let class = class.as_str();
                if class == OWL_ONTOLOGY {
                    self.bytes += TERM_BYTES + subject.len();
                    ontologies.insert(subject.to_owned());
                } else if declares_term(class) {
                    self.change(subject, |term| {
                        term.is_obsolete |= deprecates(class);
                        0
                    });
                }
            }
            (RDFS_LABEL | SKOS_PREF_LABEL, RdfTerm::Literal(text)) => {
                self.change(subject, |term| {
                    term.labels.add(text.value(), text.language())
                });
            }
            (IAO_DEFINITION | SKOS_DEFINITION, RdfTerm::Literal(text)) => {
                self.change(subject, |term| {
                    term.definitions.add(text.value(), text.language())
                });
            }
            (
                RDFS_SUB_CLASS_OF | RDFS_SUB_PROPERTY_OF | SKOS_BROADER,
                RdfTerm::NamedNode(parent),
            ) => self.add_parent(subject, parent.as_str()),
            (OWL_DEPRECATED, RdfTerm::Literal(text)) if is_true(text.value()) => {
                self.obsolete(subject);
            }
            _ => (),
        }
    }

    fn add_parent(&mut self, iri: &str, parent: &str) {
        self.change(iri, |term| {
            let is_new = term.parents.insert(parent.to_owned());
            if is_new { parent.len() + 64 } else { 0 }
        });
    }

    fn obsolete(&mut self, iri: &str) {
        self.change(iri, |term| {
            term.is_obsolete = true;
            0
        });
    }

    fn read_obo(
        &mut self,
        reader: impl Read + Send,
        options: &ReadOptions,
        problems: &mut FormatProblems,
    ) -> io::Result<()> {
        let mut names = OboNames::default();
        read_obo(reader, options, problems, &mut |event, _| match event {
            OboEvent::Header(clauses) => names.read_header(clauses),
            OboEvent::Stanza {
                kind, id, clauses, ..
            } => {
                let iri = names.stanza_iri(kind, id, clauses);
                self.change(&iri, |_| 0);
                for clause in clauses {
                    self.add_clause(&iri, clause, &names);
                }
            }
        })?;
        // A relation may be named as a parent before the stanza that gives its IRI.
        for (short, iri) in names.aliases {
            for term in self.terms.values_mut() {
                if term.parents.remove(&short) {
                    term.parents.insert(iri.clone());
                }
            }
        }
        Ok(())
    }

    fn add_clause(&mut self, iri: &str, clause: &Clause, names: &OboNames) {
        let value = clause.value.as_str();
        match clause.tag.as_str() {
            "name" => {
                self.change(iri, |term| term.labels.add(&unescape(value), None));
            }
            "def" => {
                let Some((text, _)) = quoted_text(value) else {
                    return;
                };
                self.change(iri, |term| term.definitions.add(&unescape(text), None));
            }
            "is_a" => self.add_parent(iri, &names.iri(identifier(value))),
            "is_obsolete" if identifier(value) == "true" => self.obsolete(iri),
            _ => (),
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
                    let definition = meta.definition.and_then(|definition| definition.val);
                    node.lbl.map_or(0, |label| term.labels.add(&label, None))
                        + definition.map_or(0, |text| term.definitions.add(&text, None))
                });
            }
            GraphPart::Edge(edge) => {
                let (Some(sub), Some(obj)) = (edge.sub, edge.obj) else {
                    return;
                };
                if matches!(
                    edge.pred.as_deref(),
                    Some("is_a" | "subPropertyOf" | RDFS_SUB_CLASS_OF | RDFS_SUB_PROPERTY_OF)
                ) {
                    self.add_parent(&names.iri(&sub), &names.iri(&obj));
                }
            }
            GraphPart::Head { .. } => (),
        }
    }
}

/// The mapping from OBO identifiers to IRIs, as defined for OBO in OWL.
#[derive(Default)]
struct OboNames {
    ontology: String,
    /// Namespaces of prefixes that the header declares.
    spaces: HashMap<String, String>,
    /// Relations with a short name: the IRI of that name, and the IRI that it stands for. See
    /// [`OboNames::stanza_iri`].
    aliases: HashMap<String, String>,
}

impl OboNames {
    fn read_header(&mut self, clauses: &[Clause]) {
        for clause in clauses {
            let mut words = clause.value.split_whitespace();
            match (clause.tag.as_str(), words.next(), words.next()) {
                ("ontology", Some(name), _) => name.clone_into(&mut self.ontology),
                ("idspace", Some(prefix), Some(iri)) => {
                    self.spaces.insert(prefix.to_owned(), iri.to_owned());
                }
                _ => (),
            }
        }
    }

    fn iri(&self, id: &str) -> String {
        if id.contains("://") {
            return id.to_owned();
        }
        match id.split_once(':') {
            Some((prefix, local)) => match self.spaces.get(prefix) {
                Some(space) => format!("{space}{local}"),
                None => format!("{OBO}{prefix}_{local}"),
            },
            None => format!("{OBO}{}#{id}", self.ontology),
        }
    }

    /// Returns the IRI of a stanza. A relation with a short name has the IRI of its first
    /// cross-reference.
    fn stanza_iri(&mut self, kind: &str, id: &str, clauses: &[Clause]) -> String {
        let iri = self.iri(id);
        if kind != "Typedef" || id.contains(':') {
            return iri;
        }
        let Some(xref) = clauses.iter().find(|clause| clause.tag == "xref") else {
            return iri;
        };
        let meant = self.iri(identifier(&xref.value));
        self.aliases.insert(iri, meant.clone());
        meant
    }
}
