//! Fetches ontologies from URLs that the user gives.
//!
//! Servers of vocabularies choose between an ontology and a web page by the `Accept` field, and
//! many send a page although the request prefers ontologies. Then the same URL is requested again,
//! with a single media type each time. Last, the URLs are tried that the page declares for its data
//! (`Link: rel=alternate`).

use http::HeaderMap;
use http::header::LINK;
use url::Url;

use super::{
    AbsenceReason, LookupStep, OntologyLocation, OntologySource, SourceOutcome, SourceSettings,
    SourceSpec,
};
use crate::wanted_ontology::WantedOntology;

/// Media types of the first request.
pub const ACCEPT: &str =
    "text/turtle, application/rdf+xml;q=0.9, application/ld+json;q=0.8, */*;q=0.1";

/// Media types of the requests after a page: one at a time.
pub const SINGLE_TYPES: [&str; 2] = ["text/turtle", "application/rdf+xml"];

/// Addresses from the user, as an [`OntologySource`].
#[derive(Debug)]
pub struct Direct(SourceSpec);

/// The source `direct`, for the URL of any ontology.
pub static DIRECT: Direct = Direct(SourceSpec {
    about: "an address of your own (url), with content negotiation",
    ..SourceSpec::new("direct", "direct address")
});

/// The source for the URL of a SKOS vocabulary, which behaves like [`DIRECT`].
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

/// Returns the locations to try after a server returned a page in place of an ontology.
///
/// First comes the same URL with each single media type, then the links of the page to its data.
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

/// Reads the URLs that `Link` header fields declare as alternates of a page (RFC 8288).
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
        // If a location that was derived from a page returns a page as well, no further locations
        // follow.
        assert!(after_page(&tried[0], &url, &headers).is_empty());
    }
}
