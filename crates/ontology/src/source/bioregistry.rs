//! Bioregistry: download addresses collected from many registries.

use docstokg_lookup::message::LookupResponse;
use url::Url;

use super::json::{self, text};
use super::settings::segment;
use super::{
    AbsenceReason, LookupStep, OntologyLocation, OntologySource, SourceEndpoint, SourceOutcome,
    SourceSettings, SourceSpec, json_request, requested,
};
use crate::wanted_ontology::{TargetFormat, WantedOntology};
use docstokg_lookup::licence::SourceLicence;

/// The Bioregistry, as an [`OntologySource`].
#[derive(Debug)]
pub struct Bioregistry;

static API: SourceEndpoint = SourceEndpoint {
    key: "bioregistry",
    address: "https://bioregistry.io",
    about: "Bioregistry",
};

static SPEC: SourceSpec = SourceSpec {
    endpoints: &[&API],
    about: "the Bioregistry, which collects download addresses",
    ..SourceSpec::new("bioregistry", "Bioregistry")
};

/// The fields with addresses, in the order in which they are tried.
const FIELDS: [(&str, TargetFormat); 4] = [
    ("download_owl", TargetFormat::Owl),
    ("download_obo", TargetFormat::Obo),
    ("download_json", TargetFormat::Json),
    ("download_rdf", TargetFormat::Rdf),
];

impl OntologySource for Bioregistry {
    fn spec(&self) -> &SourceSpec {
        &SPEC
    }

    fn begin<'a>(
        &'a self,
        wanted: &'a WantedOntology,
        settings: &'a SourceSettings,
    ) -> LookupStep<'a> {
        let prefix = wanted.extra("prefix").unwrap_or(wanted.id.as_str());
        let path = format!("/api/registry/{}?format=json", segment(prefix));
        match settings.endpoints.with_path(&API, &path) {
            Some(url) => requested(json_request(&SPEC, url), move |response| {
                read(wanted, response)
            }),
            None => SourceOutcome::failed("the address of the service is not a URL"),
        }
    }
}

fn read<'a>(wanted: &WantedOntology, response: &LookupResponse) -> LookupStep<'a> {
    match response.status.as_u16() {
        200 => {}
        404 => {
            return SourceOutcome::absent(
                AbsenceReason::NotListed,
                format!("the Bioregistry does not list {}", wanted.id),
            );
        }
        _ => return json::bad_status(SPEC.title, response),
    }
    let entry = match json::body(SPEC.title, response) {
        Ok(entry) => entry,
        Err(why) => return SourceOutcome::failed(why),
    };
    let licence = text(&entry["license"]).and_then(SourceLicence::read);
    let mut locations: Vec<(usize, OntologyLocation)> = Vec::new();
    for (field, format) in FIELDS {
        let Some(url) = text(&entry[field]).and_then(|url| Url::parse(url).ok()) else {
            continue;
        };
        let rank = wanted.formats.iter().position(|wanted| *wanted == format);
        if rank.is_none() && !wanted.formats.is_empty() {
            continue;
        }
        locations.push((
            rank.unwrap_or(0),
            OntologyLocation {
                format: Some(format),
                licence: licence.clone(),
                ..OntologyLocation::new(SPEC.name, url)
            },
        ));
    }
    if locations.is_empty() {
        return SourceOutcome::absent(
            AbsenceReason::NoFile,
            format!(
                "the Bioregistry knows no address of a file of {}",
                wanted.id
            ),
        );
    }
    locations.sort_by_key(|(rank, _)| *rank);
    LookupStep::Done(SourceOutcome::Found(
        locations
            .into_iter()
            .map(|(_, location)| location)
            .collect(),
    ))
}
