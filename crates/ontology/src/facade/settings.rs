//! The facade's settings: a default rate, rates of services, and the directory of their state.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use docstokg_config::node::ConfigValue;
use docstokg_config::{
    ConfigNode, ConfigProblem, ConfigProblems, Layers, Section, Setting, SourcedValue, ValueSource,
    read_text, section,
};
use docstokg_policy::rate::{Window, format_rates};
use serde_json::{Value as Json, json};

use super::key::service_name;
use super::rate::{parse_rate, with_minute_guard};

section! {
    /// Rates by service, for programs that acquire a permit before each request of their own.
    RateLimitSettings {
        /// Rate of services without a rate of their own: `8/second`, or `null` for no limit; 300 in
        /// a minute are added unless a minute window is given
        default: DefaultRate = "8/second+300/minute",
        /// Rates of services, as a mapping or as `ols:4/second;bioportal:2/second`
        per_service: ServiceRates => "none",
        /// A directory whose state of limits processes share. `ontofetch` uses it in place of its
        /// state directory; in programs that use the library each process has its own state without
        /// it
        shared_dir: String => "none",
        /// Accepted in old files, and without effect
        engine: Engine => "pyrate",
    }
}

/// The rate of each service without a rate of its own; `None` for no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultRate(pub Option<Vec<Window>>);

/// Rates by the name of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceRates(pub BTreeMap<Arc<str>, Vec<Window>>);

/// The name of the limiter in old files, accepted in [`RateLimitSettings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine;

/// The settings in use, after [`RateLimitSettings`] were resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// The windows of services without a separate rate; `None` for no limit.
    pub default: Option<Vec<Window>>,
    /// The windows of each service with a separate rate.
    pub per_service: BTreeMap<Arc<str>, Vec<Window>>,
    /// The directory that processes share.
    pub shared_dir: Option<PathBuf>,
}

impl Default for RateLimits {
    fn default() -> Self {
        RateLimitSettings::defaults().in_force()
    }
}

impl RateLimits {
    /// Returns the [`Window`]s of a service; `None` for no limit.
    #[must_use]
    pub fn windows(&self, service: &str) -> Option<&[Window]> {
        self.per_service
            .get(service)
            .or(self.default.as_ref())
            .map(Vec::as_slice)
    }

    /// Converts resolved settings back to [`RateLimitSettings`], from which their fingerprint is
    /// made.
    pub(super) fn to_settings(&self) -> RateLimitSettings {
        let set =
            |path: &PathBuf| SourcedValue::new(path.display().to_string(), ValueSource::Program);
        RateLimitSettings {
            default: Some(SourcedValue::new(
                DefaultRate(self.default.clone()),
                ValueSource::Program,
            )),
            per_service: Some(SourcedValue::new(
                ServiceRates(self.per_service.clone()),
                ValueSource::Program,
            )),
            shared_dir: self.shared_dir.as_ref().map(set),
            engine: None,
        }
    }

    /// Reads settings from YAML or JSON text. Messages use `name` for the origin of the text.
    ///
    /// # Errors
    /// [`ConfigProblems`] with every problem at once, each with its line and the correct form.
    pub fn from_text(text: &str, name: &str) -> Result<Self, ConfigProblems> {
        let mut layers = Layers::<RateLimitSettings>::default();
        layers.add(|_, problems| {
            let node = read_text(text, name, problems);
            node.map(|node| docstokg_config::read("ratelimit", node, &[], problems))
                .unwrap_or_default()
        });
        let (limits, _) = layers.resolve(RateLimitSettings::resolve)?;
        Ok(limits)
    }
}

impl RateLimitSettings {
    /// Resolves the written settings into [`RateLimits`].
    ///
    /// # Errors
    /// Lists every value that cannot be used as written.
    pub fn resolve(&self) -> Result<RateLimits, Vec<ConfigProblem>> {
        if let Some(set) = (self.shared_dir.as_ref()).filter(|set| set.value.is_empty()) {
            let message = "it is empty; name a directory, or remove the key";
            let problem = ConfigProblem::new(&set.source, "ratelimit.shared_dir", message);
            return Err(vec![problem]);
        }
        Ok(self.in_force())
    }

    fn in_force(&self) -> RateLimits {
        let services = self.per_service.iter().flat_map(|set| &set.value.0);
        RateLimits {
            default: self.default().value.0.map(with_minute_guard),
            per_service: services
                .map(|(name, windows)| (Arc::clone(name), with_minute_guard(windows.clone())))
                .collect(),
            shared_dir: self.shared_dir.as_ref().map(|set| set.value.clone().into()),
        }
    }
}

/// Reads the settings from environment variables, as a layer of the configuration. Empty variables
/// count as unset.
pub fn environment(
    variables: &[(String, String)],
    problems: &mut Vec<ConfigProblem>,
) -> RateLimitSettings {
    let written = VARIABLES.into_iter().filter_map(|(variable, key)| {
        let is_set =
            |(name, value): &&(String, String)| name == variable && !value.trim().is_empty();
        let (name, value) = variables.iter().find(is_set)?;
        let source = ValueSource::Environment(name.as_str().into());
        Some(ConfigNode::nested(&[key], ConfigNode::text(value, &source)))
    });
    written
        .map(|node| docstokg_config::read("ratelimit", node, &[], problems))
        .reduce(|lower: RateLimitSettings, upper| upper.over(lower))
        .unwrap_or_default()
}

/// The environment variables, each with the key that it sets.
pub const VARIABLES: [(&str, &str); 3] = [
    ("ONTOFETCH_RATELIMIT_DEFAULT", "default"),
    ("ONTOFETCH_RATELIMIT_PER_SERVICE", "per_service"),
    ("ONTOFETCH_SHARED_RATE_LIMIT_DIR", "shared_dir"),
];

fn read_rate(node: &ConfigNode) -> Result<Vec<Window>, String> {
    let ConfigValue::Text(text) = &node.value else {
        return Err(format!(
            "expected a rate such as 8/second, found {}",
            node.describe()
        ));
    };
    parse_rate(text).map_err(|error| error.to_string())
}

impl Setting for DefaultRate {
    const KIND: &'static str = "rate, or null";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        match &node.value {
            ConfigValue::Null => Ok(Self(None)),
            ConfigValue::Text(text)
                if matches!(text.trim().to_ascii_lowercase().as_str(), "null" | "none") =>
            {
                Ok(Self(None))
            }
            _ => read_rate(node).map(|windows| Self(Some(windows))),
        }
    }

    fn schema() -> Json {
        json!({ "type": ["string", "null"] })
    }

    fn show(&self) -> Json {
        json!(self.0.as_deref().map(format_rates))
    }
}

impl Setting for ServiceRates {
    const KIND: &'static str = "rates by service";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        let mut rates = Self::default();
        match &node.value {
            ConfigValue::Null => {}
            ConfigValue::Map(entries) => {
                for entry in entries {
                    let windows = read_rate(&entry.node)
                        .map_err(|message| format!("{}: {message}", entry.key))?;
                    rates.add(&entry.key, windows)?;
                }
            }
            ConfigValue::Text(text) => {
                for part in text.split(';').filter(|part| !part.trim().is_empty()) {
                    let (name, rate) = part.split_once(':').ok_or_else(|| {
                        format!(
                            "'{}' has no ':' between service and rate; write for instance \
                             ols:4/second;bioportal:2/second",
                            part.trim()
                        )
                    })?;
                    let windows =
                        parse_rate(rate).map_err(|error| format!("{}: {error}", name.trim()))?;
                    rates.add(name, windows)?;
                }
            }
            _ => {
                return Err(format!(
                    "expected rates by service, found {}; write for instance \
                     ols:4/second;bioportal:2/second",
                    node.describe()
                ));
            }
        }
        Ok(rates)
    }

    fn schema() -> Json {
        let map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
        json!({ "oneOf": [{ "type": "string" }, map] })
    }

    fn show(&self) -> Json {
        let rate = |(name, windows): (&Arc<str>, &Vec<Window>)| {
            (name.to_string(), json!(format_rates(windows)))
        };
        Json::Object(self.0.iter().map(rate).collect())
    }
}

impl ServiceRates {
    fn add(&mut self, name: &str, windows: Vec<Window>) -> Result<(), String> {
        let name = service_name(name).map_err(|error| error.to_string())?;
        match self.0.insert(Arc::clone(&name), windows) {
            Some(_) => Err(format!("the service {name} is there twice")),
            None => Ok(()),
        }
    }
}

impl Setting for Engine {
    const KIND: &'static str = "word";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        match &node.value {
            ConfigValue::Text(text) if text.trim().eq_ignore_ascii_case("pyrate") => Ok(Self),
            _ => Err(format!(
                "{} is not a known engine; there is one limiter, and 'pyrate' is accepted from \
                 old files: remove the key",
                node.describe()
            )),
        }
    }

    fn schema() -> Json {
        json!({ "const": "pyrate" })
    }

    fn show(&self) -> Json {
        json!("pyrate")
    }
}
