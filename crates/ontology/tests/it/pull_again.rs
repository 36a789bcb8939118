//! Pulls into a library that has something already: what counts as unchanged, what an interrupted
//! pull left, and versions that were damaged.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_bulk::scheduler::Ended;
use docstokg_ontology::pull::examine::{About, Examiner, Finding};
use docstokg_ontology::pull::{Asked, Ending, Options};
use docstokg_ontology::source::AbsenceReason;
use docstokg_ontology::wanted::{Checksum, Wanted};
use docstokg_origin_sim::{Origin, Reply};

use crate::pull_world::{PURL, World, asked, id, obo, with_registry};

const FILES: &str = "files.example.org";

fn at(name: &str, path: &str) -> Wanted {
    Wanted {
        url: Some(format!("https://{FILES}{path}").parse().unwrap()),
        ..Wanted::new(id(name))
    }
}

fn impatient() -> Options {
    Options {
        max_wait: Duration::ZERO,
        ..Options::default()
    }
}

#[test]
fn the_same_bytes_are_no_new_version_on_another_day() {
    let body = "[Term]\nid: X:1\nname: one\n";
    let files = Origin::new(FILES).handler(move |_, _| Reply::ok(body));
    let world = World::new(vec![files]);
    let wanted = || vec![Asked::new(at("x", "/x.obo"))];
    assert_eq!(world.pull(wanted())[0].status, Ending::Fresh);
    world.simulation.run_for(Duration::from_secs(26 * 3_600));
    let again = &world.pull(wanted())[0];
    assert_eq!(again.status, Ending::Cached, "{again:?}");
    assert_eq!(again.terms, None, "what is known is not read again");
    assert_eq!(world.library().versions(&id("x")).unwrap().len(), 1);
}

#[test]
fn a_version_that_comes_back_is_the_latest_again() {
    let files = Origin::new(FILES).route(
        "/x.obo",
        [
            Reply::ok(obo("1", "")),
            Reply::ok(obo("2", "")),
            Reply::ok(obo("1", "")),
        ],
    );
    let world = World::new(vec![files]);
    for (status, latest) in [
        (Ending::Fresh, "1"),
        (Ending::Updated, "2"),
        (Ending::Cached, "1"),
    ] {
        let result = &world.pull(vec![Asked::new(at("x", "/x.obo"))])[0];
        assert_eq!(result.status, status, "{result:?}");
        let stored = world.library().latest(&id("x")).unwrap().unwrap();
        assert_eq!(stored.name, latest);
    }
}

#[test]
fn a_new_request_is_not_answered_by_the_state_of_an_interrupted_one() {
    let files = Origin::new(FILES).handler(|arrival, _| match arrival.path.as_str() {
        "/old.obo" => Reply::status(503).header("retry-after", "7200"),
        path => Reply::ok(obo("1", &format!("remark: {path}"))).header("etag", "\"e\""),
    });
    let world = World::new(vec![
        files,
        Origin::new("other.example.org").handler(|_, _| Reply::ok(obo("9", ""))),
    ]);
    let first = vec![
        Asked::new(at("done", "/done.obo")),
        Asked::new(at("x", "/old.obo")),
    ];
    let (ended, _) = world.pull_with(first.clone(), impatient());
    assert!(
        matches!(ended, Ended::Deferred { left: 1, .. }),
        "{ended:?}"
    );
    // The same ontology from another address: the paused host is of no concern.
    let other = Wanted {
        url: Some("https://other.example.org/x.obo".parse().unwrap()),
        ..Wanted::new(id("x"))
    };
    let (ended, results) = world.pull_with(vec![Asked::new(other)], impatient());
    assert_eq!(ended, Ended::Complete);
    assert_eq!(results.len(), 1, "only what was asked for: {results:?}");
    assert_eq!(results[0].version.as_deref(), Some("9"), "{results:?}");
}

#[test]
fn what_an_interrupted_pull_finished_is_asked_for_again() {
    let down = Origin::new("down.example.org")
        .handler(|_, _| Reply::status(503).header("retry-after", "7200"));
    let files = Origin::new(FILES).handler(|arrival, _| match arrival.header("if-none-match") {
        Some("\"e\"") => Reply::status(304),
        _ => Reply::ok(obo("1", "")).header("etag", "\"e\""),
    });
    let world = World::new(vec![files, down]);
    let waiting = Wanted {
        url: Some("https://down.example.org/x.obo".parse().unwrap()),
        ..Wanted::new(id("x"))
    };
    let both = vec![Asked::new(at("done", "/done.obo")), Asked::new(waiting)];
    let (ended, _) = world.pull_with(both.clone(), impatient());
    assert!(
        matches!(ended, Ended::Deferred { left: 1, .. }),
        "{ended:?}"
    );
    let (_, results) = world.pull_with(both, impatient());
    let done = results.iter().find(|result| result.id == "done").unwrap();
    assert_eq!(done.status, Ending::Cached, "{done:?}");
    let asked = world.ledger().at(FILES);
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(asked[1].header("if-none-match"), Some("\"e\""));
}

/// Fails to read whatever comes, as a disk that breaks in the middle of it.
struct Broken;

impl Examiner for Broken {
    fn examine(&self, _: &Path, _: &About, _: &Path) -> io::Result<Finding> {
        Err(io::Error::other("the disk broke"))
    }
}

#[test]
fn a_large_download_that_was_not_read_to_its_end_is_not_downloaded_again() {
    let body = obo("1", "") + &"! padding\n".repeat(200_000);
    let files = Origin::new(FILES)
        .handler(move |_, _| Reply::ok(body.clone()).header("content-type", "text/obo"));
    let world = World::new(vec![files]);
    let wanted = || vec![Asked::new(at("x", "/x.obo"))];
    let broken = world.pull_examined(wanted(), Options::default(), Arc::new(Broken));
    assert!(broken.is_err(), "a disk that cannot be read ends the run");
    assert!(world.library().latest(&id("x")).unwrap().is_none());
    let result = &world.pull(wanted())[0];
    assert_eq!(result.status, Ending::Fresh, "{result:?}");
    assert_eq!(result.media_type.as_deref(), Some("text/obo"));
    assert_eq!(world.ledger().at(FILES).len(), 1);
    let left = world.library().root().join(".ontofetch/.docstokg");
    assert!(!left.exists(), "nothing is left to go on with");
}

#[test]
fn a_checksum_holds_also_where_nothing_has_changed() {
    let body = obo("1", "");
    let files =
        Origin::new(FILES).handler(move |arrival, _| match arrival.header("if-none-match") {
            Some("\"e\"") => Reply::status(304),
            _ => Reply::ok(body.clone()).header("etag", "\"e\""),
        });
    let world = World::new(vec![files]);
    assert_eq!(
        world.pull(vec![Asked::new(at("x", "/x.obo"))])[0].status,
        Ending::Fresh
    );
    let wrong = Wanted {
        checksum: Some(Checksum::parse(&"1".repeat(64)).unwrap()),
        ..at("x", "/x.obo")
    };
    let result = &world.pull(vec![Asked::new(wrong)])[0];
    assert_eq!(result.reason, Some(AbsenceReason::Checksum), "{result:?}");
    let md5 = Wanted {
        checksum: Some(Checksum::parse(&"1".repeat(32)).unwrap()),
        ..at("x", "/x.obo")
    };
    let result = &world.pull(vec![Asked::new(md5)])[0];
    assert_eq!(result.reason, Some(AbsenceReason::Checksum), "{result:?}");
    let latest = world.library().latest(&id("x")).unwrap().unwrap();
    let right = Wanted {
        checksum: Some(Checksum::parse(&latest.manifest.sha256).unwrap()),
        ..at("x", "/x.obo")
    };
    assert_eq!(
        world.pull(vec![Asked::new(right)])[0].status,
        Ending::Cached
    );
}

#[test]
fn new_validators_of_the_same_content_are_kept() {
    // The server was rebuilt: the same file, another ETag.
    let body = obo("1", "");
    let count = AtomicUsize::new(0);
    let files = Origin::new(FILES).handler(move |arrival, _| {
        let current = match count.fetch_add(1, Ordering::Relaxed) {
            0 => "\"old\"",
            _ => "\"new\"",
        };
        match arrival.header("if-none-match") {
            Some(known) if known == current => Reply::status(304),
            _ => Reply::ok(body.clone()).header("etag", current),
        }
    });
    let world = World::new(vec![files]);
    for _ in 0..3 {
        world.pull(vec![Asked::new(at("x", "/x.obo"))]);
    }
    let latest = world.library().latest(&id("x")).unwrap().unwrap();
    assert_eq!(latest.manifest.etag.as_deref(), Some("\"new\""));
    let arrivals = world.ledger().at(FILES);
    assert_eq!(arrivals[2].header("if-none-match"), Some("\"new\""));
    assert_eq!(world.library().versions(&id("x")).unwrap().len(), 1);
}

#[test]
fn one_broken_record_stops_nothing_else() {
    let files = Origin::new(FILES)
        .handler(|arrival, _| Reply::ok(obo("1", &format!("remark: {}", arrival.path))));
    let world = World::new(vec![files]);
    let both = || vec![Asked::new(at("a", "/a.obo")), Asked::new(at("b", "/b.obo"))];
    world.pull(both());
    let library = world.library();
    let record = library.root().join("a/1/manifest.json");
    std::fs::write(&record, "{ \"schema_version\"").unwrap();
    assert_eq!(library.ids().unwrap().len(), 2);
    assert!(library.versions(&id("a")).unwrap().is_empty());
    let damaged = library.damaged(&id("a")).unwrap();
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    let results = world.pull(both());
    assert_eq!(results[1].status, Ending::Cached, "{:?}", results[1]);
    let mended = &results[0];
    assert_eq!(mended.status, Ending::Fresh, "{mended:?}");
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
    let purl = Origin::new(PURL).handler(|_, _| Reply::ok(obo("1", "")).header("etag", "\"e\""));
    let mut world = with_registry(&["hp"], purl);
    world.config.prefer_source = vec!["obo".to_owned()];
    world.pull(asked(&["hp"]));
    let library = world.library();
    let original = library.root().join("hp/1/original/hp.obo");
    std::fs::write(&original, "cut").unwrap();
    let forced = Options {
        force: true,
        ..Options::default()
    };
    let (_, results) = world.pull_with(asked(&["hp"]), forced);
    assert!(results[0].status.is_good(), "{results:?}");
    assert_eq!(std::fs::read_to_string(&original).unwrap(), obo("1", ""));
    assert_eq!(library.versions(&id("hp")).unwrap().len(), 1);
    assert!(
        results[0].notes.iter().any(|note| note.contains("damaged")),
        "{results:?}"
    );
}
