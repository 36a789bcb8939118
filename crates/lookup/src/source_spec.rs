//! The static description of a source: its name, its services and its credentials.

use http::{HeaderName, HeaderValue};

/// The static description of a source. Configuration keys, help texts and tables of sources are
/// derived from it.
#[derive(Debug)]
pub struct SourceSpec {
    /// The name in configuration, on the command line and in records.
    pub name: &'static str,
    /// The name for use in sentences.
    pub title: &'static str,
    /// Further spellings that users may write.
    pub aliases: &'static [&'static str],
    /// The services of the source. Look-ups begin at the first; a source that sends no requests has
    /// none.
    pub endpoints: &'static [&'static SourceEndpoint],
    /// The credentials that identify the user to the services, besides the e-mail address
    /// `identity.mailto`.
    pub credentials: &'static [&'static SourceCredential],
    /// The rate of the service, if it differs from the default rate.
    pub rate: Option<&'static str>,
    /// The description of the source, for people.
    pub about: &'static str,
}

impl SourceSpec {
    /// Creates a [`SourceSpec`] without services and credentials.
    #[must_use]
    pub const fn new(name: &'static str, title: &'static str) -> Self {
        Self {
            name,
            title,
            aliases: &[],
            endpoints: &[],
            credentials: &[],
            rate: None,
            about: "",
        }
    }
}

/// A service of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceEndpoint {
    /// The key of the service in the configuration.
    pub key: &'static str,
    /// The public address of the service.
    pub address: &'static str,
    /// The description of the service.
    pub about: &'static str,
}

/// A credential that identifies the user to a service.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceCredential {
    /// The key of the credential in the configuration.
    pub key: &'static str,
    /// The environment variable that can set the credential in place of the configuration key.
    pub variable: &'static str,
    /// The description of the credential, and the place where users get it.
    pub about: &'static str,
    /// The behaviour of the source if the credential is not set.
    pub default: &'static str,
    /// The part of a request that carries the credential.
    pub sent: CredentialCarrier,
}

impl SourceCredential {
    /// Returns the [`SecretHeader`] of the credential, if it is sent in a header.
    #[must_use]
    pub const fn header(&self) -> Option<&SecretHeader> {
        match &self.sent {
            CredentialCarrier::Header(header) => Some(header),
            CredentialCarrier::EmailAddress => None,
        }
    }
}

/// The part of a request that carries a credential.
#[derive(Debug, PartialEq, Eq)]
pub enum CredentialCarrier {
    /// The query of the URL has the credential, which is an e-mail address.
    EmailAddress,
    /// A header has the credential.
    Header(SecretHeader),
}

/// A header with a credential, and its only recipients.
#[derive(Debug, PartialEq, Eq)]
pub struct SecretHeader {
    /// The name of the header, in lower case.
    pub name: &'static str,
    /// The text in the header before the credential, such as `Bearer `.
    pub before: &'static str,
    /// The requests that may carry the credential.
    pub to: CredentialRecipient,
    /// Another credential that must be set as well; otherwise this credential is not sent.
    pub beside: Option<&'static SourceCredential>,
}

impl SecretHeader {
    /// Returns the header with a credential, marked as sensitive so that no log shows it. Returns
    /// `None` if the credential has characters that a header cannot contain.
    #[must_use]
    pub fn carrying(&self, credential: &str) -> Option<(HeaderName, HeaderValue)> {
        let mut value = HeaderValue::from_str(&format!("{}{credential}", self.before)).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_static(self.name), value))
    }
}

/// The requests that may carry a credential.
#[derive(Debug, PartialEq, Eq)]
pub enum CredentialRecipient {
    /// Requests to these services, at their configured addresses.
    Endpoints(&'static [&'static SourceEndpoint]),
    /// Requests over https to this host, which refuses every request without the credential.
    Host(&'static str),
}
