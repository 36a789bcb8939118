//! The `resolvers` section: which sources are tried for a work, where their services are, and the
//! credentials for them.

use docstokg_config::node::Value;
use docstokg_config::{
    Hidden, Node, Problem, Section, Setting, Source, Sourced, nearest, section, word,
};
use docstokg_hub::config::is_email_address;
use http::HeaderValue;
use serde_json::{Value as Json, json};
use url::Url;

use crate::resolver::endpoints::Endpoints;
use crate::resolver::order::{Choice, Preset};
use crate::resolver::settings::{Credentials, Secret, Settings};
use crate::resolver::{NAMES, ResolverId};

/// The variables that hold credentials, each with its key in the section.
pub const VARIABLES: [(&str, &str); 6] = [
    ("OPENALEX_API_KEY", "openalex_api_key"),
    ("UNPAYWALL_EMAIL", "unpaywall_email"),
    ("CROSSREF_PLUS_TOKEN", "crossref_plus_token"),
    ("ELSEVIER_API_KEY", "elsevier_api_key"),
    ("ELSEVIER_INSTTOKEN", "elsevier_insttoken"),
    ("WILEY_TDM_TOKEN", "wiley_tdm_token"),
];

section! {
    /// Where the services are. Anything but the defaults is for mirrors and tests.
    EndpointSettings {
        /// The API of OpenAlex
        openalex: Endpoint = "its public address",
        /// The files that OpenAlex keeps
        openalex_content: Endpoint = "its public address",
        /// Unpaywall, with its version
        unpaywall: Endpoint = "its public address",
        /// Crossref
        crossref: Endpoint = "its public address",
        /// DataCite, for the DOIs that Crossref does not know
        datacite: Endpoint = "its public address",
        /// The host that arXiv keeps for robots
        arxiv: Endpoint = "its public address",
        /// PMC's converter of identifiers
        pmc_id_converter: Endpoint = "its public address",
        /// PMC's open-access files
        pmc_bucket: Endpoint = "its public address",
        /// The API of Europe PMC
        europe_pmc: Endpoint = "its public address",
        /// The articles of Europe PMC
        europe_pmc_articles: Endpoint = "its public address",
        /// The resolver of DOIs
        doi: Endpoint = "its public address",
        /// The Wayback Machine
        wayback: Endpoint = "its public address",
    }
}

section! {
    /// Which sources are tried for a work, and the credentials for them.
    ResolverSettings {
        /// How far to go: `fast` (services that answer quickly) or `broad` (pages of publishers and
        /// archives, too)
        preset: Preset = "broad",
        /// Resolvers to ask first, as a list or joined by commas; the rest of the preset follows
        order: Names = "by what is known of a work",
        /// Resolvers to ask beyond the preset, as a list or joined by commas
        enable: Names = "none",
        /// Resolvers not to ask, as a list or joined by commas
        disable: Names = "none",
        /// The key of OpenAlex
        openalex_api_key: Hidden = "none",
        /// The address for Unpaywall, where it differs from `identity.mailto`
        unpaywall_email: Hidden = "`identity.mailto`",
        /// The token of Crossref Plus
        crossref_plus_token: Hidden = "none",
        /// The key for text mining at Elsevier; sent to api.elsevier.com only
        elsevier_api_key: Hidden = "none",
        /// The token of your institution at Elsevier, beside the key
        elsevier_insttoken: Hidden = "none",
        /// The token for text mining at Wiley; sent to api.wiley.com only
        wiley_tdm_token: Hidden = "none",
        /// Whether to use the files that OpenAlex keeps and charges for; needs the key of OpenAlex
        paid_content: bool = "false",
        @endpoints: EndpointSettings,
    }
}

/// The section, resolved.
#[derive(Clone, Debug, Default)]
pub struct ResolverConfig {
    /// Which resolvers are asked.
    pub choice: Choice,
    /// Where services are, and the credentials for them; `mailto` is left to the program.
    pub services: Settings,
}

/// The base URL of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(pub Url);

impl Setting for Endpoint {
    const KIND: &'static str = "URL";

    fn read(node: &Node) -> Result<Self, String> {
        let text = String::read(node)?;
        let url = Url::parse(&text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some())
            .ok_or_else(|| format!("'{text}' is not an http or https URL"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a URL with a user name or password is not supported here".to_owned());
        }
        if url.fragment().is_some() {
            return Err(format!("'{text}' has a fragment, which is never sent"));
        }
        Ok(Self(url))
    }

    fn schema() -> Json {
        json!({ "type": "string", "pattern": "^https?://" })
    }

    fn show(&self) -> Json {
        json!(self.0.as_str())
    }
}

/// Names of resolvers, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl Names {
    /// Returns the resolvers that are named; names of none are left out.
    fn known(&self) -> Vec<ResolverId> {
        let names = self.0.iter();
        names.filter_map(|name| name.parse().ok()).collect()
    }
}

/// Splits names that are joined by commas.
pub fn split_names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

impl Setting for Names {
    const KIND: &'static str = "list of resolvers";

    fn read(node: &Node) -> Result<Self, String> {
        let Value::List(items) = &node.value else {
            let text = String::read(node)?;
            return Ok(Self(split_names(&text).map(str::to_owned).collect()));
        };
        items
            .iter()
            .map(String::read)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn schema() -> Json {
        json!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }

    fn show(&self) -> Json {
        json!(self.0.join(","))
    }
}

/// The words for presets.
const PRESETS: [(&str, Preset); 2] = [("fast", Preset::Fast), ("broad", Preset::Broad)];

impl Setting for Preset {
    const KIND: &'static str = "word";

    fn read(node: &Node) -> Result<Self, String> {
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
    problems: &mut Vec<Problem>,
) -> ResolverSettings {
    let mut settings = ResolverSettings::default();
    for (name, value) in variables {
        let known = VARIABLES.iter().find(|(known, _)| known == name);
        if let (Some((_, key)), false) = (known, value.trim().is_empty()) {
            let source = Source::Environment(name.as_str().into());
            let node = Node::nested(&[key], Node::text(value, &source));
            let read: ResolverSettings = docstokg_config::read("resolvers", node, &[], problems);
            settings = read.over(settings);
        }
    }
    settings
}

impl ResolverSettings {
    /// Turns what is written into what holds.
    ///
    /// # Errors
    /// Every value that could not be used as it is written.
    pub fn resolve(&self) -> Result<ResolverConfig, Vec<Problem>> {
        let mut problems = Vec::new();
        self.check_names(&mut problems);
        self.check_credentials(&mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        let named = |set: &Option<Sourced<Names>>| set.as_ref().map(|set| set.value.known());
        Ok(ResolverConfig {
            choice: Choice {
                preset: self.preset.as_ref().map_or(Preset::Broad, |set| set.value),
                order: named(&self.order),
                enable: named(&self.enable).unwrap_or_default(),
                disable: named(&self.disable).unwrap_or_default(),
            },
            services: Settings {
                endpoints: self.endpoints.over_shipped(),
                credentials: self.credentials(),
                paid_content: self.paid_content.as_ref().is_some_and(|set| set.value),
            },
        })
    }

    /// Checks that every name is that of a resolver, and that none is both enabled and disabled.
    fn check_names(&self, problems: &mut Vec<Problem>) {
        for (key, set) in [
            ("order", &self.order),
            ("enable", &self.enable),
            ("disable", &self.disable),
        ] {
            let Some(set) = set else { continue };
            for name in &set.value.0 {
                if name.parse::<ResolverId>().is_err() {
                    let all = NAMES.map(ResolverId::as_str);
                    let listed = all.join(", ");
                    let message =
                        format!("there is no resolver '{name}'; the resolvers are {listed}");
                    let problem = Problem::new(&set.source, format!("resolvers.{key}"), message);
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
                problems.push(Problem::new(&enable.source, "resolvers.enable", message));
            }
        }
    }

    /// Checks that credentials can be sent, and that those are there which others need.
    fn check_credentials(&self, problems: &mut Vec<Problem>) {
        let mut complain = |set: &Sourced<Hidden>, key: &str, message: &str| {
            problems.push(Problem::new(
                &set.source,
                format!("resolvers.{key}"),
                message,
            ));
        };
        for (key, set) in [
            ("openalex_api_key", &self.openalex_api_key),
            ("crossref_plus_token", &self.crossref_plus_token),
            ("elsevier_api_key", &self.elsevier_api_key),
            ("elsevier_insttoken", &self.elsevier_insttoken),
            ("wiley_tdm_token", &self.wiley_tdm_token),
        ] {
            match set {
                Some(set) if set.value.0.trim().is_empty() => {
                    complain(set, key, "it is empty; give a value, or remove the key");
                }
                Some(set) if HeaderValue::from_str(set.value.0.trim()).is_err() => {
                    complain(set, key, "it has characters that no header can carry");
                }
                _ => {}
            }
        }
        if let Some(set) = &self.unpaywall_email
            && !is_email_address(set.value.0.trim())
        {
            complain(set, "unpaywall_email", "it is not an e-mail address");
        }
        if let (Some(set), None) = (&self.elsevier_insttoken, &self.elsevier_api_key) {
            let message =
                "it is of no use alone: set resolvers.elsevier_api_key or ELSEVIER_API_KEY";
            complain(set, "elsevier_insttoken", message);
        }
        if let (Some(set), None) = (&self.paid_content, &self.openalex_api_key)
            && set.value
        {
            let message = "it needs a key: set resolvers.openalex_api_key or OPENALEX_API_KEY";
            problems.push(Problem::new(&set.source, "resolvers.paid_content", message));
        }
    }

    fn credentials(&self) -> Credentials {
        let secret =
            |set: &Option<Sourced<Hidden>>| set.as_ref().map(|set| Secret::new(&*set.value.0));
        Credentials {
            mailto: None,
            unpaywall_email: secret(&self.unpaywall_email),
            openalex_key: secret(&self.openalex_api_key),
            crossref_plus_token: secret(&self.crossref_plus_token),
            elsevier_key: secret(&self.elsevier_api_key),
            elsevier_insttoken: secret(&self.elsevier_insttoken),
            wiley_token: secret(&self.wiley_tdm_token),
        }
    }
}

impl EndpointSettings {
    /// Returns the shipped endpoints, each replaced by the written one where there is one.
    fn over_shipped(&self) -> Endpoints {
        let mut endpoints = Endpoints::default();
        let to = &mut endpoints;
        for (set, endpoint) in [
            (&self.openalex, &mut to.openalex),
            (&self.openalex_content, &mut to.openalex_content),
            (&self.unpaywall, &mut to.unpaywall),
            (&self.crossref, &mut to.crossref),
            (&self.datacite, &mut to.datacite),
            (&self.arxiv, &mut to.arxiv),
            (&self.pmc_id_converter, &mut to.pmc_id_converter),
            (&self.pmc_bucket, &mut to.pmc_bucket),
            (&self.europe_pmc, &mut to.europe_pmc),
            (&self.europe_pmc_articles, &mut to.europe_pmc_articles),
            (&self.doi, &mut to.doi),
            (&self.wayback, &mut to.wayback),
        ] {
            if let Some(set) = set {
                *endpoint = set.value.0.clone();
            }
        }
        endpoints
    }
}
