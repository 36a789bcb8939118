//! The credentials that identify the user to services.
//!
//! A credential is sent only to the hosts of its own service: [`secret_headers`] is the only
//! function that puts credentials into requests, and it compares the host first. Neither `Debug`
//! nor any error prints a credential.

use std::borrow::Cow;
use std::collections::BTreeMap;

use docstokg_config::HiddenText;
use http::{HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use crate::endpoints::SourceEndpoints;
use crate::source_spec::SourceCredential;

/// Minimum length of a credential that is removed from texts. Removing a shorter value would also
/// remove many unrelated parts of a text.
const MIN_REDACTED_LENGTH: usize = 4;

/// The e-mail address of the user, and the credentials of services by their configuration keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceCredentials {
    mailto: Option<HiddenText>,
    by_key: BTreeMap<Cow<'static, str>, HiddenText>,
}

impl SourceCredentials {
    /// Adds the e-mail address for services that want to contact their users.
    #[must_use]
    pub fn with_mailto(mut self, address: impl Into<String>) -> Self {
        self.mailto = Some(HiddenText(address.into()));
        self
    }

    /// Adds the value of a [`SourceCredential`].
    #[must_use]
    pub fn with(self, credential: &'static SourceCredential, value: impl Into<String>) -> Self {
        self.with_key(credential.key, value)
    }

    /// Adds a credential under a key that need not belong to a built-in [`SourceCredential`].
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.by_key.insert(key.into(), HiddenText(value.into()));
        self
    }

    /// Returns the e-mail address.
    #[must_use]
    pub fn mailto(&self) -> Option<&str> {
        revealed(self.mailto.as_ref()?)
    }

    /// Returns the value of a [`SourceCredential`], if set and not blank.
    #[must_use]
    pub fn get(&self, credential: &SourceCredential) -> Option<&str> {
        self.by_key(credential.key)
    }

    /// Returns the credential under a key, if set and not blank.
    #[must_use]
    pub fn by_key(&self, key: &str) -> Option<&str> {
        revealed(self.by_key.get(key)?)
    }

    /// Returns a text without the credentials and the e-mail address, which a response may repeat.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        self.mailto
            .iter()
            .chain(self.by_key.values())
            .filter_map(revealed)
            .filter(|value| value.len() >= MIN_REDACTED_LENGTH)
            .fold(text.to_owned(), |text, value| {
                let encoded = utf8_percent_encode(value, NON_ALPHANUMERIC).to_string();
                let form: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
                text.replace(value, "***")
                    .replace(&encoded, "***")
                    .replace(&form, "***")
            })
    }
}

/// Returns a value without surrounding white space. Returns `None` for a blank value, because a
/// service would refuse a blank value as a wrong key.
fn revealed(value: &HiddenText) -> Option<&str> {
    Some(value.0.trim()).filter(|value| !value.is_empty())
}

/// Returns the headers that identify the user in a request to `url`. A credential is included only
/// if [`SourceEndpoints::is_recipient`] permits its service to receive it.
#[must_use]
pub fn secret_headers(
    known: impl Iterator<Item = &'static SourceCredential>,
    credentials: &SourceCredentials,
    endpoints: &SourceEndpoints,
    url: &Url,
) -> Vec<(HeaderName, HeaderValue)> {
    let sent = |credential: &'static SourceCredential| {
        let header = credential.header()?;
        let value = credentials.get(credential)?;
        let is_complete = header
            .beside
            .is_none_or(|beside| credentials.get(beside).is_some());
        let is_sent = is_complete && endpoints.is_recipient(&header.to, url);
        is_sent.then(|| header.carrying(value)).flatten()
    };
    known.filter_map(sent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_spec::{
        CredentialCarrier, CredentialRecipient, SecretHeader, SourceEndpoint,
    };

    static API: SourceEndpoint = SourceEndpoint {
        key: "example",
        address: "https://api.example.org/",
        about: "an example",
    };

    static KEY: SourceCredential = SourceCredential {
        key: "example_key",
        variable: "EXAMPLE_KEY",
        about: "the key",
        default: "none",
        sent: CredentialCarrier::Header(SecretHeader {
            name: "authorization",
            before: "Bearer ",
            to: CredentialRecipient::Endpoints(&[&API]),
            beside: None,
        }),
    };

    #[test]
    fn a_credential_goes_to_its_own_service_and_is_never_shown() {
        let credentials = SourceCredentials::default()
            .with(&KEY, " s3cret\n")
            .with_mailto("a@b.org");
        let headers = |url: &str| {
            let url = url.parse().unwrap();
            secret_headers(
                [&KEY].into_iter(),
                &credentials,
                &SourceEndpoints::default(),
                &url,
            )
        };
        let sent = headers("https://api.example.org/works");
        assert_eq!(sent[0].1.to_str().unwrap(), "Bearer s3cret");
        assert!(sent[0].1.is_sensitive());
        assert!(headers("https://api.example.com/works").is_empty());
        assert!(!format!("{credentials:?}").contains("s3cret"));
        assert_eq!(credentials.redact("a%40b.org s3cret"), "*** ***");
    }
}
