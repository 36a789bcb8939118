//! The ontologies that a command works on, and the flags about sources, licences and hosts.

use std::sync::Arc;

use docstokg_config::setting::split_names;
use docstokg_hub::clock::Timestamp;
use docstokg_ontology::config::OntologyConfig;
use docstokg_ontology::pull::RequestedOntology;
use docstokg_ontology::source;
use docstokg_ontology::url_check::{HostPattern, UrlGate};
use docstokg_ontology::wanted_ontology::{OntologyId, SpecFile, TargetFormat, WantedOntology};
use url::Url;

use super::arguments::SelectionArguments;
use crate::exit::CommandFailure;

fn usage(message: impl Into<String>) -> CommandFailure {
    CommandFailure::Usage(message.into())
}

/// Reads the id of an ontology.
pub(super) fn id(text: &str) -> Result<OntologyId, CommandFailure> {
    OntologyId::parse(text).map_err(usage)
}

/// Returns the requested ontologies, and applies flags and file to the configuration.
pub(super) fn asked(
    selection: &SelectionArguments,
    config: &mut OntologyConfig,
) -> Result<Vec<RequestedOntology>, CommandFailure> {
    let spec = match &selection.spec {
        Some(path) => SpecFile::read(path)?,
        None => SpecFile::default(),
    };
    if let Some(preferred) = spec.defaults.prefer_source {
        config.prefer_source = preferred;
    }
    if let Some(accepted) = spec.defaults.accept_licenses {
        config.accept_licenses = accepted;
    }
    apply_flags(selection, config)?;
    let mut wanted = select(selection, spec.ontologies)?;
    if let Some(url) = &selection.url {
        let [only] = wanted.as_mut_slice() else {
            return Err(usage("--url is the address of one ontology: name one id"));
        };
        // The URL may contain a password, so the message does not repeat it.
        let url = Url::parse(url).map_err(|_| usage("--url is not an http or https URL"))?;
        only.url = Some(url);
    }
    for wanted in &mut wanted {
        if !selection.resolver.is_empty() {
            wanted.sources = sources(&selection.resolver, config)?;
        }
        if let Some(formats) = &selection.target_formats {
            let formats = split_names(formats).map(str::parse::<TargetFormat>);
            let formats = formats.collect::<Result<_, _>>();
            wanted.formats =
                formats.map_err(|message| usage(format!("--target-formats: {message}")))?;
        }
    }
    Ok(wanted.into_iter().map(RequestedOntology::new).collect())
}

/// Returns the named ontologies of the file, or all of the file. Without a file the names alone are
/// used.
fn select(
    selection: &SelectionArguments,
    listed: Vec<WantedOntology>,
) -> Result<Vec<WantedOntology>, CommandFailure> {
    let ids: Vec<OntologyId> = selection
        .ids
        .iter()
        .map(|text| id(text))
        .collect::<Result<_, _>>()?;
    if ids.is_empty() {
        if listed.is_empty() {
            return Err(usage(
                "nothing to do: name ontologies, such as hp, or a file that lists them with --spec \
                 (ontofetch init writes an example)",
            ));
        }
        return Ok(listed);
    }
    let find = |id: OntologyId| {
        let known = listed.iter().find(|wanted| wanted.id == id).cloned();
        known.unwrap_or_else(|| WantedOntology::new(id))
    };
    Ok(ids.into_iter().map(find).collect())
}

fn sources(names: &[String], config: &OntologyConfig) -> Result<Vec<String>, CommandFailure> {
    let mut checked = Vec::new();
    for name in names.iter().flat_map(|names| split_names(names)) {
        let name =
            source::check_name(name).map_err(|message| usage(format!("--resolver: {message}")))?;
        if config.sources.source(&name).is_none() {
            return Err(usage(format!(
                "--resolver: {name} has no address: set ontology.sources.{name}.url"
            )));
        }
        checked.push(name);
    }
    Ok(checked)
}

/// Applies the flags about licences and hosts to the configuration.
pub(super) fn apply_flags(
    selection: &SelectionArguments,
    config: &mut OntologyConfig,
) -> Result<(), CommandFailure> {
    config
        .accept_licenses
        .extend(selection.accept_license.iter().cloned());
    if let Some(hosts) = &selection.allowed_hosts {
        let hosts = split_names(hosts)
            .map(HostPattern::parse)
            .collect::<Result<Vec<_>, _>>();
        let hosts = hosts.map_err(|message| usage(format!("--allowed-hosts: {message}")))?;
        config.gate = Arc::new(UrlGate::new(hosts, config.gate.plain().to_vec()));
    }
    Ok(())
}

/// Reads a date.
pub(super) fn since(text: Option<&str>) -> Result<Option<Timestamp>, CommandFailure> {
    let Some(text) = text else { return Ok(None) };
    let wrong = || {
        usage(format!(
            "--since: '{text}' is not a date such as 2026-07-01"
        ))
    };
    let mut parts = text.split('-').map(str::parse::<i64>);
    let (Some(Ok(year)), Some(Ok(month)), Some(Ok(day)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let date = Timestamp::from_date(year, month, day).filter(|_| year >= 1970);
    date.map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_to_the_day() {
        let read = |text: &str| {
            since(Some(text))
                .ok()
                .flatten()
                .map(|date| date.to_string())
        };
        assert_eq!(
            read("2026-07-01").as_deref(),
            Some("2026-07-01T00:00:00.000Z")
        );
        assert_eq!(
            read("2024-02-29").as_deref(),
            Some("2024-02-29T00:00:00.000Z")
        );
        for bad in [
            "",
            "2026",
            "2026-13-01",
            "2026-07-32",
            "2026-07-01-02",
            "yesterday",
            "2026-7-x",
            "2025-02-29",
        ] {
            assert!(since(Some(bad)).is_err(), "{bad}");
        }
    }
}
