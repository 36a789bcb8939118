//! A statement with borrowed terms, used to count and compare without copies.

use oxrdf::{GraphName, NamedOrBlankNode, Quad, Term};

/// The IRI, or the label of a blank node, in an [`RdfStatement`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementNode<'a> {
    Iri(&'a str),
    Blank(&'a str),
}

/// The object of an [`RdfStatement`]; of a literal, only the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Object<'a> {
    Node(StatementNode<'a>),
    Literal(&'a str),
}

/// An RDF statement with borrowed terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RdfStatement<'a> {
    pub subject: StatementNode<'a>,
    pub predicate: &'a str,
    pub object: Object<'a>,
    pub graph: Option<StatementNode<'a>>,
}

impl<'a> RdfStatement<'a> {
    pub(crate) fn of(quad: &'a Quad) -> Self {
        Self {
            subject: match &quad.subject {
                NamedOrBlankNode::NamedNode(node) => StatementNode::Iri(node.as_str()),
                NamedOrBlankNode::BlankNode(node) => StatementNode::Blank(node.as_str()),
            },
            predicate: quad.predicate.as_str(),
            object: match &quad.object {
                Term::NamedNode(node) => Object::Node(StatementNode::Iri(node.as_str())),
                Term::BlankNode(node) => Object::Node(StatementNode::Blank(node.as_str())),
                Term::Literal(literal) => Object::Literal(literal.value()),
            },
            graph: match &quad.graph_name {
                GraphName::DefaultGraph => None,
                GraphName::NamedNode(node) => Some(StatementNode::Iri(node.as_str())),
                GraphName::BlankNode(node) => Some(StatementNode::Blank(node.as_str())),
            },
        }
    }

    pub(crate) fn has_blank_node(&self) -> bool {
        matches!(self.subject, StatementNode::Blank(_))
            || matches!(self.object, Object::Node(StatementNode::Blank(_)))
            || matches!(self.graph, Some(StatementNode::Blank(_)))
    }
}
