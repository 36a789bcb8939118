//! The `resolvers` section of the configuration: the sources that are tried for a work, the
//! addresses of their services, and their credentials.

use docstokg_config::{
    ConfigNode, ConfigProblem, Section, Setting, SourcedValue, ValueSource, nearest, section, word,
};
use docstokg_hub::config::is_email_address;
use docstokg_lookup::source_spec::{CredentialCarrier, SourceCredential};
use http::HeaderValue;
use serde_json::{Value as Json, json};

use crate::resolver::order::{Preset, ResolverChoice};
use crate::resolver::settings::Settings;
use crate::resolver::{ResolverId, credentials, openalex, specs};

mod derived_section;

pub use derived_section::{CredentialSettings, EndpointSettings};
pub use docstokg_config::setting::split_names;
pub use docstokg_hub::config::BaseUrl;

/// Returns the environment variables that contain credentials, each with its key in the section.
pub fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    credentials().map(|credential| (credential.variable, credential.key))
}

section! {
    /// Which sources are tried for a work, and the credentials for them.
    ResolverSettings {
        ..credentials: CredentialSettings,
        /// How far to go: `fast` (services that answer quickly) or `broad` (pages of publishers and
        /// archives, too)
        preset: Preset = "broad",
        /// Resolvers to ask first, as a list or joined by commas; the rest of the preset follows
        order: ResolverNames => "by what is known of a work",
        /// Resolvers to ask beyond the preset, as a list or joined by commas
        enable: ResolverNames => "none",
        /// Resolvers not to ask, as a list or joined by commas
        disable: ResolverNames => "none",
        /// Whether to use the files that OpenAlex keeps and charges for; needs the key of OpenAlex
        paid_content: bool = false,
        @endpoints: EndpointSettings,
    }
}

/// The validated section, see [`ResolverSettings::resolve`].
#[derive(Clone, Debug, Default)]
pub struct ResolverConfig {
    /// The [`ResolverChoice`] of the resolvers that are queried.
    pub choice: ResolverChoice,
    /// The addresses and credentials of services. The program sets `mailto`.
    pub services: Settings,
}

/// Names of resolvers, as the configuration spells them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolverNames(pub Vec<String>);

impl ResolverNames {
    /// Returns the resolver of each known name, without the unknown names.
    fn known(&self) -> Vec<ResolverId> {
        let names = self.0.iter();
        names.filter_map(|name| name.parse().ok()).collect()
    }
}

impl Setting for ResolverNames {
    const KIND: &'static str = "list of resolvers";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        docstokg_config::NameList::read(node).map(|names| Self(names.0))
    }

    fn schema() -> Json {
        docstokg_config::NameList::schema()
    }

    fn show(&self) -> Json {
        json!(self.0.join(","))
    }
}

/// The names of [`Preset`] values in the configuration.
const PRESETS: [(&str, Preset); 2] = [("fast", Preset::Fast), ("broad", Preset::Broad)];

impl Setting for Preset {
    const KIND: &'static str = "word";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        word::read(node, &PRESETS)
    }

    fn schema() -> Json {
        word::schema(&PRESETS)
    }

    fn show(&self) -> Json {
        json!(self)
    }
}

/// Reads the credentials in the environment as a layer. Empty variables count as unset.
pub fn environment(
    variables: &[(String, String)],
    problems: &mut Vec<ConfigProblem>,
) -> ResolverSettings {
    let mut settings = ResolverSettings::default();
    for (name, value) in variables {
        let known = self::variables().find(|(known, _)| known == name);
        if let (Some((_, key)), false) = (known, value.trim().is_empty()) {
            let source = ValueSource::Environment(name.as_str().into());
            let node = ConfigNode::nested(&[key], ConfigNode::text(value, &source));
            let read: ResolverSettings = docstokg_config::read("resolvers", node, &[], problems);
            settings = read.over(settings);
        }
    }
    settings
}

impl ResolverSettings {
    /// Validates the section and returns it as a [`ResolverConfig`].
    ///
    /// # Errors
    /// Returns a [`ConfigProblem`] for every value that cannot be used as written.
    pub fn resolve(&self) -> Result<ResolverConfig, Vec<ConfigProblem>> {
        let mut problems = Vec::new();
        self.check_names(&mut problems);
        self.check_credentials(&mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        let named =
            |set: &Option<SourcedValue<ResolverNames>>| set.as_ref().map(|set| set.value.known());
        Ok(ResolverConfig {
            choice: ResolverChoice {
                preset: self.preset().value,
                order: named(&self.order),
                enable: named(&self.enable).unwrap_or_default(),
                disable: named(&self.disable).unwrap_or_default(),
            },
            services: Settings {
                endpoints: self.endpoints.over_shipped(),
                credentials: self.credentials.to_credentials(),
                paid_content: self.paid_content().value,
            },
        })
    }

    /// Checks that every name is a resolver's, and that no resolver is both enabled and disabled.
    fn check_names(&self, problems: &mut Vec<ConfigProblem>) {
        for (key, set) in [
            ("order", &self.order),
            ("enable", &self.enable),
            ("disable", &self.disable),
        ] {
            let Some(set) = set else { continue };
            for name in &set.value.0 {
                if name.parse::<ResolverId>().is_err() {
                    let all: Vec<&str> = specs().iter().map(|spec| spec.id.as_str()).collect();
                    let listed = all.join(", ");
                    let message =
                        format!("there is no resolver '{name}'; the resolvers are {listed}");
                    let problem =
                        ConfigProblem::new(&set.source, format!("resolvers.{key}"), message);
                    problems.push(problem.suggesting(nearest(name, all)));
                }
            }
        }
        let (Some(enable), Some(disable)) = (&self.enable, &self.disable) else {
            return;
        };
        let disabled = disable.value.known();
        for name in enable.value.known() {
            if disabled.contains(&name) {
                let message = format!("{name} is in resolvers.disable, too; remove it from one");
                problems.push(ConfigProblem::new(
                    &enable.source,
                    "resolvers.enable",
                    message,
                ));
            }
        }
    }

    /// Checks that every credential can be sent, and that required companions are set.
    fn check_credentials(&self, problems: &mut Vec<ConfigProblem>) {
        for credential in credentials() {
            if let Some(set) = self.credentials.get(credential)
                && let Some(message) = self.fault(credential, set.value.0.trim())
            {
                let key = format!("resolvers.{}", credential.key);
                problems.push(ConfigProblem::new(&set.source, key, message));
            }
        }
        if let (Some(set), None) = (&self.paid_content, self.credentials.get(&openalex::KEY))
            && set.value
        {
            let message = format!("it needs a key: {}", how_to_set(&openalex::KEY));
            problems.push(ConfigProblem::new(
                &set.source,
                "resolvers.paid_content",
                message,
            ));
        }
    }

    /// Describes the fault in the value of a [`SourceCredential`].
    fn fault(&self, credential: &SourceCredential, value: &str) -> Option<String> {
        let header = match &credential.sent {
            CredentialCarrier::EmailAddress if is_email_address(value) => return None,
            CredentialCarrier::EmailAddress => {
                return Some("it is not an e-mail address".to_owned());
            }
            CredentialCarrier::Header(header) => header,
        };
        if value.is_empty() {
            return Some("it is empty; give a value, or remove the key".to_owned());
        }
        if HeaderValue::from_str(value).is_err() {
            return Some("it has characters that no header can carry".to_owned());
        }
        let missing = header
            .beside
            .filter(|beside| self.credentials.get(beside).is_none())?;
        Some(format!("it is of no use alone: {}", how_to_set(missing)))
    }
}

/// Describes the places at which a [`SourceCredential`] can be set.
fn how_to_set(credential: &SourceCredential) -> String {
    format!(
        "set resolvers.{} or {}",
        credential.key, credential.variable
    )
}
