//! The work lanes in which items wait, and the one codec of their keys.
//!
//! A key is persisted with its item and compared in memory. [`fmt::Display`] and [`FromStr`] are
//! the only code that writes and reads its text. Version 9 of the queue had other texts;
//! [`WorkLaneKey::from_version_9`] reads those once, when such a file is opened.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use docstokg_policy::role::Role;
use docstokg_stores::SiteKey;
use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};

/// The resource that an item waits for. Cheap to clone.
///
/// ```
/// use docstokg_bulk::lane::WorkLaneKey;
/// use docstokg_policy::role::Role;
///
/// let lane = WorkLaneKey::Site { site: "api.example".into(), role: Role::Metadata };
/// assert_eq!(lane.to_string().parse(), Ok(lane.clone()));
/// assert!("no lane".parse::<WorkLaneKey>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkLaneKey {
    /// The next step of the item is not yet known.
    Start,
    /// The input of the item must be read again.
    MissingInput,
    /// Requests of one role to one site.
    Site {
        /// The site: a host, or hosts that the configuration joins.
        site: SiteKey,
        /// The role of the requests.
        role: Role,
    },
    /// Look-ups with one source, such as a resolver or a registry.
    Source(Arc<str>),
    /// Landing pages whose host is not known before the request, by the DOI prefix of their
    /// publisher.
    Landing(Arc<str>),
}

const START: &str = "start";
const MISSING_INPUT: &str = "missing-input";
const SITE: &str = "site";
const SOURCE: &str = "source";
const LANDING: &str = "landing";

/// A text that is not the key of a lane.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not the key of a lane")]
pub struct UnknownLane(pub String);

impl WorkLaneKey {
    /// Returns the site and role of the requests, if this is the lane of a site.
    #[must_use]
    pub fn site(&self) -> Option<(SiteKey, Role)> {
        match self {
            Self::Site { site, role } => Some((SiteKey::clone(site), *role)),
            Self::Start | Self::MissingInput | Self::Source(_) | Self::Landing(_) => None,
        }
    }

    /// Reads a key of version 9 of the queue: `start`, `input needed`, `SITE|ROLE`, `resolver
    /// NAME`, `landing of PREFIX`. Any other text belongs to an item whose next step must be
    /// determined again.
    #[must_use]
    pub fn from_version_9(text: &str) -> Self {
        if text == "input needed" {
            return Self::MissingInput;
        }
        if let Some(name) = text.strip_prefix("resolver ") {
            return Self::Source(name.into());
        }
        if let Some(prefix) = text.strip_prefix("landing of ") {
            return Self::Landing(prefix.into());
        }
        match text
            .rsplit_once('|')
            .map(|(site, role)| (site, role.parse()))
        {
            Some((site, Ok(role))) => Self::Site {
                site: site.into(),
                role,
            },
            _ => Self::Start,
        }
    }
}

impl fmt::Display for WorkLaneKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str(START),
            Self::MissingInput => f.write_str(MISSING_INPUT),
            Self::Site { site, role } => write!(f, "{SITE}:{role}:{site}"),
            Self::Source(name) => write!(f, "{SOURCE}:{name}"),
            Self::Landing(prefix) => write!(f, "{LANDING}:{prefix}"),
        }
    }
}

impl FromStr for WorkLaneKey {
    type Err = UnknownLane;

    fn from_str(text: &str) -> Result<Self, UnknownLane> {
        let unknown = || UnknownLane(text.to_owned());
        match text {
            START => return Ok(Self::Start),
            MISSING_INPUT => return Ok(Self::MissingInput),
            _ => {}
        }
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        match kind {
            SITE => {
                let (role, site) = rest.split_once(':').ok_or_else(unknown)?;
                Ok(Self::Site {
                    site: site.into(),
                    role: role.parse().map_err(|_| unknown())?,
                })
            }
            SOURCE => Ok(Self::Source(rest.into())),
            LANDING => Ok(Self::Landing(rest.into())),
            _ => Err(unknown()),
        }
    }
}

impl ToSql for WorkLaneKey {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.to_string().into())
    }
}

impl FromSql for WorkLaneKey {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value
            .as_str()?
            .parse()
            .map_err(|error: UnknownLane| FromSqlError::Other(Box::new(error)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn site(site: &str, role: Role) -> WorkLaneKey {
        WorkLaneKey::Site {
            site: site.into(),
            role,
        }
    }

    #[test]
    fn lane_keys_are_written_as_documented() {
        for (key, text) in [
            (WorkLaneKey::Start, "start"),
            (WorkLaneKey::MissingInput, "missing-input"),
            (site("arxiv.org", Role::Landing), "site:landing:arxiv.org"),
            (
                site("site:arxiv", Role::Artifact),
                "site:artifact:site:arxiv",
            ),
            (
                site("a.example:8080", Role::Metadata),
                "site:metadata:a.example:8080",
            ),
            (WorkLaneKey::Source("openalex".into()), "source:openalex"),
            (WorkLaneKey::Landing("10.1000".into()), "landing:10.1000"),
        ] {
            assert_eq!(key.to_string(), text);
            assert_eq!(text.parse(), Ok(key));
        }
        for text in [
            "",
            "site",
            "site:arxiv.org",
            "site:nothing:arxiv.org",
            "other:x",
        ] {
            assert_eq!(
                text.parse::<WorkLaneKey>(),
                Err(UnknownLane(text.to_owned()))
            );
        }
    }

    #[test]
    fn keys_of_version_9_are_read() {
        for (text, key) in [
            ("start", WorkLaneKey::Start),
            ("input needed", WorkLaneKey::MissingInput),
            ("arxiv.org|artifact", site("arxiv.org", Role::Artifact)),
            ("site:arxiv|artifact", site("site:arxiv", Role::Artifact)),
            (
                "a.example:8080|landing",
                site("a.example:8080", Role::Landing),
            ),
            (
                "resolver europe_pmc",
                WorkLaneKey::Source("europe_pmc".into()),
            ),
            ("landing of 10.1000", WorkLaneKey::Landing("10.1000".into())),
            ("nothing known", WorkLaneKey::Start),
            ("a.example|nothing", WorkLaneKey::Start),
        ] {
            assert_eq!(WorkLaneKey::from_version_9(text), key, "{text}");
        }
    }

    proptest! {
        #[test]
        fn lane_key_is_read_back_as_written(kind in 0..5, text in ".*", role in 0..3_usize) {
            let key = match kind {
                0 => WorkLaneKey::Start,
                1 => WorkLaneKey::MissingInput,
                2 => site(&text, Role::ALL[role]),
                3 => WorkLaneKey::Source(text.as_str().into()),
                _ => WorkLaneKey::Landing(text.as_str().into()),
            };
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }
    }
}
