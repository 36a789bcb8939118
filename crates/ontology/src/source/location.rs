//! The location of an ontology's file, and the facts that its source declares.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::wanted_ontology::TargetFormat;
use docstokg_lookup::licence::SourceLicence;

/// A URL at which a source offers a file of an ontology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OntologyLocation {
    /// The source that names the location; a download uses the budget of its service.
    pub source: String,
    /// The address of the file.
    pub url: Url,
    /// The media types to request, if they matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// True if the key of the source is sent, to its own origin alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_authorised: bool,
    /// True if the user gave the address, which may then lead into the private network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_user_supplied: bool,
    /// The format, as far as the source declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<TargetFormat>,
    /// The name of the file, if the address does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The version, as the source declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The name of the content at the source; the same text means the same file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The licence, as the source declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<SourceLicence>,
    /// Remarks of the source for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl OntologyLocation {
    /// Creates a location that has only a source and an address.
    #[must_use]
    pub fn new(source: &str, url: Url) -> Self {
        let name = url.path_segments().and_then(|mut parts| parts.next_back());
        let format = name.and_then(TargetFormat::of_name);
        Self {
            source: source.to_owned(),
            url,
            accept: None,
            is_authorised: false,
            is_user_supplied: false,
            format,
            filename: None,
            version: None,
            revision: None,
            licence: None,
            notes: Vec::new(),
        }
    }
}
