//! The list of all resolvers, and what is derived from it as a whole.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use super::order::Preset;
use super::settings::Settings;
use super::spec::{Credential, Endpoint, ResolverSpec, alternatives};
use super::{LISTED, Resolver, ResolverId};

static BY_RANK: LazyLock<Vec<&'static ResolverSpec>> = LazyLock::new(|| {
    let mut specs = LISTED.to_vec();
    specs.sort_by_key(|spec| spec.rank);
    specs
});

/// Returns all resolvers by their rank.
#[must_use]
pub fn specs() -> &'static [&'static ResolverSpec] {
    &BY_RANK
}

/// Returns the spec of a resolver; `None` for what users wrote themselves, and for resolvers of
/// earlier versions.
#[must_use]
pub fn spec(id: ResolverId) -> Option<&'static ResolverSpec> {
    LISTED.iter().copied().find(|spec| spec.id == id)
}

/// Returns all services.
pub fn endpoints() -> impl Iterator<Item = &'static Endpoint> {
    specs().iter().flat_map(|spec| spec.endpoints).copied()
}

/// Returns all credentials.
pub fn credentials() -> impl Iterator<Item = &'static Credential> {
    specs().iter().flat_map(|spec| spec.credentials).copied()
}

/// Sets up all resolvers, in the order of [`specs`].
#[must_use]
pub fn all(settings: &Arc<Settings>) -> Vec<Arc<dyn Resolver>> {
    specs().iter().map(|spec| (spec.build)(settings)).collect()
}

/// Writes the table of sources for the documentation.
#[must_use]
pub fn source_table() -> String {
    let mut text =
        String::from("| name | source | needs | preset | why |\n| --- | --- | --- | --- | --- |\n");
    for spec in specs() {
        let preset = match spec.preset {
            Preset::Fast => "fast",
            Preset::Broad => "broad",
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {preset} | {} |",
            spec.id,
            spec.title,
            alternatives(spec.needs),
            spec.why
        );
    }
    text
}

/// Writes the table of credentials for the documentation.
#[must_use]
pub fn credential_table() -> String {
    let mut text = String::from("| key | variable | what it is |\n| --- | --- | --- |\n");
    for credential in credentials() {
        let _ = writeln!(
            text,
            "| `resolvers.{}` | `{}` | {} |",
            credential.key, credential.variable, credential.about
        );
    }
    text
}
