//! The settings of resolvers: the addresses of services, and our identification to each.

use std::collections::BTreeSet;

use docstokg_lookup::credentials::{self, SourceCredentials};
use docstokg_lookup::endpoints::SourceEndpoints;
use docstokg_lookup::source_spec::{
    CredentialRecipient, SecretHeader, SourceCredential, SourceEndpoint,
};
use http::{HeaderName, HeaderValue};
use url::Url;

use super::catalogue;
use crate::location::joined;

/// The settings that all resolvers share.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The addresses of services.
    pub endpoints: SourceEndpoints,
    /// The credentials that identify the user to services.
    pub credentials: SourceCredentials,
    /// Files that a service sells may be used.
    pub paid_content: bool,
}

impl Settings {
    /// Returns the URL of an encoded path of a service.
    pub(super) fn url(&self, endpoint: &SourceEndpoint, path: &str) -> Url {
        joined(&self.endpoints.of(endpoint), path)
    }

    /// Returns the base URLs of all services.
    pub(crate) fn service_urls(&self) -> impl Iterator<Item = Url> {
        catalogue::endpoints().map(|endpoint| self.endpoints.of(endpoint))
    }

    /// Returns the hosts of all services, each once.
    #[must_use]
    pub fn service_hosts(&self) -> Vec<String> {
        let hosts = self.service_urls();
        let hosts = hosts.filter_map(|url| url.host_str().map(str::to_owned));
        let hosts: BTreeSet<String> = hosts.collect();
        hosts.into_iter().collect()
    }

    /// Returns the headers that identify the user to the host of a URL: only the credentials of
    /// that service.
    #[must_use]
    pub fn secret_headers(&self, url: &Url) -> Vec<(HeaderName, HeaderValue)> {
        let known = catalogue::credentials();
        credentials::secret_headers(known, &self.credentials, &self.endpoints, url)
    }

    /// Tells whether a URL belongs to a text-mining service whose credential is missing, so that a
    /// request is of no use.
    #[must_use]
    pub fn lacks_credential(&self, url: &Url) -> bool {
        guarded_hosts().any(|(credential, _, recipient)| {
            self.endpoints.is_recipient(recipient, url)
                && self.credentials.get(credential).is_none()
        })
    }

    /// Returns the hosts of the text-mining services whose credentials are set.
    #[must_use]
    pub fn text_mining_hosts(&self) -> Vec<&'static str> {
        guarded_hosts()
            .filter(|(credential, ..)| self.credentials.get(credential).is_some())
            .map(|(_, host, _)| host)
            .collect()
    }

    /// Returns a text without our credentials and addresses, in case a response repeats them.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        self.credentials.redact(text)
    }
}

/// Returns the credentials without which a host refuses every request.
fn guarded_hosts() -> impl Iterator<
    Item = (
        &'static SourceCredential,
        &'static str,
        &'static CredentialRecipient,
    ),
> {
    catalogue::credentials().filter_map(|credential| match credential.header()? {
        SecretHeader {
            to: to @ CredentialRecipient::Host(host),
            beside: None,
            ..
        } => Some((credential, *host, to)),
        _ => None,
    })
}
