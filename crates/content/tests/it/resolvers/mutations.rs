//! Every fixture with every value replaced by every kind of nonsense: nothing panics, and nothing
//! but links is offered.

use std::sync::Arc;

use docstokg_content::location::CandidateLocation;
use docstokg_content::resolver::{
    Arxiv, Crossref, Doaj, EuropePmc, Figshare, Hal, LookupOutcome, OpenAlex, Osf, Pmc, Resolver,
    Unpaywall, Wayback, Zenodo,
};
use docstokg_content::work::Work;
use serde_json::{Value, json};
use url::Url;

use crate::scripted_web::{Script, fixture, resolve, settings, work};

/// Returns pointers to all values of a tree.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointers(item, &format!("{at}/{index}"), all);
            }
        }
        Value::Object(object) => {
            for (key, item) in object {
                pointers(
                    item,
                    &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                    all,
                );
            }
        }
        _ => {}
    }
}

fn mutations(path: &str) -> Vec<Vec<u8>> {
    let original: Value = serde_json::from_slice(&fixture(path)).unwrap();
    let mut all = Vec::new();
    pointers(&original, "", &mut all);
    let nonsense = [
        json!(null),
        json!("null"),
        json!(""),
        json!("\u{1f600}\u{0}x"),
        json!(-1),
        json!(1e300),
        json!([]),
        json!({}),
        json!([null]),
        json!(true),
        json!({"URL": "javascript:x"}),
    ];
    let mut bodies = Vec::new();
    for pointer in &all {
        for value in &nonsense {
            let mut mutated = original.clone();
            *mutated.pointer_mut(pointer).unwrap() = value.clone();
            bodies.push(serde_json::to_vec(&mutated).unwrap());
        }
    }
    bodies
}

pub(crate) fn check(
    resolver: &dyn Resolver,
    works: &[Work],
    bodies: impl IntoIterator<Item = Vec<u8>>,
    script: impl Fn(Vec<u8>) -> Script,
) {
    for body in bodies {
        for outcome in resolve(resolver, works, &script(body.clone())) {
            let fetchable = |place: &CandidateLocation| {
                matches!(place.url.scheme(), "http" | "https")
                    && place.url.has_host()
                    && place.url.password().is_none()
            };
            if let LookupOutcome::Found(found) = outcome {
                assert!(
                    !found.locations.is_empty() && found.locations.iter().all(fetchable),
                    "{}",
                    String::from_utf8_lossy(&body)
                );
            }
        }
    }
}

/// The repositories, each with a work and an answer about it.
pub(crate) fn repositories() -> [(Arc<dyn Resolver>, &'static str, &'static str); 8] {
    let settings = settings();
    [
        (
            Arc::new(Zenodo::new(settings.clone())),
            "10.5281/zenodo.7000123",
            "zenodo/record.json",
        ),
        (
            Arc::new(Zenodo::new(settings.clone())),
            "10.5281/zenodo.7000200",
            "zenodo/dataset.json",
        ),
        (
            Arc::new(Figshare::new(settings.clone())),
            "10.6084/m9.figshare.9123456",
            "figshare/article.json",
        ),
        (
            Arc::new(Figshare::new(settings.clone())),
            "10.6084/m9.figshare.9200001",
            "figshare/many.json",
        ),
        (
            Arc::new(Osf::new(settings.clone())),
            "10.31234/osf.io/k3m7p",
            "osf/preprint.json",
        ),
        (
            Arc::new(Hal::new(settings.clone())),
            "10.1000/tides",
            "hal/search.json",
        ),
        (
            Arc::new(Hal::new(settings.clone())),
            "https://hal.science/hal-01234567",
            "hal/search.json",
        ),
        (
            Arc::new(Doaj::new(settings)),
            "10.1000/bees",
            "doaj/search.json",
        ),
    ]
}

#[test]
fn no_value_of_any_answer_is_trusted() {
    let (one, two) = ([work("10.1000/a")], [work("10.1000/a"), work("10.1000/b")]);
    let any =
        |body: Vec<u8>| Script::new().with("https://", 200, body, &[], "https://service.example/");
    let settings = settings();
    let mutate = |resolver: &dyn Resolver, works: &[Work], path: &str| {
        check(resolver, works, mutations(path), any);
    };
    let openalex = OpenAlex::new(settings.clone());
    mutate(&openalex, &one, "openalex/work.json");
    mutate(&openalex, &one, "openalex/sparse.json");
    mutate(&openalex, &two, "openalex/list.json");
    let unpaywall = Unpaywall::new(settings.clone());
    mutate(&unpaywall, &one, "unpaywall/record.json");
    let crossref = Crossref::new(settings.clone());
    mutate(&crossref, &one, "crossref/work.json");
    mutate(&crossref, &two, "crossref/list.json");
    let datacite = |body: Vec<u8>| {
        Script::new().on("https://api.crossref.org/", 404, "").with(
            "https://",
            200,
            body,
            &[],
            "https://service.example/",
        )
    };
    check(
        &crossref,
        &one,
        mutations("crossref/datacite.json"),
        datacite,
    );
    let europe_pmc = EuropePmc::new(settings.clone());
    mutate(&europe_pmc, &one, "europe_pmc/search.json");
    let pmc = Pmc::new(settings.clone());
    mutate(&pmc, &two, "pmc/converted.json");
    mutate(&pmc, &[work("PMC123.2")], "pmc/metadata.json");
    for (resolver, id, path) in repositories() {
        mutate(&*resolver, &[work(id)], path);
    }
    let mut gone = work("10.1000/a");
    gone.failed_urls = vec![Url::parse("https://gone.example/a.pdf").unwrap()];
    mutate(&Wayback::new(settings), &[gone], "wayback/cdx.json");
}

#[test]
fn no_answer_that_breaks_off_panics() {
    let cuts = |path: &str| -> Vec<Vec<u8>> {
        let whole = fixture(path);
        (0..whole.len())
            .map(|length| whole[..length].to_vec())
            .collect()
    };
    let any =
        |body: Vec<u8>| Script::new().with("https://", 200, body, &[], "https://service.example/");
    check(
        &Arxiv::new(settings()),
        &[work("2002.00741")],
        cuts("arxiv/feed.xml"),
        any,
    );
    check(
        &Pmc::new(settings()),
        &[work("PMC500")],
        cuts("pmc/listing.xml"),
        any,
    );
    check(
        &OpenAlex::new(settings()),
        &[work("W1")],
        cuts("openalex/work.json"),
        any,
    );
}
