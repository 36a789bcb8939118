//! The properties that a table reads, as frames of the Manchester syntax and scopes of synonyms.

use crate::format::vocabulary::{
    OBO_IN_OWL, OWL, RDFS_DOMAIN, RDFS_RANGE, RDFS_SUB_CLASS_OF, SKOS,
};

/// The frame of axioms about superclasses.
pub(super) const SUB_CLASS_OF: &str = "SubClassOf";

/// Returns the frame of an axiom in the Manchester syntax.
pub(super) fn axiom_frame(predicate: &str) -> Option<&'static str> {
    match predicate {
        RDFS_SUB_CLASS_OF => return Some(SUB_CLASS_OF),
        RDFS_DOMAIN => return Some("Domain"),
        RDFS_RANGE => return Some("Range"),
        _ => (),
    }
    Some(match predicate.strip_prefix(OWL)? {
        "equivalentClass" | "equivalentProperty" | "intersectionOf" | "unionOf" => "EquivalentTo",
        "disjointWith" | "propertyDisjointWith" => "DisjointWith",
        "inverseOf" => "InverseOf",
        _ => return None,
    })
}

/// Returns the scope of the synonyms that a property states.
pub(super) fn synonym_scope(predicate: &str) -> Option<&'static str> {
    if let Some(name) = predicate.strip_prefix(OBO_IN_OWL) {
        return Some(match name {
            "hasExactSynonym" => "exact",
            "hasNarrowSynonym" => "narrow",
            "hasBroadSynonym" => "broad",
            "hasRelatedSynonym" => "related",
            _ => return None,
        });
    }
    let is_alternative = predicate == "http://purl.obolibrary.org/obo/IAO_0000118"
        || matches!(
            predicate.strip_prefix(SKOS),
            Some("altLabel" | "hiddenLabel")
        );
    is_alternative.then_some("alternative")
}

/// Returns the characteristic that a class of properties declares.
pub(super) fn characteristic(class: &str) -> Option<&'static str> {
    Some(match class.strip_prefix(OWL)?.strip_suffix("Property")? {
        "Transitive" => "Transitive",
        "Symmetric" => "Symmetric",
        "Asymmetric" => "Asymmetric",
        "Reflexive" => "Reflexive",
        "Functional" => "Functional",
        "InverseFunctional" => "InverseFunctional",
        _ => return None,
    })
}
