//! The base URLs of services: their public addresses, or those of a mirror or a simulated web.

use std::collections::BTreeMap;

use url::Url;

use crate::source_spec::{CredentialRecipient, SourceEndpoint};

/// The configured base URLs of services, by the keys of their endpoints. A service without an entry
/// is reached at its public [`SourceEndpoint::address`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceEndpoints(BTreeMap<&'static str, Url>);

impl SourceEndpoints {
    /// Returns the base URL of a service.
    ///
    /// # Panics
    /// If the public address of the endpoint is not a URL, which is a fault in the definition of
    /// the source.
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "the public addresses are part of the program, and tests read them all"
    )]
    pub fn of(&self, endpoint: &SourceEndpoint) -> Url {
        self.0.get(endpoint.key).cloned().unwrap_or_else(|| {
            Url::parse(endpoint.address).expect("the public addresses can be read")
        })
    }

    /// Replaces the address of a service.
    pub fn set(&mut self, endpoint: &SourceEndpoint, url: Url) {
        self.0.insert(endpoint.key, url);
    }

    /// Returns the URL of `path` at a service. The path must be percent-encoded, begin with a
    /// slash, and may have a query. Returns `None` if the result is not a URL.
    #[must_use]
    pub fn with_path(&self, endpoint: &SourceEndpoint, path: &str) -> Option<Url> {
        let base = self
            .0
            .get(endpoint.key)
            .map_or(endpoint.address, Url::as_str);
        Url::parse(&format!("{}{path}", base.trim_end_matches('/'))).ok()
    }

    /// Tells whether a request to a URL may carry the credential of a [`CredentialRecipient`].
    #[must_use]
    pub fn is_recipient(&self, recipient: &CredentialRecipient, url: &Url) -> bool {
        match recipient {
            CredentialRecipient::Endpoints(endpoints) => endpoints
                .iter()
                .any(|endpoint| self.of(endpoint).origin() == url.origin()),
            CredentialRecipient::Host(host) => {
                url.scheme() == "https" && url.host_str() == Some(host) && url.port().is_none()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static API: SourceEndpoint = SourceEndpoint {
        key: "example",
        address: "https://api.example.org/v2",
        about: "an example",
    };

    static TO_API: CredentialRecipient = CredentialRecipient::Endpoints(&[&API]);

    #[test]
    fn a_mirror_takes_the_place_of_a_service() {
        let mut endpoints = SourceEndpoints::default();
        let url = |endpoints: &SourceEndpoints| endpoints.with_path(&API, "/works?a=1").unwrap();
        assert_eq!(
            url(&endpoints).as_str(),
            "https://api.example.org/v2/works?a=1"
        );
        assert!(endpoints.is_recipient(&TO_API, &url(&endpoints)));
        endpoints.set(&API, Url::parse("http://127.0.0.1:8080/").unwrap());
        assert_eq!(url(&endpoints).as_str(), "http://127.0.0.1:8080/works?a=1");
        assert!(!endpoints.is_recipient(&TO_API, &"https://api.example.org/".parse().unwrap()));
    }
}
