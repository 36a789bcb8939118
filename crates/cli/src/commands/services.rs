//! The services behind `download`: where they are, who we are to them, and whom to ask.

use docstokg_content::resolver::order::{Choice, Preset};
use docstokg_content::resolver::settings::{Credentials, Secret, Settings as Services};
use docstokg_content::resolver::{ResolverId, UnknownResolver, all};
use docstokg_content::run::query::Query;
use docstokg_hub::config::settings::Settings;
use docstokg_hub::config::{Config, Hidden, Sourced};
use std::sync::Arc;
use url::Url;

use crate::arguments::{Download, ResolverFlags};
use crate::exit::Failure;

/// Reads whom to ask: the configuration, and the flags over it.
pub(crate) fn choice(arguments: &ResolverFlags, settings: &Settings) -> Result<Choice, Failure> {
    let written = &settings.resolvers;
    let text = |set: &Option<Sourced<String>>| set.as_ref().map(|set| set.value.clone());
    let unknown = |error: UnknownResolver| Failure::Usage(error.to_string());
    let names = |text: &str| {
        text.split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(|name| name.parse().map_err(unknown))
            .collect::<Result<Vec<ResolverId>, Failure>>()
    };
    let preset = match arguments
        .resolver_preset
        .clone()
        .or_else(|| text(&written.preset))
        .as_deref()
    {
        None | Some("broad") => Preset::Broad,
        Some("fast") => Preset::Fast,
        Some(other) => {
            return Err(Failure::Usage(format!(
                "'{other}' is no preset of resolvers: fast or broad"
            )));
        }
    };
    let list = |flags: &[String], set: &Option<Sourced<String>>| {
        let written = text(set);
        let texts = flags.iter().chain(&written).map(String::as_str);
        names(&texts.collect::<Vec<_>>().join(","))
    };
    Ok(Choice {
        preset,
        order: arguments
            .resolver_order
            .clone()
            .or_else(|| text(&written.order))
            .map(|text| names(&text))
            .transpose()?,
        enable: list(&arguments.enable, &written.enable)?,
        disable: list(&arguments.disable, &written.disable)?,
    })
}

/// Checks an address given on the command line.
pub(crate) fn check_mailto(mailto: Option<&str>) -> Result<(), Failure> {
    let Some(mailto) = mailto else { return Ok(()) };
    let parts = mailto
        .trim()
        .split_once('@')
        .filter(|(user, host)| !user.is_empty() && host.contains('.') && !host.contains('@'));
    let plain = mailto.is_ascii()
        && !mailto
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || "();<>,".contains(c));
    if parts.is_some_and(|(_, host)| !host.starts_with('.') && !host.ends_with('.')) && plain {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "--mailto: '{mailto}' is not an e-mail address such as you@example.org"
    )))
}

/// Reads where services are and who we are to them: the configuration, and the environment over it.
pub(crate) fn settings(
    config: &Config,
    settings: &Settings,
    mailto: Option<&str>,
) -> Result<Services, Failure> {
    let written = &settings.resolvers;
    let secret = |variable: &str, set: &Option<Sourced<Hidden>>| {
        let given = std::env::var(variable)
            .ok()
            .filter(|value| !value.trim().is_empty());
        given
            .or_else(|| set.as_ref().map(|set| set.value.0.clone()))
            .map(Secret::new)
    };
    let mut services = Services {
        credentials: Credentials {
            mailto: mailto
                .map(str::to_owned)
                .or_else(|| config.identity.mailto.clone())
                .map(Secret::new),
            unpaywall_email: secret("UNPAYWALL_EMAIL", &written.unpaywall_email),
            openalex_key: secret("OPENALEX_API_KEY", &written.openalex_api_key),
            crossref_plus_token: secret("CROSSREF_PLUS_TOKEN", &written.crossref_plus_token),
            elsevier_key: secret("ELSEVIER_API_KEY", &written.elsevier_api_key),
            elsevier_insttoken: secret("ELSEVIER_INSTTOKEN", &written.elsevier_insttoken),
            wiley_token: secret("WILEY_TDM_TOKEN", &written.wiley_tdm_token),
        },
        paid_content: written.paid_content.as_ref().is_some_and(|set| set.value),
        ..Services::default()
    };
    let (from, to) = (&written.endpoints, &mut services.endpoints);
    for (name, set, place) in [
        ("openalex", &from.openalex, &mut to.openalex),
        (
            "openalex_content",
            &from.openalex_content,
            &mut to.openalex_content,
        ),
        ("unpaywall", &from.unpaywall, &mut to.unpaywall),
        ("crossref", &from.crossref, &mut to.crossref),
        ("datacite", &from.datacite, &mut to.datacite),
        ("arxiv", &from.arxiv, &mut to.arxiv),
        (
            "pmc_id_converter",
            &from.pmc_id_converter,
            &mut to.pmc_id_converter,
        ),
        ("pmc_bucket", &from.pmc_bucket, &mut to.pmc_bucket),
        ("europe_pmc", &from.europe_pmc, &mut to.europe_pmc),
        (
            "europe_pmc_articles",
            &from.europe_pmc_articles,
            &mut to.europe_pmc_articles,
        ),
        ("doi", &from.doi, &mut to.doi),
        ("wayback", &from.wayback, &mut to.wayback),
    ] {
        if let Some(set) = set {
            *place = Url::parse(&set.value)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some())
                .ok_or_else(|| {
                    Failure::Usage(format!(
                        "{}: resolvers.endpoints.{name}: '{}' is not an http or https URL",
                        set.source, set.value
                    ))
                })?;
        }
    }
    Ok(services)
}

/// Says, one line each, who cannot be asked and why.
pub(crate) fn unavailable(services: &Arc<Services>, choice: &Choice) -> Vec<String> {
    let resolvers = all(services);
    let wanted = resolvers
        .iter()
        .filter(|resolver| !choice.disable.contains(&resolver.id()));
    wanted
        .filter_map(|resolver| {
            Some(format!(
                "skipping {}: {}",
                resolver.id(),
                resolver.unavailable()?
            ))
        })
        .collect()
}

/// Reads the query, if there is one.
pub(crate) fn query(arguments: &Download) -> Option<Query> {
    (arguments.topic.is_some() || arguments.filter.is_some()).then(|| Query {
        topic: arguments.topic.clone(),
        filter: arguments.filter.clone(),
        year_start: arguments.year_start,
        year_end: arguments.year_end,
        most: arguments.max,
    })
}
