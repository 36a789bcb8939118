use docstokg_content::config::ResolverSettings;
use docstokg_content::location::{CandidateLocation, LocationOffer, distinct};
use docstokg_content::resolver::settings::Settings;
use docstokg_content::resolver::{ARXIV_API, OpenAlex, ResolverId, all, crossref, openalex, specs};
use docstokg_lookup::credentials::SourceCredentials;
use docstokg_lookup::endpoints::SourceEndpoints;
use std::sync::Arc;
use url::Url;

use crate::scripted_web::{CROSSREF_TOKEN, OPENALEX_KEY, Script, ask, settings};

#[test]
fn a_mirror_takes_the_place_of_a_service_and_gets_its_key() {
    let mut endpoints = SourceEndpoints::default();
    endpoints.set(
        &openalex::API,
        Url::parse("http://127.0.0.1:8080/mirror").unwrap(),
    );
    let crossref = crossref::SPEC.source.endpoints[0];
    assert_eq!(
        endpoints.of(crossref),
        SourceEndpoints::default().of(crossref)
    );
    let settings = Settings {
        endpoints,
        ..(*settings()).clone()
    };
    let mirror = Url::parse("http://127.0.0.1:8080/mirror/works/W1").unwrap();
    assert_eq!(settings.secret_headers(&mirror).len(), 1);
    assert!(
        settings
            .secret_headers(&Url::parse("https://api.openalex.org/works").unwrap())
            .is_empty(),
        "the real host is no longer the service"
    );
    assert!(
        settings
            .secret_headers(&Url::parse("http://127.0.0.1:8081/").unwrap())
            .is_empty()
    );
    let mut problems = Vec::new();
    let text = "endpoints: { openalx: \"http://x/\" }";
    let node = docstokg_config::read_text(text, "settings", &mut problems).unwrap();
    let _: ResolverSettings = docstokg_config::read("resolvers", node, &[], &mut problems);
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn request_goes_to_the_configured_mirror() {
    let mut endpoints = SourceEndpoints::default();
    endpoints.set(
        &openalex::API,
        Url::parse("https://mirror.openalex.org/base/").unwrap(),
    );
    let web = Script::new();
    ask(
        &OpenAlex::new(Arc::new(Settings {
            endpoints,
            ..Settings::default()
        })),
        &["W1"],
        &web,
    );
    assert!(web.asked()[0].starts_with("https://mirror.openalex.org/base/works/W1?select="));
}

#[test]
fn settings_are_printed_without_secrets() {
    let shown = format!("{:?}", settings());
    assert!(
        !shown.contains(OPENALEX_KEY)
            && !shown.contains(CROSSREF_TOKEN)
            && !shown.contains("reader")
            && shown.contains("***")
    );
}

#[test]
fn blank_api_key_counts_as_absent() {
    let credentials = SourceCredentials::default()
        .with(&openalex::KEY, "  ")
        .with_mailto("");
    let settings = Settings {
        credentials,
        ..Settings::default()
    };
    assert!(
        settings
            .secret_headers(&settings.endpoints.of(&openalex::API))
            .is_empty()
    );
    assert_eq!(settings.credentials.mailto(), None);
}

#[test]
fn all_resolvers_have_their_names() {
    let names: Vec<ResolverId> = all(&settings())
        .iter()
        .map(|resolver| resolver.id())
        .collect();
    let listed: Vec<ResolverId> = specs().iter().map(|spec| spec.id).collect();
    assert_eq!(names, listed);
}

#[test]
fn places_are_joined_by_their_canonical_form() {
    let url = |text: &str| Url::parse(text).unwrap();
    let arxiv = SourceEndpoints::default().of(&ARXIV_API);
    let joined = distinct([
        CandidateLocation::new(
            url("https://x.example/%7ea#p"),
            LocationOffer::Unknown,
            ResolverId::stored("a"),
        ),
        CandidateLocation::new(
            url("https://x.example/~a"),
            LocationOffer::Pdf,
            ResolverId::stored("b"),
        )
        .licence(Some("cc-by".to_owned())),
        CandidateLocation::new(
            url("http://arxiv.org/abs/2101.00001"),
            LocationOffer::Landing,
            ResolverId::stored("b"),
        )
        .rewritten(&arxiv),
        CandidateLocation::new(
            url("https://arxiv.org/pdf/2101.00001.pdf"),
            LocationOffer::Pdf,
            ResolverId::stored("c"),
        )
        .rewritten(&arxiv),
        CandidateLocation::new(
            url("http://www.nature.com/a.pdf"),
            LocationOffer::Pdf,
            ResolverId::stored("c"),
        )
        .rewritten(&arxiv),
        CandidateLocation::new(
            url("http://notnature.com/a.pdf"),
            LocationOffer::Pdf,
            ResolverId::stored("c"),
        )
        .rewritten(&arxiv),
    ]);
    let shown: Vec<String> = joined
        .iter()
        .map(|place| format!("{:?} {} {}", place.offers, place.url, place.resolver))
        .collect();
    assert_eq!(
        shown,
        [
            "Pdf https://x.example/%7ea#p a",
            "Pdf https://export.arxiv.org/pdf/2101.00001 b",
            "Pdf https://www.nature.com/a.pdf c",
            "Pdf http://notnature.com/a.pdf c"
        ]
    );
    assert_eq!(joined[0].licence.as_deref(), Some("cc-by"));
}
