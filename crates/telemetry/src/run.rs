//! A run: one process of the program, with its configuration.

use docstokg_config::{Section, document};
use docstokg_hub::clock::{BootInstant, Clock, Timestamp};
use docstokg_hub::files;
use sha2::{Digest, Sha256};

/// The identity of a run, in every event and in a row of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunIdentity {
    /// The id of the run, such as `20261115T083000Z-4f9c1a`. Ids sort by time.
    pub id: String,
    /// A fingerprint of the configuration in force, without secrets.
    pub config_hash: String,
    /// The command of the program, such as `fetch` or `download`.
    pub command: String,
    /// The start, on the wall clock.
    pub started: Timestamp,
    /// The start, on the boot clock.
    pub started_boot: BootInstant,
}

impl RunIdentity {
    /// Starts a run with the settings of the whole program, and creates its id.
    #[must_use]
    pub fn begin(command: &str, settings: &impl Section, clock: &dyn Clock) -> Self {
        let started = clock.wall();
        let text = started.to_string();
        let compact: String = text
            .chars()
            .take(19)
            .filter(char::is_ascii_alphanumeric)
            .collect();
        Self {
            id: format!("{compact}Z-{:06x}", fastrand::u32(..1 << 24)),
            config_hash: config_hash(settings),
            command: command.to_owned(),
            started,
            started_boot: clock.boot(),
        }
    }

    /// Converts a [`BootInstant`] of this run to wall time. Steps of the wall clock during the run
    /// have no effect.
    #[must_use]
    pub fn wall_of(&self, at: BootInstant) -> Timestamp {
        if at >= self.started_boot {
            return self.started + at.since(self.started_boot);
        }
        let before = i64::try_from(self.started_boot.since(at).as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.started.as_micros().saturating_sub(before))
    }
}

/// Returns the fingerprint of a configuration: the same settings give the same text.
fn config_hash(settings: &impl Section) -> String {
    hash_prefix(&document::show(settings).to_string(), 12)
}

/// Returns the first `digits` of a text's SHA-256, in hex.
pub(crate) fn hash_prefix(text: &str, digits: usize) -> String {
    let mut digest = files::hex(&Sha256::digest(text.as_bytes()));
    digest.truncate(digits);
    digest
}
