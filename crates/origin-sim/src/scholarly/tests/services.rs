//! Tests of limits, outages and responses of the services.

use std::collections::HashSet;
use std::time::Duration;

use docstokg_policy::time::{BootInstant, Timestamp};

use super::{Visitor, json, plan};
use crate::ledger::Arrival;
use crate::origin::SimulatedWeb;
use crate::scholarly::{LibraryPlan, WorkLibrary, file, hosts};

#[test]
fn checksums_of_pubmed_central_are_right_but_for_a_few() {
    let library = WorkLibrary::generate(&plan());
    let visitor = Visitor::new(&library);
    for (paper, central) in library
        .world
        .papers
        .iter()
        .filter_map(|paper| Some((paper, paper.central?)))
    {
        let stem = format!("PMC{}.{}", central.pmcid, central.version);
        let metadata = json(
            &visitor,
            &format!("http://{}/metadata/{stem}.json", hosts::PMC_BUCKET),
        );
        let right = |field: &str, ending: &str| {
            let (_, bytes) = visitor.fetch(&format!(
                "http://{}/{stem}/{stem}.{ending}",
                hosts::PMC_BUCKET
            ));
            metadata[field]
                .as_str()
                .is_some_and(|url| url.ends_with(&format!("?md5={}", file::md5(&bytes))))
        };
        assert_eq!(
            (right("pdf_url", "pdf"), right("xml_url", "xml")),
            (central.pdf && !central.wrong_checksum, true),
            "{}",
            paper.title
        );
    }
}

#[test]
fn limits_are_kept_and_reported_in_the_manner_of_each_host() {
    let library = WorkLibrary::generate(&LibraryPlan {
        scale: 5,
        works: 10,
        ..plan()
    });
    assert!(library.limits().contains(&(
        "export.arxiv.org".to_owned(),
        "all".to_owned(),
        "5/3SECOND".to_owned()
    )));
    assert!(library.limits().contains(&(
        "api.crossref.org".to_owned(),
        "list".to_owned(),
        "15/SECOND".to_owned()
    )));
    let after = |host: &str, path: &str, allowed: usize| {
        let web = SimulatedWeb::new(library.origins(), BootInstant::ZERO);
        let at = BootInstant::ZERO + Duration::from_secs(60);
        let ask = || {
            web.ask(Arrival::get(host, path, at), Timestamp::from_micros(0))
                .unwrap()
        };
        for _ in 0..allowed {
            assert_ne!(ask().status, 429, "{host}{path}");
        }
        let reply = ask();
        assert_eq!(reply.status, 429, "{host}{path}");
        reply
            .headers
            .iter()
            .find(|(name, _)| name == "retry-after")
            .map(|(_, value)| value.clone())
    };
    assert_eq!(
        after("api.openalex.org", "/works", 50).as_deref(),
        Some("1")
    );
    assert_eq!(after("export.arxiv.org", "/api/query", 5), None);
    assert!(
        after("api.crossref.org", "/works?filter=doi:10.1/x", 15)
            .unwrap()
            .ends_with("GMT")
    );
    assert!(after("api.crossref.org", "/works/10.1/x", 50).is_some());
    assert!(after("web.archive.org", "/cdx/search/cdx?url=x", 120).is_some());
    assert_eq!(
        after("web.archive.org", "/web/2020id_/x", 5).as_deref(),
        Some("1")
    );
    assert!(after("journals.press-one.example", "/article/1", 10).is_some());
}

#[test]
fn library_takes_one_api_down_for_a_while() {
    let library = WorkLibrary::generate(&plan());
    let web = SimulatedWeb::new(library.origins(), BootInstant::ZERO);
    let status = |milliseconds: u64| {
        let at = BootInstant::ZERO + Duration::from_millis(milliseconds);
        web.ask(
            Arrival::get("api.unpaywall.org", "/v2/10.1/x?email=a@b.org", at),
            Timestamp::from_micros(0),
        )
        .unwrap()
        .status
    };
    assert_eq!(
        [status(500), status(1500), status(3900), status(4100)],
        [404, 503, 503, 404]
    );
}

#[test]
fn a_catalogue_can_be_paged_through_by_topic_and_year() {
    let library = WorkLibrary::generate(&plan());
    let visitor = Visitor::new(&library);
    let topics = json(
        &visitor,
        "http://api.openalex.org/topics?search=knowledge+graph",
    );
    let topic = topics["results"][0]["id"]
        .as_str()
        .unwrap()
        .rsplit('/')
        .next()
        .unwrap()
        .to_owned();
    let mut cursor = "*".to_owned();
    let (mut ids, mut count) = (HashSet::new(), 0);
    loop {
        let encoded: String = url::form_urlencoded::byte_serialize(cursor.as_bytes()).collect();
        let filter = format!("topics.id:{topic},publication_year:2018-2022");
        let query = format!("filter={filter}&per_page=5&select=id,publication_year");
        let page = json(
            &visitor,
            &format!("http://api.openalex.org/works?{query}&cursor={encoded}"),
        );
        count = count.max(page["meta"]["count"].as_u64().unwrap());
        for work in page["results"].as_array().unwrap() {
            assert!(
                (2018..=2022).contains(&work["publication_year"].as_i64().unwrap())
                    && work.get("doi").is_none()
            );
            ids.insert(work["id"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["meta"]["next_cursor"].as_str() else {
            break;
        };
        next.clone_into(&mut cursor);
    }
    assert!(
        count > 10 && ids.len() as u64 == count,
        "{count} {}",
        ids.len()
    );
    assert_eq!(
        visitor
            .get("http://api.openalex.org/works?filter=nonsense:1")
            .status,
        400
    );
}

/// Visits every named string of a response.
fn walk(value: &serde_json::Value, visit: &mut impl FnMut(&str, &str)) {
    match value {
        serde_json::Value::Object(object) => object.iter().for_each(|(name, value)| {
            if let Some(text) = value.as_str() {
                visit(name, text);
            }
            walk(value, visit);
        }),
        serde_json::Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
        _ => {}
    }
}

#[test]
fn every_url_is_http_at_a_host_of_the_library() {
    let library = WorkLibrary::generate(&plan());
    let visitor = Visitor::new(&library);
    let hosts: HashSet<String> = library.hosts().into_iter().collect();
    assert_eq!(hosts.len(), library.origins().len());
    let fields = [
        "landing_page_url",
        "pdf_url",
        "oa_url",
        "url_for_pdf",
        "url_for_landing_page",
        "url",
        "URL",
    ];
    let mut seen = 0;
    for (doi, _) in library
        .world
        .papers
        .iter()
        .filter_map(|paper| paper.doi.as_ref())
    {
        let encoded =
            percent_encoding::utf8_percent_encode(doi, percent_encoding::NON_ALPHANUMERIC);
        for base in [
            "api.openalex.org/works/doi:",
            "api.unpaywall.org/v2/",
            "api.datacite.org/dois/",
        ] {
            let (status, bytes) = visitor.fetch(&format!("http://{base}{encoded}?email=a@b.org"));
            let answer: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            walk(&answer, &mut |name, text| {
                if status == 200 && fields.contains(&name) {
                    seen += 1;
                    let host = text
                        .strip_prefix("http://")
                        .and_then(|rest| rest.split('/').next());
                    assert!(
                        host.is_some_and(|host| hosts.contains(host)),
                        "{name}: {text}"
                    );
                }
            });
        }
    }
    assert!(seen > 500, "{seen}");
}
