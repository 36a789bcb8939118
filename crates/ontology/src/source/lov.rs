//! Linked Open Vocabularies: versions of a vocabulary, each with its file.
//!
//! The service has long spells in which its API answers 503 or 404 to everything. Before a
//! vocabulary counts as not listed, the API is asked at both of its addresses and then for one that
//! is always there. Where it does not answer, the dump of the whole catalogue is read, once.

mod dump;

use docstokg_hub::redact;
use serde_json::Value as Json;
use url::Url;

use super::json::{self, text};
use super::{
    AbsenceReason, Endpoint, Location, Outcome, Query, Reply, Source, SourceSettings, SourceSpec,
    Step,
};
use crate::pull::is_same_version;
use crate::wanted::{TargetFormat, Wanted};

/// The service.
#[derive(Debug)]
pub struct Lov;

const API: Endpoint = Endpoint {
    key: "lov",
    base: "https://lov.linkeddata.es",
    about: "Linked Open Vocabularies",
};

const SPEC: SourceSpec = SourceSpec {
    name: "lov",
    title: "Linked Open Vocabularies",
    endpoints: &[API],
    credential: None,
    rate: Some("1/second"),
    about: "Linked Open Vocabularies, by prefix or namespace",
};

/// The two paths of the API; which of them answers has changed over the years.
const PATHS: [&str; 2] = ["/dataset/lov/api/v2", "/dataset/api/v2"];
/// The question for the dump.
const DUMP: &str = "dump";
/// A vocabulary that is always there.
const CONTROL: &str = "skos";

impl Source for Lov {
    fn spec(&self) -> &SourceSpec {
        &SPEC
    }

    fn begin(&self, wanted: &Wanted, settings: &SourceSettings) -> Step {
        ask("first", PATHS[0], name(wanted), settings)
    }

    fn next(
        &self,
        wanted: &Wanted,
        settings: &SourceSettings,
        query: &Query,
        reply: &Reply,
    ) -> Step {
        match (query.about, reply.status.as_u16()) {
            ("control", 200) => Outcome::absent(
                AbsenceReason::NotListed,
                format!("Linked Open Vocabularies does not list {}", name(wanted)),
            ),
            ("control", status) => dump_query(settings).map_or_else(
                || {
                    Outcome::failed(format!(
                        "Linked Open Vocabularies does not answer at present (status {status} for \
                         a vocabulary that it has)"
                    ))
                },
                Step::Ask,
            ),
            (DUMP, 200) => dump::read(wanted, name(wanted), query, reply),
            (DUMP, status) => Outcome::failed(format!(
                "Linked Open Vocabularies does not answer at present (status {status} for its dump)"
            )),
            (_, 200) => match json::body(SPEC.title, reply) {
                Ok(vocabulary) => read(wanted, &vocabulary),
                Err(step) => *step,
            },
            ("first", 404) => ask("second", PATHS[1], name(wanted), settings),
            ("second", 404) => ask("control", PATHS[0], CONTROL, settings),
            _ => json::bad_status(SPEC.title, reply),
        }
    }

    fn instead_of(&self, settings: &SourceSettings, query: &Query) -> Option<Query> {
        (query.about != DUMP)
            .then(|| dump_query(settings))
            .flatten()
    }
}

/// Asks for the dump of the catalogue.
fn dump_query(settings: &SourceSettings) -> Option<Query> {
    let url = settings.url(&API, "/lov.n3.gz")?;
    Some(Query {
        about: DUMP,
        place: super::Place::Web(url),
        accept: "application/gzip, application/octet-stream;q=0.9, */*;q=0.1",
        is_shared: true,
    })
}

fn name(wanted: &Wanted) -> &str {
    wanted
        .extra("prefix")
        .or_else(|| wanted.extra("uri"))
        .unwrap_or(wanted.id.as_str())
}

fn ask(about: &'static str, path: &str, name: &str, settings: &SourceSettings) -> Step {
    match settings.url(&API, &format!("{path}/vocabulary/info")) {
        Some(mut url) => {
            url.query_pairs_mut().append_pair("vocab", name);
            Step::Ask(Query::json(about, url))
        }
        None => Outcome::failed("the address of the service is not a URL"),
    }
}

fn read(wanted: &Wanted, vocabulary: &Json) -> Step {
    if !wanted.takes(TargetFormat::Ttl) {
        return Outcome::absent(
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
    // Dates are written year first: the order of the texts is that of the dates.
    dated.sort_by_key(|(issued, ..)| std::cmp::Reverse(*issued));
    if dated.is_empty()
        && let Some(version) = &wanted.version
        && !versions.is_empty()
    {
        return Outcome::absent(
            AbsenceReason::Version,
            format!(
                "Linked Open Vocabularies has no version {version} of {}",
                name(wanted)
            ),
        );
    }
    if dated.is_empty() {
        return Outcome::absent(
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
        .map(|(issued, version, url)| Location {
            // Its files are Turtle, whatever their names say.
            format: Some(TargetFormat::Ttl),
            version: wanted
                .version
                .clone()
                .or_else(|| {
                    text(&version["name"]).map(|name| name.trim_start_matches('v').to_owned())
                })
                .or_else(|| (!issued.is_empty()).then(|| issued.to_owned())),
            // What names the content is recorded; a signature in it says nothing about that.
            revision: Some(redact(&url)),
            ..Location::new(SPEC.name, url)
        });
    Step::Done(Outcome::Found(newest.collect()))
}
