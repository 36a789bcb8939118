//! The persisted form of [`Timestamp`]s: seconds since 1970, with a fraction.
//!
//! JSON fields name this module in `#[serde(with = ...)]`; the columns of the queue have the same
//! numbers.

use docstokg_policy::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a [`Timestamp`] as seconds.
///
/// # Errors
/// The serializer fails.
pub fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(at.as_secs_f64())
}

/// Reads a [`Timestamp`] from seconds.
///
/// # Errors
/// The value is not a number.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    f64::deserialize(from).map(Timestamp::from_secs_f64)
}

/// The same form of a [`Timestamp`] that may be absent.
pub mod option {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Timestamp};

    /// Writes seconds, or a null value.
    ///
    /// # Errors
    /// The serializer fails.
    pub fn serialize<S: Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        at.map(Timestamp::as_secs_f64).serialize(to)
    }

    /// Reads seconds, or a null value.
    ///
    /// # Errors
    /// The value is neither a number nor null.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<f64>::deserialize(from)?.map(Timestamp::from_secs_f64))
    }
}
