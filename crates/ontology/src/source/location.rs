//! A place where a file of an ontology is, and what its source says about it.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::wanted_ontology::TargetFormat;
use docstokg_lookup::licence::SourceLicence;

/// A place where a file of an ontology is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OntologyLocation {
    /// The source that names it; its service is charged.
    pub source: String,
    /// The address.
    pub url: Url,
    /// The media types to ask for, where that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// Whether the key of the source is sent along, to its own origin alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_authorised: bool,
    /// The user gave the address: it may lead into the private network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_user_supplied: bool,
    /// The format, as far as the source says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<TargetFormat>,
    /// The name of the file, where the address does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The version, as the source states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What names the content at the source: the same text means the same file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The licence, as the source states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<SourceLicence>,
    /// What was noticed on the way, for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl OntologyLocation {
    /// Names an address.
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
