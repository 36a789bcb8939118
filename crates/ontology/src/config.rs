//! The `ontology` section of the configuration.
//!
//! The section says where ontologies are kept, which sources are queried, and what is accepted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use docstokg_config::{
    ConfigNode, ConfigProblem, HiddenText, NameList, NamedSections, Naming, Section, SourcedValue,
    ValueSource, section,
};
use docstokg_hub::config::environment::unknown_variable;
use docstokg_hub::config::{BaseUrl, BudgetLimits, Config};
use docstokg_policy::rate::Window;
use http::HeaderValue;

use crate::facade::rate::{parse_rate, with_minute_guard};
use crate::facade::settings::{self as ratelimit, RateLimitSettings, RateLimits};
use crate::licence::LicenceGate;
use crate::source::ontoportal::Portal;
use crate::source::{self, SourceSettings};
use crate::url_check::{HostPattern, UrlGate};
use crate::wanted_ontology::TargetFormat;

section! {
    /// User settings of one source.
    SourceEntry {
        /// Its address, for mirrors, tests and portals that are not built in
        url: BaseUrl => "its public address",
        /// The API key of a portal
        key: HiddenText => "none",
    }
}

section! {
    /// User settings of the library, the sources, and what is accepted.
    OntologySettings {
        /// The directory of the library
        library: String => "docstokg/ontologies in the data directory of the user; ./ontologies if that is a library",
        /// Sources to query, in this order, as a list or joined by commas
        prefer_source: NameList = "obo,ols,bioportal,lov",
        /// Licences that are accepted, as SPDX names, addresses or labels; `*` accepts every one
        accept_licenses: NameList = "CC-BY-4.0,CC0-1.0,OGL-UK-3.0",
        /// Formats wanted, the best first: owl, obo, json, ttl, rdf, nt, jsonld, zip
        target_formats: NameList => "what the source has",
        /// Hosts that files may come from (`a.org`, `*.a.org`, `a.org:8443`); empty for every host
        allowed_hosts: NameList => "every host",
        /// Hosts that may be requested without https
        plain_http_hosts: NameList => "none",
        /// A snapshot of the OBO Foundry registry (`ontologies.jsonld`), used without a network
        obo_registry: String => "the service",
        +ratelimit: RateLimitSettings,
        @sources: NamedSections<BySource, SourceEntry>,
    }
}

/// Naming rule of the `sources` mapping: entries by the name of a source.
#[derive(Clone, Debug, Default)]
pub struct BySource;

impl Naming for BySource {
    type Name = String;
    const PLACEHOLDER: &'static str = "SOURCE";
    const NOUN: &'static str = "source";

    fn name(text: &str) -> Result<String, String> {
        source::check_name(text).map_err(|message| {
            format!(
                "{message}; the name of a portal of your own begins with {}",
                source::CUSTOM
            )
        })
    }
}

/// The resolved `ontology` section, from [`OntologySettings`].
#[derive(Clone, Debug)]
pub struct OntologyConfig {
    /// The directory of the library, if written.
    pub library: Option<PathBuf>,
    /// Sources to query, in this order.
    pub prefer_source: Vec<String>,
    /// The licences that are accepted.
    pub accept_licenses: Vec<String>,
    /// The wanted formats, the best first.
    pub formats: Vec<TargetFormat>,
    /// The [`UrlGate`] that decides which URLs may be fetched.
    pub gate: Arc<UrlGate>,
    /// Addresses of the services, and the keys for them.
    pub sources: Arc<SourceSettings>,
    /// The [`RateLimits`] by service.
    pub limits: RateLimits,
}

/// Returns the environment variables of the section, each with the path of its key.
pub fn variables() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let credentials = source::all().into_iter().filter_map(|source| {
        let spec = source.spec();
        let credential = spec.credentials.first()?;
        Some((credential.variable, vec!["sources", spec.name, "key"]))
    });
    credentials.chain([("ONTOFETCH_LIBRARY", vec!["library"])])
}

/// Common prefix of the variables of `ontofetch`.
const PREFIX: &str = "ONTOFETCH_";

/// Reports variables that look like variables of the section but are not.
#[must_use]
pub fn unknown_variables(variables: &[(String, String)]) -> Vec<ConfigProblem> {
    let of_section = self::variables().map(|(known, _)| known);
    let of_limits = ratelimit::VARIABLES.map(|(known, _)| known);
    let known: Vec<&str> = of_section.chain(of_limits).collect();
    let unknown = variables.iter().filter(|(name, value)| {
        name.starts_with(PREFIX) && !value.trim().is_empty() && !known.contains(&name.as_str())
    });
    let mut problems: Vec<ConfigProblem> = unknown
        .map(|(name, _)| unknown_variable(name, known.iter().copied()))
        .collect();
    problems.sort_by_key(|problem| problem.source.to_string());
    problems
}

/// Reads the section from environment variables. Empty variables count as unset.
pub fn environment(
    variables: &[(String, String)],
    problems: &mut Vec<ConfigProblem>,
) -> OntologySettings {
    let mut settings = OntologySettings {
        ratelimit: ratelimit::environment(variables, problems),
        ..OntologySettings::default()
    };
    for (variable, path) in self::variables() {
        let set = variables
            .iter()
            .find(|(name, value)| name == variable && !value.trim().is_empty());
        if let Some((name, value)) = set {
            let source = ValueSource::Environment(name.as_str().into());
            let node = ConfigNode::nested(&path, ConfigNode::text(value, &source));
            let read: OntologySettings = docstokg_config::read("ontology", node, &[], problems);
            settings = read.over(settings);
        }
    }
    settings
}

impl OntologySettings {
    /// Resolves the written settings into an [`OntologyConfig`].
    ///
    /// # Errors
    /// Lists every value that cannot be used as written.
    pub fn resolve(&self) -> Result<OntologyConfig, Vec<ConfigProblem>> {
        let mut problems = Vec::new();
        self.check_sources(&mut problems);
        let config = OntologyConfig {
            library: text(&self.library).map(PathBuf::from),
            prefer_source: self.prefer_source().value.0,
            accept_licenses: self.accept_licenses().value.0,
            formats: each(
                &self.target_formats,
                "target_formats",
                &mut problems,
                str::parse,
            ),
            gate: Arc::new(UrlGate::new(
                each(
                    &self.allowed_hosts,
                    "allowed_hosts",
                    &mut problems,
                    HostPattern::parse,
                ),
                each(
                    &self.plain_http_hosts,
                    "plain_http_hosts",
                    &mut problems,
                    HostPattern::parse,
                ),
            )),
            sources: Arc::new(self.source_settings(&mut problems)),
            limits: match self.ratelimit.resolve() {
                Ok(limits) => limits,
                Err(found) => {
                    problems.extend(found);
                    RateLimits::default()
                }
            },
        };
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(problems)
        }
    }

    fn check_sources(&self, problems: &mut Vec<ConfigProblem>) {
        let set = self.prefer_source();
        for name in &set.value.0 {
            if let Err(message) = source::check_name(name) {
                problems.push(ConfigProblem::new(
                    &set.source,
                    "ontology.prefer_source",
                    message,
                ));
            }
        }
    }

    fn source_settings(&self, problems: &mut Vec<ConfigProblem>) -> SourceSettings {
        let mut settings = SourceSettings {
            obo_registry: text(&self.obo_registry).map(PathBuf::from),
            ..SourceSettings::default()
        };
        for (name, entry) in &self.sources {
            let built_in = source::named(name);
            match (&entry.url, built_in) {
                (Some(url), Some(source)) => {
                    if let Some(endpoint) = source.spec().endpoints.first() {
                        settings.endpoints.set(endpoint, url.value.0.clone());
                    } else {
                        let message = format!(
                            "{name} has no address of its own; give url with each ontology"
                        );
                        problems.push(ConfigProblem::new(
                            &url.source,
                            format!("ontology.sources.{name}.url"),
                            message,
                        ));
                    }
                }
                (Some(url), None) => settings.portals.push(Portal::custom(name, &url.value.0)),
                (None, None) => {
                    let source = entry
                        .key
                        .as_ref()
                        .map_or(ValueSource::Default, |key| key.source.clone());
                    let message = "a portal of your own needs an address: set url";
                    problems.push(ConfigProblem::new(
                        &source,
                        format!("ontology.sources.{name}"),
                        message,
                    ));
                }
                (None, Some(_)) => {}
            }
            if let Some(key) = &entry.key {
                let value = key.value.0.trim();
                if value.is_empty() || HeaderValue::from_str(value).is_err() {
                    let message = "it is empty or has characters that no header can carry";
                    problems.push(ConfigProblem::new(
                        &key.source,
                        format!("ontology.sources.{name}.key"),
                        message,
                    ));
                }
                let credentials = settings.credentials;
                settings.credentials = credentials.with_key(name.clone(), &*key.value.0);
            }
        }
        settings
    }
}

fn text(set: &Option<SourcedValue<String>>) -> Option<&str> {
    set.as_ref()
        .map(|set| set.value.as_str())
        .filter(|text| !text.is_empty())
}

fn each<T>(
    set: &Option<SourcedValue<NameList>>,
    key: &str,
    problems: &mut Vec<ConfigProblem>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Vec<T> {
    let Some(set) = set else { return Vec::new() };
    let mut values = Vec::new();
    for name in &set.value.0 {
        match read(name) {
            Ok(value) => values.push(value),
            Err(message) => {
                problems.push(ConfigProblem::new(
                    &set.source,
                    format!("ontology.{key}"),
                    message,
                ));
            }
        }
    }
    values
}

impl OntologyConfig {
    /// Returns the [`LicenceGate`] of the accepted licences.
    #[must_use]
    pub fn licences(&self) -> LicenceGate {
        LicenceGate::new(&self.accept_licenses)
    }

    /// Returns the [`Window`]s of each service with a rate: from the user, from the source, or the
    /// default.
    #[must_use]
    pub fn service_windows(&self) -> BTreeMap<String, Vec<Window>> {
        let mut windows = BTreeMap::new();
        let portals = self
            .sources
            .portals
            .iter()
            .map(|portal| *portal as &dyn source::OntologySource);
        for source in source::all().into_iter().chain(portals) {
            let spec = source.spec();
            let shipped = spec
                .rate
                .and_then(|rate| parse_rate(rate).ok())
                .map(with_minute_guard);
            let set = self.limits.per_service.get(spec.name).cloned();
            if let Some(list) = set.or(shipped).or_else(|| self.limits.default.clone()) {
                windows.insert(spec.name.to_owned(), list);
            }
        }
        windows
    }

    /// Writes the rates of services, and the default of hosts without an entry, into the [`Config`]
    /// of a hub. Rates that the user wrote for all hosts stay.
    pub fn apply_to(&self, config: &mut Config) {
        for (service, windows) in self.service_windows() {
            config
                .limits
                .services
                .entry(service.into())
                .or_insert_with(|| BudgetLimits {
                    rates: SourcedValue::new(windows, ValueSource::Default),
                    max_concurrent: SourcedValue::new(None, ValueSource::Default),
                    shared_slots: false,
                    pacing: None,
                });
        }
        // No default means no rate: the default for scholarly works does not fit these hosts.
        let default = self.limits.default.clone().unwrap_or_default();
        for role in &mut config.limits.defaults {
            if matches!(
                role.rates.source,
                ValueSource::Default | ValueSource::Shipped
            ) {
                role.rates = SourcedValue::new(default.clone(), ValueSource::Default);
            }
        }
    }
}
