//! Every key there is: for the table in the documentation and for the JSON schema.

use serde_json::{Value as Json, json};

use super::reader::FromNode;
use super::settings::{
    AimdSettings, BackendSettings, BreakerSettings, GlobalSettings, IdentitySettings,
    ResolverSettings, RetrySettings, RoleSettings, SharedSettings, SiteSettings, TelemetrySettings,
    TransportSettings,
};
use super::words::BackendKind;

/// A key, as the documentation has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// With dots between its parts.
    pub path: String,
    /// What kind of value.
    pub kind: &'static str,
    /// What holds where it is not written.
    pub default: &'static str,
    /// What it is for.
    pub about: &'static str,
}

/// A group of keys that can describe itself.
pub(crate) trait Described {
    /// Adds its keys under a prefix.
    fn keys(prefix: &str, keys: &mut Vec<Key>);
    /// Describes it as JSON schema.
    fn schema() -> Json;
    /// Shows what is set.
    fn show(&self) -> Json;
}

/// Returns every key.
#[must_use]
pub fn all() -> Vec<Key> {
    let mut keys = vec![Key {
        path: "version".to_owned(),
        kind: "1",
        default: "1",
        about: "The version of this format",
    }];
    for prefix in ["limits.defaults.ROLE.", "limits.hosts.HOST.ROLE."] {
        RoleSettings::keys(prefix, &mut keys);
    }
    SharedSettings::keys("limits.hosts.HOST.kinds.KIND.", &mut keys);
    SharedSettings::keys("limits.services.SERVICE.", &mut keys);
    BackendSettings::keys("limits.backend.", &mut keys);
    AimdSettings::keys("limits.aimd.", &mut keys);
    GlobalSettings::keys("limits.global.", &mut keys);
    BreakerSettings::keys("breakers.defaults.", &mut keys);
    for (path, about) in [
        (
            "breakers.hosts.HOST",
            "The same keys as `breakers.defaults`, for one host",
        ),
        (
            "breakers.resolvers.NAME",
            "The same keys as `breakers.defaults`, for one resolver; `resolver_overrides` is another name for `resolvers`",
        ),
    ] {
        keys.push(Key {
            path: path.to_owned(),
            kind: "group",
            default: "`breakers.defaults`",
            about,
        });
    }
    let about = "Where breakers are kept; its kind may be written as one word. One store given, here or as `limits.backend`, serves both";
    keys.push(Key {
        path: "breakers.cooldown_store".to_owned(),
        kind: "word or group",
        default: "`limits.backend`",
        about,
    });
    BackendSettings::keys("breakers.cooldown_store.", &mut keys);
    SiteSettings::keys("sites.NAME.", &mut keys);
    RetrySettings::keys("retry.", &mut keys);
    TransportSettings::keys("transport.", &mut keys);
    IdentitySettings::keys("identity.", &mut keys);
    TelemetrySettings::keys("telemetry.", &mut keys);
    ResolverSettings::keys("resolvers.", &mut keys);
    keys
}

/// Writes the keys as a table.
#[must_use]
pub fn markdown() -> String {
    let mut text =
        String::from("| key | value | default | what it is for |\n| --- | --- | --- | --- |\n");
    for key in all() {
        text.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            key.path, key.kind, key.default, key.about
        ));
    }
    text
}

/// Returns the JSON schema of a configuration file.
#[must_use]
pub fn schema() -> Json {
    let roles = |role: Json| json!({ "metadata": role, "landing": role, "artifact": role });
    let mut host = roles(RoleSettings::schema());
    host["kinds"] = json!({ "type": "object", "additionalProperties": SharedSettings::schema() });
    let closed = |properties: Json| json!({ "type": "object", "additionalProperties": false, "properties": properties });
    let named = |schema: Json| json!({ "type": "object", "additionalProperties": schema });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "docstokg configuration",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "version": { "const": 1 },
            "limits": closed(json!({
                "version": { "const": 1 },
                "defaults": closed(roles(RoleSettings::schema())),
                "hosts": named(closed(host)),
                "backend": BackendSettings::schema(),
                "aimd": AimdSettings::schema(),
                "global": GlobalSettings::schema(),
                "services": named(SharedSettings::schema()),
            })),
            "breakers": closed(json!({
                "version": { "const": 1 },
                "defaults": BreakerSettings::schema(),
                "hosts": named(BreakerSettings::schema()),
                "resolvers": named(BreakerSettings::schema()),
                "resolver_overrides": named(BreakerSettings::schema()),
                "cooldown_store": { "oneOf": [BackendKind::schema(), BackendSettings::schema()] },
            })),
            "sites": named(SiteSettings::schema()),
            "retry": RetrySettings::schema(),
            "transport": TransportSettings::schema(),
            "identity": IdentitySettings::schema(),
            "telemetry": TelemetrySettings::schema(),
            "resolvers": ResolverSettings::schema(),
        }
    })
}
