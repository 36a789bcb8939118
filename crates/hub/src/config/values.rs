//! Types of configuration values that only the hub needs: rates, statuses, hosts and the location
//! of a store.

use docstokg_config::node::ConfigValue;
use docstokg_config::setting::whole;
use docstokg_config::{ConfigNode, Setting};
use docstokg_policy::host::Host;
use docstokg_policy::rate::{Window, format_rates};
use docstokg_stores::redis::without_password;
use serde_json::{Value as Json, json};
use url::Url;

/// The base URL of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(pub Url);

impl Setting for BaseUrl {
    const KIND: &'static str = "URL";

    fn read(node: &ConfigNode) -> Result<Self, String> {
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

/// The location of a store. May contain a password, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Dsn(pub String);

impl std::fmt::Debug for Dsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&without_password(&self.0))
    }
}

impl Setting for Dsn {
    const KIND: &'static str = "text";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        String::read(node).map(Self)
    }

    fn schema() -> Json {
        String::schema()
    }

    fn show(&self) -> Json {
        json!(without_password(&self.0))
    }
}

/// A list of windows that apply together: a list of rates, or a text with `+` between them.
#[derive(Clone, Debug, PartialEq)]
pub struct RateList(pub Vec<Window>);

impl Setting for RateList {
    const KIND: &'static str = "list of rates";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        let texts: Vec<&ConfigNode> = match &node.value {
            ConfigValue::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        let mut windows = Vec::new();
        for item in texts {
            let ConfigValue::Text(text) = &item.value else {
                return Err(format!(
                    "expected a rate such as 10/SECOND, found {}",
                    item.describe()
                ));
            };
            windows.extend(
                docstokg_policy::rate::parse_rates(text).map_err(|error| error.to_string())?,
            );
        }
        Ok(Self(windows))
    }

    fn schema() -> Json {
        json!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string", "pattern": "^\\s*\\d+\\s*/\\s*\\d*\\s*[A-Za-z]+\\s*$" } }] })
    }

    fn show(&self) -> Json {
        if self.0.is_empty() {
            json!([])
        } else {
            json!(format_rates(&self.0).split('+').collect::<Vec<_>>())
        }
    }
}

/// The limits that the hub learns from refusals: `off`, `tighten`, or `up_to: RATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnSetting {
    /// Limits are not learned.
    Off,
    /// The hub learns limits below the configured ones.
    Tighten,
    /// The hub searches for the limit, up to this rate. Learned limits replace the default windows.
    UpTo(Window),
}

impl LearnSetting {
    fn up_to(text: &str) -> Result<Self, String> {
        let window = text.trim().parse::<Window>();
        window.map(Self::UpTo).map_err(|error| error.to_string())
    }
}

impl Setting for LearnSetting {
    const KIND: &'static str = "off, tighten, or up_to: RATE";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        let wrong = || {
            let found = node.describe();
            format!("expected off, tighten or up_to: RATE (such as 20/SECOND), found {found}")
        };
        match &node.value {
            ConfigValue::Bool(false) => Ok(Self::Off),
            ConfigValue::Text(text) => match text.trim() {
                "off" => Ok(Self::Off),
                "tighten" => Ok(Self::Tighten),
                other => {
                    let rate = other.strip_prefix("up_to").map(str::trim_start);
                    let rate =
                        rate.and_then(|rate| rate.strip_prefix([':', '=', ' ']).or(Some(rate)));
                    rate.map_or_else(|| Err(wrong()), Self::up_to)
                }
            },
            ConfigValue::Map(entries) => match entries.as_slice() {
                [entry] if entry.key == "up_to" => Self::up_to(&String::read(&entry.node)?),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }

    fn schema() -> Json {
        json!({ "oneOf": [
            { "enum": ["off", "tighten"] },
            { "type": "object", "properties": { "up_to": { "type": "string" } }, "required": ["up_to"], "additionalProperties": false },
        ] })
    }

    fn show(&self) -> Json {
        match self {
            Self::Off => json!("off"),
            Self::Tighten => json!("tighten"),
            Self::UpTo(window) => json!({ "up_to": window.to_string() }),
        }
    }
}

/// A list of HTTP statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusList(pub Vec<u16>);

impl Setting for StatusList {
    const KIND: &'static str = "list of statuses";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        let ConfigValue::List(items) = &node.value else {
            return Err(format!(
                "expected a list of statuses, found {}",
                node.describe()
            ));
        };
        let status = |item: &ConfigNode| {
            let number = whole(item)?;
            u16::try_from(number)
                .ok()
                .filter(|status| (100..=599).contains(status))
                .ok_or_else(|| format!("{number} is no HTTP status (100 to 599)"))
        };
        items.iter().map(status).collect::<Result<_, _>>().map(Self)
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": { "type": "integer", "minimum": 100, "maximum": 599 } })
    }

    fn show(&self) -> Json {
        json!(self.0)
    }
}

/// Parses a key or value of the configuration as the name of a [`Host`]. Wildcards are invalid.
///
/// # Errors
/// Returns the problem as text, with the text to write instead.
pub(super) fn host_name(text: &str) -> Result<Host, String> {
    match text.trim() {
        "*" => Err(
            "'*' is not a host; what applies to all other hosts stands in `defaults`".to_owned(),
        ),
        wildcard if wildcard.contains('*') => Err(format!(
            "'{wildcard}' is not a host, and wildcards are not supported; name each host, or join \
             hosts of one operator in `sites`"
        )),
        name => Host::parse(name).map_err(|error| error.to_string()),
    }
}

/// The pattern of a host name, for the JSON schema.
pub(super) const HOST_PATTERN: &str = "^[^*/@\\s]+$";

/// A list of hosts, in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostList(pub Vec<Host>);

impl Setting for HostList {
    const KIND: &'static str = "list of hosts";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        let ConfigValue::List(items) = &node.value else {
            return Err(format!(
                "expected a list of hosts, found {}",
                node.describe()
            ));
        };
        let host = |item: &ConfigNode| host_name(&String::read(item)?);
        items.iter().map(host).collect::<Result<_, _>>().map(Self)
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": { "type": "string", "pattern": HOST_PATTERN } })
    }

    fn show(&self) -> Json {
        json!(self.0.iter().map(Host::as_str).collect::<Vec<_>>())
    }
}

/// The requests that count as look-ups, each described by a [`LookUp`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookUps(pub Vec<LookUp>);

/// A description of look-ups: the beginning of their path, and optionally that of a parameter's
/// value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookUp {
    /// The beginning of the path.
    pub path: String,
    /// The name of a parameter and the beginning of its value, decoded.
    pub parameter: Option<(String, String)>,
}

impl LookUp {
    fn parse(text: &str) -> Result<Self, String> {
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (text, None),
        };
        let form = || format!("'{text}' is not PATH or PATH?PARAMETER=VALUE, such as /works/");
        if !path.starts_with('/') {
            return Err(form());
        }
        let parameter = match query {
            None => None,
            Some(query) => {
                let (name, value) = query.split_once('=').ok_or_else(form)?;
                Some((name.to_owned(), value.to_owned()))
            }
        };
        Ok(Self {
            path: path.to_owned(),
            parameter,
        })
    }
}

impl std::fmt::Display for LookUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path)?;
        match &self.parameter {
            Some((name, value)) => write!(f, "?{name}={value}"),
            None => Ok(()),
        }
    }
}

impl Setting for LookUps {
    const KIND: &'static str = "list of paths";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        let ConfigValue::List(items) = &node.value else {
            return Err(format!(
                "expected a list of paths, found {}",
                node.describe()
            ));
        };
        let look_up = |item: &ConfigNode| LookUp::parse(&String::read(item)?);
        let read: Result<_, _> = items.iter().map(look_up).collect();
        read.map(Self)
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": { "type": "string", "pattern": "^/" } })
    }

    fn show(&self) -> Json {
        json!(self.0.iter().map(ToString::to_string).collect::<Vec<_>>())
    }
}
