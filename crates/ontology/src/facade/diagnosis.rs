//! Reports the state of each key: its windows, their use, and the time until the next request.

use std::time::Duration;

use docstokg_policy::rate::Window;

use super::error::AcquireError;
use super::key::ServiceKey;
use super::rate::per_second;
use super::{Facade, registry};

/// The state of one [`ServiceKey`], from [`Facade::diagnose`].
#[derive(Clone, Debug)]
pub struct KeyDiagnosis {
    /// The service and host of the budget.
    pub key: ServiceKey,
    /// The windows of the key, each with the number of permits in use; empty if the key has no
    /// limit.
    pub windows: Vec<(Window, u64)>,
    /// The average rate per second that each of the `windows` allows, in the same order.
    pub per_second: Vec<f64>,
    /// Remaining time of the key's cooldown, if there is one.
    pub cooldown: Option<Duration>,
    /// The time until a request of weight 1 may be sent, if no other request is sent before.
    pub eligible_in: Duration,
}

impl Facade {
    /// Reports the state of each key that this process knows, as [`KeyDiagnosis`].
    ///
    /// # Errors
    /// An [`AcquireError`] if the store cannot be reached.
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
