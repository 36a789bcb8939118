//! `BioPortal` and the portals with the same software, each with its own key.
//!
//! The latest submission has a number, and the file is requested by that number: the portal's own
//! "latest" may be another submission. Downloads have no validators, so the number also shows a
//! change. Status 403 (restricted by the licence) and 404 (no file) are final: a retry is useless.

use docstokg_lookup::message::LookupResponse;
use docstokg_lookup::source_spec::{CredentialCarrier, CredentialRecipient, SecretHeader};
use http::StatusCode;
use serde_json::Value as Json;
use url::Url;

use super::json::{self, text};
use super::settings::segment;
use super::{
    Absence, AbsenceReason, LookupStep, OntologyLocation, OntologySource, SourceCredential,
    SourceEndpoint, SourceOutcome, SourceSettings, SourceSpec, json_request, requested,
};
use crate::pull::is_same_version;
use crate::wanted_ontology::{TargetFormat, WantedOntology};
use docstokg_lookup::licence::SourceLicence;

/// A portal with the software of `BioPortal`, as an [`OntologySource`].
#[derive(Debug)]
pub struct Portal(SourceSpec);

/// Returns the header in which a portal expects its key.
pub(super) const fn key_header(endpoints: &'static [&'static SourceEndpoint]) -> SecretHeader {
    SecretHeader {
        name: "authorization",
        before: "apikey token=",
        to: CredentialRecipient::Endpoints(endpoints),
        beside: None,
    }
}

macro_rules! portal {
    ($name:literal, $title:literal, $address:literal, $variable:literal, $rate:literal) => {
        Portal({
            static API: SourceEndpoint = SourceEndpoint {
                key: $name,
                address: $address,
                about: concat!("API of ", $title),
            };
            static ENDPOINTS: &[&SourceEndpoint] = &[&API];
            static KEY: SourceCredential = SourceCredential {
                key: concat!("sources.", $name, ".key"),
                variable: $variable,
                about: concat!("API key of ", $title, ", from your account page there"),
                default: "none",
                sent: CredentialCarrier::Header(key_header(ENDPOINTS)),
            };
            SourceSpec {
                endpoints: ENDPOINTS,
                credentials: &[&KEY],
                rate: Some($rate),
                about: concat!($title, "; needs an API key"),
                ..SourceSpec::new($name, $title)
            }
        })
    };
}

/// The built-in portals. The software allows 15 requests a second from one address.
pub static PORTALS: [Portal; 9] = [
    portal!(
        "bioportal",
        "BioPortal",
        "https://data.bioontology.org",
        "BIOPORTAL_API_KEY",
        "2/second"
    ),
    portal!(
        "agroportal",
        "AgroPortal",
        "https://data.agroportal.eu",
        "AGROPORTAL_API_KEY",
        "2/second"
    ),
    portal!(
        "ecoportal",
        "EcoPortal",
        "https://data.ecoportal.lifewatch.eu",
        "ECOPORTAL_API_KEY",
        "2/second"
    ),
    portal!(
        "biodivportal",
        "BiodivPortal",
        "https://data.biodivportal.gfbio.org",
        "BIODIVPORTAL_API_KEY",
        "2/second"
    ),
    portal!(
        "industryportal",
        "IndustryPortal",
        "https://data.industryportal.enit.fr",
        "INDUSTRYPORTAL_API_KEY",
        "2/second"
    ),
    portal!(
        "earthportal",
        "EarthPortal",
        "https://data.earthportal.eu",
        "EARTHPORTAL_API_KEY",
        "2/second"
    ),
    portal!(
        "astroportal",
        "OntoPortal-Astro",
        "https://data.ontoportal-astro.eu",
        "ASTROPORTAL_API_KEY",
        "2/second"
    ),
    portal!(
        "matportal",
        "MatPortal",
        "https://rest.matportal.org",
        "MATPORTAL_API_KEY",
        "2/second"
    ),
    portal!(
        "lovportal",
        "LovPortal",
        "https://data.lovportal.lirmm.fr",
        "LOVPORTAL_API_KEY",
        "2/second"
    ),
];

impl Portal {
    /// Creates a portal that is not built in. Its description lives as long as the program.
    #[must_use]
    pub fn custom(name: &str, base: &Url) -> &'static Self {
        let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let name = leak(name.to_owned());
        let endpoint: &'static SourceEndpoint = Box::leak(Box::new(SourceEndpoint {
            key: name,
            address: leak(base.as_str().trim_end_matches('/').to_owned()),
            about: "a portal of the configuration",
        }));
        let endpoints: &'static [&'static SourceEndpoint] = Box::leak(Box::new([endpoint]));
        let credential: &'static SourceCredential = Box::leak(Box::new(SourceCredential {
            key: leak(format!("sources.{name}.key")),
            variable: leak(format!("{}_API_KEY", name.to_ascii_uppercase())),
            about: "its API key",
            default: "none",
            sent: CredentialCarrier::Header(key_header(endpoints)),
        }));
        Box::leak(Box::new(Self(SourceSpec {
            endpoints,
            credentials: Box::leak(Box::new([credential])),
            rate: Some("2/second"),
            about: "a portal of the configuration",
            ..SourceSpec::new(name, name)
        })))
    }
}

impl OntologySource for Portal {
    fn spec(&self) -> &SourceSpec {
        &self.0
    }

    fn begin<'a>(
        &'a self,
        wanted: &'a WantedOntology,
        settings: &'a SourceSettings,
    ) -> LookupStep<'a> {
        if settings.credentials.by_key(self.0.name).is_none() {
            let credential = self.0.credentials.first();
            let (key, variable) = credential.map_or(("", ""), |c| (c.key, c.variable));
            return SourceOutcome::absent(
                AbsenceReason::Credential,
                format!(
                    "{} needs an API key: set ontology.{key} or {variable}",
                    self.0.title
                ),
            );
        }
        // Only the list of all submissions has their versions.
        let submissions = match &wanted.version {
            None => "latest_submission?display=all",
            Some(_) => "submissions?display=all",
        };
        let path = format!("/ontologies/{}/{submissions}", segment(&acronym(wanted)));
        match settings.endpoints.with_path(self.0.endpoints[0], &path) {
            Some(url) => requested(json_request(&self.0, url), move |response| {
                self.next(wanted, settings, response)
            }),
            None => SourceOutcome::failed("the address of the portal is not a URL"),
        }
    }

    fn explain_status(&self, status: StatusCode) -> Option<Absence> {
        let title = self.0.title;
        let (reason, detail) = match status.as_u16() {
            401 => (
                AbsenceReason::Credential,
                format!("{title} does not accept the API key"),
            ),
            403 => (
                AbsenceReason::Restricted,
                format!(
                    "{title} does not give the file out: its licence or its owner restricts it"
                ),
            ),
            404 => (AbsenceReason::NoFile, format!("{title} has no file of it")),
            422 => (
                AbsenceReason::NotListed,
                format!("{title} does not know it"),
            ),
            _ => return None,
        };
        Some(Absence { reason, detail })
    }
}

impl Portal {
    fn next<'a>(
        &self,
        wanted: &WantedOntology,
        settings: &SourceSettings,
        response: &LookupResponse,
    ) -> LookupStep<'a> {
        let title = self.0.title;
        if response.status == StatusCode::OK {
            return match json::body(title, response) {
                Ok(submissions) => match self.choose(wanted, &submissions) {
                    Ok(submission) => self.read(wanted, settings, submission),
                    Err(absence) => LookupStep::Done(SourceOutcome::Absent(absence)),
                },
                Err(why) => SourceOutcome::failed(why),
            };
        }
        match self.explain(response.status, wanted) {
            Some(absence) => LookupStep::Done(SourceOutcome::Absent(absence)),
            None => json::bad_status(title, response),
        }
    }

    /// Returns the meaning of a status of a look-up. Status 404 means an unknown acronym.
    fn explain(&self, status: StatusCode, wanted: &WantedOntology) -> Option<Absence> {
        if status == StatusCode::NOT_FOUND {
            return Some(Absence {
                reason: AbsenceReason::NotListed,
                detail: format!("{} does not list {}", self.0.title, acronym(wanted)),
            });
        }
        self.explain_status(status)
    }

    /// Returns the requested submission: the only one of a response, or the newest of a list with
    /// the version.
    fn choose<'a>(&self, wanted: &WantedOntology, answer: &'a Json) -> Result<&'a Json, Absence> {
        let (Some(version), Some(all)) = (&wanted.version, answer.as_array()) else {
            return Ok(answer);
        };
        let is_meant = |submission: &&Json| {
            let number = submission["submissionId"].as_u64();
            let label = number.map(|number| format!("submission-{number}"));
            let stated = text(&submission["version"]);
            stated.is_some_and(|stated| is_same_version(version, stated))
                || label.is_some_and(|label| label == *version)
        };
        let found = all.iter().filter(is_meant);
        found
            .max_by_key(|submission| submission["submissionId"].as_u64())
            .ok_or_else(|| Absence {
                reason: AbsenceReason::Version,
                detail: format!(
                    "{} has no submission of {} with version {version}",
                    self.0.title,
                    acronym(wanted)
                ),
            })
    }

    fn read<'a>(
        &self,
        wanted: &WantedOntology,
        settings: &SourceSettings,
        submission: &Json,
    ) -> LookupStep<'a> {
        let title = self.0.title;
        let acronym = acronym(wanted);
        let Some(number) = submission["submissionId"].as_u64() else {
            // `{}` stands for an ontology without any submission.
            return SourceOutcome::absent(
                AbsenceReason::NoFile,
                format!("{title} lists {acronym} without a submission"),
            );
        };
        if submission["ontology"]["summaryOnly"] == true {
            return SourceOutcome::absent(
                AbsenceReason::NoFile,
                format!("{title} has a summary of {acronym} only, no file"),
            );
        }
        let Some(url) = self.download_address(settings, &acronym, number, submission) else {
            return SourceOutcome::failed("the address of the portal is not a URL");
        };
        let format = match text(&submission["hasOntologyLanguage"]) {
            Some("OBO") => Some(TargetFormat::Obo),
            Some("UMLS") => Some(TargetFormat::Ttl),
            _ => None,
        };
        if let Some(format) = format.filter(|format| !wanted.takes(*format)) {
            return SourceOutcome::absent(
                AbsenceReason::Format,
                format!("{title} has {acronym} as {} only", format.as_str()),
            );
        }
        let version = text(&submission["version"]).map(str::to_owned);
        // A submission may be requested by its number although it declares another version.
        let version = match (version, &wanted.version) {
            (Some(stated), Some(wanted)) if is_same_version(wanted, &stated) => Some(stated),
            (_, Some(wanted)) => Some(wanted.clone()),
            (stated, None) => stated,
        };
        LookupStep::Done(SourceOutcome::Found(vec![OntologyLocation {
            is_authorised: true,
            format,
            version: version.or_else(|| Some(format!("submission-{number}"))),
            revision: Some(format!("submission {number}")),
            licence: text(&submission["hasLicense"]).and_then(SourceLicence::read),
            ..OntologyLocation::new(self.0.name, url)
        }]))
    }

    /// Returns the address of one submission's file. The address that the portal declares counts if
    /// it leads to that submission on the portal itself; otherwise the address follows the
    /// software's form.
    fn download_address(
        &self,
        settings: &SourceSettings,
        acronym: &str,
        number: u64,
        submission: &Json,
    ) -> Option<Url> {
        let base = settings.base(self.0.endpoints[0])?;
        let own = format!("/submissions/{number}/download");
        let stated = text(&submission["links"]["download"])
            .and_then(|stated| Url::parse(stated).ok())
            .filter(|stated| stated.origin() == base.origin() && stated.path().ends_with(&own));
        stated.or_else(|| {
            let path = format!("/ontologies/{}{own}", segment(acronym));
            settings.endpoints.with_path(self.0.endpoints[0], &path)
        })
    }
}

/// Returns the name of an ontology at a portal.
fn acronym(wanted: &WantedOntology) -> String {
    wanted
        .extra("acronym")
        .map_or_else(|| wanted.id.as_str().to_ascii_uppercase(), str::to_owned)
}
