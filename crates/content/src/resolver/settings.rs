//! How resolvers are set up: where the services are, and how we identify ourselves to each.
//!
//! A credential goes to the host of its own service and to no other; [`Settings::secret_headers`]
//! is the one function that hands credentials out, and it compares hosts. Nothing here prints a
//! value: neither `Debug` nor any error.

use std::collections::BTreeMap;
use std::fmt;

use http::{HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use super::catalogue;
use super::endpoints::Endpoints;
use super::spec::{Credential, Recipient, SecretHeader};

/// Shorter values are not searched for in texts: they would blot out half of it.
const SHORTEST_REDACTED: usize = 4;

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the value without white space around it; `None` when nothing is left. Services take
    /// a blank key for a wrong one.
    #[must_use]
    pub fn reveal(&self) -> Option<&str> {
        Some(self.0.trim()).filter(|value| !value.is_empty())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What identifies the user: an e-mail address, and the credentials of single services by their
/// keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    mailto: Option<Secret>,
    own: BTreeMap<&'static str, Secret>,
}

impl Credentials {
    /// Adds the e-mail address for services that want to be able to write to their users.
    #[must_use]
    pub fn with_mailto(mut self, address: impl Into<String>) -> Self {
        self.mailto = Some(Secret::new(address));
        self
    }

    /// Adds the credential of a service.
    #[must_use]
    pub fn with(mut self, credential: &'static Credential, value: impl Into<String>) -> Self {
        self.own.insert(credential.key, Secret::new(value));
        self
    }

    /// Returns the e-mail address.
    #[must_use]
    pub fn mailto(&self) -> Option<&str> {
        self.mailto.as_ref()?.reveal()
    }

    /// Returns the credential of a service, where it is set and not blank.
    #[must_use]
    pub fn get(&self, credential: &Credential) -> Option<&str> {
        self.own.get(credential.key)?.reveal()
    }
}

/// Everything that resolvers share.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where the services are.
    pub endpoints: Endpoints,
    /// How we identify ourselves.
    pub credentials: Credentials,
    /// Whether to use files that a service keeps and charges for.
    pub paid_content: bool,
}

impl Settings {
    /// Returns the headers that identify us to the host of a URL: the credentials of that service,
    /// and of no other.
    #[must_use]
    pub fn secret_headers(&self, url: &Url) -> Vec<(HeaderName, HeaderValue)> {
        let sent = |credential: &'static Credential| {
            let header = credential.header()?;
            let value = self.credentials.get(credential)?;
            let complete = header
                .beside
                .is_none_or(|beside| self.credentials.get(beside).is_some());
            if !complete || !self.is_recipient(&header.to, url) {
                return None;
            }
            let mut value = HeaderValue::from_str(&format!("{}{value}", header.before)).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_static(header.name), value))
        };
        catalogue::credentials().filter_map(sent).collect()
    }

    fn is_recipient(&self, recipient: &Recipient, url: &Url) -> bool {
        match recipient {
            Recipient::Endpoints(endpoints) => endpoints
                .iter()
                .any(|endpoint| self.endpoints.of(endpoint).origin() == url.origin()),
            Recipient::Host(host) => {
                url.scheme() == "https" && url.host_str() == Some(host) && url.port().is_none()
            }
        }
    }

    /// Tells whether a URL is one of a text-mining service whose credential is not there: asking it
    /// is of no use.
    #[must_use]
    pub fn lacks_credential(&self, url: &Url) -> bool {
        guarded_hosts().any(|(credential, _, recipient)| {
            self.is_recipient(recipient, url) && self.credentials.get(credential).is_none()
        })
    }

    /// Returns the hosts of the text-mining services that can be asked.
    #[must_use]
    pub fn text_mining_hosts(&self) -> Vec<&'static str> {
        guarded_hosts()
            .filter(|(credential, ..)| self.credentials.get(credential).is_some())
            .map(|(_, host, _)| host)
            .collect()
    }

    /// Returns a text without our credentials and addresses, in case an answer repeats them.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let Credentials { mailto, own } = &self.credentials;
        mailto
            .iter()
            .chain(own.values())
            .filter_map(Secret::reveal)
            .filter(|value| value.len() >= SHORTEST_REDACTED)
            .fold(text.to_owned(), |text, value| {
                let encoded = utf8_percent_encode(value, NON_ALPHANUMERIC).to_string();
                let form: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
                text.replace(value, "***")
                    .replace(&encoded, "***")
                    .replace(&form, "***")
            })
    }
}

/// Returns the credentials without which a host answers nothing.
fn guarded_hosts() -> impl Iterator<Item = (&'static Credential, &'static str, &'static Recipient)>
{
    catalogue::credentials().filter_map(|credential| match credential.header()? {
        SecretHeader {
            to: to @ Recipient::Host(host),
            beside: None,
            ..
        } => Some((credential, *host, to)),
        _ => None,
    })
}
