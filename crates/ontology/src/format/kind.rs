//! The formats of ontology files, by name, media type and file extension.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A format of ontology files, as [`detect`](fn@crate::format::detect) names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OntologyFormat {
    /// RDF/XML, an RDF format.
    RdfXml,
    /// OWL/XML: read as XML, without a check of its axioms.
    OwlXml,
    /// Turtle, an RDF format.
    Turtle,
    /// N-Triples, an RDF format with one statement per line.
    NTriples,
    /// N-Quads, an RDF format with one statement per line and named graphs.
    NQuads,
    /// `TriG`, an RDF format with named graphs.
    TriG,
    /// JSON-LD, an RDF format.
    JsonLd,
    /// OBO 1.2 and 1.4.
    Obo,
    /// OBO Graph JSON, the JSON form of OBO.
    OboGraph,
    /// OWL functional syntax: recognised, not parsed.
    OwlFunctional,
    /// OWL Manchester syntax: recognised, not parsed.
    OwlManchester,
}

impl OntologyFormat {
    /// Every format, in the order of the enum.
    pub const ALL: [Self; 11] = [
        Self::RdfXml,
        Self::OwlXml,
        Self::Turtle,
        Self::NTriples,
        Self::NQuads,
        Self::TriG,
        Self::JsonLd,
        Self::Obo,
        Self::OboGraph,
        Self::OwlFunctional,
        Self::OwlManchester,
    ];

    /// Returns the format's name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RdfXml => "RDF/XML",
            Self::OwlXml => "OWL/XML",
            Self::Turtle => "Turtle",
            Self::NTriples => "N-Triples",
            Self::NQuads => "N-Quads",
            Self::TriG => "TriG",
            Self::JsonLd => "JSON-LD",
            Self::Obo => "OBO",
            Self::OboGraph => "OBO Graph JSON",
            Self::OwlFunctional => "OWL functional syntax",
            Self::OwlManchester => "OWL Manchester syntax",
        }
    }

    /// Returns true if the format is a serialisation of RDF statements that can be read here.
    #[must_use]
    pub fn is_rdf(self) -> bool {
        matches!(
            self,
            Self::RdfXml | Self::Turtle | Self::NTriples | Self::NQuads | Self::TriG | Self::JsonLd
        )
    }

    /// Returns true if files of the format have a normalised form: RDF formats, and OBO by its mapping.
    #[must_use]
    pub fn has_normal_form(self) -> bool {
        self.is_rdf() || self == Self::Obo
    }

    /// Returns true if files of the format are parsed here, and not only recognised.
    #[must_use]
    pub fn is_parsed(self) -> bool {
        self.is_rdf() || matches!(self, Self::Obo | Self::OboGraph)
    }

    /// Returns the format of a media type, without regard to parameters. Types that say little
    /// (`text/plain`, `application/xml`, `application/json`) give `None`.
    #[must_use]
    pub fn from_media_type(media_type: &str) -> Option<Self> {
        let essence = media_type.split(';').next()?.trim().to_ascii_lowercase();
        Some(match essence.as_str() {
            "application/rdf+xml" => Self::RdfXml,
            "application/owl+xml" => Self::OwlXml,
            "text/turtle"
            | "application/x-turtle"
            | "application/turtle"
            | "text/n3"
            | "text/rdf+n3" => Self::Turtle,
            "application/n-triples" | "text/x-nt" => Self::NTriples,
            "application/n-quads" | "text/x-nquads" => Self::NQuads,
            "application/trig" | "application/x-trig" => Self::TriG,
            "application/ld+json" => Self::JsonLd,
            "text/obo" | "application/obo" | "application/x-obo" => Self::Obo,
            "text/owl-functional" => Self::OwlFunctional,
            "text/owl-manchester" => Self::OwlManchester,
            _ => return None,
        })
    }

    /// Returns the format that a file name's extension suggests. `.owl`, `.xml` and `.json` may be
    /// one of several formats, so they give `None`.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        Some(match extension.to_ascii_lowercase().as_str() {
            "rdf" => Self::RdfXml,
            "owx" => Self::OwlXml,
            "ttl" | "n3" => Self::Turtle,
            "nt" | "ntriples" => Self::NTriples,
            "nq" | "nquads" => Self::NQuads,
            "trig" => Self::TriG,
            "jsonld" => Self::JsonLd,
            "obo" => Self::Obo,
            "ofn" | "fss" => Self::OwlFunctional,
            "omn" => Self::OwlManchester,
            _ => return None,
        })
    }
}

impl fmt::Display for OntologyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The packing of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Packing {
    /// A gzip stream, with one or more members.
    Gzip,
    /// A zip archive with one or more files.
    Zip,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_and_extensions_name_formats() {
        for (media_type, format) in [
            ("application/rdf+xml", Some(OntologyFormat::RdfXml)),
            ("Text/Turtle; charset=utf-8", Some(OntologyFormat::Turtle)),
            (
                "application/ld+json;profile=x",
                Some(OntologyFormat::JsonLd),
            ),
            ("text/plain", None),
            ("application/json", None),
            ("", None),
        ] {
            assert_eq!(
                OntologyFormat::from_media_type(media_type),
                format,
                "{media_type}"
            );
        }
        for (name, format) in [
            ("go.obo", Some(OntologyFormat::Obo)),
            ("a/b/Brick.TTL", Some(OntologyFormat::Turtle)),
            ("chebi.owl", None),
            ("noextension", None),
        ] {
            assert_eq!(OntologyFormat::from_file_name(name), format, "{name}");
        }
    }
}
