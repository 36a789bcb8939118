//! Pulls into a library that has something already: what counts as unchanged, what an interrupted
//! pull left, and versions that were damaged.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_bulk::scheduler::RunEnd;
use docstokg_ontology::pull::examine::{FileExaminer, FileFinding, FileOrigin};
use docstokg_ontology::pull::{PullEnding, PullOptions, RequestedOntology};
use docstokg_ontology::source::AbsenceReason;
use docstokg_ontology::wanted_ontology::{FileChecksum, WantedOntology};
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::pull_world::{PURL, World, id, obo, requested, with_registry};

const FILES: &str = "files.example.org";

fn at(name: &str, path: &str) -> WantedOntology {
    WantedOntology {
        url: Some(format!("https://{FILES}{path}").parse().unwrap()),
        ..WantedOntology::new(id(name))
    }
}

fn impatient() -> PullOptions {
    PullOptions {
        max_wait: Duration::ZERO,
        ..PullOptions::default()
    }
}

#[test]
fn the_same_bytes_are_no_new_version_on_another_day() {
    let body = "[Term]\nid: X:1\nname: one\n";
    let files = OriginScript::new(FILES).handler(move |_, _| ScriptedReply::ok(body));
    let world = World::new(vec![files]);
    let wanted = || vec![RequestedOntology::new(at("x", "/x.obo"))];
    assert_eq!(world.pull(wanted())[0].status, PullEnding::Fresh);
    world.simulation.run_for(Duration::from_secs(26 * 3_600));
    let again = &world.pull(wanted())[0];
    assert_eq!(again.status, PullEnding::Cached, "{again:?}");
    assert_eq!(again.terms, None, "what is known is not read again");
    assert_eq!(world.library().versions(&id("x")).unwrap().len(), 1);
}

#[test]
fn a_version_that_comes_back_is_the_latest_again() {
    let files = OriginScript::new(FILES).route(
        "/x.obo",
        [
            ScriptedReply::ok(obo("1", "")),
            ScriptedReply::ok(obo("2", "")),
            ScriptedReply::ok(obo("1", "")),
        ],
    );
    let world = World::new(vec![files]);
    for (status, latest) in [
        (PullEnding::Fresh, "1"),
        (PullEnding::Updated, "2"),
        (PullEnding::Cached, "1"),
    ] {
        let result = &world.pull(vec![RequestedOntology::new(at("x", "/x.obo"))])[0];
        assert_eq!(result.status, status, "{result:?}");
        let stored = world.library().latest(&id("x")).unwrap().unwrap();
        assert_eq!(stored.name, latest);
    }
}

#[test]
fn a_new_request_is_not_answered_by_the_state_of_an_interrupted_one() {
    let files = OriginScript::new(FILES).handler(|arrival, _| match arrival.path.as_str() {
        "/old.obo" => ScriptedReply::status(503).header("retry-after", "7200"),
        path => ScriptedReply::ok(obo("1", &format!("remark: {path}"))).header("etag", "\"e\""),
    });
    let world = World::new(vec![
        files,
        OriginScript::new("other.example.org").handler(|_, _| ScriptedReply::ok(obo("9", ""))),
    ]);
    let first = vec![
        RequestedOntology::new(at("done", "/done.obo")),
        RequestedOntology::new(at("x", "/old.obo")),
    ];
    let (ended, _) = world.pull_with(first.clone(), impatient());
    assert!(
        matches!(ended, RunEnd::Deferred { left: 1, .. }),
        "{ended:?}"
    );
    // The same ontology from another address: the paused host is of no concern.
    let other = WantedOntology {
        url: Some("https://other.example.org/x.obo".parse().unwrap()),
        ..WantedOntology::new(id("x"))
    };
    let (ended, results) = world.pull_with(vec![RequestedOntology::new(other)], impatient());
    assert_eq!(ended, RunEnd::Complete);
    assert_eq!(results.len(), 1, "only what was requested for: {results:?}");
    assert_eq!(results[0].version.as_deref(), Some("9"), "{results:?}");
}

#[test]
fn what_an_interrupted_pull_finished_is_asked_for_again() {
    let down = OriginScript::new("down.example.org")
        .handler(|_, _| ScriptedReply::status(503).header("retry-after", "7200"));
    let files =
        OriginScript::new(FILES).handler(|arrival, _| match arrival.header("if-none-match") {
            Some("\"e\"") => ScriptedReply::status(304),
            _ => ScriptedReply::ok(obo("1", "")).header("etag", "\"e\""),
        });
    let world = World::new(vec![files, down]);
    let waiting = WantedOntology {
        url: Some("https://down.example.org/x.obo".parse().unwrap()),
        ..WantedOntology::new(id("x"))
    };
    let both = vec![
        RequestedOntology::new(at("done", "/done.obo")),
        RequestedOntology::new(waiting),
    ];
    let (ended, _) = world.pull_with(both.clone(), impatient());
    assert!(
        matches!(ended, RunEnd::Deferred { left: 1, .. }),
        "{ended:?}"
    );
    let (_, results) = world.pull_with(both, impatient());
    let done = results.iter().find(|result| result.id == "done").unwrap();
    assert_eq!(done.status, PullEnding::Cached, "{done:?}");
    let requested = world.ledger().at(FILES);
    assert_eq!(requested.len(), 2, "{requested:?}");
    assert_eq!(requested[1].header("if-none-match"), Some("\"e\""));
}

/// Fails to read whatever comes, as a disk that breaks in the middle of it.
struct Broken;

impl FileExaminer for Broken {
    fn examine(&self, _: &Path, _: &FileOrigin, _: &Path) -> io::Result<FileFinding> {
        Err(io::Error::other("the disk broke"))
    }
}

#[test]
fn a_large_download_that_was_not_read_to_its_end_is_not_downloaded_again() {
    let body = obo("1", "") + &"! padding\n".repeat(200_000);
    let files = OriginScript::new(FILES)
        .handler(move |_, _| ScriptedReply::ok(body.clone()).header("content-type", "text/obo"));
    let world = World::new(vec![files]);
    let wanted = || vec![RequestedOntology::new(at("x", "/x.obo"))];
    let broken = world.pull_examined(wanted(), PullOptions::default(), Arc::new(Broken));
    assert!(broken.is_err(), "a disk that cannot be read ends the run");
    assert!(world.library().latest(&id("x")).unwrap().is_none());
    let result = &world.pull(wanted())[0];
    assert_eq!(result.status, PullEnding::Fresh, "{result:?}");
    assert_eq!(result.media_type.as_deref(), Some("text/obo"));
    assert_eq!(world.ledger().at(FILES).len(), 1);
    let left = world.library().root().join(".ontofetch/.docstokg");
    assert!(!left.exists(), "nothing is left to go on with");
}

#[test]
fn a_checksum_holds_also_where_nothing_has_changed() {
    let body = obo("1", "");
    let files =
        OriginScript::new(FILES).handler(move |arrival, _| match arrival.header("if-none-match") {
            Some("\"e\"") => ScriptedReply::status(304),
            _ => ScriptedReply::ok(body.clone()).header("etag", "\"e\""),
        });
    let world = World::new(vec![files]);
    assert_eq!(
        world.pull(vec![RequestedOntology::new(at("x", "/x.obo"))])[0].status,
        PullEnding::Fresh
    );
    let wrong = WantedOntology {
        checksum: Some(FileChecksum::parse(&"1".repeat(64)).unwrap()),
        ..at("x", "/x.obo")
    };
    let result = &world.pull(vec![RequestedOntology::new(wrong)])[0];
    assert_eq!(result.reason, Some(AbsenceReason::Checksum), "{result:?}");
    let md5 = WantedOntology {
        checksum: Some(FileChecksum::parse(&"1".repeat(32)).unwrap()),
        ..at("x", "/x.obo")
    };
    let result = &world.pull(vec![RequestedOntology::new(md5)])[0];
    assert_eq!(result.reason, Some(AbsenceReason::Checksum), "{result:?}");
    let latest = world.library().latest(&id("x")).unwrap().unwrap();
    let right = WantedOntology {
        checksum: Some(FileChecksum::parse(&latest.manifest.sha256).unwrap()),
        ..at("x", "/x.obo")
    };
    assert_eq!(
        world.pull(vec![RequestedOntology::new(right)])[0].status,
        PullEnding::Cached
    );
}

#[test]
fn new_validators_of_the_same_content_are_kept() {
    // The server was rebuilt: the same file, another ETag.
    let body = obo("1", "");
    let count = AtomicUsize::new(0);
    let files = OriginScript::new(FILES).handler(move |arrival, _| {
        let current = match count.fetch_add(1, Ordering::Relaxed) {
            0 => "\"old\"",
            _ => "\"new\"",
        };
        match arrival.header("if-none-match") {
            Some(known) if known == current => ScriptedReply::status(304),
            _ => ScriptedReply::ok(body.clone()).header("etag", current),
        }
    });
    let world = World::new(vec![files]);
    for _ in 0..3 {
        world.pull(vec![RequestedOntology::new(at("x", "/x.obo"))]);
    }
    let latest = world.library().latest(&id("x")).unwrap().unwrap();
    assert_eq!(latest.manifest.etag.as_deref(), Some("\"new\""));
    let arrivals = world.ledger().at(FILES);
    assert_eq!(arrivals[2].header("if-none-match"), Some("\"new\""));
    assert_eq!(world.library().versions(&id("x")).unwrap().len(), 1);
}

#[test]
fn pull_continues_beside_a_broken_record() {
    let files = OriginScript::new(FILES)
        .handler(|arrival, _| ScriptedReply::ok(obo("1", &format!("remark: {}", arrival.path))));
    let world = World::new(vec![files]);
    let both = || {
        vec![
            RequestedOntology::new(at("a", "/a.obo")),
            RequestedOntology::new(at("b", "/b.obo")),
        ]
    };
    world.pull(both());
    let library = world.library();
    let record = library.root().join("a/1/manifest.json");
    std::fs::write(&record, "{ \"schema_version\"").unwrap();
    assert_eq!(library.ids().unwrap().len(), 2);
    assert!(library.versions(&id("a")).unwrap().is_empty());
    let damaged = library.damaged(&id("a")).unwrap();
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    let results = world.pull(both());
    assert_eq!(results[1].status, PullEnding::Cached, "{:?}", results[1]);
    let mended = &results[0];
    assert_eq!(mended.status, PullEnding::Fresh, "{mended:?}");
    assert!(
        mended
            .notes
            .iter()
            .any(|note| note.contains("manifest.json")),
        "{mended:?}"
    );
    assert_eq!(library.latest(&id("a")).unwrap().unwrap().name, "1");
    assert!(library.damaged(&id("a")).unwrap().is_empty());
}

#[test]
fn a_version_with_damaged_files_is_replaced() {
    let purl = OriginScript::new(PURL)
        .handler(|_, _| ScriptedReply::ok(obo("1", "")).header("etag", "\"e\""));
    let mut world = with_registry(&["hp"], purl);
    world.config.prefer_source = vec!["obo".to_owned()];
    world.pull(requested(&["hp"]));
    let library = world.library();
    let original = library.root().join("hp/1/original/hp.obo");
    std::fs::write(&original, "cut").unwrap();
    let forced = PullOptions {
        force: true,
        ..PullOptions::default()
    };
    let (_, results) = world.pull_with(requested(&["hp"]), forced);
    assert!(results[0].status.is_good(), "{results:?}");
    assert_eq!(std::fs::read_to_string(&original).unwrap(), obo("1", ""));
    assert_eq!(library.versions(&id("hp")).unwrap().len(), 1);
    assert!(
        results[0].notes.iter().any(|note| note.contains("damaged")),
        "{results:?}"
    );
}
