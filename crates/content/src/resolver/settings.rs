//! How resolvers are set up: where the services are, and how we identify ourselves to each.
//!
//! A key goes to the host of its own service and to no other; the one place that hands keys out is
//! [`Settings::secret_headers`], and it compares hosts. Nothing here prints a value: neither
//! `Debug` nor any error.

use std::fmt;

use http::{HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use url::Url;

use super::endpoints::Endpoints;

/// Shorter values are not searched for in texts: they would blot out half of it.
const SHORTEST_REDACTED: usize = 4;

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
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

/// Keys and addresses, one field per service that wants one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Credentials {
    /// Our address, for services that want to be able to write to us.
    pub mailto: Option<Secret>,
    /// The address for Unpaywall, where it differs.
    pub unpaywall_email: Option<Secret>,
    /// The key of `OpenAlex`.
    pub openalex_key: Option<Secret>,
    /// The token of Crossref Plus.
    pub crossref_plus_token: Option<Secret>,
    /// The key for text mining at Elsevier.
    pub elsevier_key: Option<Secret>,
    /// The token of the institution at Elsevier, beside the key.
    pub elsevier_insttoken: Option<Secret>,
    /// The token for text mining at Wiley.
    pub wiley_token: Option<Secret>,
}

impl Credentials {
    /// Returns our address.
    #[must_use]
    pub fn mailto(&self) -> Option<&str> {
        self.mailto.as_ref()?.reveal()
    }

    /// Returns the address for Unpaywall.
    #[must_use]
    pub fn unpaywall_email(&self) -> Option<&str> {
        self.unpaywall_email
            .as_ref()
            .and_then(Secret::reveal)
            .or_else(|| self.mailto())
    }
}

/// Everything that resolvers share.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where the services are.
    pub endpoints: Endpoints,
    /// How we identify ourselves.
    pub credentials: Credentials,
    /// Whether to use files that `OpenAlex` keeps and charges for.
    pub paid_content: bool,
}

impl Settings {
    /// Returns the headers that identify us to the host of a URL: the key of that service, and of
    /// no other.
    #[must_use]
    pub fn secret_headers(&self, url: &Url) -> Vec<(HeaderName, HeaderValue)> {
        let Self {
            endpoints,
            credentials,
            ..
        } = self;
        let own = |base: &Url| base.origin() == url.origin();
        let mut headers = Vec::new();
        if own(&endpoints.openalex) || own(&endpoints.openalex_content) {
            headers.extend(header("api_key", "", credentials.openalex_key.as_ref()));
        }
        if own(&endpoints.crossref) {
            headers.extend(header(
                "crossref-plus-api-token",
                "Bearer ",
                credentials.crossref_plus_token.as_ref(),
            ));
        }
        if is_service(url, ELSEVIER) && has(credentials.elsevier_key.as_ref()) {
            headers.extend(header(
                "x-els-apikey",
                "",
                credentials.elsevier_key.as_ref(),
            ));
            headers.extend(header(
                "x-els-insttoken",
                "",
                credentials.elsevier_insttoken.as_ref(),
            ));
        }
        if is_service(url, WILEY) {
            headers.extend(header(
                "wiley-tdm-client-token",
                "",
                credentials.wiley_token.as_ref(),
            ));
        }
        headers
    }

    /// Tells whether a URL is one of a text-mining service whose credential is not there: asking it
    /// is of no use.
    #[must_use]
    pub fn lacks_credential(&self, url: &Url) -> bool {
        (is_service(url, ELSEVIER) && !has(self.credentials.elsevier_key.as_ref()))
            || (is_service(url, WILEY) && !has(self.credentials.wiley_token.as_ref()))
    }

    /// Returns the hosts of the text-mining services that can be asked.
    #[must_use]
    pub fn text_mining_hosts(&self) -> Vec<&'static str> {
        let services = [
            (ELSEVIER, &self.credentials.elsevier_key),
            (WILEY, &self.credentials.wiley_token),
        ];
        services
            .into_iter()
            .filter(|(_, key)| has(key.as_ref()))
            .map(|(host, _)| host)
            .collect()
    }

    /// Returns a text without our keys and addresses, in case somebody repeated them.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let Credentials {
            mailto,
            unpaywall_email,
            openalex_key,
            crossref_plus_token,
            elsevier_key,
            elsevier_insttoken,
            wiley_token,
        } = &self.credentials;
        let known = [
            mailto,
            unpaywall_email,
            openalex_key,
            crossref_plus_token,
            elsevier_key,
            elsevier_insttoken,
            wiley_token,
        ];
        known
            .into_iter()
            .flatten()
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

/// The hosts of the text-mining services, as they document them. Their credentials go nowhere else.
const ELSEVIER: &str = "api.elsevier.com";
const WILEY: &str = "api.wiley.com";

fn is_service(url: &Url, host: &str) -> bool {
    url.scheme() == "https" && url.host_str() == Some(host) && url.port().is_none()
}

fn has(secret: Option<&Secret>) -> bool {
    secret.and_then(Secret::reveal).is_some()
}

fn header(
    name: &'static str,
    before: &str,
    secret: Option<&Secret>,
) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(&format!("{before}{}", secret?.reveal()?)).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::from_static(name), value))
}
