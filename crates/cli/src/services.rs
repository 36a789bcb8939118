//! The services behind `download`: their addresses, the user's identification, and the choice of
//! sources.

use docstokg_content::config::{ResolverConfig, split_names};
use docstokg_content::resolver::order::{Preset, ResolverChoice};
use docstokg_content::resolver::settings::Settings as Services;
use docstokg_content::resolver::{ResolverId, UnknownResolver, all};
use docstokg_hub::config::{Config, is_email_address};
use std::sync::Arc;

use crate::arguments::ResolverFlags;
use crate::exit::CommandFailure;

/// Reads the [`ResolverChoice`] from the configuration, with the flags over it.
pub(crate) fn choice(
    arguments: &ResolverFlags,
    resolvers: &ResolverConfig,
) -> Result<ResolverChoice, CommandFailure> {
    let ResolverChoice {
        preset,
        order,
        enable,
        disable,
    } = resolvers.choice.clone();
    let preset = match arguments.resolver_preset.as_deref() {
        None => preset,
        Some("broad") => Preset::Broad,
        Some("fast") => Preset::Fast,
        Some(other) => {
            return Err(CommandFailure::Usage(format!(
                "'{other}' is no preset of resolvers: fast or broad"
            )));
        }
    };
    let names = |text: &str| -> Result<Vec<ResolverId>, CommandFailure> {
        let unknown = |error: UnknownResolver| CommandFailure::Usage(error.to_string());
        let names = split_names(text).map(|name| name.parse().map_err(unknown));
        names.collect()
    };
    let list = |flags: &[String], configured: Vec<ResolverId>| {
        let mut given = names(&flags.join(","))?;
        given.extend(configured);
        Ok::<_, CommandFailure>(given)
    };
    let given = arguments.resolver_order.as_deref();
    Ok(ResolverChoice {
        preset,
        order: given.map(names).transpose()?.or(order),
        enable: list(&arguments.enable, enable)?,
        disable: list(&arguments.disable, disable)?,
    })
}

/// Checks an address given on the command line.
pub(crate) fn check_mailto(mailto: Option<&str>) -> Result<(), CommandFailure> {
    match mailto {
        Some(mailto) if !is_email_address(mailto) => Err(CommandFailure::Usage(format!(
            "--mailto: '{mailto}' is not an e-mail address such as you@example.org"
        ))),
        _ => Ok(()),
    }
}

/// Returns the addresses of services and the user's identification: `--mailto` overrides the
/// configuration.
pub(crate) fn settings(
    config: &Config,
    resolvers: &ResolverConfig,
    mailto: Option<&str>,
) -> Services {
    let mut services = resolvers.services.clone();
    let address = mailto.or(config.identity.mailto.as_deref());
    if let Some(address) = address {
        services.credentials = services.credentials.with_mailto(address);
    }
    services
}

/// Lists the skipped sources with their reasons, one per line.
pub(crate) fn unavailable(services: &Arc<Services>, choice: &ResolverChoice) -> Vec<String> {
    let resolvers = all(services);
    let wanted = resolvers
        .iter()
        .filter(|resolver| !choice.disable.contains(&resolver.id()));
    wanted
        .filter_map(|resolver| {
            Some(format!(
                "skipping {}: {}",
                resolver.spec().source.title,
                resolver.unavailable()?
            ))
        })
        .collect()
}
