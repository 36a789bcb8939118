//! How each key stands: its windows, how full they are, and when the next request may go.

use std::time::Duration;

use docstokg_policy::rate::Window;

use super::error::AcquireError;
use super::key::ServiceKey;
use super::rate::per_second;
use super::{Facade, registry};

/// How one key stands.
#[derive(Clone, Debug)]
pub struct KeyDiagnosis {
    /// The key.
    pub key: ServiceKey,
    /// Its windows and how much of each is used; none where it has no limit.
    pub windows: Vec<(Window, u64)>,
    /// The rate per second that each window allows in the long run.
    pub per_second: Vec<f64>,
    /// How long its cooldown still lasts.
    pub cooldown: Option<Duration>,
    /// After which time a request of weight 1 could go, if no other came first.
    pub eligible_in: Duration,
}

impl Facade {
    /// Reports how each key stands that this process knows.
    ///
    /// # Errors
    /// The store cannot be reached.
    pub async fn diagnose(&self) -> Result<Vec<KeyDiagnosis>, AcquireError> {
        let registry: &registry::KeyRegistry = self.0.registry.get();
        let mut found = Vec::new();
        for key in registry.keys()? {
            let entry = registry.entry_of(&key)?;
            let view = entry.view().await?;
            let (windows, eligible_in) = entry.usage(&view);
            let cooldown = entry.cooldown_left().await?;
            found.push(KeyDiagnosis {
                key,
                per_second: windows
                    .iter()
                    .map(|(window, _)| per_second(window))
                    .collect(),
                windows,
                cooldown,
                eligible_in: eligible_in.max(cooldown.unwrap_or_default()),
            });
        }
        Ok(found)
    }
}
