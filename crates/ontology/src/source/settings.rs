//! The base URLs of services, and the keys that the user has for them.

use std::path::PathBuf;

use docstokg_lookup::credentials::SourceCredentials;
use docstokg_lookup::endpoints::SourceEndpoints;
use http::HeaderValue;
use url::Url;

use super::ontoportal::{Portal, key_header};
use super::{OntologySource, SourceEndpoint};

/// The base URLs of services, and the keys that the user has for them.
#[derive(Clone, Debug, Default)]
pub struct SourceSettings {
    /// The addresses of the services.
    pub endpoints: SourceEndpoints,
    /// The keys, by the name of the source. See [`SourceSettings::authorization`].
    pub credentials: SourceCredentials,
    /// A snapshot of the OBO Foundry registry, used in place of the service.
    pub obo_registry: Option<PathBuf>,
    /// The [`Portal`]s that the user has configured in addition to the built-in portals.
    pub portals: Vec<&'static Portal>,
}

impl SourceSettings {
    /// Finds an [`OntologySource`] by its name: a built-in source, or a portal of the
    /// configuration.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<&'static dyn OntologySource> {
        super::named(name).or_else(|| {
            let portal = self
                .portals
                .iter()
                .find(|portal| portal.spec().name == name)?;
            Some(*portal as &dyn OntologySource)
        })
    }

    /// Returns the base address of a [`SourceEndpoint`].
    #[must_use]
    pub fn base(&self, endpoint: &SourceEndpoint) -> Option<Url> {
        self.endpoints.with_path(endpoint, "")
    }

    /// Returns the `Authorization` header for a source; `None` if the user has no key for the
    /// source.
    #[must_use]
    pub fn authorization(&self, source: &str) -> Option<HeaderValue> {
        let header = key_header(&[]).carrying(self.credentials.by_key(source)?)?;
        Some(header.1)
    }
}

/// Encodes text as a single segment of a path.
pub(super) fn segment(text: &str) -> String {
    let mut base: Url = match "https://h/".parse() {
        Ok(base) => base,
        Err(_) => return String::new(),
    };
    if let Ok(mut path) = base.path_segments_mut() {
        path.push(text);
    }
    base.path().trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_cannot_leave_its_place() {
        assert_eq!(segment("hp"), "hp");
        assert_eq!(segment("a/b?c#d"), "a%2Fb%3Fc%23d");
        assert_eq!(segment(".."), "");
    }
}
