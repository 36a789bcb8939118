//! The check of the hosts and resolvers that an operator names.
//!
//! A mistyped name has no state, so commands about it would succeed without a useful effect.

use docstokg_config::nearest;
use docstokg_content::resolver::ResolverId;
use docstokg_hub::Host;
use docstokg_hub::config::{Config, resolver_key};
use docstokg_hub::stores::SiteKey;

use crate::arguments::GlobalArguments;
use crate::exit::CommandFailure;
use crate::output;

/// The breaker that an operator names.
pub(crate) struct Target<'a> {
    pub(crate) name: &'a str,
    pub(crate) key: SiteKey,
}

impl<'a> Target<'a> {
    /// Returns the [`Target`] of a host.
    pub(crate) fn of(config: &Config, host: &'a Host) -> Self {
        let (name, key) = (host.as_str(), config.site_key(host));
        Self { name, key }
    }

    /// Reads the name of a host.
    pub(crate) fn host(config: &Config, name: &'a str) -> Result<Self, CommandFailure> {
        let host = Host::parse(name).map_err(|error| CommandFailure::Usage(error.to_string()))?;
        let key = config.site_key(&host);
        Ok(Self { name, key })
    }

    /// Returns the [`Target`] of a resolver.
    pub(crate) fn resolver(name: &'a str) -> Self {
        let key = resolver_key(name);
        Self { name, key }
    }
}

/// Tells whether the configuration names the host, site or resolver of a key.
pub(crate) fn is_configured(config: &Config, key: &SiteKey) -> bool {
    let mut hosts = hosts(config);
    let mut resolvers = config.breakers.resolvers.keys();
    hosts.any(|host| config.site_key(host) == *key)
        || resolvers.any(|resolver| resolver_key(resolver) == *key)
}

/// Returns the hosts that the configuration names.
fn hosts(config: &Config) -> impl Iterator<Item = &Host> {
    let of_sites = config.sites.iter().flat_map(|site| &site.hosts);
    let of_breakers = config.breakers.hosts.keys();
    of_breakers
        .chain(config.limits.hosts.keys())
        .chain(of_sites)
}

/// Warns about a host or resolver that neither the configuration nor the store knows.
pub(crate) fn warn(
    global: &GlobalArguments,
    config: &Config,
    recorded: &[SiteKey],
    target: &Target<'_>,
) {
    let is_known = recorded.contains(&target.key) || is_configured(config, &target.key);
    if global.quiet || is_known {
        return;
    }
    if let Some(resolver) = target.key.strip_prefix("resolver:") {
        if let Err(message) = resolver.parse::<ResolverId>() {
            output::print_note(&format!("warning: {message}"));
        }
        return;
    }
    output::print_note(&format!(
        "warning: nothing with this state directory has sent a request to {}, and no \
         configuration names it{}",
        target.name,
        meant(config, &target.key)
    ));
}

/// Warns about a host without an entry, if a configured host has nearly the same name.
pub(crate) fn warn_unless_configured(global: &GlobalArguments, config: &Config, host: &Host) {
    let key = config.site_key(host);
    let meant = meant(config, &key);
    if !global.quiet && !is_configured(config, &key) && !meant.is_empty() {
        output::print_note(&format!("warning: no configuration names {host}{meant}"));
    }
}

/// Returns the question about the name that was probably meant, if a similar name exists.
fn meant(config: &Config, key: &str) -> String {
    let meant = nearest(key, hosts(config).map(Host::as_str));
    meant.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}
