//! OBO identifiers as IRIs, as the mapping of OBO to OWL defines them.

use std::collections::HashMap;

use super::{Clause, identifier};

/// The IRI that IRIs of OBO identifiers begin with.
pub(super) const OBO: &str = "http://purl.obolibrary.org/obo/";

/// The names of one OBO file.
#[derive(Debug, Default)]
pub(crate) struct OboNames {
    ontology: String,
    /// Namespaces of prefixes that the header declares.
    spaces: HashMap<String, String>,
    /// The IRIs of relations by the IRIs of their short names.
    aliases: HashMap<String, String>,
}

impl OboNames {
    /// Reads the name of the ontology and the prefixes from the header.
    pub(super) fn read_header(&mut self, clauses: &[Clause]) {
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

    /// Returns the IRI of the ontology.
    pub(super) fn ontology_iri(&self) -> String {
        match self.ontology.as_str() {
            iri if iri.contains("://") => iri.to_owned(),
            "" => format!("{OBO}ontology"),
            name => format!("{OBO}{name}.owl"),
        }
    }

    /// Returns the IRI of a version of the ontology; `None` if the ontology has no short name.
    pub(super) fn version_iri(&self, version: &str) -> Option<String> {
        let name = &self.ontology;
        let is_short = !name.is_empty() && !name.contains("://") && !version.contains(' ');
        is_short.then(|| format!("{OBO}{name}/{version}/{name}.owl"))
    }

    /// Returns the IRI of an identifier.
    pub(crate) fn iri(&self, id: &str) -> String {
        if id.contains("://") {
            return id.to_owned();
        }
        match id.split_once(':') {
            Some((prefix, local)) => match self.spaces.get(prefix) {
                Some(space) => format!("{space}{local}"),
                None => match well_known(prefix) {
                    Some(space) => format!("{space}{local}"),
                    None => format!("{OBO}{prefix}_{local}"),
                },
            },
            None => format!("{OBO}{}#{id}", self.ontology),
        }
    }

    /// Returns the IRI of a stanza. A relation with a short name has the IRI of its first
    /// cross-reference.
    pub(super) fn stanza_iri(&mut self, kind: &str, id: &str, clauses: &[Clause]) -> String {
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

    /// Returns a text in which the IRI of a relation takes the place of the IRI of the relation's
    /// short name; `None` if the text is unchanged. `text` has IRIs in angle brackets.
    pub(crate) fn resolved(&self, text: &str) -> Option<String> {
        if self.aliases.is_empty() {
            return None;
        }
        let start = format!("<{OBO}{}#", self.ontology);
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(&start) {
            let Some(end) = rest[at..].find('>') else {
                break;
            };
            let iri = &rest[at + 1..at + end];
            out.push_str(&rest[..=at]);
            out.push_str(self.aliases.get(iri).map_or(iri, String::as_str));
            rest = &rest[at + end..];
        }
        if out.is_empty() {
            return None;
        }
        out.push_str(rest);
        Some(out)
    }

    /// Tells whether a relation has a short name.
    pub(crate) fn has_aliases(&self) -> bool {
        !self.aliases.is_empty()
    }

    /// Returns the IRI that the IRI of a short name stands for, if the IRI is one.
    pub(crate) fn alias(&self, iri: &str) -> Option<&str> {
        self.aliases.get(iri).map(String::as_str)
    }
}

/// Returns the namespace of a prefix that OBO files use without a declaration.
fn well_known(prefix: &str) -> Option<&'static str> {
    Some(match prefix {
        "rdf" => "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
        "rdfs" => "http://www.w3.org/2000/01/rdf-schema#",
        "owl" => "http://www.w3.org/2002/07/owl#",
        "xsd" => "http://www.w3.org/2001/XMLSchema#",
        "oboInOwl" => "http://www.geneontology.org/formats/oboInOwl#",
        "dc" => "http://purl.org/dc/elements/1.1/",
        "dcterms" | "terms" => "http://purl.org/dc/terms/",
        "skos" => "http://www.w3.org/2004/02/skos/core#",
        "foaf" => "http://xmlns.com/foaf/0.1/",
        _ => return None,
    })
}
