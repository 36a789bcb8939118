//! Simulated registries of ontologies and the hosts of their files, with the expected result for
//! each ontology.
//!
//! The responses have the form of the real services, including difficult cases:
//! - Files behind chains of PURLs.
//! - A location on the registry's own loopback interface.
//! - An obsolete entry.
//! - A file that its licence restricts.

use crate::ledger::Arrival;
use crate::origin::OriginScript;
use crate::reply::ScriptedReply;

/// The registry of the OBO Foundry.
pub const OBO_REGISTRY: &str = "obofoundry.org";
/// The PURL server of the OBO Foundry.
pub const PURL: &str = "purl.obolibrary.org";
/// The host of the projects' files.
pub const FILES: &str = "raw.githubusercontent.com";
/// The Ontology Lookup Service.
pub const OLS: &str = "www.ebi.ac.uk";
/// A portal with the software of `BioPortal`.
pub const PORTAL: &str = "data.bioontology.org";
/// The key that the portal accepts.
pub const PORTAL_KEY: &str = "demo-key";

/// The rate limits of the hosts.
pub const LIMITS: [(&str, &str); 5] = [
    (OBO_REGISTRY, "10/SECOND"),
    (PURL, "10/SECOND"),
    (FILES, "10/SECOND"),
    (OLS, "20/SECOND"),
    (PORTAL, "20/SECOND"),
];

/// The expected result for an ontology of an [`OntologyWorld`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OntologyTruth {
    /// The id of the ontology.
    pub id: String,
    /// The version; `None` if no file is available.
    pub version: Option<String>,
    /// The reason for a missing file, in the words of the program.
    pub reason: Option<&'static str>,
}

/// Simulated ontologies at several registries.
#[derive(Clone, Debug)]
pub struct OntologyWorld {
    count: usize,
}

/// The registry that lists an ontology, and its fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OntologyKind {
    /// Listed by the OBO Foundry, behind a PURL.
    Obo,
    /// Listed by OLS, at a public address.
    Ols,
    /// Listed by OLS with a location on the registry's own loopback interface, and with a public
    /// version IRI.
    OlsLoopback,
    /// Listed by the portal.
    Portal,
    /// Listed by the portal, and restricted by its licence.
    Restricted,
    /// Marked as obsolete by the OBO Foundry, and not listed elsewhere.
    Obsolete,
}

impl OntologyWorld {
    /// Creates a world of `count` ontologies.
    #[must_use]
    pub const fn new(count: usize) -> Self {
        Self { count }
    }

    fn kind(number: usize) -> OntologyKind {
        match number % 10 {
            0 => OntologyKind::Obsolete,
            1 => OntologyKind::Restricted,
            2 => OntologyKind::OlsLoopback,
            3 | 4 => OntologyKind::Ols,
            5 => OntologyKind::Portal,
            _ => OntologyKind::Obo,
        }
    }

    /// Returns the expected result for each ontology.
    #[must_use]
    pub fn truth(&self) -> Vec<OntologyTruth> {
        let truth = |number: usize| {
            let reason = match Self::kind(number) {
                OntologyKind::Restricted => Some("restricted"),
                OntologyKind::Obsolete => Some("obsolete"),
                _ => None,
            };
            OntologyTruth {
                id: format!("demo{number}"),
                version: reason.is_none().then(|| version(number)),
                reason,
            }
        };
        (0..self.count).map(truth).collect()
    }

    /// Returns the names of all hosts.
    #[must_use]
    pub fn hosts(&self) -> Vec<&'static str> {
        LIMITS.iter().map(|(host, _)| *host).collect()
    }

    /// Returns every host with its limits, as an [`OriginScript`].
    #[must_use]
    pub fn origins(&self) -> Vec<OriginScript> {
        let count = self.count;
        let limited = |host: &'static str| {
            let rate = LIMITS.iter().find(|(known, _)| *known == host);
            let origin = OriginScript::new(host);
            match rate {
                Some((_, rate)) => origin.limit(rate),
                None => origin,
            }
        };
        vec![
            limited(OBO_REGISTRY).handler(move |_, _| registry(count)),
            limited(PURL).handler(|arrival, _| {
                let name = arrival.path.rsplit('/').next().unwrap_or_default();
                ScriptedReply::redirect(302, &format!("http://{FILES}/ontologies/main/{name}"))
            }),
            limited(FILES).handler(|arrival, _| file(arrival)),
            limited(OLS).handler(move |arrival, _| ols(arrival, count)),
            limited(PORTAL).handler(move |arrival, _| portal(arrival, count)),
        ]
    }
}

fn version(number: usize) -> String {
    format!("2026-{:02}-{:02}", 1 + number % 12, 1 + number % 28)
}

/// Reads the number of an ontology from its id, such as `demo12`. Returns `None` if the text is not
/// the id of one of the `count` ontologies.
fn number(text: &str, count: usize) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.strip_prefix("demo")?;
    let number = digits.parse().ok()?;
    (number < count).then_some(number)
}

fn registry(count: usize) -> ScriptedReply {
    let entries: Vec<String> = (0..count)
        .filter_map(|number| match OntologyWorld::kind(number) {
            OntologyKind::Obo => Some(format!(
                r#"{{"id":"demo{number}","title":"Demo {number}","license":{{"url":"http://creativecommons.org/licenses/by/4.0/","label":"CC BY 4.0"}},"activity_status":"active","products":[{{"id":"demo{number}.obo","ontology_purl":"http://{PURL}/obo/demo{number}.obo"}}]}}"#
            )),
            OntologyKind::Obsolete => Some(format!(
                r#"{{"id":"demo{number}","is_obsolete":true,"replaced_by":"demo6","activity_status":"inactive"}}"#
            )),
            _ => None,
        })
        .collect();
    let text = format!(
        r#"{{"@context":"http://{OBO_REGISTRY}/registry/context.jsonld","ontologies":[{}]}}"#,
        entries.join(",")
    );
    ScriptedReply::ok(text).header("content-type", "application/ld+json")
}

/// Returns an OBO file, or status 304 if the client's validator shows that it has the file.
fn file(arrival: &Arrival) -> ScriptedReply {
    let name = arrival.path.rsplit('/').next().unwrap_or_default();
    let stem = name.strip_suffix(".obo").unwrap_or(name);
    let Some(number) = number(stem, usize::MAX) else {
        return ScriptedReply::status(404);
    };
    let etag = format!("\"{stem}-{}\"", version(number));
    if arrival.header("if-none-match") == Some(etag.as_str()) {
        return ScriptedReply::status(304);
    }
    ScriptedReply::ok(obo(number))
        .header("etag", &etag)
        .header("content-type", "text/plain; charset=utf-8")
}

fn obo(number: usize) -> String {
    let mut text = format!(
        "format-version: 1.2\ndata-version: releases/{}\nontology: demo{number}\n",
        version(number)
    );
    for term in 0..(50 + number * 7 % 200) {
        text.push_str(&format!(
            "\n[Term]\nid: DEMO:{term:07}\nname: term {term} of ontology {number}\n"
        ));
        if term > 0 {
            text.push_str(&format!("is_a: DEMO:{:07}\n", term / 2));
        }
    }
    text
}

fn ols(arrival: &Arrival, count: usize) -> ScriptedReply {
    let id = arrival.path.rsplit('/').next().unwrap_or_default();
    let Some(number) = number(id, count) else {
        return ScriptedReply::status(404).body("{}");
    };
    let address = format!("http://{FILES}/ontologies/main/demo{number}.obo");
    let (location, iri) = match OntologyWorld::kind(number) {
        OntologyKind::Ols => (address, "null".to_owned()),
        OntologyKind::OlsLoopback => ("http://127.0.0.1:8080/demo.obo".to_owned(), address),
        _ => return ScriptedReply::status(404).body("{}"),
    };
    ScriptedReply::ok(format!(
        r#"{{"ontologyId":"demo{number}","status":"LOADED","version":"null","config":{{"id":"demo{number}","versionIri":"{iri}","fileLocation":"{location}","allowDownload":"false","license":{{"url":"https://creativecommons.org/licenses/by/4.0/"}}}}}}"#
    ))
}

fn portal(arrival: &Arrival, count: usize) -> ScriptedReply {
    if arrival.header("authorization") != Some(format!("apikey token={PORTAL_KEY}").as_str()) {
        return ScriptedReply::status(401)
            .body(r#"{"errors":["You must provide a valid API Key"],"status":401}"#);
    }
    let mut parts = arrival.path.trim_start_matches('/').split(['/', '?']);
    let acronym = parts.nth(1).unwrap_or_default();
    let Some(number) = number(acronym, count) else {
        return ScriptedReply::status(404).body(r#"{"errors":["Not found"],"status":404}"#);
    };
    let kind = OntologyWorld::kind(number);
    if !matches!(kind, OntologyKind::Portal | OntologyKind::Restricted) {
        return ScriptedReply::status(404).body(r#"{"errors":["Not found"],"status":404}"#);
    }
    if arrival.path.contains("/latest_submission") {
        return ScriptedReply::ok(format!(
            r#"{{"submissionId":3,"version":"{}","hasOntologyLanguage":"OBO","hasLicense":"https://creativecommons.org/licenses/by/4.0/"}}"#,
            version(number)
        ));
    }
    if kind == OntologyKind::Restricted {
        return ScriptedReply::status(403)
            .body(r#"{"errors":["License restrictions"],"status":403}"#);
    }
    ScriptedReply::ok(obo(number)).header(
        "content-disposition",
        &format!("attachment; filename=\"demo{number}.obo\""),
    )
}
