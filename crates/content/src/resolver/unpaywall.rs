//! Unpaywall: open-access copies by DOI. Unpaywall requires a real e-mail address.

use std::sync::Arc;

use docstokg_lookup::message::LookupRequest;
use docstokg_lookup::source_spec::{
    CredentialCarrier, SourceCredential, SourceEndpoint, SourceSpec,
};
use serde_json::Value;

use super::arxiv;
use super::order::Preset;
use super::reply::{doi_path, items, location_at, record, text, title, year};
use super::settings::Settings;
use super::spec::ResolverSpec;
use super::statements;
use super::{
    BatchStep, LookupOutcome, RequestFailure, Resolver, ResolverId, Step, WorkLookupStep, each,
};
use crate::location::{CandidateLocation, LocationOffer, best_first};
use crate::reason::Reason;
use crate::work::{LearnedMetadata, Work};

/// The [`ResolverId`] of Unpaywall.
pub const ID: ResolverId = ResolverId::new("unpaywall");

static API: SourceEndpoint = SourceEndpoint {
    key: "unpaywall",
    address: "https://api.unpaywall.org/v2/",
    about: "Unpaywall, with its version",
};

/// The address that Unpaywall requires.
pub static EMAIL: SourceCredential = SourceCredential {
    key: "unpaywall_email",
    variable: "UNPAYWALL_EMAIL",
    about: "The address for Unpaywall, where it differs from `identity.mailto`",
    default: "`identity.mailto`",
    sent: CredentialCarrier::EmailAddress,
};

/// The [`ResolverSpec`] of Unpaywall.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&API],
        credentials: &[&EMAIL],
        about: "it knows open copies by DOI",
        ..SourceSpec::new(ID.as_str(), "Unpaywall")
    },
    preset: Preset::Fast,
    rank: 20,
    ..ResolverSpec::base(ID, |settings| {
        Arc::new(Unpaywall::new(Arc::clone(settings)))
    })
};

/// The [`Resolver`] that queries Unpaywall.
#[derive(Debug)]
pub struct Unpaywall {
    settings: Arc<Settings>,
}

impl Unpaywall {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    fn one<'a>(&'a self, work: &'a Work) -> WorkLookupStep<'a> {
        let Some(doi) = &work.identifiers.doi else {
            return Step::Done(LookupOutcome::not_found("no DOI to ask for"));
        };
        if let Some(why) = unavailable(&self.settings) {
            let failure = RequestFailure::new(Reason::ResolverUnavailable, why, None);
            return Step::Done(failure.into());
        }
        let email = email(&self.settings).unwrap_or_default();
        let mut url = self.settings.url(&API, &doi_path(doi));
        url.query_pairs_mut().append_pair("email", email);
        Step::request(LookupRequest::metadata(url, ID.as_str()), move |result| {
            Step::Done(match record(&self.settings, result, &[404, 410], "/doi") {
                Ok(value) => self.read(&value),
                Err(unanswered) => unanswered.into_outcome("Unpaywall"),
            })
        })
    }

    /// Reads a record as a [`LookupOutcome`]. Copies under embargo are skipped.
    fn read(&self, record: &Value) -> LookupOutcome {
        let mut learned = LearnedMetadata {
            year: year(record, "/year"),
            title: text(record, "/title").and_then(title),
            ..LearnedMetadata::default()
        };
        learned.statement = Some(Box::new(statements::of_unpaywall(record, &learned)));
        let mut locations: Vec<CandidateLocation> = Vec::new();
        let best = record
            .get("best_oa_location")
            .filter(|best| best.is_object());
        for copy in best.into_iter().chain(items(record, "/oa_locations")) {
            for (pointer, offers) in [
                ("/url_for_pdf", LocationOffer::Pdf),
                ("/url", LocationOffer::Unknown),
                ("/url_for_landing_page", LocationOffer::Landing),
            ] {
                let Some(location) = location_at(copy, pointer, offers, ID, &mut learned) else {
                    continue;
                };
                let version = text(copy, "/version").map(str::to_owned);
                locations.push(
                    location
                        .licence(text(copy, "/license").map(str::to_owned))
                        .version(version)
                        .rewritten(&self.settings.endpoints.of(&arxiv::API)),
                );
            }
        }
        LookupOutcome::of(
            best_first(locations),
            learned,
            "Unpaywall knows no open copy",
        )
    }
}

/// Returns the e-mail address for Unpaywall: its own setting, or else the general address.
fn email(settings: &Settings) -> Option<&str> {
    let credentials = &settings.credentials;
    credentials.get(&EMAIL).or_else(|| credentials.mailto())
}

fn unavailable(settings: &Settings) -> Option<&'static str> {
    match email(settings) {
        None => Some("it needs an e-mail address (--mailto you@example.org)"),
        Some(email) if !is_real(email) => {
            Some("it refuses made-up e-mail addresses: set unpaywall_email or mailto to a real one")
        }
        Some(_) => None,
    }
}

/// Tells whether Unpaywall accepts an address: it refuses the examples of documentation.
fn is_real(email: &str) -> bool {
    let Some((name, host)) = email.rsplit_once('@') else {
        return false;
    };
    let host = host.to_ascii_lowercase();
    let example = ["example.com", "example.org", "example.net"]
        .iter()
        .any(|example| host == *example || host.ends_with(&format!(".{example}")));
    let reserved = [".example", ".test", ".invalid", ".localhost", ".local"]
        .iter()
        .any(|suffix| host.ends_with(suffix));
    !name.is_empty()
        && host.contains('.')
        && !example
        && !reserved
        && !email.contains(char::is_whitespace)
}

impl Resolver for Unpaywall {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn unavailable(&self) -> Option<&'static str> {
        unavailable(&self.settings)
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        each(works, |work| self.one(work))
    }
}
