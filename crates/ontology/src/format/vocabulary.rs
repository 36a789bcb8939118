//! IRIs with a meaning for a reader of ontologies.

pub(crate) const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
pub(crate) const OWL: &str = "http://www.w3.org/2002/07/owl#";
pub(crate) const OBO_IN_OWL: &str = "http://www.geneontology.org/formats/oboInOwl#";
pub(crate) const XSD_BOOLEAN: &str = "http://www.w3.org/2001/XMLSchema#boolean";
pub(crate) const RDF_TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
pub(crate) const RDFS_LABEL: &str = "http://www.w3.org/2000/01/rdf-schema#label";
pub(crate) const RDFS_COMMENT: &str = "http://www.w3.org/2000/01/rdf-schema#comment";
pub(crate) const RDFS_DOMAIN: &str = "http://www.w3.org/2000/01/rdf-schema#domain";
pub(crate) const RDFS_RANGE: &str = "http://www.w3.org/2000/01/rdf-schema#range";
pub(crate) const RDFS_SUB_CLASS_OF: &str = "http://www.w3.org/2000/01/rdf-schema#subClassOf";
pub(crate) const RDFS_SUB_PROPERTY_OF: &str = "http://www.w3.org/2000/01/rdf-schema#subPropertyOf";
pub(crate) const OWL_ONTOLOGY: &str = "http://www.w3.org/2002/07/owl#Ontology";
pub(crate) const OWL_VERSION_IRI: &str = "http://www.w3.org/2002/07/owl#versionIRI";
pub(crate) const OWL_VERSION_INFO: &str = "http://www.w3.org/2002/07/owl#versionInfo";
pub(crate) const OWL_IMPORTS: &str = "http://www.w3.org/2002/07/owl#imports";
pub(crate) const OWL_DEPRECATED: &str = "http://www.w3.org/2002/07/owl#deprecated";
pub(crate) const OWL_DEPRECATED_CLASS: &str = "http://www.w3.org/2002/07/owl#DeprecatedClass";
pub(crate) const OWL_DEPRECATED_PROPERTY: &str = "http://www.w3.org/2002/07/owl#DeprecatedProperty";
pub(crate) const SKOS: &str = "http://www.w3.org/2004/02/skos/core#";
pub(crate) const SKOS_PREF_LABEL: &str = "http://www.w3.org/2004/02/skos/core#prefLabel";
pub(crate) const SKOS_DEFINITION: &str = "http://www.w3.org/2004/02/skos/core#definition";
pub(crate) const SKOS_BROADER: &str = "http://www.w3.org/2004/02/skos/core#broader";
pub(crate) const IAO_REPLACED_BY: &str = "http://purl.obolibrary.org/obo/IAO_0100001";
pub(crate) const IAO_DEFINITION: &str = "http://purl.obolibrary.org/obo/IAO_0000115";

/// Types that declare a term.
const TERM_TYPES: [&str; 18] = [
    "http://www.w3.org/2002/07/owl#Class",
    "http://www.w3.org/2002/07/owl#ObjectProperty",
    "http://www.w3.org/2002/07/owl#DatatypeProperty",
    "http://www.w3.org/2002/07/owl#AnnotationProperty",
    "http://www.w3.org/2002/07/owl#OntologyProperty",
    "http://www.w3.org/2002/07/owl#TransitiveProperty",
    "http://www.w3.org/2002/07/owl#SymmetricProperty",
    "http://www.w3.org/2002/07/owl#FunctionalProperty",
    "http://www.w3.org/2002/07/owl#InverseFunctionalProperty",
    "http://www.w3.org/2002/07/owl#NamedIndividual",
    OWL_DEPRECATED_CLASS,
    OWL_DEPRECATED_PROPERTY,
    "http://www.w3.org/2000/01/rdf-schema#Class",
    "http://www.w3.org/2000/01/rdf-schema#Datatype",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#Property",
    "http://www.w3.org/2004/02/skos/core#Concept",
    "http://www.w3.org/2004/02/skos/core#ConceptScheme",
    "http://www.w3.org/2004/02/skos/core#Collection",
];

/// Properties that declare a licence or rights.
const LICENCE_PROPERTIES: [&str; 10] = [
    "http://purl.org/dc/terms/license",
    "http://purl.org/dc/terms/rights",
    "http://purl.org/dc/elements/1.1/license",
    "http://purl.org/dc/elements/1.1/rights",
    "http://creativecommons.org/ns#license",
    "http://web.resource.org/cc/license",
    "http://schema.org/license",
    "https://schema.org/license",
    "http://www.w3.org/1999/xhtml/vocab#license",
    "http://usefulinc.com/ns/doap#license",
];

pub(crate) fn declares_term(class: &str) -> bool {
    // Every type that declares a term is at w3.org: this test rejects most types of instance data.
    (class.starts_with("http://www.w3.org/")) && TERM_TYPES.contains(&class)
}

pub(crate) fn deprecates(class: &str) -> bool {
    class == OWL_DEPRECATED_CLASS || class == OWL_DEPRECATED_PROPERTY
}

pub(crate) fn states_licence(property: &str) -> bool {
    // Every one of the properties ends in `license` or `rights`.
    (property.ends_with("icense") || property.ends_with("ights"))
        && LICENCE_PROPERTIES.contains(&property)
}

/// Returns true if a literal means that a term is deprecated.
pub(crate) fn is_true(literal: &str) -> bool {
    matches!(literal.trim(), "true" | "1")
}
