//! Class expressions: the blank nodes of restrictions, intersections and unions, written as in the
//! Manchester syntax.
//!
//! The statements of a blank node may come in any order and before or after its use, so they are
//! kept to the end of the file.

use std::cell::Cell;
use std::collections::HashMap;

use oxrdf::{NamedOrBlankNode, Quad, Term as RdfTerm};

use crate::format::term_key;
use crate::format::vocabulary::{OWL, RDF};

/// Maximum depth of nested expressions; deeper ones are left out.
const MAX_DEPTH: usize = 12;
/// Maximum number of statements of one blank node.
const MAX_PARTS: usize = 16;
/// Maximum number of operands of one expression.
const MAX_OPERANDS: usize = 10_000;
/// Maximum length of the text of one expression, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// Number of times that the statements of a file may be visited, plus [`FREE_VISITS`]. Hostile files
/// use one blank node in many expressions.
const VISITS_PER_STATEMENT: usize = 16;
/// Number of visits that every file may cause.
const FREE_VISITS: usize = 100_000;
/// Memory of a statement besides its texts, in bytes.
const STATEMENT_BYTES: usize = 96;

/// The role of a statement in an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpressionPart {
    Property,
    Filler(&'static str),
    Cardinality(&'static str),
    CardinalityClass,
    Operands(&'static str),
    Complement,
    Inverse,
    First,
    Rest,
}

impl ExpressionPart {
    fn of(predicate: &str) -> Option<Self> {
        if let Some(name) = predicate.strip_prefix(OWL) {
            return Some(match name {
                "onProperty" => Self::Property,
                "someValuesFrom" => Self::Filler("some"),
                "allValuesFrom" => Self::Filler("only"),
                "hasValue" => Self::Filler("value"),
                "minCardinality" | "minQualifiedCardinality" => Self::Cardinality("min"),
                "maxCardinality" | "maxQualifiedCardinality" => Self::Cardinality("max"),
                "cardinality" | "qualifiedCardinality" => Self::Cardinality("exactly"),
                "onClass" | "onDataRange" => Self::CardinalityClass,
                "intersectionOf" => Self::Operands("and"),
                "unionOf" | "oneOf" => Self::Operands("or"),
                "complementOf" => Self::Complement,
                "inverseOf" => Self::Inverse,
                _ => return None,
            });
        }
        match predicate.strip_prefix(RDF)? {
            "first" => Some(Self::First),
            "rest" => Some(Self::Rest),
            _ => None,
        }
    }
}

/// The object of a statement in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Operand {
    Iri(String),
    Blank(u64),
    Literal(String),
}

/// A class that is written without a name, as a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClassExpression {
    pub(super) text: String,
    /// True if the expression is an existential restriction between named terms.
    pub(super) is_relationship: bool,
}

/// The statements of blank nodes, by the hash of the node's label.
#[derive(Debug, Default)]
pub(super) struct ClassExpressions {
    nodes: HashMap<u64, Vec<(ExpressionPart, Operand)>>,
    statements: usize,
    visits: Cell<usize>,
}

impl ClassExpressions {
    /// Keeps a statement if it is a part of an expression, and returns the memory that it takes.
    pub(super) fn add(&mut self, quad: &Quad) -> usize {
        let NamedOrBlankNode::BlankNode(subject) = &quad.subject else {
            return 0;
        };
        let Some(part) = ExpressionPart::of(quad.predicate.as_str()) else {
            return 0;
        };
        let (operand, bytes) = match &quad.object {
            RdfTerm::NamedNode(node) => {
                (Operand::Iri(node.as_str().to_owned()), node.as_str().len())
            }
            RdfTerm::BlankNode(node) => (Operand::Blank(term_key(node.as_str())), 0),
            RdfTerm::Literal(text) => (
                Operand::Literal(text.value().to_owned()),
                text.value().len(),
            ),
        };
        let statements = self.nodes.entry(term_key(subject.as_str())).or_default();
        let statement = (part, operand);
        // Files may state a blank node with each of its uses.
        if statements.len() >= MAX_PARTS || statements.contains(&statement) {
            return 0;
        }
        statements.push(statement);
        self.statements += 1;
        STATEMENT_BYTES + bytes
    }

    /// Writes the expression of a blank node; `None` if the node is not an expression known here.
    pub(super) fn expression(&self, key: u64) -> Option<ClassExpression> {
        let parts = self.nodes.get(&key)?;
        let is_named = |wanted: ExpressionPart| {
            let mut parts = parts.iter();
            parts.any(|(part, operand)| *part == wanted && matches!(operand, Operand::Iri(_)))
        };
        Some(ClassExpression {
            text: self.text(key, MAX_DEPTH)?,
            is_relationship: parts.len() == 2
                && is_named(ExpressionPart::Property)
                && is_named(ExpressionPart::Filler("some")),
        })
    }

    fn text(&self, key: u64, depth: usize) -> Option<String> {
        self.count_visit()?;
        let parts = self.nodes.get(&key)?;
        let of = |wanted: fn(&ExpressionPart) -> bool| parts.iter().find(|(part, _)| wanted(part));
        let operand = |operand: &Operand| self.operand(operand, depth.checked_sub(1)?);
        if let Some((_, property)) = of(|part| *part == ExpressionPart::Property) {
            let property = operand(property)?;
            if let Some((ExpressionPart::Filler(word), filler)) =
                of(|part| matches!(part, ExpressionPart::Filler(_)))
            {
                return Some(format!("{property} {word} {}", operand(filler)?));
            }
            let (part, Operand::Literal(count)) =
                of(|part| matches!(part, ExpressionPart::Cardinality(_)))?
            else {
                return None;
            };
            let ExpressionPart::Cardinality(word) = part else {
                return None;
            };
            let class = match of(|part| *part == ExpressionPart::CardinalityClass) {
                Some((_, class)) => format!(" {}", operand(class)?),
                None => String::new(),
            };
            return Some(format!("{property} {word} {count}{class}"));
        }
        if let Some((ExpressionPart::Operands(word), list)) =
            of(|part| matches!(part, ExpressionPart::Operands(_)))
        {
            return self.operands(list, word, depth.checked_sub(1)?);
        }
        if let Some((_, class)) = of(|part| *part == ExpressionPart::Complement) {
            return Some(format!("not {}", operand(class)?));
        }
        let (_, inverse) = of(|part| *part == ExpressionPart::Inverse)?;
        Some(format!("inverse {}", operand(inverse)?))
    }

    /// Counts a visit of a blank node; `None` if the file has caused too many.
    fn count_visit(&self) -> Option<()> {
        let visits = self.visits.get() + 1;
        self.visits.set(visits);
        let allowed = self.statements.saturating_mul(VISITS_PER_STATEMENT);
        (visits <= allowed.saturating_add(FREE_VISITS)).then_some(())
    }

    fn operand(&self, operand: &Operand, depth: usize) -> Option<String> {
        match operand {
            Operand::Iri(iri) => Some(format!("<{iri}>")),
            Operand::Literal(text) => Some(format!("\"{text}\"")),
            Operand::Blank(key) => Some(format!("({})", self.text(*key, depth)?)),
        }
    }

    /// Joins the members of a list, sorted: their order has no meaning.
    fn operands(&self, list: &Operand, word: &str, depth: usize) -> Option<String> {
        let mut operands = Vec::new();
        let mut bytes = 0;
        let mut next = list;
        while let Operand::Blank(cell) = next {
            self.count_visit()?;
            if operands.len() >= MAX_OPERANDS || bytes > MAX_TEXT_BYTES {
                return None;
            }
            let parts = self.nodes.get(cell)?;
            let of = |wanted| parts.iter().find(|(part, _)| *part == wanted);
            let operand = self.operand(&of(ExpressionPart::First)?.1, depth)?;
            bytes += operand.len();
            operands.push(operand);
            next = &of(ExpressionPart::Rest)?.1;
        }
        operands.sort();
        (!operands.is_empty()).then(|| operands.join(&format!(" {word} ")))
    }
}
