//! The list of all resolvers, and the tables derived from the list as a whole.

use std::sync::{Arc, LazyLock};

use docstokg_lookup::catalogue;
use docstokg_lookup::source_spec::{SourceCredential, SourceEndpoint};

use super::order::Preset;
use super::settings::Settings;
use super::spec::{ResolverSpec, alternatives};
use super::{ALL_RESOLVERS, Resolver, ResolverId};

static BY_RANK: LazyLock<Vec<&'static ResolverSpec>> = LazyLock::new(|| {
    let mut specs = ALL_RESOLVERS.to_vec();
    specs.sort_by_key(|spec| spec.rank);
    specs
});

/// Returns the [`ResolverSpec`]s of all resolvers by their rank.
#[must_use]
pub fn specs() -> &'static [&'static ResolverSpec] {
    &BY_RANK
}

/// Returns the spec of a resolver. Returns `None` for [`ResolverId::DIRECT`], and for resolvers of
/// earlier versions.
#[must_use]
pub fn spec(id: ResolverId) -> Option<&'static ResolverSpec> {
    catalogue::named(ALL_RESOLVERS.iter().copied(), id.as_str())
}

/// Returns the [`SourceEndpoint`]s of all services.
pub fn endpoints() -> impl Iterator<Item = &'static SourceEndpoint> {
    catalogue::endpoints(specs().iter().copied())
}

/// Returns the credentials of all services.
pub fn credentials() -> impl Iterator<Item = &'static SourceCredential> {
    catalogue::credentials(specs().iter().copied())
}

/// Creates all resolvers, in the order of [`specs`].
#[must_use]
pub fn all(settings: &Arc<Settings>) -> Vec<Arc<dyn Resolver>> {
    specs().iter().map(|spec| (spec.build)(settings)).collect()
}

/// Writes the table of sources for the documentation.
#[must_use]
pub fn source_table() -> String {
    let row = |spec: &&ResolverSpec| {
        let preset = match spec.preset {
            Preset::Fast => "fast",
            Preset::Broad => "broad",
        };
        [
            format!("`{}`", spec.id),
            spec.source.title.to_owned(),
            alternatives(spec.needs),
            preset.to_owned(),
            spec.source.about.to_owned(),
        ]
    };
    let columns = ["name", "source", "needs", "preset", "why"];
    catalogue::markdown(columns, specs().iter().map(row))
}

/// Writes the table of credentials for the documentation.
#[must_use]
pub fn credential_table() -> String {
    let row = |credential: &SourceCredential| {
        [
            format!("`resolvers.{}`", credential.key),
            format!("`{}`", credential.variable),
            credential.about.to_owned(),
        ]
    };
    catalogue::markdown(["key", "variable", "what it is"], credentials().map(row))
}
