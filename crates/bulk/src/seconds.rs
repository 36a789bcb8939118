//! [`Timestamp`]s as they are persisted: seconds since 1970, with a fraction. JSON fields name this
//! module in `#[serde(with = ...)]`; the queue's columns hold the same numbers.

use docstokg_policy::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a timestamp as seconds.
///
/// # Errors
/// The serializer fails.
pub fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(at.as_secs_f64())
}

/// Reads a timestamp from seconds.
///
/// # Errors
/// There is no number.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    f64::deserialize(from).map(Timestamp::from_secs_f64)
}

/// The same for a timestamp that may be absent.
pub mod option {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Timestamp};

    /// Writes seconds, or nothing.
    ///
    /// # Errors
    /// The serializer fails.
    pub fn serialize<S: Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        at.map(Timestamp::as_secs_f64).serialize(to)
    }

    /// Reads seconds, or nothing.
    ///
    /// # Errors
    /// There is something that is not a number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<f64>::deserialize(from)?.map(Timestamp::from_secs_f64))
    }
}
