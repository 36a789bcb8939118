//! The OBO Foundry registry: one file that lists every ontology and its products.
//!
//! The address of a product is a PURL that redirects to the project's releases. The registry may
//! also be a snapshot on disk, for work without a network.

use docstokg_lookup::message::LookupResponse;
use serde::Deserialize;
use url::Url;

use super::json;
use super::settings::segment;
use super::{
    AbsenceReason, LookupStep, OntologyLocation, OntologySource, SourceEndpoint, SourceOutcome,
    SourceSettings, SourceSpec, request_for, requested,
};
use crate::wanted_ontology::{TargetFormat, WantedOntology};
use docstokg_lookup::licence::SourceLicence;

/// The OBO Foundry registry, as an [`OntologySource`].
#[derive(Debug)]
pub struct Obo;

static REGISTRY: SourceEndpoint = SourceEndpoint {
    key: "obo",
    address: "https://obofoundry.org",
    about: "OBO Foundry registry",
};

static SPEC: SourceSpec = SourceSpec {
    endpoints: &[&REGISTRY],
    about: "the registry of the OBO Foundry, or a snapshot of it; files are PURLs",
    ..SourceSpec::new("obo", "OBO Foundry")
};

/// Media types of the request for the registry.
const MEDIA_TYPES: &str = "application/ld+json, application/json;q=0.9";

/// Formats to look for if the user names no format.
const FORMATS: [TargetFormat; 3] = [TargetFormat::Owl, TargetFormat::Obo, TargetFormat::Json];

/// Large products that are also available compressed, although the registry does not list them.
const COMPRESSED: [&str; 10] = [
    "chebi.json",
    "chebi.obo",
    "chebi.owl",
    "dron.json",
    "dron.obo",
    "dron.owl",
    "ncbitaxon.json",
    "ncbitaxon.obo",
    "ncbitaxon.owl",
    "pr.owl",
];

#[derive(Deserialize)]
struct OboRegistry {
    ontologies: Vec<OboEntry>,
}

#[derive(Deserialize)]
struct OboEntry {
    id: String,
    #[serde(default)]
    ontology_purl: Option<String>,
    #[serde(default)]
    products: Option<Vec<Product>>,
    #[serde(default)]
    license: Option<OboLicence>,
    #[serde(default)]
    is_obsolete: Option<bool>,
    #[serde(default)]
    replaced_by: Option<serde_json::Value>,
    #[serde(default, rename = "preferredPrefix")]
    preferred_prefix: Option<String>,
}

#[derive(Deserialize)]
struct Product {
    id: String,
    #[serde(default)]
    ontology_purl: Option<String>,
}

#[derive(Deserialize)]
struct OboLicence {
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    label: Option<String>,
}

impl OntologySource for Obo {
    fn spec(&self) -> &SourceSpec {
        &SPEC
    }

    fn begin<'a>(
        &'a self,
        wanted: &'a WantedOntology,
        settings: &'a SourceSettings,
    ) -> LookupStep<'a> {
        let path = "/registry/ontologies.jsonld";
        let Some(url) = settings.endpoints.with_path(&REGISTRY, path) else {
            return SourceOutcome::failed("the address of the registry is not a URL");
        };
        let mut request = request_for(&SPEC, url, MEDIA_TYPES).shared();
        request.file.clone_from(&settings.obo_registry);
        requested(request, move |response| read(wanted, response))
    }
}

fn read<'a>(wanted: &WantedOntology, response: &LookupResponse) -> LookupStep<'a> {
    if !response.status.is_success() {
        return json::bad_status("the OBO Foundry registry", response);
    }
    let registry: OboRegistry = match serde_json::from_slice(&response.body) {
        Ok(registry) => registry,
        Err(error) => {
            return SourceOutcome::failed(format!(
                "the OBO Foundry registry cannot be read: {error}"
            ));
        }
    };
    let id = wanted.id.as_str();
    let is_named = |entry: &&OboEntry| entry.id.eq_ignore_ascii_case(id);
    let has_prefix = |entry: &&OboEntry| {
        let prefix = entry.preferred_prefix.as_deref();
        prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(id))
    };
    // Ontologies share prefixes: an ontology of this name comes before all of them.
    let mut listed = registry.ontologies.iter();
    let meant = listed.clone().find(is_named);
    match meant.or_else(|| listed.find(has_prefix)) {
        Some(entry) => found(entry, wanted),
        None => SourceOutcome::absent(
            AbsenceReason::NotListed,
            format!("{id} is not in the OBO Foundry registry"),
        ),
    }
}

fn found<'a>(entry: &OboEntry, wanted: &WantedOntology) -> LookupStep<'a> {
    if entry.is_obsolete == Some(true) {
        let replaced = entry.replaced_by.as_ref().map(|by| match by {
            serde_json::Value::String(by) => by.clone(),
            other => other.to_string(),
        });
        let instead = replaced.map_or_else(String::new, |by| format!("; it is replaced by {by}"));
        return SourceOutcome::absent(
            AbsenceReason::Obsolete,
            format!(
                "{} is obsolete in the OBO Foundry registry{instead}",
                entry.id
            ),
        );
    }
    let licence = entry.license.as_ref().and_then(|licence| {
        let stated = licence.url.as_deref().or(licence.label.as_deref())?;
        SourceLicence::read(stated)
    });
    let mut locations = Vec::new();
    for name in products(entry, wanted) {
        let listed = entry
            .products
            .iter()
            .flatten()
            .find(|product| product.id == name);
        let Some(purl) = listed.map(|product| {
            let derived = || format!("http://purl.obolibrary.org/obo/{}", product.id);
            product.ontology_purl.clone().unwrap_or_else(derived)
        }) else {
            continue;
        };
        let mut purls = releases(&purl, &entry.id, wanted);
        purls.push((purl, None));
        for (purl, version) in purls {
            if COMPRESSED.contains(&name.as_str()) {
                add(
                    &mut locations,
                    &format!("{purl}.gz"),
                    licence.as_ref(),
                    version,
                );
            }
            add(&mut locations, &purl, licence.as_ref(), version);
        }
    }
    if locations.is_empty()
        && wanted.extra("product").is_none()
        && let Some(purl) = &entry.ontology_purl
    {
        add(&mut locations, purl, licence.as_ref(), None);
    }
    if locations.is_empty() {
        return SourceOutcome::absent(
            AbsenceReason::NoFile,
            format!(
                "the OBO Foundry registry lists {} without a file of the wanted kind",
                entry.id
            ),
        );
    }
    LookupStep::Done(SourceOutcome::Found(locations))
}

/// Returns the names of the products to look for, the best first.
fn products(entry: &OboEntry, wanted: &WantedOntology) -> Vec<String> {
    if let Some(product) = wanted.extra("product") {
        return vec![product.to_owned()];
    }
    let formats = wanted.formats_or(&FORMATS).iter();
    formats
        .map(|format| format!("{}.{}", entry.id, format.as_str()))
        .collect()
}

/// Returns the PURLs of a requested release: most projects have the first form, some the second.
/// The version of the current PURL is known only after its file is read.
fn releases<'a>(
    purl: &str,
    id: &str,
    wanted: &'a WantedOntology,
) -> Vec<(String, Option<&'a str>)> {
    let Some(version) = wanted.version.as_deref() else {
        return Vec::new();
    };
    let Some((base, file)) = purl.rsplit_once('/') else {
        return Vec::new();
    };
    let part = segment(version.trim_start_matches("releases/"));
    if part.is_empty() {
        return Vec::new();
    }
    [
        format!("{base}/{id}/releases/{part}/{file}"),
        format!("{base}/{id}/{part}/{file}"),
    ]
    .map(|release| (release, Some(version)))
    .into()
}

fn add(
    locations: &mut Vec<OntologyLocation>,
    purl: &str,
    licence: Option<&SourceLicence>,
    version: Option<&str>,
) {
    if let Ok(url) = Url::parse(purl) {
        locations.push(OntologyLocation {
            licence: licence.cloned(),
            version: version.map(str::to_owned),
            ..OntologyLocation::new(SPEC.name, url)
        });
    }
}
