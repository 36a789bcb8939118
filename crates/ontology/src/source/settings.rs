//! Where services are, and the keys for them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use docstokg_config::Hidden;
use http::HeaderValue;
use url::Url;

use super::ontoportal::Portal;
use super::{Endpoint, Source};

/// Where services are, and the keys for them.
#[derive(Clone, Debug, Default)]
pub struct SourceSettings {
    /// Addresses other than the public ones, by the key of the endpoint.
    pub endpoints: BTreeMap<String, Url>,
    /// Keys, by the name of the source.
    pub credentials: BTreeMap<String, Hidden>,
    /// A snapshot of the OBO Foundry registry, used in place of the service.
    pub obo_registry: Option<PathBuf>,
    /// Portals that are not built in.
    pub portals: Vec<&'static Portal>,
}

impl SourceSettings {
    /// Finds a source by its name: a built-in one, or a portal of the configuration.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<&'static dyn Source> {
        super::named(name).or_else(|| {
            let portal = self
                .portals
                .iter()
                .find(|portal| portal.spec().name == name)?;
            Some(*portal as &dyn Source)
        })
    }

    /// Returns the address of an endpoint with a path behind it.
    #[must_use]
    pub fn url(&self, endpoint: &Endpoint, path: &str) -> Option<Url> {
        let base = match self.endpoints.get(endpoint.key) {
            Some(base) => base.as_str().trim_end_matches('/').to_owned(),
            None => endpoint.base.to_owned(),
        };
        Url::parse(&format!("{base}{path}")).ok()
    }

    /// Returns the base address of an endpoint.
    #[must_use]
    pub fn base(&self, endpoint: &Endpoint) -> Option<Url> {
        self.url(endpoint, "")
    }

    /// Returns the key for a source, as the header that it is sent in.
    #[must_use]
    pub fn authorization(&self, source: &str) -> Option<HeaderValue> {
        let key = self.credentials.get(source)?;
        let mut value = HeaderValue::from_str(&format!("apikey token={}", key.0.trim())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Writes text as one part of a path.
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
