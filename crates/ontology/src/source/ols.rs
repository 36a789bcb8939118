//! The Ontology Lookup Service: its API declares the address from which it loaded an ontology.
//!
//! The address may be a path on its own disk or on its own loopback interface. Such addresses are
//! refused by name, and the version IRI is tried instead. `allowDownload` is false for every
//! ontology, so its value is ignored.

use docstokg_hub::redact_text;
use docstokg_lookup::message::LookupResponse;
use serde_json::Value as Json;
use url::Url;

use super::json::{self, text};
use super::settings::segment;
use super::{
    AbsenceReason, LookupStep, OntologyLocation, OntologySource, SourceEndpoint, SourceOutcome,
    SourceSettings, SourceSpec, json_request, requested,
};
use crate::wanted_ontology::WantedOntology;
use docstokg_lookup::licence::SourceLicence;

/// An installation of the Ontology Lookup Service, as an [`OntologySource`].
#[derive(Debug)]
pub struct Ols(SourceSpec);

/// The installation of the EBI.
pub static OLS: Ols = Ols(SourceSpec {
    endpoints: &[&SourceEndpoint {
        key: "ols",
        address: "https://www.ebi.ac.uk/ols4",
        about: "Ontology Lookup Service of the EBI",
    }],
    rate: Some("4/second"),
    about: "the Ontology Lookup Service of the EBI",
    ..SourceSpec::new("ols", "OLS4 (EBI)")
});

/// The installation of the TIB, which has other ontologies.
pub static TIB: Ols = Ols(SourceSpec {
    endpoints: &[&SourceEndpoint {
        key: "tib",
        address: "https://api.terminology.tib.eu",
        about: "terminology service of the TIB",
    }],
    rate: Some("4/second"),
    about: "the terminology service of the TIB, with the API of OLS",
    ..SourceSpec::new("tib", "TIB Terminology Service")
});

impl OntologySource for Ols {
    fn spec(&self) -> &SourceSpec {
        &self.0
    }

    fn begin<'a>(
        &'a self,
        wanted: &'a WantedOntology,
        settings: &'a SourceSettings,
    ) -> LookupStep<'a> {
        let id = wanted
            .extra("ols_id")
            .unwrap_or(wanted.id.as_str())
            .to_ascii_lowercase();
        let path = format!("/api/ontologies/{}", segment(&id));
        match settings.endpoints.with_path(self.0.endpoints[0], &path) {
            Some(url) => requested(json_request(&self.0, url), move |response| {
                self.next(wanted, response)
            }),
            None => SourceOutcome::failed("the address of the service is not a URL"),
        }
    }
}

impl Ols {
    fn next<'a>(&self, wanted: &WantedOntology, response: &LookupResponse) -> LookupStep<'a> {
        let title = self.0.title;
        match response.status.as_u16() {
            200 => {}
            404 => {
                return SourceOutcome::absent(
                    AbsenceReason::NotListed,
                    format!("{title} does not list {}", wanted.id),
                );
            }
            _ => return json::bad_status(title, response),
        }
        match json::body(title, response) {
            Ok(ontology) => self.read(wanted, &ontology),
            Err(why) => SourceOutcome::failed(why),
        }
    }

    fn read<'a>(&self, wanted: &WantedOntology, ontology: &Json) -> LookupStep<'a> {
        let config = &ontology["config"];
        let version = text(&ontology["version"]).or_else(|| text(&config["version"]));
        let licence = &config["license"];
        let licence = text(&licence["url"]).or_else(|| text(&licence["label"]));
        let mut notes = Vec::new();
        let mut refusals = Vec::new();
        let mut urls = Vec::new();
        for (field, value) in [
            ("fileLocation", text(&config["fileLocation"])),
            ("versionIri", text(&config["versionIri"])),
        ] {
            let Some(value) = value else { continue };
            match public_address(value) {
                Ok(url) => urls.push(url),
                Err(why) => refusals.push(format!("{field} {} {why}", redact_text(value))),
            }
        }
        if urls.is_empty() {
            let (reason, detail) = if refusals.is_empty() {
                (AbsenceReason::NoFile, "it states no address".to_owned())
            } else {
                (AbsenceReason::BadLocation, refusals.join("; "))
            };
            return SourceOutcome::absent(
                reason,
                format!(
                    "{} lists {} without a file: {detail}",
                    self.0.title, wanted.id
                ),
            );
        }
        notes.extend(refusals);
        urls.dedup();
        if let Some(wanted) = &wanted.version {
            // The address that names the version comes before that of the current file.
            urls.sort_by_key(|url| !url.path().split('/').any(|part| part == wanted));
        }
        let locations = urls.into_iter().map(|url| OntologyLocation {
            version: version.map(str::to_owned),
            licence: licence.and_then(SourceLicence::read),
            accept: Some(super::direct::ACCEPT.to_owned()),
            notes: notes.clone(),
            ..OntologyLocation::new(self.0.name, url)
        });
        let (taken, other): (Vec<OntologyLocation>, Vec<OntologyLocation>) = locations
            .partition(|location| location.format.is_none_or(|format| wanted.takes(format)));
        if let (true, Some(other)) = (taken.is_empty(), other.first()) {
            return SourceOutcome::absent(
                AbsenceReason::Format,
                format!(
                    "{} has {} in another format than those wanted: {}",
                    self.0.title, wanted.id, other.url
                ),
            );
        }
        LookupStep::Done(SourceOutcome::Found(taken))
    }
}

/// Reads an address that is reachable on the public network.
fn public_address(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "is a path on the server's own disk")?;
    match url.scheme() {
        "http" | "https" => {}
        "file" => return Err("is a file on the server's own disk"),
        _ => return Err("is not an http address"),
    }
    let is_internal = match url.host() {
        None => return Err("names no host"),
        Some(url::Host::Ipv4(address)) => docstokg_policy::host::is_internal(address.into()),
        Some(url::Host::Ipv6(address)) => docstokg_policy::host::is_internal(address.into()),
        Some(url::Host::Domain(name)) => {
            name == "localhost" || name.ends_with(".localhost") || !name.contains('.')
        }
    };
    if is_internal {
        return Err("is an address of the server's own network");
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_taken() {
        for (text, refused) in [
            ("http://purl.obolibrary.org/obo/hp.owl", None),
            ("https://example.org/x", None),
            (
                "file:/nfs/ontologies/x.owl",
                Some("file on the server's own disk"),
            ),
            ("./data/x.owl", Some("path on the server's own disk")),
            ("http://127.0.0.1:8080/x.owl", Some("own network")),
            ("http://localhost/x.owl", Some("own network")),
            ("http://ols-loader/x.owl", Some("own network")),
            ("http://[::1]/x.owl", Some("own network")),
            ("ftp://example.org/x.owl", Some("not an http address")),
        ] {
            match (public_address(text), refused) {
                (Ok(_), None) => {}
                (Err(why), Some(wanted)) => assert!(why.contains(wanted), "{text}: {why}"),
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
    }
}
