//! Works that a query finds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use docstokg_origin_sim::scholarly::{LibraryPlan, WorkLibrary};
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use serde_json::Value;

use crate::download_world::{DownloadWorld, pdf, text};

#[test]
fn a_query_is_read_page_by_page() {
    let library = WorkLibrary::generate(&LibraryPlan {
        seed: 5,
        works: 300,
        scale: 1000,
        file_bytes: 3_000..5_000,
        ..LibraryPlan::default()
    });
    let world = DownloadWorld::of(&library);
    let ran = world.run(&[
        "--filter",
        "publication_year:2015-2026",
        "--max",
        "150",
        "--list-only",
        "--json",
    ]);
    let report: Value = serde_json::from_slice(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&ran.stderr)));
    assert!(
        report["listed"]
            .as_array()
            .is_some_and(|listed| listed.len() > 60),
        "{report}"
    );
    let pages = |world: &DownloadWorld| {
        world
            .web
            .ledger()
            .at("api.openalex.org")
            .iter()
            .filter(|arrival| arrival.path.contains("cursor="))
            .count()
    };
    assert_eq!(pages(&world), 2);
}

/// An origin whose query has two pages, the second of which may be broken.
fn origin_with_two_pages(is_broken: Arc<AtomicBool>) -> OriginScript {
    let works = |from: u32| {
        let work = |n: u32| {
            let url = format!("http://a.example/files/{n}.pdf");
            format!(
                r#"{{"id":"https://openalex.org/W{n}","best_oa_location":{{"pdf_url":"{url}"}}}}"#
            )
        };
        (from..from + 3).map(work).collect::<Vec<_>>().join(",")
    };
    OriginScript::new("a.example").handler(move |arrival, _| match arrival.path.as_str() {
        "/robots.txt" => ScriptedReply::status(404),
        path if path.contains("cursor=*") || path.contains("cursor=%2A") => {
            ScriptedReply::ok(format!(
                r#"{{"meta":{{"next_cursor":"second"}},"results":[{}]}}"#,
                works(1)
            ))
        }
        path if path.contains("cursor=second") && is_broken.load(Ordering::Relaxed) => {
            ScriptedReply::ok(r#"{"error":"temporarily broken"}"#)
        }
        path if path.contains("cursor=second") => ScriptedReply::ok(format!(
            r#"{{"meta":{{"next_cursor":null}},"results":[{}]}}"#,
            works(4)
        )),
        path if path.starts_with("/files/") => pdf(path),
        _ => ScriptedReply::status(404),
    })
}

#[test]
fn an_interrupted_query_does_not_count_as_complete() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let origin = origin_with_two_pages(Arc::clone(&is_broken));
    let config = "version: 1\nresolvers: { endpoints: { openalex: \"http://a.example\" } }\n\
                  limits: { defaults: { artifact: { rates: [] }, landing: { rates: [] }, \
                  metadata: { rates: [] } } }\n";
    let world = DownloadWorld::start(vec![origin], vec!["a.example".to_owned()], config);
    let query = &[
        "--filter",
        "type:article",
        "--resolver-preset",
        "fast",
        "--disable",
        "unpaywall,crossref,arxiv,pmc",
    ][..];
    let first = world.run(query);
    let printed = text(&first.stderr);
    assert_eq!(first.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("without the 'results'") && printed.contains("not read to their end"),
        "{printed}"
    );
    let resumed = world.run(&["--resume"]);
    assert_eq!(
        resumed.status.code(),
        Some(1),
        "the unread inputs count as read: {}",
        text(&resumed.stderr)
    );
    assert!(
        text(&resumed.stderr).contains("give them again"),
        "{}",
        text(&resumed.stderr)
    );
    is_broken.store(false, Ordering::Relaxed);
    let again = world.run(query);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_eq!(world.run(&["--resume", "--quiet"]).status.code(), Some(0));
    assert_eq!(
        world
            .manifests()
            .iter()
            .filter(|record| record["path"].is_string())
            .count(),
        6
    );
    let paths = world
        .web
        .ledger()
        .arrivals()
        .into_iter()
        .map(|arrival| arrival.path);
    let look_ups: Vec<String> = paths
        .filter(|path| path.starts_with("/works") && !path.contains("cursor="))
        .collect();
    assert!(
        look_ups.is_empty(),
        "a page of the query has everything that a look-up has: {look_ups:?}"
    );
}
