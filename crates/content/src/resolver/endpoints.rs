//! Where the services are: as shipped in the specs, or where a mirror or a simulated web takes
//! their place.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use url::Url;

use super::catalogue;
use super::spec::Endpoint;

/// The base URL of each service, by its key. What is not given is as shipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Endpoints(BTreeMap<&'static str, Url>);

impl Endpoints {
    /// Returns the base URL of a service.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "every service of a spec is there from the start, and none is ever removed"
    )]
    pub fn of(&self, endpoint: &Endpoint) -> &Url {
        &self.0[endpoint.key]
    }

    /// Puts a service elsewhere.
    pub fn set(&mut self, endpoint: &'static Endpoint, url: Url) {
        self.0.insert(endpoint.key, url);
    }

    /// Returns the base URLs of all services.
    pub fn all(&self) -> impl Iterator<Item = &Url> {
        self.0.values()
    }

    /// Returns the hosts of all services, each once.
    #[must_use]
    pub fn hosts(&self) -> Vec<String> {
        let hosts = self.all().filter_map(Url::host_str);
        let hosts: BTreeSet<&str> = hosts.collect();
        hosts.into_iter().map(str::to_owned).collect()
    }
}

impl Default for Endpoints {
    #[expect(
        clippy::expect_used,
        reason = "the shipped addresses are part of the program, and a test reads them"
    )]
    fn default() -> Self {
        let shipped = |endpoint: &'static Endpoint| {
            let url = Url::parse(endpoint.address).expect("the shipped addresses can be read");
            (endpoint.key, url)
        };
        Self(catalogue::endpoints().map(shipped).collect())
    }
}

impl<'de> Deserialize<'de> for Endpoints {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut endpoints = Self::default();
        for (key, url) in BTreeMap::<String, Url>::deserialize(from)? {
            let known = catalogue::endpoints()
                .find(|known| known.key == key)
                .ok_or_else(|| D::Error::custom(format!("there is no endpoint '{key}'")))?;
            endpoints.set(known, url);
        }
        Ok(endpoints)
    }
}
