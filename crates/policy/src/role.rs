//! The purpose of a request: the second part of every budget's key.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The purpose of a request. Limits, trial budgets and the `Accept` header depend on it.
///
/// ```
/// use docstokg_policy::role::Role;
///
/// assert_eq!("Landing".parse(), Ok(Role::Landing));
/// assert_eq!(Role::Artifact.as_str(), "artifact");
/// assert!("image".parse::<Role>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Machine-readable responses of an API.
    Metadata,
    /// Web pages, whose links are followed.
    Landing,
    /// The files themselves.
    Artifact,
}

impl Role {
    /// Every role, in the order in which tables show them.
    pub const ALL: [Self; 3] = [Self::Metadata, Self::Landing, Self::Artifact];

    /// Returns the word used in configuration, events and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Landing => "landing",
            Self::Artifact => "artifact",
        }
    }

    /// Returns the index of this role in per-role tables.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An error: the word is not the name of a [`Role`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown role '{0}': the roles are metadata, landing and artifact")]
pub struct UnknownRole(pub String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(word: &str) -> Result<Self, UnknownRole> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str().eq_ignore_ascii_case(word.trim()))
            .ok_or_else(|| UnknownRole(word.trim().to_owned()))
    }
}
