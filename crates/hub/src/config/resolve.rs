//! Resolution of [`Settings`] to a [`Config`]: fills in defaults, and reports values that
//! contradict each other.

use std::time::Duration;

use docstokg_config::{ConfigProblem, SourcedValue};

use super::Config;
use super::settings::Settings;

mod breakers;
mod cache;
mod limits;
mod requests;

pub use requests::is_email_address;

/// Maximum value of any duration setting, in seconds: a year.
const MAX_SETTING_S: f64 = 366.0 * 86_400.0;

impl Settings {
    /// Resolves the settings to the [`Config`] that applies.
    ///
    /// # Errors
    /// Returns every contradiction and every value out of its range.
    pub fn resolve(&self) -> Result<Config, Vec<ConfigProblem>> {
        let problems = &mut Vec::new();
        let limits = limits::limits(self, problems);
        let breakers = breakers::breakers(self, problems);
        let config = Config {
            limits,
            breakers,
            sites: requests::sites(&self.sites, problems),
            retry: requests::retry(&self.retry),
            transport: requests::transport(&self.transport, problems),
            identity: requests::identity(&self.identity, problems),
            cache: cache::cache(&self.cache, problems),
        };
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(std::mem::take(problems))
        }
    }
}

/// Converts a setting in seconds to a [`Duration`], and reports a value of more than a year.
fn seconds(set: &SourcedValue<f64>, key: &str, problems: &mut Vec<ConfigProblem>) -> Duration {
    if set.value > MAX_SETTING_S {
        let message = format!("{} seconds is longer than a year", set.value);
        problems.push(ConfigProblem::new(&set.source, key, message));
    }
    Duration::from_secs_f64(set.value.min(MAX_SETTING_S))
}
