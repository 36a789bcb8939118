//! Configuration keys derived from the specs of the resolvers: their endpoints and credentials.

use std::collections::BTreeMap;
use std::fmt::Debug;

use docstokg_config::section::{closed_schema, with_about};
use docstokg_config::{ConfigKey, HiddenText, MapReader, Section, Setting, SourcedValue};
use docstokg_lookup::credentials::SourceCredentials;
use docstokg_lookup::endpoints::SourceEndpoints;
use docstokg_lookup::source_spec::SourceCredential;
use serde_json::{Map, Value as Json};

use super::BaseUrl;
use crate::resolver::{credentials, endpoints};

/// The addresses of services. Values other than the defaults are for mirrors and tests.
pub type EndpointSettings = DerivedSection<EndpointKeys>;

/// The credentials that identify the user to services.
pub type CredentialSettings = DerivedSection<CredentialKeys>;

/// The keys of a [`DerivedSection`] and the type of their values.
pub trait DerivedKeys: Clone + Debug + Default {
    /// The value of each key.
    type Value: Setting + Clone + Debug;

    /// Lists the keys.
    fn keys() -> impl Iterator<Item = DerivedKey>;
}

/// A key of a [`DerivedSection`].
#[derive(Clone, Copy, Debug)]
pub struct DerivedKey {
    key: &'static str,
    default: &'static str,
    about: &'static str,
}

/// The keys of [`EndpointSettings`].
#[derive(Clone, Debug, Default)]
pub struct EndpointKeys;

impl DerivedKeys for EndpointKeys {
    type Value = BaseUrl;

    fn keys() -> impl Iterator<Item = DerivedKey> {
        endpoints().map(|endpoint| DerivedKey {
            key: endpoint.key,
            default: "its public address",
            about: endpoint.about,
        })
    }
}

/// The keys of [`CredentialSettings`].
#[derive(Clone, Debug, Default)]
pub struct CredentialKeys;

impl DerivedKeys for CredentialKeys {
    type Value = HiddenText;

    fn keys() -> impl Iterator<Item = DerivedKey> {
        credentials().map(|credential| DerivedKey {
            key: credential.key,
            default: credential.default,
            about: credential.about,
        })
    }
}

/// A section whose keys are derived from specs. Keys that the configuration does not set are
/// absent.
#[derive(Clone, Debug)]
pub struct DerivedSection<K: DerivedKeys>(BTreeMap<&'static str, SourcedValue<K::Value>>);

impl<K: DerivedKeys> Default for DerivedSection<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: DerivedKeys> Section for DerivedSection<K> {
    fn read(reader: &mut MapReader<'_>) -> Self {
        let written = |key: DerivedKey| Some((key.key, reader.take(key.key)?));
        Self(K::keys().filter_map(written).collect())
    }

    fn over(self, mut lower: Self) -> Self {
        lower.0.extend(self.0);
        lower
    }

    fn keys(prefix: &str, keys: &mut Vec<ConfigKey>) {
        keys.extend(K::keys().map(|key| ConfigKey {
            path: format!("{prefix}{}", key.key),
            kind: K::Value::KIND,
            default: key.default.to_owned(),
            about: key.about,
        }));
    }

    fn schema() -> Json {
        let property = |key: DerivedKey| {
            let schema = with_about(K::Value::schema(), key.about);
            (key.key.to_owned(), schema)
        };
        closed_schema(K::keys().map(property).collect())
    }

    fn show(&self) -> Json {
        let shown =
            |(key, set): (&&str, &SourcedValue<K::Value>)| ((*key).to_owned(), set.value.show());
        Json::Object(self.0.iter().map(shown).collect::<Map<_, _>>())
    }
}

impl EndpointSettings {
    /// Returns the public addresses as [`SourceEndpoints`], replaced by those that the
    /// configuration sets.
    pub(super) fn over_shipped(&self) -> SourceEndpoints {
        let mut all = SourceEndpoints::default();
        for endpoint in endpoints() {
            if let Some(set) = self.0.get(endpoint.key) {
                all.set(endpoint, set.value.0.clone());
            }
        }
        all
    }
}

impl CredentialSettings {
    /// Returns a credential as the configuration spells it.
    pub(super) fn get(&self, credential: &SourceCredential) -> Option<&SourcedValue<HiddenText>> {
        self.0.get(credential.key)
    }

    /// Returns all configured credentials as [`SourceCredentials`].
    pub(super) fn to_credentials(&self) -> SourceCredentials {
        credentials().fold(SourceCredentials::default(), |all, credential| {
            match self.get(credential) {
                Some(set) => all.with(credential, &*set.value.0),
                None => all,
            }
        })
    }
}
