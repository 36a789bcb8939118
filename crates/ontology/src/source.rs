//! Where ontologies are listed: registries, portals, and addresses that the user gives.
//!
//! A source is a file of its own: its [`SourceSpec`] (name, endpoints, credential, rate), the
//! questions it asks and how it reads the answers. It makes no request itself: [`Source::begin`]
//! and [`Source::next`] are pure, and whoever drives them asks through the hub. Names, order,
//! endpoints, configuration keys and the table of sources follow from the specs.

mod absence;
pub mod bioregistry;
pub mod direct;
mod json;
mod location;
pub mod lov;
pub mod obo;
pub mod ols;
pub mod ontoportal;
mod settings;
pub mod xbrl;

use std::path::PathBuf;

use docstokg_config::nearest;
use http::{HeaderMap, StatusCode};
use url::Url;

pub use absence::{Absence, AbsenceReason};
pub use location::Location;
pub use settings::SourceSettings;

use crate::wanted::Wanted;

/// What a source is.
#[derive(Debug)]
pub struct SourceSpec {
    /// Its name in files and on the command line; also the service whose budget it is charged to.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Where it is; a key of the configuration each. None for sources that ask nothing.
    pub endpoints: &'static [Endpoint],
    /// What it wants to know of the user, where it does.
    pub credential: Option<Credential>,
    /// The rate of the service, where it has one of its own.
    pub rate: Option<&'static str>,
    /// What it is, in a sentence.
    pub about: &'static str,
}

/// The address of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its key in the configuration.
    pub key: &'static str,
    /// Its public address, without a slash at the end.
    pub base: &'static str,
    /// What it is for.
    pub about: &'static str,
}

/// A key that a service wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Its key in the configuration.
    pub key: &'static str,
    /// The variable that holds it.
    pub variable: &'static str,
    /// Where users get one.
    pub about: &'static str,
}

/// Something that lists ontologies.
pub trait Source: Send + Sync {
    /// What it is.
    fn spec(&self) -> &SourceSpec;

    /// Begins to look for an ontology.
    fn begin(&self, wanted: &Wanted, settings: &SourceSettings) -> Step;

    /// Reads the answer to a question, which may lead to the next one.
    fn next(
        &self,
        wanted: &Wanted,
        settings: &SourceSettings,
        query: &Query,
        reply: &Reply,
    ) -> Step;

    /// Returns what to ask instead of a question that the service does not answer at present.
    fn instead_of(&self, _settings: &SourceSettings, _query: &Query) -> Option<Query> {
        None
    }

    /// Says what a status means that a file of this source was refused with, where the source has
    /// its own meaning for it.
    fn explain_status(&self, _status: StatusCode) -> Option<Absence> {
        None
    }
}

/// What comes next in a look-up.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Ask this.
    Ask(Query),
    /// The look-up is over.
    Done(Outcome),
}

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Which question of the source it is.
    pub about: &'static str,
    /// Whom to ask.
    pub place: Place,
    /// The media types to ask for.
    pub accept: &'static str,
    /// The answer is the same for every ontology of a run: it is asked for once.
    pub is_shared: bool,
}

/// Where an answer comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A service.
    Web(Url),
    /// A file of the user's: a snapshot of a registry.
    File(PathBuf),
}

impl Query {
    /// Asks a service for JSON.
    #[must_use]
    pub fn json(about: &'static str, url: Url) -> Self {
        Self {
            about,
            place: Place::Web(url),
            accept: "application/json",
            is_shared: false,
        }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: bytes::Bytes,
}

/// What a look-up came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Where the ontology is, the best place first.
    Found(Vec<Location>),
    /// The source does not have it, and asking again is of no use.
    Absent(Absence),
    /// The answer could not be used; the service may do better another time.
    Failed(String),
}

impl Outcome {
    /// Says that the source does not have it.
    #[must_use]
    pub fn absent(reason: AbsenceReason, detail: impl Into<String>) -> Step {
        Step::Done(Self::Absent(Absence {
            reason,
            detail: detail.into(),
        }))
    }

    /// Says that the answer could not be used.
    #[must_use]
    pub fn failed(detail: impl Into<String>) -> Step {
        Step::Done(Self::Failed(detail.into()))
    }
}

/// A source that was looked at and is not there.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut {
    /// Its name.
    pub name: &'static str,
    /// Why, and what to use instead.
    pub why: &'static str,
}

/// The sources that were left out.
pub const LEFT_OUT: [LeftOut; 1] = [LeftOut {
    name: "ontobee",
    why: "Ontobee has no files of its own: it shows what the OBO PURLs lead to; use obo",
}];

/// Every built-in source, in the order in which they are asked where nothing else is said.
#[must_use]
pub fn all() -> Vec<&'static dyn Source> {
    let mut all: Vec<&'static dyn Source> = vec![&obo::Obo, &ols::OLS];
    all.extend(
        ontoportal::PORTALS
            .iter()
            .map(|portal| portal as &dyn Source),
    );
    let rest: [&dyn Source; 6] = [
        &lov::Lov,
        &bioregistry::Bioregistry,
        &ols::TIB,
        &direct::DIRECT,
        &direct::SKOS,
        &xbrl::Xbrl,
    ];
    all.extend(rest);
    all
}

/// Finds a source by its name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Source> {
    all().into_iter().find(|source| source.spec().name == name)
}

/// What the names of portals begin with that are not built in.
pub const CUSTOM: &str = "portal-";

/// Checks the name of a source, and returns it as it is written here.
///
/// # Errors
/// There is no such source; the message says which there are.
pub fn check_name(name: &str) -> Result<String, String> {
    let name = name.trim().to_ascii_lowercase();
    if named(&name).is_some() || name.starts_with(CUSTOM) {
        return Ok(name);
    }
    if let Some(left) = LEFT_OUT.iter().find(|left| left.name == name) {
        return Err(left.why.to_owned());
    }
    let all: Vec<&str> = all().iter().map(|source| source.spec().name).collect();
    let meant = nearest(&name, all.iter().copied());
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
    Err(format!(
        "there is no source '{name}'; the sources are {}{meant}",
        all.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_a_name_of_its_own_and_a_rate_that_is_one() {
        let mut names = std::collections::BTreeSet::new();
        for source in all() {
            let spec = source.spec();
            assert!(names.insert(spec.name), "{} is there twice", spec.name);
            if let Some(rate) = spec.rate {
                crate::facade::rate::parse_rate(rate).unwrap();
            }
            for endpoint in spec.endpoints {
                let url: Url = endpoint.base.parse().unwrap();
                assert_eq!(url.scheme(), "https", "{}", endpoint.base);
                assert!(!endpoint.base.ends_with('/'));
            }
        }
        let preferred = crate::config::OntologySettings::default().prefer_source();
        let is_known = |name: &String| names.contains(name.as_str());
        assert!(preferred.value.0.iter().all(is_known));
    }

    #[test]
    fn an_unknown_source_is_named_with_what_was_meant() {
        assert_eq!(check_name("OBO").unwrap(), "obo");
        assert!(
            check_name("bioprotal")
                .unwrap_err()
                .contains("did you mean 'bioportal'")
        );
        assert!(check_name("ontobee").unwrap_err().contains("use obo"));
    }
}
