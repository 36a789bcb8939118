//! The hub's keys, for documentation and for editors. A program with further sections lists them
//! all with [`docstokg_config::document`].

use docstokg_config::document;
pub use docstokg_config::section::Key;
use serde_json::Value as Json;

use super::settings::Settings;

/// Returns every key of the hub.
#[must_use]
pub fn all() -> Vec<Key> {
    document::keys::<Settings>()
}

/// Writes the hub's keys as a table.
#[must_use]
pub fn markdown() -> String {
    document::markdown(&all())
}

/// Returns the JSON schema of a configuration file that has the hub's sections only.
#[must_use]
pub fn schema() -> Json {
    document::schema::<Settings>("docstokg hub configuration")
}
