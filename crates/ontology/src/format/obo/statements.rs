//! OBO stanzas as RDF statements, as the mapping of OBO to OWL has them.
//!
//! The normalised form and the comparison of versions read OBO files through this mapping. Tags
//! without a place in the mapping become annotations in the namespace `oboInOwl`, so that no clause
//! is lost. Comments and trailing modifiers (`{..}`) of clauses are left out.

use std::io::{self, Read};

use docstokg_hub::files::hex;
use oxrdf::{BlankNode, GraphName, Literal, NamedNode, NamedOrBlankNode, Quad, Term};
use sha2::{Digest, Sha256};

use super::names::OboNames;
use super::{Clause, OboEvent, identifier, quoted_text, read_obo, unescape};
use crate::format::ReadOptions;
use crate::format::report::FormatProblem;
use crate::format::statements::{FormatProblems, quad_bytes};
use crate::format::vocabulary::{
    IAO_DEFINITION, IAO_REPLACED_BY, OBO_IN_OWL, OWL, OWL_DEPRECATED, OWL_IMPORTS, OWL_ONTOLOGY,
    OWL_VERSION_INFO, OWL_VERSION_IRI, RDF, RDF_TYPE, RDFS_COMMENT, RDFS_DOMAIN, RDFS_LABEL,
    RDFS_RANGE, RDFS_SUB_CLASS_OF, RDFS_SUB_PROPERTY_OF, XSD_BOOLEAN,
};

/// Reads an OBO file as RDF statements. Returns the names of the file: relations may be used before
/// the stanza that defines their IRI, so the receiver resolves short names at the end.
///
/// # Errors
/// The reader fails.
pub(crate) fn read_obo_statements(
    reader: impl Read,
    options: &ReadOptions,
    problems: &mut FormatProblems,
    on_statement: &mut dyn FnMut(Quad),
) -> io::Result<OboNames> {
    let mut names = OboNames::default();
    let (mut read, mut written) = (0_u64, 0_u64);
    let mut is_refused = false;
    read_obo(reader, options, problems, &mut |event, problems| {
        if is_refused {
            return;
        }
        let (OboEvent::Header(clauses) | OboEvent::Stanza { clauses, .. }) = &event;
        let bytes = clauses
            .iter()
            .map(|clause| clause.tag.len() + clause.value.len());
        read += bytes.sum::<usize>() as u64;
        let mut count = |quad: Quad| {
            written += quad_bytes(&quad) as u64;
            on_statement(quad);
        };
        match event {
            OboEvent::Header(clauses) => {
                names.read_header(clauses);
                write_header(&names, clauses, &mut count);
            }
            OboEvent::Stanza { kind, id, clauses } => {
                let iri = names.stanza_iri(kind, id, clauses);
                let mut stanza = StanzaStatements {
                    names: &names,
                    kind,
                    iri: &iri,
                    on_statement: &mut count,
                };
                stanza.write(id, clauses);
            }
        }
        // A declared prefix may be of any length.
        if written > options.limits.expansion_allowed(read) {
            is_refused = true;
            problems.error(FormatProblem::of_file(
                "the statements expand to too much text",
            ));
        }
    })?;
    Ok(names)
}

fn named(iri: impl Into<String>) -> NamedNode {
    NamedNode::new_unchecked(iri)
}

fn literal(text: impl Into<String>) -> Term {
    Literal::new_simple_literal(text).into()
}

fn quad(subject: impl Into<NamedOrBlankNode>, predicate: &str, object: impl Into<Term>) -> Quad {
    Quad::new(subject, named(predicate), object, GraphName::DefaultGraph)
}

/// Returns a blank node that is named by its content, so that the order of a file does not matter.
fn blank(content: &[&str]) -> BlankNode {
    let mut digest = Sha256::new();
    for part in content {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    BlankNode::new_unchecked(format!("o{}", &hex(&digest.finalize())[..16]))
}

fn write_header(names: &OboNames, clauses: &[Clause], on_statement: &mut dyn FnMut(Quad)) {
    let ontology = names.ontology_iri();
    let mut add = |predicate: &str, object: Term| {
        on_statement(quad(named(&ontology), predicate, object));
    };
    add(RDF_TYPE, named(OWL_ONTOLOGY).into());
    for clause in clauses {
        let value = unescape(&clause.value);
        match clause.tag.as_str() {
            "ontology" | "idspace" => (),
            "data-version" => match names.version_iri(&value) {
                Some(iri) => add(OWL_VERSION_IRI, named(iri).into()),
                None => add(OWL_VERSION_INFO, literal(value)),
            },
            "import" if value.contains("://") => add(OWL_IMPORTS, named(value).into()),
            "import" => add(
                OWL_IMPORTS,
                named(names.iri(&format!("{value}.owl"))).into(),
            ),
            "remark" => add(RDFS_COMMENT, literal(value)),
            "property_value" => {
                if let Some((property, object)) = property_value(names, &clause.value) {
                    add(&property, object);
                }
            }
            "format-version" => add(&format!("{OBO_IN_OWL}hasOBOFormatVersion"), literal(value)),
            "default-namespace" => {
                add(&format!("{OBO_IN_OWL}hasDefaultNamespace"), literal(value));
            }
            tag => add(&format!("{OBO_IN_OWL}{tag}"), literal(value)),
        }
    }
}

/// Reads `PROPERTY "text" TYPE` or `PROPERTY VALUE`.
fn property_value(names: &OboNames, value: &str) -> Option<(String, Term)> {
    let (property, rest) = value.split_once([' ', '\t'])?;
    let rest = rest.trim_start();
    let object = match quoted_text(rest) {
        Some((text, after)) => match identifier(after.trim_start()) {
            "" | "xsd:string" => literal(unescape(text)),
            datatype => {
                Literal::new_typed_literal(unescape(text), named(names.iri(datatype))).into()
            }
        },
        None => named(names.iri(identifier(rest))).into(),
    };
    Some((names.iri(property), object))
}

/// The statements of one stanza.
struct StanzaStatements<'a> {
    names: &'a OboNames,
    kind: &'a str,
    iri: &'a str,
    on_statement: &'a mut dyn FnMut(Quad),
}

impl StanzaStatements<'_> {
    fn write(&mut self, id: &str, clauses: &[Clause]) {
        let is_annotation = clauses
            .iter()
            .any(|clause| clause.tag == "is_metadata_tag" && identifier(&clause.value) == "true");
        let class = match self.kind {
            "Typedef" if is_annotation => "AnnotationProperty",
            "Typedef" => "ObjectProperty",
            "Instance" => "NamedIndividual",
            _ => "Class",
        };
        self.add(RDF_TYPE, named(format!("{OWL}{class}")));
        self.add(&format!("{OBO_IN_OWL}id"), literal(id));
        for clause in clauses {
            self.write_clause(&clause.tag, &clause.value);
        }
        for (tag, property) in [
            ("intersection_of", "intersectionOf"),
            ("union_of", "unionOf"),
        ] {
            let operands = clauses.iter().filter(|clause| clause.tag == tag);
            let operands: Vec<&str> = operands.map(|clause| clause.value.as_str()).collect();
            self.write_operands(property, &operands);
        }
    }

    fn add(&mut self, predicate: &str, object: impl Into<Term>) {
        (self.on_statement)(quad(named(self.iri), predicate, object));
    }

    fn add_iri(&mut self, predicate: &str, value: &str) {
        let object = named(self.names.iri(identifier(value)));
        self.add(predicate, object);
    }

    fn write_clause(&mut self, tag: &str, value: &str) {
        let of_kind = |class: &'static str, property: &'static str| match self.kind {
            "Typedef" => format!("{OWL}{property}"),
            _ => format!("{OWL}{class}"),
        };
        match tag {
            "name" => self.add(RDFS_LABEL, literal(unescape(value))),
            "comment" => self.add(RDFS_COMMENT, literal(unescape(value))),
            "def" => self.write_text(IAO_DEFINITION, value),
            "synonym" => self.write_synonym(value),
            "is_a" if self.kind == "Typedef" => self.add_iri(RDFS_SUB_PROPERTY_OF, value),
            "is_a" => self.add_iri(RDFS_SUB_CLASS_OF, value),
            "instance_of" => self.add_iri(RDF_TYPE, value),
            "relationship" => self.write_relationship(value),
            "equivalent_to" => {
                self.add_iri(&of_kind("equivalentClass", "equivalentProperty"), value);
            }
            "disjoint_from" => {
                self.add_iri(&of_kind("disjointWith", "propertyDisjointWith"), value);
            }
            "inverse_of" => self.add_iri(&format!("{OWL}inverseOf"), value),
            "domain" => self.add_iri(RDFS_DOMAIN, value),
            "range" => self.add_iri(RDFS_RANGE, value),
            "replaced_by" => self.add_iri(IAO_REPLACED_BY, value),
            "consider" => self.add_iri(&format!("{OBO_IN_OWL}consider"), value),
            "subset" => self.add_iri(&format!("{OBO_IN_OWL}inSubset"), value),
            "is_obsolete" if identifier(value) == "true" => {
                let boolean = Literal::new_typed_literal("true", named(XSD_BOOLEAN));
                self.add(OWL_DEPRECATED, boolean);
            }
            "id" | "is_metadata_tag" | "intersection_of" | "union_of" | "is_obsolete" => (),
            "property_value" => {
                if let Some((property, object)) = property_value(self.names, value) {
                    self.add(&property, object);
                }
            }
            "xref" => self.add(&format!("{OBO_IN_OWL}hasDbXref"), literal(xref(value))),
            "alt_id" => self.write_note("hasAlternativeId", identifier(value)),
            "namespace" => self.write_note("hasOBONamespace", value),
            _ => match characteristic(tag).filter(|_| identifier(value) == "true") {
                Some(class) => self.add(RDF_TYPE, named(format!("{OWL}{class}"))),
                None => self.write_note(tag, value),
            },
        }
    }

    fn write_note(&mut self, property: &str, value: &str) {
        self.add(&format!("{OBO_IN_OWL}{property}"), literal(unescape(value)));
    }

    /// Writes `"text" [sources]`.
    fn write_text(&mut self, predicate: &str, value: &str) {
        let Some((text, rest)) = quoted_text(value) else {
            return;
        };
        let text = unescape(text);
        self.add(predicate, literal(text.as_str()));
        self.write_sources(predicate, &text, rest);
    }

    /// Writes `"text" SCOPE TYPE [sources]`.
    fn write_synonym(&mut self, value: &str) {
        let Some((text, rest)) = quoted_text(value) else {
            return;
        };
        let scope = match rest.split_whitespace().next() {
            Some("EXACT") => "Exact",
            Some("NARROW") => "Narrow",
            Some("BROAD") => "Broad",
            _ => "Related",
        };
        let predicate = format!("{OBO_IN_OWL}has{scope}Synonym");
        let text = unescape(text);
        self.add(&predicate, literal(text.as_str()));
        self.write_sources(&predicate, &text, rest);
    }

    /// Writes the sources of a text as annotations of the statement.
    fn write_sources(&mut self, predicate: &str, text: &str, rest: &str) {
        let list = rest.split_once('[').map(|(_, list)| list);
        let list = list.and_then(|list| list.rsplit_once(']'));
        let sources = list.map_or("", |(list, _)| list).split(", ");
        let sources = sources.map(xref).filter(|source| !source.is_empty());
        let sources: Vec<String> = sources.collect();
        if sources.is_empty() {
            return;
        }
        let node = blank(&[self.iri, predicate, text]);
        let mut add = |property: String, object: Term| {
            (self.on_statement)(quad(node.clone(), &property, object));
        };
        add(RDF_TYPE.to_owned(), named(format!("{OWL}Axiom")).into());
        add(format!("{OWL}annotatedSource"), named(self.iri).into());
        add(format!("{OWL}annotatedProperty"), named(predicate).into());
        add(format!("{OWL}annotatedTarget"), literal(text));
        for source in sources {
            add(format!("{OBO_IN_OWL}hasDbXref"), literal(source));
        }
    }

    fn write_relationship(&mut self, value: &str) {
        let mut words = value.split_whitespace();
        let (Some(relation), Some(target)) = (words.next(), words.next()) else {
            return;
        };
        let (relation, target) = (self.names.iri(relation), self.names.iri(target));
        if self.kind == "Term" {
            let restriction = self.restriction(&relation, &target);
            self.add(RDFS_SUB_CLASS_OF, restriction);
        } else {
            self.add(&relation, named(target));
        }
    }

    /// Writes a class of all things with this relation to an instance of `target`.
    fn restriction(&mut self, relation: &str, target: &str) -> BlankNode {
        let node = blank(&[self.iri, relation, target]);
        let mut add = |property: &str, object: NamedNode| {
            (self.on_statement)(quad(node.clone(), property, object));
        };
        add(RDF_TYPE, named(format!("{OWL}Restriction")));
        add(&format!("{OWL}onProperty"), named(relation));
        add(&format!("{OWL}someValuesFrom"), named(target));
        node
    }

    /// Writes the definition of a term by an intersection or union.
    fn write_operands(&mut self, property: &str, operands: &[&str]) {
        if operands.len() < 2 {
            return;
        }
        let mut sorted = operands.to_vec();
        sorted.sort_unstable();
        let mut rest = named(format!("{RDF}nil")).into();
        for at in (0..sorted.len()).rev() {
            let mut words = sorted[at]
                .split_whitespace()
                .take_while(|word| *word != "!");
            let operand: Term = match (words.next(), words.next()) {
                (Some(relation), Some(target)) if !target.starts_with('{') => {
                    let (relation, target) = (self.names.iri(relation), self.names.iri(target));
                    self.restriction(&relation, &target).into()
                }
                _ => named(self.names.iri(identifier(sorted[at]))).into(),
            };
            let cell = blank(&[&[self.iri, property], &sorted[at..]].concat());
            (self.on_statement)(quad(cell.clone(), &format!("{RDF}first"), operand));
            (self.on_statement)(quad(cell.clone(), &format!("{RDF}rest"), rest));
            rest = Term::from(cell);
        }
        let class = blank(&[self.iri, property]);
        (self.on_statement)(quad(class.clone(), RDF_TYPE, named(format!("{OWL}Class"))));
        (self.on_statement)(quad(class.clone(), &format!("{OWL}{property}"), rest));
        self.add(&format!("{OWL}equivalentClass"), class);
    }
}

/// Returns the identifier of a cross-reference, without its description.
fn xref(value: &str) -> String {
    let value = value.trim();
    let mut end = value.len();
    let mut is_escaped = false;
    for (at, byte) in value.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b' ' | b'\t' | b'"' => {
                end = at;
                break;
            }
            _ => (),
        }
    }
    unescape(&value[..end])
}

/// Returns the class of properties that a boolean tag declares.
fn characteristic(tag: &str) -> Option<&'static str> {
    Some(match tag {
        "is_transitive" => "TransitiveProperty",
        "is_symmetric" => "SymmetricProperty",
        "is_asymmetric" => "AsymmetricProperty",
        "is_reflexive" => "ReflexiveProperty",
        "is_functional" => "FunctionalProperty",
        "is_inverse_functional" => "InverseFunctionalProperty",
        _ => return None,
    })
}
