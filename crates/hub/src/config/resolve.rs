//! From what was written to what applies: defaults filled in, contradictions found.

use std::time::Duration;

use docstokg_config::{ConfigProblem, SourcedValue};

use super::Config;
use super::settings::Settings;

mod breakers;
mod cache;
mod limits;
mod requests;

pub use requests::is_email_address;

/// The longest time that any setting may name, in seconds: a year.
const MAX_SETTING_S: f64 = 366.0 * 86_400.0;

impl Settings {
    /// Turns what is written into what applies.
    ///
    /// # Errors
    /// Every contradiction and every value that is out of its range.
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

/// Reads a length in seconds, at most a year.
fn seconds(set: &SourcedValue<f64>, key: &str, problems: &mut Vec<ConfigProblem>) -> Duration {
    if set.value > MAX_SETTING_S {
        let message = format!("{} seconds is longer than a year", set.value);
        problems.push(ConfigProblem::new(&set.source, key, message));
    }
    Duration::from_secs_f64(set.value.min(MAX_SETTING_S))
}
