//! The key of a budget: `service:host`.

use std::fmt;
use std::sync::Arc;

use docstokg_policy::host::Host;

/// The service name that stands for any service.
pub const ANY_SERVICE: &str = "_";
/// The host name that stands for any host.
pub const ANY_HOST: &str = "default";

/// A service on a host. A key may be for any service or any host: `_:www.ebi.ac.uk`, `ols:default`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    service: Arc<str>,
    host: Arc<str>,
}

/// The reason why a text is not a valid [`ServiceKey`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not a valid name of a service.
    #[error("'{0}' is not the name of a service: use letters, digits, '.', '-' and '_'")]
    Service(String),
    /// The text is not a valid name of a host.
    #[error("'{host}' is not a host: {why}")]
    Host {
        /// The text of the host.
        host: String,
        /// The reason why the host is invalid.
        why: String,
    },
    /// The text does not have the form `service:host`.
    #[error("'{0}' is not a key: write SERVICE:HOST, for instance ols:www.ebi.ac.uk")]
    Form(String),
}

/// Reads the name of a service. Case does not matter.
///
/// # Errors
/// [`KeyError::Service`] if the name is empty, or has characters other than letters, digits, `.`,
/// `-` and `_`.
pub fn service_name(text: &str) -> Result<Arc<str>, KeyError> {
    let name = text.trim().to_ascii_lowercase();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.is_empty() || !name.chars().all(fits) {
        return Err(KeyError::Service(text.to_owned()));
    }
    Ok(name.into())
}

impl ServiceKey {
    /// Creates the key of a service on a host.
    ///
    /// # Errors
    /// A [`KeyError`] if one of the two names is invalid.
    pub fn new(service: Option<&str>, host: Option<&str>) -> Result<Self, KeyError> {
        let service = match service {
            Some(service) => service_name(service)?,
            None => ANY_SERVICE.into(),
        };
        let host = match host {
            None | Some(ANY_HOST) => ANY_HOST.into(),
            Some(host) => Host::parse(host)
                .map_err(|why| KeyError::Host {
                    host: host.to_owned(),
                    why: why.to_string(),
                })?
                .shared(),
        };
        Ok(Self { service, host })
    }

    /// Reads `service:host`, as [`fmt::Display`] writes it.
    ///
    /// # Errors
    /// A [`KeyError`] if the text is not in that form.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let (service, host) = text
            .split_once(':')
            .ok_or_else(|| KeyError::Form(text.to_owned()))?;
        Self::new(Some(service), Some(host))
    }

    /// Returns the service, or [`ANY_SERVICE`].
    #[must_use]
    pub fn service(&self) -> &Arc<str> {
        &self.service
    }

    /// Returns the host, or [`ANY_HOST`].
    #[must_use]
    pub fn host(&self) -> &Arc<str> {
        &self.host
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.service, self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_parts_have_names_of_their_own() {
        let key = |service, host| ServiceKey::new(service, host).unwrap().to_string();
        assert_eq!(key(Some("OLS"), Some("WWW.ebi.ac.uk")), "ols:www.ebi.ac.uk");
        assert_eq!(key(None, Some("example.org:8080")), "_:example.org:8080");
        assert_eq!(key(Some("ols"), None), "ols:default");
        assert_eq!(key(None, None), "_:default");
        for text in [
            "ols:www.ebi.ac.uk",
            "_:example.org:8080",
            "ols:default",
            "_:default",
        ] {
            assert_eq!(ServiceKey::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_name_says_what_would_be_one() {
        let error = ServiceKey::new(Some("a;b"), None).unwrap_err().to_string();
        assert!(error.contains("letters, digits"), "{error}");
        assert!(ServiceKey::new(Some(""), None).is_err());
        let error = ServiceKey::new(None, Some("not a host"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("'not a host' is not a host"), "{error}");
        let error = ServiceKey::parse("ols").unwrap_err().to_string();
        assert!(error.contains("SERVICE:HOST"), "{error}");
    }
}
