//! Counts and hashes of statements. Several threads can each count a part, because results can be
//! added.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use oxrdf::Quad;

use super::FormatLimits;
use super::canonical::{ShapeOnly, StatementHash, write_line};
use super::ontology_header::HeaderFacts;
use super::statement::{Object, RdfStatement, StatementNode};
use super::vocabulary::{OWL_DEPRECATED, RDF_TYPE, declares_term, deprecates, is_true};

/// The counts and hashes of the statements that one thread has processed.
#[derive(Default)]
pub(crate) struct Tally {
    pub statements: u64,
    pub with_blank_nodes: u64,
    pub hash: StatementHash,
    pub header: HeaderFacts,
    /// The terms seen, until [`DistinctTerms::add`] collects them.
    pub seen: SeenTerms,
    line: Vec<u8>,
}

/// Hashes of the IRIs of declared terms, in no particular order.
#[derive(Default)]
pub(crate) struct SeenTerms {
    pub terms: Vec<u64>,
    pub obsolete: Vec<u64>,
}

pub(crate) fn term_key(iri: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    iri.hash(&mut hasher);
    hasher.finish()
}

impl Tally {
    /// Counts a statement and returns the length of its canonical line, in bytes.
    pub(crate) fn add(&mut self, order: u64, quad: &Quad) -> u64 {
        self.line.clear();
        write_line(quad, &mut ShapeOnly, &mut self.line);
        self.hash.add_line(&self.line);
        self.note(order, &RdfStatement::of(quad));
        self.line.len() as u64
    }

    /// Counts the statement of a line that is canonical apart from the labels of its blank nodes.
    pub(crate) fn add_canonical(&mut self, order: u64, line: &str, statement: &RdfStatement<'_>) {
        if statement.has_blank_node() {
            self.line.clear();
            write_without_labels(line, statement, &mut self.line);
            self.hash.add_line(&self.line);
        } else {
            self.hash.add_line(line.as_bytes());
        }
        self.note(order, statement);
    }

    fn note(&mut self, order: u64, statement: &RdfStatement<'_>) {
        self.statements += 1;
        self.with_blank_nodes += u64::from(statement.has_blank_node());
        self.header.note(order, statement);
        self.note_term(statement);
    }

    fn note_term(&mut self, statement: &RdfStatement<'_>) {
        let StatementNode::Iri(subject) = statement.subject else {
            return;
        };
        match (statement.predicate, statement.object) {
            (RDF_TYPE, Object::Node(StatementNode::Iri(class))) if declares_term(class) => {
                let key = term_key(subject);
                self.seen.terms.push(key);
                if deprecates(class) {
                    self.seen.obsolete.push(key);
                }
            }
            (OWL_DEPRECATED, Object::Literal(value)) if is_true(value) => {
                self.seen.obsolete.push(term_key(subject));
            }
            _ => (),
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.statements += other.statements;
        self.with_blank_nodes += other.with_blank_nodes;
        self.hash.merge(other.hash);
        self.header.merge(other.header);
    }
}

/// Copies a canonical line without the labels of blank nodes.
fn write_without_labels(line: &str, statement: &RdfStatement<'_>, out: &mut Vec<u8>) {
    let mut copied = 0;
    let object = match statement.object {
        Object::Node(node) => Some(node),
        Object::Literal(_) => None,
    };
    for node in [Some(statement.subject), object, statement.graph]
        .into_iter()
        .flatten()
    {
        let StatementNode::Blank(label) = node else {
            continue;
        };
        // Each label is a slice of `line`, so its address gives its position.
        let start = label.as_ptr().addr() - line.as_ptr().addr();
        out.extend_from_slice(&line.as_bytes()[copied..start]);
        copied = start + label.len();
    }
    out.extend_from_slice(&line.as_bytes()[copied..]);
}

/// Counts distinct terms by a hash of their IRI, up to [`FormatLimits::max_distinct_terms`].
/// Further declarations are counted without regard to repetition.
pub(crate) struct DistinctTerms {
    terms: HashSet<u64>,
    obsolete: HashSet<u64>,
    limit: usize,
    /// Number of declarations beyond the limit.
    more_terms: u64,
    more_obsolete: u64,
}

impl DistinctTerms {
    pub(crate) fn new(limits: &FormatLimits) -> Self {
        Self {
            terms: HashSet::new(),
            obsolete: HashSet::new(),
            limit: limits.max_distinct_terms,
            more_terms: 0,
            more_obsolete: 0,
        }
    }

    pub(crate) fn add(&mut self, seen: &mut SeenTerms) {
        for key in seen.terms.drain(..) {
            self.more_terms += u64::from(!insert(&mut self.terms, key, self.limit));
        }
        for key in seen.obsolete.drain(..) {
            self.more_obsolete += u64::from(!insert(&mut self.obsolete, key, self.limit));
        }
    }

    pub(crate) fn terms(&self) -> u64 {
        self.terms.len() as u64 + self.more_terms
    }

    pub(crate) fn obsolete(&self) -> u64 {
        self.obsolete.len() as u64 + self.more_obsolete
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.more_terms == 0 && self.more_obsolete == 0
    }
}

/// Returns false if the key is new and the set is full.
fn insert(keys: &mut HashSet<u64>, key: u64, limit: usize) -> bool {
    if keys.len() < limit {
        keys.insert(key);
        return true;
    }
    keys.contains(&key)
}
