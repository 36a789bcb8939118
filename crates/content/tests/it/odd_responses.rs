//! Single works whose hosts answer oddly, under simulated time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use docstokg_bulk::scheduler::RunEnd;
use docstokg_content::identifier::Identifier;
use docstokg_content::run::inputs::WorkList;
use docstokg_content::work::Work;
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::run_world::{World, pdf};

/// One host that plays the services, the publisher and the rest. `answer` gets the path without
/// what the services add, and how often that path was asked for before.
pub(crate) fn world(answer: impl Fn(&str, u32) -> ScriptedReply + Send + Sync + 'static) -> World {
    let asked = parking_lot::Mutex::new(std::collections::HashMap::<String, AtomicU32>::new());
    let origin = OriginScript::new("svc.example").handler(move |arrival, _| {
        let path = arrival
            .path
            .split('?')
            .next()
            .unwrap_or_default()
            .to_owned();
        let before = asked
            .lock()
            .entry(path.clone())
            .or_default()
            .fetch_add(1, Ordering::Relaxed);
        if path == "/robots.txt" {
            ScriptedReply::status(404)
        } else {
            answer(&path, before)
        }
    });
    let yaml = "version: 1\nlimits: { hosts: { svc.example: { artifact: { rates: [] }, landing: { rates: [] }, metadata: { rates: [] } } } }\n";
    World::new(vec![origin], yaml, |service| {
        Some(format!("http://svc.example/{service}/"))
    })
}

/// Runs one work, and returns its manifest record and how long it took.
pub(crate) fn get(world: &World, name: &str) -> (serde_json::Value, Duration) {
    let work = Work::new(Identifier::parse(name).unwrap());
    let (ended, took, _) = world.run(Box::new(WorkList::new("list", vec![work])), |_| {});
    assert!(matches!(ended, RunEnd::Complete), "{name}: {ended:?}");
    (
        world
            .records()
            .into_iter()
            .find(|record| record["record_type"] == "manifest")
            .unwrap(),
        took,
    )
}

pub(crate) fn asked(world: &World, path: &str) -> usize {
    world
        .web
        .ledger()
        .arrivals()
        .iter()
        .filter(|arrival| arrival.path.split('?').next() == Some(path))
        .count()
}

/// The answer of a service that names a file at a path of the host.
pub(crate) fn found_at(place: &str) -> ScriptedReply {
    let location = format!(
        r#"{{"url_for_pdf":"http://svc.example{place}","url":"http://svc.example{place}","url_for_landing_page":null}}"#
    );
    ScriptedReply::ok(format!(r#"{{"doi":"10.5555/a","is_oa":true,"title":"A","best_oa_location":{location},"oa_locations":[{location}]}}"#))
        .header("content-type", "application/json")
}

pub(crate) fn page(head: &str) -> ScriptedReply {
    ScriptedReply::ok(format!("<!doctype html><html><head><title>An article</title>{head}</head><body><p>Words.</p></body></html>"))
        .header("content-type", "text/html")
}

#[test]
fn a_page_that_names_nothing_does_not_stand_for_the_work_s_own() {
    let world = world(|path, _| match path {
        "/unpaywall/10.5555/a" => found_at("/soft.pdf"),
        "/soft.pdf" => page(""),
        "/doi/10.5555/a" => {
            page(r#"<meta name="citation_pdf_url" content="http://svc.example/good.pdf">"#)
        }
        "/good.pdf" => pdf(path),
        _ => ScriptedReply::status(404),
    });
    let (record, _) = get(&world, "10.5555/a");
    assert_eq!(record["classification"], "pdf", "{record}");
    assert_eq!(
        (asked(&world, "/soft.pdf"), asked(&world, "/doi/10.5555/a")),
        (1, 1)
    );
}

/// A page of that length waits in a file until it is read.
#[test]
fn a_page_of_hundreds_of_kilobytes_is_read_to_its_end() {
    let world = world(|path, _| match path {
        "/doi/10.5555/a" => page(&format!(
            "<!--{}--><meta name=citation_pdf_url content=http://svc.example/good.pdf>",
            "x".repeat(600 << 10)
        )),
        "/good.pdf" => pdf(path),
        _ => ScriptedReply::status(404),
    });
    let (record, _) = get(&world, "10.5555/a");
    assert_eq!(record["classification"], "pdf", "{record}");
}

#[test]
fn a_service_or_page_that_pauses_is_asked_when_it_said() {
    let paused = |before: u32| {
        (before == 0).then(|| ScriptedReply::status(503).header("retry-after", "120"))
    };
    let world = world(move |path, before| match path {
        "/unpaywall/10.5555/a" => paused(before).unwrap_or_else(|| found_at("/gone.pdf")),
        "/doi/10.5555/a" => paused(before).unwrap_or_else(|| {
            page(r#"<meta name="citation_pdf_url" content="http://svc.example/good.pdf">"#)
        }),
        "/good.pdf" => pdf(path),
        _ => ScriptedReply::status(404),
    });
    let (record, took) = get(&world, "10.5555/a");
    assert_eq!(record["classification"], "pdf", "{record}");
    assert!(
        took >= Duration::from_secs(120) && took < Duration::from_secs(400),
        "{took:?}"
    );
    world
        .web
        .ledger()
        .nothing_before_retry_after("svc.example")
        .unwrap();
}

#[test]
fn a_file_that_is_being_prepared_is_asked_for_when_the_server_said() {
    let world = world(|path, before| match (path, before) {
        ("/prepared.pdf", 0) => ScriptedReply::status(202).header("retry-after", "250"),
        ("/prepared.pdf", _) => pdf(path),
        _ => ScriptedReply::status(404),
    });
    let (record, took) = get(&world, "http://svc.example/prepared.pdf");
    assert_eq!(record["classification"], "pdf", "{record}");
    assert!(
        took >= Duration::from_secs(250) && took < Duration::from_secs(260),
        "{took:?}"
    );
    assert_eq!(asked(&world, "/prepared.pdf"), 2);
}

#[test]
fn a_stub_that_sends_browsers_on_is_followed() {
    let world = world(|path, _| match path {
        "/start" => page(r#"<meta http-equiv="refresh" content="0; url=/article">"#),
        "/article" => {
            page(r#"<meta name="citation_pdf_url" content="http://svc.example/good.pdf">"#)
        }
        "/good.pdf" => pdf(path),
        _ => ScriptedReply::status(404),
    });
    let (record, _) = get(&world, "http://svc.example/start");
    assert_eq!(record["classification"], "pdf", "{record}");
    assert_eq!((asked(&world, "/start"), asked(&world, "/article")), (1, 1));
}

#[test]
fn bot_challenge_is_requested_once_despite_a_retryable_status() {
    let wall = "<!doctype html><html><head><title>Just a moment...</title></head><body>cf-chl</body></html>";
    let world = world(move |path, _| match path {
        "/walled.pdf" => ScriptedReply::status(503)
            .body(wall)
            .header("content-type", "text/html"),
        _ => ScriptedReply::status(404),
    });
    let (record, _) = get(&world, "http://svc.example/walled.pdf");
    assert_eq!(record["reason"], "bot_challenge", "{record}");
    assert_eq!(asked(&world, "/walled.pdf"), 1);
}

#[test]
fn a_part_that_nobody_asked_for_is_no_file_and_not_asked_for_again() {
    let world = world(|path, _| match path {
        "/part.pdf" => ScriptedReply::status(206)
            .header("content-range", "bytes 0-99/5000")
            .body("%PDF-1.7\n".to_owned() + &" ".repeat(91)),
        _ => ScriptedReply::status(404),
    });
    let (record, _) = get(&world, "http://svc.example/part.pdf");
    assert_eq!(record["reason"], "http_status", "{record}");
    assert!(
        record["reason_detail"]
            .as_str()
            .unwrap_or_default()
            .contains("a part of the file"),
        "{record}"
    );
    assert_eq!(asked(&world, "/part.pdf"), 1);
}

/// A PDF whose metadata names a DOI and a title.
fn pdf_of(doi: &str, title: &str) -> ScriptedReply {
    let xmp = format!(
        "<x:xmpmeta><prism:doi>{doi}</prism:doi><dc:title><rdf:Alt><rdf:li>{title}</rdf:li></rdf:Alt></dc:title></x:xmpmeta>"
    );
    let noted = format!("{xmp}{}", " ".repeat(1_200));
    ScriptedReply::ok(docstokg_origin_sim::pdf::carrying(noted.as_bytes()))
        .header("content-type", "application/pdf")
}

const ABOUT: &str = r#"<meta name="citation_title" content="Assessment of virus infection in hens"><meta name="citation_doi" content="10.5555/a">
    <meta name="citation_pdf_url" content="http://svc.example/linked.pdf">"#;

#[test]
fn a_file_that_names_another_work_is_not_saved_and_one_that_names_the_work_is_evidence() {
    for (doi, title, reason, evidence) in [
        (
            "10.5555/other",
            "Grants manual of the commission",
            Some("wrong_work"),
            None,
        ),
        (
            "10.5555/a",
            "Grants manual of the commission",
            None,
            Some("metadata"),
        ),
        (
            "10.5555/preprint",
            "Assessment of virus infection in hens",
            None,
            Some("metadata"),
        ),
        ("", "Microsoft Word - manual.doc", None, Some("none")),
    ] {
        let world = world(move |path, _| match path {
            "/doi/10.5555/a" => page(ABOUT),
            "/linked.pdf" => pdf_of(doi, title),
            _ => ScriptedReply::status(404),
        });
        let (record, _) = get(&world, "10.5555/a");
        assert_eq!(
            (record["reason"].as_str(), record["evidence"].as_str()),
            (reason, evidence),
            "{doi} {title}: {record}"
        );
        assert_eq!(record["path"].is_string(), reason.is_none());
    }
}

#[test]
fn a_copy_that_a_service_declares_is_taken_whatever_its_metadata_says() {
    let world = world(|path, _| match path {
        "/unpaywall/10.5555/a" => found_at("/accepted.pdf"),
        "/accepted.pdf" => pdf_of("10.5555/other", "Grants manual of the commission"),
        _ => ScriptedReply::status(404),
    });
    let (record, _) = get(&world, "10.5555/a");
    assert_eq!(
        (&record["classification"], &record["evidence"]),
        (&"pdf".into(), &"none".into()),
        "{record}"
    );
}

#[test]
fn the_reason_is_what_stood_between_the_user_and_the_file() {
    let world = world(|path, _| match path {
        "/unpaywall/10.5555/a" => found_at("/refused.pdf"),
        "/refused.pdf" => ScriptedReply::status(403).body("<h1>Forbidden</h1>"),
        _ => ScriptedReply::status(404),
    });
    let (record, _) = get(&world, "10.5555/a");
    assert_eq!(
        (&record["reason"], &record["http_status"]),
        (&"http_status".into(), &403.into()),
        "{record}"
    );
    assert!(
        record["reason_detail"].as_str().unwrap().contains("403"),
        "{record}"
    );
    let attempts: Vec<_> = world
        .records()
        .into_iter()
        .filter(|record| record["record_type"] == "attempt")
        .collect();
    assert!(
        attempts
            .iter()
            .any(|attempt| attempt["resolver_name"] == "europe_pmc"
                && attempt["reason"] == "not_found"),
        "{attempts:?}"
    );
    assert!(
        attempts.iter().any(|attempt| attempt["http_status"] == 403),
        "{attempts:?}"
    );
}

#[test]
fn a_refusal_that_passed_does_not_remain_as_the_reason() {
    let world = world(|path, before| match (path, before) {
        ("/unpaywall/10.5555/a", _) => found_at("/later.pdf"),
        ("/later.pdf", 0) => ScriptedReply::status(503).header("retry-after", "60"),
        _ => ScriptedReply::status(404),
    });
    let (record, _) = get(&world, "10.5555/a");
    assert_eq!(
        (&record["reason"], &record["http_status"]),
        (&"http_status".into(), &404.into()),
        "{record}"
    );
}

#[test]
fn a_file_that_another_work_has_is_shared_only_if_it_may_be_this_work_s_too() {
    let about = |doi: &str, title: &str| {
        page(&format!(
            r#"<meta name="citation_title" content="{title}"><meta name="citation_doi" content="{doi}"><meta name="citation_pdf_url" content="http://svc.example/one.pdf">"#
        ))
    };
    let world = world(move |path, _| match path {
        "/doi/10.5555/a" => about("10.5555/a", "Assessment of virus infection in hens"),
        "/doi/10.5555/b" => about("10.5555/b", "Growth of reed beds in lagoons"),
        "/one.pdf" => pdf_of("10.5555/a", "Assessment of virus infection in hens"),
        _ => ScriptedReply::status(404),
    });
    for id in ["10.5555/a", "10.5555/b"] {
        let work = Work::new(Identifier::parse(id).unwrap());
        world.run(Box::new(WorkList::new("list", vec![work])), |_| {});
    }
    let records = world.records();
    let of = |id: &str| {
        records
            .iter()
            .find(|record| {
                record["record_type"] == "manifest" && record["work_id"] == format!("doi:{id}")
            })
            .unwrap()
    };
    assert_eq!(of("10.5555/a")["classification"], "pdf");
    assert_eq!(
        (&of("10.5555/b")["reason"], &of("10.5555/b")["path"]),
        (&"wrong_work".into(), &serde_json::Value::Null)
    );
    assert_eq!(asked(&world, "/one.pdf"), 1);
    assert!(
        records
            .iter()
            .any(|record| record["record_type"] == "attempt" && record["reason"] == "wrong_work")
    );
}

#[test]
fn a_doi_that_leads_to_a_host_without_https_is_followed_as_registered() {
    let about = r#"<meta name="citation_pdf_url" content="http://old.example/paper.pdf">"#;
    let resolver = OriginScript::new("doi.org").handler(|arrival, _| match arrival.path.as_str() {
        "/robots.txt" => ScriptedReply::status(404),
        _ => ScriptedReply::redirect(302, "http://old.example/article"),
    });
    let publisher =
        OriginScript::new("old.example").handler(move |arrival, _| match arrival.path.as_str() {
            "/article" => page(about),
            "/paper.pdf" => pdf("/paper.pdf"),
            _ => ScriptedReply::status(404),
        });
    let services = OriginScript::new("svc.example").handler(|_, _| ScriptedReply::status(404));
    let endpoint = |service: &str| {
        Some(if service == "doi" {
            "https://doi.org/".to_owned()
        } else {
            format!("http://svc.example/{service}/")
        })
    };
    let mut world = World::new(
        vec![resolver, publisher, services],
        "version: 1\n",
        endpoint,
    );
    world.plain_host = Some("old.example");
    let (record, _) = get(&world, "10.5555/a");
    assert_eq!(record["classification"], "pdf", "{record}");
    assert_eq!(record["url"], "http://old.example/paper.pdf");
}
