//! What is known about a source before a look-up: its name, its services, its credentials.

use http::{HeaderName, HeaderValue};

/// Describes a source. Configuration keys, help and tables of sources follow from this.
#[derive(Debug)]
pub struct SourceSpec {
    /// Its name in configuration, on the command line and in records.
    pub name: &'static str,
    /// Its name in sentences.
    pub title: &'static str,
    /// Other spellings that users may write.
    pub aliases: &'static [&'static str],
    /// Its services; look-ups begin at the first. Empty for sources without requests.
    pub endpoints: &'static [&'static SourceEndpoint],
    /// What it sends to identify its user, beside `identity.mailto`.
    pub credentials: &'static [&'static SourceCredential],
    /// The rate of its service, where it has one of its own.
    pub rate: Option<&'static str>,
    /// What it is or has, for people.
    pub about: &'static str,
}

impl SourceSpec {
    /// Names a source that has neither services nor credentials.
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
    /// Its key in the configuration.
    pub key: &'static str,
    /// Its public address.
    pub address: &'static str,
    /// What it is.
    pub about: &'static str,
}

/// What identifies the user to a service.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceCredential {
    /// Its key in the configuration.
    pub key: &'static str,
    /// The environment variable that replaces it.
    pub variable: &'static str,
    /// What it is, and where users get it.
    pub about: &'static str,
    /// What applies where it is not configured.
    pub default: &'static str,
    /// How it reaches the service.
    pub sent: CredentialCarrier,
}

impl SourceCredential {
    /// Returns the header that carries it, if it is sent in a header.
    #[must_use]
    pub const fn header(&self) -> Option<&SecretHeader> {
        match &self.sent {
            CredentialCarrier::Header(header) => Some(header),
            CredentialCarrier::EmailAddress => None,
        }
    }
}

/// How a credential reaches its service.
#[derive(Debug, PartialEq, Eq)]
pub enum CredentialCarrier {
    /// As an e-mail address in the query.
    EmailAddress,
    /// In a header.
    Header(SecretHeader),
}

/// A header with a credential in it, and the only hosts that get it.
#[derive(Debug, PartialEq, Eq)]
pub struct SecretHeader {
    /// The name of the header, in lower case.
    pub name: &'static str,
    /// What stands before the credential.
    pub before: &'static str,
    /// Which requests carry it.
    pub to: CredentialRecipient,
    /// A credential without which this one is not sent.
    pub beside: Option<&'static SourceCredential>,
}

impl SecretHeader {
    /// Returns the header with a credential in it, which no log shows; `None` if no header can carry
    /// the credential.
    #[must_use]
    pub fn carrying(&self, credential: &str) -> Option<(HeaderName, HeaderValue)> {
        let mut value = HeaderValue::from_str(&format!("{}{credential}", self.before)).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_static(self.name), value))
    }
}

/// Which requests carry a credential.
#[derive(Debug, PartialEq, Eq)]
pub enum CredentialRecipient {
    /// Those to these services, wherever they are configured to be.
    Endpoints(&'static [&'static SourceEndpoint]),
    /// Those by https to this host, which answers nothing without the credential.
    Host(&'static str),
}
