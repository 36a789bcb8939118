//! The hub's sections as written. Every key is optional, and every value has its position.
//!
//! Each group of keys is declared once, with the documentation and the default of every key. A
//! program with further sections combines them with [`Settings`] at the same level.

use docstokg_config::{
    ByName, ConfigKey, ConfigProblem, MapReader, NamedSections, Section, section,
};
use serde_json::{Value as Json, json};

mod breakers;
mod cache;
mod limits;
mod requests;

pub use breakers::{
    BreakerSettings, BreakersSettings, ClassifySettings, ResolverOverrideSettings,
    RoleBreakerSettings, RoleBreakersSettings, RollingSettings, TrialSettings,
};
pub use cache::{CacheHostSettings, CacheRuleSettings, CacheSettings};
pub use limits::{
    AimdSettings, BackendSettings, ByHost, ByKind, ByService, GlobalSettings, HeadersSettings,
    HostSettings, LimitsSettings, RoleSettings, RolesSettings, SharedSettings,
};
pub use requests::{IdentitySettings, RetrySettings, SiteSettings, TransportSettings};

section! {
    /// All keys that configure the hub.
    Settings {
        ..warnings: ConfigWarnings,
        +limits: LimitsSettings,
        +breakers: BreakersSettings,
        +sites: NamedSections<ByName, SiteSettings>,
        +retry: RetrySettings,
        +transport: TransportSettings,
        +identity: IdentitySettings,
        +cache: CacheSettings,
    }
}

/// Warnings about settings that are valid, but probably not intended.
///
/// Warnings have no key in the configuration. Each belongs to the layer in which it was found.
#[derive(Clone, Debug, Default)]
pub struct ConfigWarnings(pub Vec<ConfigProblem>);

impl std::ops::Deref for ConfigWarnings {
    type Target = [ConfigProblem];

    fn deref(&self) -> &[ConfigProblem] {
        &self.0
    }
}

impl Section for ConfigWarnings {
    fn read(_: &mut MapReader<'_>) -> Self {
        Self::default()
    }

    fn over(mut self, lower: Self) -> Self {
        self.0.extend(lower.0);
        self
    }

    fn keys(_: &str, _: &mut Vec<ConfigKey>) {}

    fn schema() -> Json {
        json!({})
    }

    fn show(&self) -> Json {
        json!({})
    }
}

impl AsRef<Self> for Settings {
    fn as_ref(&self) -> &Self {
        self
    }
}
