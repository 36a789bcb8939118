//! Addresses that the user gives, asked for in a form that is an ontology and not a page.
//!
//! Servers of vocabularies decide by `Accept` what they send, and many send a page all the same.
//! Then the same address is asked once with a single type, and then where the page itself says
//! that the data is (`Link: rel=alternate`).

use http::HeaderMap;
use http::header::LINK;
use url::Url;

use super::{
    AbsenceReason, LookupStep, OntologyLocation, OntologySource, SourceOutcome, SourceSettings,
    SourceSpec,
};
use crate::wanted_ontology::WantedOntology;

/// What is asked for first.
pub const ACCEPT: &str =
    "text/turtle, application/rdf+xml;q=0.9, application/ld+json;q=0.8, */*;q=0.1";

/// What is asked for where a page came: one type at a time.
pub const SINGLE_TYPES: [&str; 2] = ["text/turtle", "application/rdf+xml"];

/// Addresses of the user's.
#[derive(Debug)]
pub struct Direct(SourceSpec);

/// Any address.
pub static DIRECT: Direct = Direct(SourceSpec {
    about: "an address of your own (url), with content negotiation",
    ..SourceSpec::new("direct", "direct address")
});

/// The address of a SKOS vocabulary, which is asked for in the same way.
pub static SKOS: Direct = Direct(SourceSpec {
    about: "the address of a SKOS vocabulary (url), with content negotiation",
    ..SourceSpec::new("skos", "SKOS vocabulary")
});

impl OntologySource for Direct {
    fn spec(&self) -> &SourceSpec {
        &self.0
    }

    fn begin<'a>(&'a self, wanted: &'a WantedOntology, _: &'a SourceSettings) -> LookupStep<'a> {
        let Some(url) = &wanted.url else {
            return SourceOutcome::absent(
                AbsenceReason::Unclear,
                format!("{} has no address: give it as url", wanted.id),
            );
        };
        let location = |accept: &str| OntologyLocation {
            accept: Some(accept.to_owned()),
            is_user_supplied: true,
            version: wanted.version.clone(),
            ..OntologyLocation::new(self.0.name, url.clone())
        };
        LookupStep::Done(SourceOutcome::Found(vec![location(ACCEPT)]))
    }
}

/// Returns what to try when a page came where data was asked for: the same address with each
/// single type, then what the page names as its data.
#[must_use]
pub fn after_page(
    location: &OntologyLocation,
    page: &Url,
    headers: &HeaderMap,
) -> Vec<OntologyLocation> {
    if location.accept.as_deref() != Some(ACCEPT) {
        return Vec::new();
    }
    let again = SINGLE_TYPES.iter().map(|single| OntologyLocation {
        accept: Some((*single).to_owned()),
        ..location.clone()
    });
    let linked = alternates(page, headers)
        .into_iter()
        .map(|url| OntologyLocation {
            url,
            is_user_supplied: false,
            is_authorised: false,
            accept: Some(SINGLE_TYPES[0].to_owned()),
            ..location.clone()
        });
    again.chain(linked).collect()
}

/// Reads the data that `Link` headers name as alternates (RFC 8288).
fn alternates(page: &Url, headers: &HeaderMap) -> Vec<Url> {
    const DATA: [&str; 5] = [
        "text/turtle",
        "application/rdf+xml",
        "application/ld+json",
        "application/n-triples",
        "text/n3",
    ];
    let mut found = Vec::new();
    for value in headers
        .get_all(LINK)
        .iter()
        .filter_map(|value| value.to_str().ok())
    {
        for link in value.split(",<").flat_map(|part| part.split(", <")) {
            let Some((target, parameters)) = link.trim_start_matches('<').split_once('>') else {
                continue;
            };
            let parameters = parameters.to_ascii_lowercase();
            let names = |text: &str| parameters.contains(text);
            let is_alternate = names("rel=\"alternate\"") || names("rel=alternate");
            if is_alternate
                && DATA.iter().any(|kind| names(kind))
                && let Ok(url) = page.join(target.trim())
            {
                found.push(url);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_asked_again_and_then_what_it_links() {
        let url: Url = "https://example.org/vocab".parse().unwrap();
        let first = OntologyLocation {
            accept: Some(ACCEPT.to_owned()),
            is_user_supplied: true,
            ..OntologyLocation::new("direct", url.clone())
        };
        let mut headers = HeaderMap::new();
        let links = "</vocab.ttl>; rel=\"alternate\"; type=\"text/turtle\", \
                     <https://other.org/a.html>; rel=alternate; type=text/html, <x>; rel=next";
        headers.insert(LINK, links.parse().unwrap());
        let tried = after_page(&first, &url, &headers);
        let shown: Vec<(&str, &str)> = tried
            .iter()
            .map(|location| (location.url.path(), location.accept.as_deref().unwrap()))
            .collect();
        assert_eq!(
            shown,
            [
                ("/vocab", "text/turtle"),
                ("/vocab", "application/rdf+xml"),
                ("/vocab.ttl", "text/turtle"),
            ]
        );
        assert!(!tried[2].is_user_supplied);
        // Once is enough.
        assert!(after_page(&tried[0], &url, &headers).is_empty());
    }
}
