//! The sources of ontologies: registries, portals, and URLs from the user.
//!
//! Each source is one file with its [`SourceSpec`] (name, endpoints, credential, rate), its
//! requests and the reading of responses. A source sends nothing itself: [`OntologySource::begin`]
//! returns the first [`LookupStep`] of a look-up, and each response leads to the next step. The
//! names and order of sources, the endpoints, the configuration keys and the table of sources are
//! derived from the specs.

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
mod verdict;
pub mod xbrl;

use docstokg_config::nearest;
use docstokg_lookup::catalogue::{self, HasSourceSpec};
use docstokg_lookup::message::{LookupRequest, LookupResponse};
pub use docstokg_lookup::source_spec::{SourceCredential, SourceEndpoint, SourceSpec};
use http::header::ACCEPT;
use http::{HeaderValue, StatusCode};
use url::Url;

pub use absence::{Absence, AbsenceReason};
pub use location::OntologyLocation;
pub use settings::SourceSettings;
pub use verdict::{FailedRequest, Verdict};

use crate::wanted_ontology::WantedOntology;

/// Maximum size of the response of a source, in bytes. The largest usual response, the OBO
/// Foundry's whole registry, has 0.6 MB.
pub(crate) const MAX_RESPONSE_BYTES: u64 = 32 << 20;

/// The next step of a look-up of an ontology.
pub type LookupStep<'a> = docstokg_lookup::step::LookupStep<'a, SourceOutcome, FailedRequest>;

/// A source of ontologies: a registry, a portal, or URLs from the user.
pub trait OntologySource: Send + Sync {
    /// Returns the description of the source.
    fn spec(&self) -> &SourceSpec;

    /// Begins a look-up of an ontology.
    fn begin<'a>(
        &'a self,
        wanted: &'a WantedOntology,
        settings: &'a SourceSettings,
    ) -> LookupStep<'a>;

    /// Begins a look-up after a failure. The host may admit only a single request as a probe, so
    /// the first request should be the one that is most likely to succeed.
    fn begin_again<'a>(
        &'a self,
        wanted: &'a WantedOntology,
        settings: &'a SourceSettings,
    ) -> LookupStep<'a> {
        self.begin(wanted, settings)
    }

    /// Returns the meaning of an error status of a download, if this source gives the status a
    /// meaning of its own.
    fn explain_status(&self, _status: StatusCode) -> Option<Absence> {
        None
    }
}

impl HasSourceSpec for dyn OntologySource {
    fn source(&self) -> &SourceSpec {
        self.spec()
    }
}

/// The result of a look-up at an [`OntologySource`].
#[derive(Clone, Debug, PartialEq)]
pub enum SourceOutcome {
    /// The locations of the ontology, the best first.
    Found(Vec<OntologyLocation>),
    /// The source does not have the ontology. A later query would have the same result.
    Absent(Absence),
    /// The response could not be used. A later query may succeed.
    Failed(String),
    /// A request brought no response that the source could read.
    Interrupted(FailedRequest),
}

impl SourceOutcome {
    /// Ends a look-up with [`SourceOutcome::Absent`].
    pub fn absent<'a>(reason: AbsenceReason, detail: impl Into<String>) -> LookupStep<'a> {
        LookupStep::Done(Self::Absent(Absence {
            reason,
            detail: detail.into(),
        }))
    }

    /// Ends a look-up with [`SourceOutcome::Failed`].
    pub fn failed<'a>(detail: impl Into<String>) -> LookupStep<'a> {
        LookupStep::Done(Self::Failed(detail.into()))
    }
}

/// Returns a [`LookupRequest`] of a source for certain media types.
fn request_for(spec: &SourceSpec, url: Url, media_types: &'static str) -> LookupRequest {
    LookupRequest::metadata(url, spec.name)
        .max_body(MAX_RESPONSE_BYTES)
        .header(ACCEPT, HeaderValue::from_static(media_types))
}

/// Returns a [`LookupRequest`] of a source for JSON.
fn json_request(spec: &SourceSpec, url: Url) -> LookupRequest {
    request_for(spec, url, "application/json")
}

/// Sends a request, and passes its response to `read`. If there is no response, the look-up ends.
fn requested<'a>(
    request: LookupRequest,
    read: impl FnOnce(&LookupResponse) -> LookupStep<'a> + Send + 'a,
) -> LookupStep<'a> {
    LookupStep::request(request, |result| match result {
        Ok(response) => read(&response),
        Err(failed) => LookupStep::Done(SourceOutcome::Interrupted(failed)),
    })
}

/// A source that was considered but is not supported.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut {
    /// The name of the source.
    pub name: &'static str,
    /// The reason why the source is not supported, and what to use instead.
    pub why: &'static str,
}

/// The sources that are not supported.
pub const LEFT_OUT: [LeftOut; 1] = [LeftOut {
    name: "ontobee",
    why: "Ontobee has no files of its own: it shows what the OBO PURLs lead to; use obo",
}];

/// The sources that are queried before the portals. To add a source, add its file, its `mod` line,
/// and a line here or in [`LAST`].
static FIRST: &[&dyn OntologySource] = &[&obo::Obo, &ols::OLS];

/// The sources that are queried after the portals.
static LAST: &[&dyn OntologySource] = &[
    &lov::Lov,
    &bioregistry::Bioregistry,
    &ols::TIB,
    &direct::DIRECT,
    &direct::SKOS,
    &xbrl::Xbrl,
];

/// Returns every built-in source, in the default order of queries.
#[must_use]
pub fn all() -> Vec<&'static dyn OntologySource> {
    let portals = ontoportal::PORTALS.iter();
    let portals = portals.map(|portal| portal as &'static dyn OntologySource);
    let first = FIRST.iter().copied();
    first.chain(portals).chain(LAST.iter().copied()).collect()
}

/// Finds a built-in [`OntologySource`] by its name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn OntologySource> {
    catalogue::named(all(), name)
}

/// Prefix of the names of portals that the user has configured.
pub const CUSTOM: &str = "portal-";

/// Checks the name of a source, and returns its normal form.
///
/// # Errors
/// A sentence that lists the sources, if there is no such source.
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
                let url: Url = endpoint.address.parse().unwrap();
                assert_eq!(url.scheme(), "https", "{}", endpoint.address);
                assert!(!endpoint.address.ends_with('/'));
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
