//! Linked Open Vocabularies: a catalogue of vocabularies, with a file for each version.
//!
//! The API has long outages, during which every request gets status 503 or 404. So status 404 for a
//! vocabulary means that it is not listed only if both paths of the API return it, and if the API
//! returns a vocabulary that is always listed. If the API does not respond, the dump of the whole
//! catalogue is downloaded, once for all look-ups.

mod dump;

use docstokg_hub::redact;
use docstokg_lookup::message::LookupResponse;
use serde_json::Value as Json;
use url::Url;

use super::json::{self, text};
use super::{
    AbsenceReason, FailedRequest, LookupStep, OntologyLocation, OntologySource, SourceEndpoint,
    SourceOutcome, SourceSettings, SourceSpec, json_request, request_for,
};
use crate::pull::is_same_version;
use crate::wanted_ontology::{TargetFormat, WantedOntology};

/// Linked Open Vocabularies, as an [`OntologySource`].
#[derive(Debug)]
pub struct Lov;

static API: SourceEndpoint = SourceEndpoint {
    key: "lov",
    address: "https://lov.linkeddata.es",
    about: "Linked Open Vocabularies",
};

static SPEC: SourceSpec = SourceSpec {
    endpoints: &[&API],
    rate: Some("1/second"),
    about: "Linked Open Vocabularies, by prefix or namespace",
    ..SourceSpec::new("lov", "Linked Open Vocabularies")
};

/// The two paths at which the API may be; the path in use has changed over the years.
const PATHS: [&str; 2] = ["/dataset/lov/api/v2", "/dataset/api/v2"];
/// Media types of the request for the dump.
const DUMP_TYPES: &str = "application/gzip, application/octet-stream;q=0.9, */*;q=0.1";
/// A vocabulary that is always listed.
const CONTROL: &str = "skos";

impl OntologySource for Lov {
    fn spec(&self) -> &SourceSpec {
        &SPEC
    }

    fn begin<'a>(
        &'a self,
        wanted: &'a WantedOntology,
        settings: &'a SourceSettings,
    ) -> LookupStep<'a> {
        let lookup = VocabularyLookup { wanted, settings };
        lookup.vocabulary(PATHS[0], move || {
            lookup.vocabulary(PATHS[1], move || lookup.control())
        })
    }

    fn begin_again<'a>(
        &'a self,
        wanted: &'a WantedOntology,
        settings: &'a SourceSettings,
    ) -> LookupStep<'a> {
        VocabularyLookup { wanted, settings }.dump(None)
    }
}

/// A look-up of one vocabulary at [`Lov`].
#[derive(Clone, Copy)]
struct VocabularyLookup<'a> {
    wanted: &'a WantedOntology,
    settings: &'a SourceSettings,
}

impl<'a> VocabularyLookup<'a> {
    /// Requests the vocabulary at one of the two [`PATHS`] of the API.
    fn vocabulary(
        self,
        path: &str,
        when_unknown: impl FnOnce() -> LookupStep<'a> + Send + 'a,
    ) -> LookupStep<'a> {
        self.request_info(path, name(self.wanted), move |response| {
            match response.status.as_u16() {
                200 => match json::body(SPEC.title, response) {
                    Ok(vocabulary) => read(self.wanted, &vocabulary),
                    Err(why) => SourceOutcome::failed(why),
                },
                404 => when_unknown(),
                _ => json::bad_status(SPEC.title, response),
            }
        })
    }

    /// Requests [`CONTROL`], because a vocabulary counts as missing only if the API has this one.
    fn control(self) -> LookupStep<'a> {
        self.request_info(PATHS[0], CONTROL, move |response| {
            match response.status.as_u16() {
                200 => SourceOutcome::absent(
                    AbsenceReason::NotListed,
                    format!(
                        "Linked Open Vocabularies does not list {}",
                        name(self.wanted)
                    ),
                ),
                _ => self.dump(None),
            }
        })
    }

    /// Requests the facts of a vocabulary from the API. If the API does not respond, the dump is
    /// requested instead.
    fn request_info(
        self,
        path: &str,
        vocabulary: &str,
        read: impl FnOnce(&LookupResponse) -> LookupStep<'a> + Send + 'a,
    ) -> LookupStep<'a> {
        let path = format!("{path}/vocabulary/info");
        let Some(mut url) = self.settings.endpoints.with_path(&API, &path) else {
            return SourceOutcome::failed("the address of the service is not a URL");
        };
        url.query_pairs_mut().append_pair("vocab", vocabulary);
        LookupStep::request(json_request(&SPEC, url), move |result| match result {
            Ok(response) => read(&response),
            Err(failed) if failed.is_temporary() => self.dump(Some(failed)),
            Err(failed) => LookupStep::Done(SourceOutcome::Interrupted(failed)),
        })
    }

    /// Requests the dump of the catalogue. If the dump is unavailable as well, `failed` determines
    /// when to retry.
    fn dump(self, failed: Option<FailedRequest>) -> LookupStep<'a> {
        let Some(url) = self.settings.endpoints.with_path(&API, "/lov.n3.gz") else {
            return SourceOutcome::failed("the address of the service is not a URL");
        };
        let base = url.clone();
        let request = request_for(&SPEC, url, DUMP_TYPES).shared();
        LookupStep::request(request, move |result| match result {
            Ok(response) => match response.status.as_u16() {
                200 => dump::read(self.wanted, name(self.wanted), &base, &response.body),
                status => SourceOutcome::failed(format!(
                    "Linked Open Vocabularies does not answer at present (status {status} for its \
                     dump)"
                )),
            },
            Err(own) => LookupStep::Done(SourceOutcome::Interrupted(failed.unwrap_or(own))),
        })
    }
}

fn name(wanted: &WantedOntology) -> &str {
    wanted
        .extra("prefix")
        .or_else(|| wanted.extra("uri"))
        .unwrap_or(wanted.id.as_str())
}

fn read<'a>(wanted: &WantedOntology, vocabulary: &Json) -> LookupStep<'a> {
    if !wanted.takes(TargetFormat::Ttl) {
        return SourceOutcome::absent(
            AbsenceReason::Format,
            format!("Linked Open Vocabularies has {} as ttl only", name(wanted)),
        );
    }
    let versions = vocabulary["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let named = |version: &&Json| {
        let Some(only) = &wanted.version else {
            return true;
        };
        [&version["name"], &version["issued"]]
            .into_iter()
            .filter_map(text)
            .any(|stated| {
                is_same_version(only, stated.get(..10).unwrap_or(stated))
                    || is_same_version(only, stated)
            })
    };
    let mut dated: Vec<(&str, &Json, Url)> = versions
        .iter()
        .filter(named)
        .filter_map(|version| {
            let url = text(&version["fileURL"]).and_then(|url| Url::parse(url).ok())?;
            Some((text(&version["issued"]).unwrap_or_default(), version, url))
        })
        .collect();
    // Dates are written with the year first, so the texts sort like the dates.
    dated.sort_by_key(|(issued, ..)| std::cmp::Reverse(*issued));
    if dated.is_empty()
        && let Some(version) = &wanted.version
        && !versions.is_empty()
    {
        return SourceOutcome::absent(
            AbsenceReason::Version,
            format!(
                "Linked Open Vocabularies has no version {version} of {}",
                name(wanted)
            ),
        );
    }
    if dated.is_empty() {
        return SourceOutcome::absent(
            AbsenceReason::NoFile,
            format!(
                "Linked Open Vocabularies lists {} without a file",
                name(wanted)
            ),
        );
    }
    let newest = dated
        .into_iter()
        .take(1)
        .map(|(issued, version, url)| OntologyLocation {
            // The files are Turtle, whatever the extensions of their names.
            format: Some(TargetFormat::Ttl),
            version: wanted
                .version
                .clone()
                .or_else(|| {
                    text(&version["name"]).map(|name| name.trim_start_matches('v').to_owned())
                })
                .or_else(|| (!issued.is_empty()).then(|| issued.to_owned())),
            // The revision is stored in records, so remove a signature from the URL. The signature
            // does not identify the content anyway.
            revision: Some(redact(&url)),
            ..OntologyLocation::new(SPEC.name, url)
        });
    LookupStep::Done(SourceOutcome::Found(newest.collect()))
}
