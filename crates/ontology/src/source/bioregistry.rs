//! Bioregistry: download addresses collected from many registries.

use url::Url;

use super::json::{self, text};
use super::settings::segment;
use super::{
    AbsenceReason, Endpoint, Location, Outcome, Query, Reply, Source, SourceSettings, SourceSpec,
    Step,
};
use crate::licence::Licence;
use crate::wanted::{TargetFormat, Wanted};

/// The service.
#[derive(Debug)]
pub struct Bioregistry;

const API: Endpoint = Endpoint {
    key: "bioregistry",
    base: "https://bioregistry.io",
    about: "Bioregistry",
};

const SPEC: SourceSpec = SourceSpec {
    name: "bioregistry",
    title: "Bioregistry",
    endpoints: &[API],
    credential: None,
    rate: None,
    about: "the Bioregistry, which collects download addresses",
};

/// The fields that hold addresses, in the order in which they are tried.
const FIELDS: [(&str, TargetFormat); 4] = [
    ("download_owl", TargetFormat::Owl),
    ("download_obo", TargetFormat::Obo),
    ("download_json", TargetFormat::Json),
    ("download_rdf", TargetFormat::Rdf),
];

impl Source for Bioregistry {
    fn spec(&self) -> &SourceSpec {
        &SPEC
    }

    fn begin(&self, wanted: &Wanted, settings: &SourceSettings) -> Step {
        let prefix = wanted.extra("prefix").unwrap_or(wanted.id.as_str());
        let path = format!("/api/registry/{}?format=json", segment(prefix));
        match settings.url(&API, &path) {
            Some(url) => Step::Ask(Query::json("prefix", url)),
            None => Outcome::failed("the address of the service is not a URL"),
        }
    }

    fn next(&self, wanted: &Wanted, _: &SourceSettings, _: &Query, reply: &Reply) -> Step {
        match reply.status.as_u16() {
            200 => {}
            404 => {
                return Outcome::absent(
                    AbsenceReason::NotListed,
                    format!("the Bioregistry does not list {}", wanted.id),
                );
            }
            _ => return json::bad_status(SPEC.title, reply),
        }
        let entry = match json::body(SPEC.title, reply) {
            Ok(entry) => entry,
            Err(step) => return *step,
        };
        let licence = text(&entry["license"]).and_then(Licence::read);
        let mut locations: Vec<(usize, Location)> = Vec::new();
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
                Location {
                    format: Some(format),
                    licence: licence.clone(),
                    ..Location::new(SPEC.name, url)
                },
            ));
        }
        if locations.is_empty() {
            return Outcome::absent(
                AbsenceReason::NoFile,
                format!(
                    "the Bioregistry knows no address of a file of {}",
                    wanted.id
                ),
            );
        }
        locations.sort_by_key(|(rank, _)| *rank);
        Step::Done(Outcome::Found(
            locations
                .into_iter()
                .map(|(_, location)| location)
                .collect(),
        ))
    }
}
