//! Counts and hashes over statements, in parts that can be added up.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use oxrdf::{NamedOrBlankNode, Quad, Term};

use super::Limits;
use super::canonical::{ShapeOnly, StatementHash, has_blank_node, write_line};
use super::header::Header;
use super::vocabulary::{OWL_DEPRECATED, RDF_TYPE, declares_term, deprecates, is_true};

/// What one thread found.
#[derive(Default)]
pub(crate) struct Tally {
    pub statements: u64,
    pub with_blank_nodes: u64,
    pub hash: StatementHash,
    pub header: Header,
    /// Terms that are to be told apart, for [`DistinctTerms::add`].
    pub seen: SeenTerms,
    line: Vec<u8>,
}

/// Hashes of IRIs.
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
    /// Counts a statement and returns the bytes of its canonical line.
    pub(crate) fn add(&mut self, order: u64, quad: &Quad) -> u64 {
        self.statements += 1;
        self.with_blank_nodes += u64::from(has_blank_node(quad));
        self.line.clear();
        write_line(quad, &mut ShapeOnly, &mut self.line);
        self.hash.add_line(&self.line);
        self.header.note(order, quad);
        self.note_term(quad);
        self.line.len() as u64
    }

    fn note_term(&mut self, quad: &Quad) {
        let predicate = quad.predicate.as_str();
        let NamedOrBlankNode::NamedNode(subject) = &quad.subject else {
            return;
        };
        match &quad.object {
            Term::NamedNode(class) if predicate == RDF_TYPE && declares_term(class.as_str()) => {
                let key = term_key(subject.as_str());
                self.seen.terms.push(key);
                if deprecates(class.as_str()) {
                    self.seen.obsolete.push(key);
                }
            }
            Term::Literal(literal) if predicate == OWL_DEPRECATED && is_true(literal.value()) => {
                self.seen.obsolete.push(term_key(subject.as_str()));
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

/// Terms told apart by a hash of their IRI, up to a limit.
pub(crate) struct DistinctTerms {
    terms: HashSet<u64>,
    obsolete: HashSet<u64>,
    limit: usize,
    /// Declarations beyond the limit.
    more_terms: u64,
    more_obsolete: u64,
}

impl DistinctTerms {
    pub(crate) fn new(limits: &Limits) -> Self {
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

/// False if the key is new and there is no room for it.
fn insert(keys: &mut HashSet<u64>, key: u64, limit: usize) -> bool {
    if keys.len() < limit {
        keys.insert(key);
        return true;
    }
    keys.contains(&key)
}
