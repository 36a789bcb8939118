//! The name of a resolver as a type, with one codec for config, command line, manifests and
//! persisted state.
//!
//! Users may write only existing names ([`FromStr`]). Persisted state may also contain names of
//! resolvers that a later version dropped. Those names are read and written back unchanged, and
//! match no resolver.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::catalogue::specs;

/// The name of a resolver, or [`ResolverId::DIRECT`] for locations from the user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResolverId(&'static str);

/// Maximum number of retired names that are distinguished; our files contain few.
const MAX_RETIRED: usize = 64;

/// Maximum length of a retired name, in bytes.
const MAX_RETIRED_LENGTH: usize = 64;

/// Names from persisted state that no resolver has today.
static RETIRED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

impl ResolverId {
    /// The source of locations from the user.
    pub const DIRECT: Self = Self("direct");

    /// A substitute for retired resolvers beyond [`MAX_RETIRED`] and [`MAX_RETIRED_LENGTH`].
    const EARLIER: Self = Self("earlier");

    /// Creates the name of a resolver, for its spec.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Returns the name, as in config, on the command line and in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// Reads a name from persisted state. Every name is accepted.
    #[must_use]
    pub fn stored(name: &str) -> Self {
        let known = specs()
            .iter()
            .map(|spec| spec.id)
            .chain([Self::DIRECT, Self::EARLIER])
            .find(|known| known.0 == name);
        known.unwrap_or_else(|| retired(name))
    }
}

/// Keeps a retired name for the life of the process. The number of such names is bounded.
fn retired(name: &str) -> ResolverId {
    let mut names = RETIRED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.iter().find(|known| **known == name) {
        return ResolverId(known);
    }
    if names.len() >= MAX_RETIRED || name.len() > MAX_RETIRED_LENGTH {
        return ResolverId::EARLIER;
    }
    let kept: &'static str = Box::leak(name.into());
    names.push(kept);
    ResolverId(kept)
}

impl fmt::Display for ResolverId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl fmt::Debug for ResolverId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

impl AsRef<str> for ResolverId {
    fn as_ref(&self) -> &str {
        self.0
    }
}

impl FromStr for ResolverId {
    type Err = UnknownResolver;

    /// Reads a name that a user wrote. Case does not matter, and hyphens count as underscores.
    fn from_str(name: &str) -> Result<Self, UnknownResolver> {
        let spelt = name.trim().to_ascii_lowercase().replace('-', "_");
        specs()
            .iter()
            .find(|spec| spec.id.0 == spelt || spec.source.aliases.contains(&spelt.as_str()))
            .map(|spec| spec.id)
            .ok_or_else(|| UnknownResolver {
                name: name.to_owned(),
            })
    }
}

impl Serialize for ResolverId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for ResolverId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(from)?;
        Ok(Self::stored(&name))
    }
}

/// A name that no resolver has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no resolver '{name}'{}; the resolvers are {}",
    nearest(name),
    listed()
)]
pub struct UnknownResolver {
    /// The name.
    pub name: String,
}

fn nearest(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let close = specs()
        .iter()
        .map(|spec| spec.id.0)
        .map(|known| (strsim::damerau_levenshtein(known, &name), known))
        .min();
    close
        .filter(|(distance, known)| *distance <= known.len() / 2)
        .map(|(_, known)| format!(" (is '{known}' meant?)"))
        .unwrap_or_default()
}

fn listed() -> String {
    let names: Vec<&str> = specs().iter().map(|spec| spec.id.0).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::ResolverId;

    #[test]
    fn names_of_resolvers_that_no_longer_exist_load_and_are_written_back() {
        let known: ResolverId = serde_json::from_str("\"unpaywall\"").unwrap();
        assert_eq!(known, "Unpaywall".parse().unwrap());
        let gone: ResolverId = serde_json::from_str("\"oa_fcgi\"").unwrap();
        assert_eq!(gone, ResolverId::stored("oa_fcgi"));
        assert_eq!(serde_json::to_string(&gone).unwrap(), "\"oa_fcgi\"");
        assert!("oa_fcgi".parse::<ResolverId>().is_err());
    }

    #[test]
    fn a_name_of_any_length_loads() {
        let long = "x".repeat(10_000);
        assert_eq!(ResolverId::stored(&long), ResolverId::EARLIER);
    }
}
