//! A table of situations: what the hosts answer, and the reason that is recorded.

use docstokg_bulk::scheduler::RunMode;
use docstokg_content::identifier::Identifier;
use docstokg_content::run::RunOptions;
use docstokg_content::run::inputs::WorkList;
use docstokg_content::work::Work;
use docstokg_origin_sim::{OriginScript, ScriptedReply, pdf::carrying};

use crate::odd_responses::{found_at, page};
use crate::run_world::World;

const DOI: &str = "10.5555/a";
const TITLE: &str = "Assessment of virus infection in pathogen-free hens";

/// What is done with a work, and what it comes to.
struct Situation {
    name: &'static str,
    /// The rules that the host states for robots.
    robots: Option<&'static str>,
    answer: fn(&str) -> ScriptedReply,
    change: fn(&mut RunOptions),
    reason: &'static str,
    status: Option<u16>,
}

/// A situation in which a service names a file at `/f.pdf`, and that is answered so.
fn at_file(
    name: &'static str,
    answer: fn(&str) -> ScriptedReply,
    reason: &'static str,
    status: Option<u16>,
) -> Situation {
    Situation {
        name,
        robots: None,
        answer,
        change: |_| {},
        reason,
        status,
    }
}

/// Answers that a service names a file, and with this for the file.
fn file(path: &str, reply: impl FnOnce() -> ScriptedReply) -> ScriptedReply {
    match path {
        "/unpaywall/10.5555/a" => found_at("/f.pdf"),
        "/f.pdf" => reply(),
        _ => ScriptedReply::status(404),
    }
}

/// Answers with a page of the work, and with this for the file that it names.
fn linked(path: &str, reply: impl FnOnce() -> ScriptedReply) -> ScriptedReply {
    match path {
        "/doi/10.5555/a" => page(&format!(
            r#"<meta name="citation_title" content="{TITLE}"><meta name="citation_doi" content="{DOI}">
            <meta name="citation_pdf_url" content="http://pub.example/f.pdf">"#
        )),
        "/f.pdf" => reply(),
        _ => ScriptedReply::status(404),
    }
}

fn sent_as_pdf(bytes: Vec<u8>) -> ScriptedReply {
    ScriptedReply::ok(bytes).header("content-type", "application/pdf")
}

fn whole() -> Vec<u8> {
    let noise: String = (0..4_000_u32)
        .map(|n| char::from(b'a' + u8::try_from(n * n % 23).unwrap()))
        .collect();
    carrying(noise.as_bytes())
}

fn refused_files() -> Vec<Situation> {
    vec![
        at_file(
            "the file is refused",
            |path| {
                file(path, || {
                    ScriptedReply::status(403).body("<h1>Forbidden</h1>")
                })
            },
            "http_status",
            Some(403),
        ),
        at_file(
            "the file is under embargo",
            |path| {
                file(path, || {
                    ScriptedReply::status(401).body("<h1>Access denied</h1> Embargo until 2031.")
                })
            },
            "http_status",
            Some(401),
        ),
        at_file(
            "the bucket has no such file",
            |path| {
                file(path, || {
                    ScriptedReply::status(403).body(
                        "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
                    )
                })
            },
            "http_status",
            Some(403),
        ),
        at_file(
            "the link is dead",
            |path| file(path, || ScriptedReply::status(404)),
            "http_status",
            Some(404),
        ),
        at_file(
            "the host of the file does not exist",
            |path| match path {
                "/unpaywall/10.5555/a" => found_at(".gone.example/f.pdf"),
                _ => ScriptedReply::status(404),
            },
            "name_not_found",
            None,
        ),
        at_file(
            "robots are kept out",
            |path| {
                file(path, || {
                    ScriptedReply::status(403).body("<title>Just a moment...</title>")
                })
            },
            "bot_challenge",
            Some(403),
        ),
        at_file(
            "a browser is to wait",
            |path| {
                file(path, || {
                    ScriptedReply::ok("<html><title>Preparing to download ...</title></html>")
                        .header("content-type", "text/html")
                })
            },
            "interstitial",
            Some(200),
        ),
        Situation {
            robots: Some("User-agent: *\nDisallow: /f.pdf\n"),
            ..at_file(
                "robots.txt forbids the file",
                |path| linked(path, || sent_as_pdf(whole())),
                "robots_disallowed",
                None,
            )
        },
    ]
}

fn damaged_files() -> Vec<Situation> {
    vec![
        at_file(
            "nothing is sent",
            |path| file(path, || sent_as_pdf(Vec::new())),
            "empty_body",
            Some(200),
        ),
        at_file(
            "a stub is sent",
            |path| file(path, || sent_as_pdf(carrying(b"stub")[..].to_vec())),
            "pdf_too_small",
            Some(200),
        ),
        at_file(
            "half of the file is sent as if it were all",
            |path| {
                file(path, || {
                    let whole = whole();
                    sent_as_pdf(whole[..whole.len() / 2].to_vec())
                })
            },
            "pdf_eof_missing",
            Some(200),
        ),
        at_file(
            "an error page is appended",
            |path| {
                file(path, || {
                    sent_as_pdf([whole(), b"<html><h1>502</h1></html>".to_vec()].concat())
                })
            },
            "html_tail_detected",
            Some(200),
        ),
        at_file(
            "something unknown is sent as a PDF",
            |path| file(path, || sent_as_pdf(vec![7; 3_000])),
            "pdf_sniff_unknown",
            Some(200),
        ),
        at_file(
            "an archive is sent",
            |path| {
                file(path, || {
                    ScriptedReply::ok([b"PK\x03\x04".to_vec(), vec![7; 3_000]].concat())
                })
            },
            "domain_disallowed_mime",
            Some(200),
        ),
        at_file(
            "the file is another work's",
            |path| {
                linked(path, || {
                    let xmp = "<x:xmpmeta><prism:doi>10.5555/other</prism:doi><dc:title><rdf:Alt><rdf:li>\
                               Grants manual of the commission</rdf:li></rdf:Alt></dc:title></x:xmpmeta>";
                    sent_as_pdf(carrying(format!("{xmp}{}", " ".repeat(2_000)).as_bytes()))
                })
            },
            "wrong_work",
            Some(200),
        ),
    ]
}

fn without_files() -> Vec<Situation> {
    vec![
        at_file(
            "no source knows the work",
            |_| ScriptedReply::status(404),
            "not_found",
            None,
        ),
        at_file(
            "a service names the DOI as the page, and doi.org does not know it",
            |path| {
                match path {
                "/unpaywall/10.5555/a" => ScriptedReply::ok(
                    r#"{"doi":"10.5555/a","is_oa":true,"oa_locations":[{"url":"http://svc.example/doi/10.5555/a",
                    "url_for_landing_page":"http://svc.example/doi/10.5555/a","url_for_pdf":null}]}"#,
                )
                .header("content-type", "application/json"),
                _ => ScriptedReply::status(404),
            }
            },
            "not_found",
            None,
        ),
        at_file(
            "the page names no file",
            |path| match path {
                "/doi/10.5555/a" => page(""),
                _ => ScriptedReply::status(404),
            },
            "html_only",
            None,
        ),
        at_file(
            "services fail",
            |path| match path {
                path if path.starts_with("/openalex/") => ScriptedReply::status(500),
                _ => ScriptedReply::status(404),
            },
            "lookup_failed",
            None,
        ),
        at_file(
            "a service answers with a page",
            |path| match path {
                path if path.starts_with("/openalex/") => page(""),
                _ => ScriptedReply::status(404),
            },
            "json_error",
            Some(200),
        ),
        Situation {
            change: |options| options.max_attempts = 1,
            ..at_file(
                "the attempts are used up",
                |path| file(path, || sent_as_pdf(whole())),
                "max_attempts_reached",
                None,
            )
        },
        Situation {
            change: |options| options.mode = RunMode::DryRun,
            ..at_file(
                "nothing is requested",
                |_| ScriptedReply::status(404),
                "dry_run",
                None,
            )
        },
    ]
}

#[test]
fn every_failed_situation_is_recorded_with_its_reason() {
    let situations = [refused_files(), damaged_files(), without_files()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    assert!(situations.len() >= 22, "{}", situations.len());
    let mut wrong = Vec::new();
    for situation in situations {
        let found = outcome_of(&situation);
        let expected = (
            Some(situation.reason.to_owned()),
            situation.status.map(u64::from),
        );
        if (found.reason.clone(), found.status) != expected {
            wrong.push(format!(
                "{}: {found:?}, expected {expected:?}",
                situation.name
            ));
        }
        if situation.reason == "not_found" && !found.detail.starts_with("none of ") {
            wrong.push(format!("{}: {}", situation.name, found.detail));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is recorded of a work.
#[derive(Debug)]
struct Recorded {
    reason: Option<String>,
    status: Option<u64>,
    detail: String,
}

/// Runs one work in a situation. Services are not asked for their robots.txt, so files that a page
/// names are on another host.
fn outcome_of(situation: &Situation) -> Recorded {
    let (robots, answer) = (situation.robots, situation.answer);
    let origin = |host: &str| {
        OriginScript::new(host).handler(move |arrival, _| {
            let path = arrival.path.split('?').next().unwrap_or_default();
            match (path, robots) {
                ("/robots.txt", Some(rules)) => ScriptedReply::ok(rules),
                ("/robots.txt", None) => ScriptedReply::status(404),
                _ => answer(path),
            }
        })
    };
    let limits = "{ artifact: { rates: [] }, landing: { rates: [] }, metadata: { rates: [] } }";
    let yaml = format!(
        "version: 1\nlimits: {{ hosts: {{ svc.example: {limits}, pub.example: {limits} }} }}\n"
    );
    let origins = vec![origin("svc.example"), origin("pub.example")];
    let world = World::new(origins, &yaml, |service| {
        Some(format!("http://svc.example/{service}/"))
    });
    let work = Work::new(Identifier::parse(DOI).unwrap());
    world.run(
        Box::new(WorkList::new("list", vec![work])),
        situation.change,
    );
    let records = world.records();
    let mut manifests = records.iter();
    let record = manifests
        .find(|record| record["record_type"] == "manifest")
        .unwrap_or_else(|| panic!("{}: {records:?}", situation.name));
    Recorded {
        reason: record["reason"].as_str().map(str::to_owned),
        status: record["http_status"].as_u64(),
        detail: record["reason_detail"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    }
}
