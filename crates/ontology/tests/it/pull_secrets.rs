//! Addresses that carry credentials: they are used, and nothing that is written holds them. Files of
//! the working directory are private, and links in a library are not followed.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use docstokg_bulk::queue::CommitMode;
use docstokg_ontology::library::{PruneMode, prune};
use docstokg_ontology::pull::{PullEnding, PullOptions, RequestedOntology, Workplace};
use docstokg_ontology::source::SourceSettings;
use docstokg_ontology::wanted_ontology::WantedOntology;
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::pull_world::{World, id, obo};

/// What must not be found in any file.
const PLANTED: &str = "Pl4ntedZq81xSecret77";

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Lists the files that hold the planted text.
fn leaks(directory: &Path) -> Vec<PathBuf> {
    let holds = |file: &PathBuf| {
        let bytes = std::fs::read(file).unwrap_or_default();
        bytes
            .windows(PLANTED.len())
            .any(|part| part == PLANTED.as_bytes())
    };
    files(directory).into_iter().filter(holds).collect()
}

fn at(url: &str) -> WantedOntology {
    WantedOntology {
        url: Some(url.parse().unwrap()),
        ..WantedOntology::new(id("x"))
    }
}

fn impatient() -> PullOptions {
    PullOptions {
        max_wait: Duration::ZERO,
        ..PullOptions::default()
    }
}

/// Answers with 503 for a number of times, then with a file.
fn busy(host: &str, times: usize, file: ScriptedReply) -> OriginScript {
    let count = std::sync::atomic::AtomicUsize::new(0);
    OriginScript::new(host).handler(move |arrival, _| {
        assert!(arrival.path.contains(PLANTED), "{}", arrival.path);
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if number < times {
            ScriptedReply::status(503).header("retry-after", "900")
        } else {
            file.clone()
        }
    })
}

#[test]
fn the_queue_holds_no_credential_of_an_address_that_the_user_gave() {
    let world = World::new(vec![busy(
        "f.example.org",
        1,
        ScriptedReply::ok(obo("1", "")),
    )]);
    let wanted = WantedOntology {
        checksum_url: Some(
            format!("https://f.example.org/sums?sig={PLANTED}")
                .parse()
                .unwrap(),
        ),
        ..at(&format!("https://f.example.org/x.obo?token={PLANTED}"))
    };
    let (_, results) = world.pull_with(vec![RequestedOntology::new(wanted)], impatient());
    assert!(results.is_empty(), "it is left to do: {results:?}");
    assert!(!files(world.library().root()).is_empty());
    assert_eq!(leaks(world.library().root()), [] as [PathBuf; 0]);
}

#[test]
fn a_deferred_ontology_goes_on_with_the_address_that_is_not_persisted() {
    let world = World::new(vec![busy(
        "f.example.org",
        2,
        ScriptedReply::ok(obo("1", "")),
    )]);
    let wanted = at(&format!("https://f.example.org/x.obo?token={PLANTED}"));
    let result = &world.pull(vec![RequestedOntology::new(wanted.clone())])[0];
    assert_eq!(result.status, PullEnding::Fresh, "{result:?}");
    assert_eq!(leaks(world.library().root()), [] as [PathBuf; 0]);
    let gone = World::new(vec![busy(
        "f.example.org",
        1_000,
        ScriptedReply::ok(obo("1", "")),
    )]);
    let results = gone.pull(vec![RequestedOntology::new(wanted)]);
    assert!(results.is_empty(), "it waits for its host: {results:?}");
    assert!(gone.ledger().len() < 40, "{}", gone.ledger().len());
}

#[test]
fn an_address_that_was_not_kept_is_asked_for_again() {
    let world = World::new(vec![busy(
        "f.example.org",
        1,
        ScriptedReply::ok(obo("1", "")),
    )]);
    let wanted = at(&format!("https://f.example.org/x.obo?token={PLANTED}"));
    world.pull_with(vec![RequestedOntology::new(wanted.clone())], impatient());
    let sent = world.ledger().len();
    let (_, left) = world.pull_with(Vec::new(), impatient());
    let detail = left[0].detail.clone().unwrap_or_default();
    assert!(
        left[0].status == PullEnding::Failed && detail.contains("carries a credential"),
        "{left:?}"
    );
    assert_eq!(world.ledger().len(), sent, "nothing is sent without it");
    let again = &world.pull(vec![RequestedOntology::new(wanted)])[0];
    assert_eq!(again.status, PullEnding::Fresh, "{again:?}");
}

fn signed_by_a_source() -> World {
    let listed = serde_json::json!({ "config": {
        "fileLocation": format!("https://f.example.org/x.obo?X-Amz-Signature={PLANTED}"),
    }});
    let ols = OriginScript::new("www.ebi.ac.uk")
        .handler(move |_, _| ScriptedReply::ok(listed.to_string()));
    let mut world = World::new(vec![
        ols,
        busy("f.example.org", 1, ScriptedReply::ok(obo("1", ""))),
    ]);
    world.config.prefer_source = vec!["ols".to_owned()];
    world
}

#[test]
fn a_signed_address_that_a_source_named_is_looked_up_again() {
    let world = signed_by_a_source();
    let requested = || vec![RequestedOntology::new(WantedOntology::new(id("x")))];
    world.pull_with(requested(), impatient());
    assert_eq!(leaks(world.library().root()), [] as [PathBuf; 0]);
    let (_, left) = world.pull_with(Vec::new(), PullOptions::default());
    assert_eq!(left[0].status, PullEnding::Fresh, "{left:?}");
    assert_eq!(leaks(world.library().root()), [] as [PathBuf; 0]);
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_working_directory_is_private_and_a_link_in_its_place_is_refused() {
    let world = World::new(Vec::new());
    let (library, elsewhere) = (world.library(), world.path("elsewhere"));
    let working = library.root().join(".ontofetch");
    world.simulation.block_on(async move {
        let workplace = Workplace::open(&library, CommitMode::Inline).await.unwrap();
        assert_eq!(mode(&working), 0o700);
        assert_eq!(mode(&working.join("manifest.sqlite3")), 0o600);
        workplace.close(None);
        std::fs::remove_dir_all(&working).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, &working).unwrap();
        let refused = Workplace::open(&library, CommitMode::Inline).await.err();
        let refused = refused.expect("a link is refused").to_string();
        assert!(refused.contains("is a symbolic link"), "{refused}");
        assert!(files(&elsewhere).is_empty(), "nothing is written behind it");
    });
}

#[test]
fn what_is_read_and_recorded_of_a_file_lacks_the_credential_of_its_address() {
    let turtle = "<> a <http://www.w3.org/2002/07/owl#Ontology> .\n<#a> a <#b> .\n";
    let file = ScriptedReply::ok(turtle).header("content-type", "text/turtle");
    let sums =
        OriginScript::new("s.example.org").handler(|_, _| ScriptedReply::ok("nothing of use"));
    let world = World::new(vec![busy("f.example.org", 0, file), sums]);
    let wanted = at(&format!("https://f.example.org/x.ttl?v=2&token={PLANTED}"));
    let result = &world.pull(vec![RequestedOntology::new(wanted.clone())])[0];
    assert_eq!(result.status, PullEnding::Fresh, "{result:?}");
    let latest = world.library().latest(&id("x")).unwrap().unwrap();
    let statements = std::fs::read_to_string(latest.path.join("normalized/statements.nt")).unwrap();
    assert!(
        statements.contains("<https://f.example.org/x.ttl?v=2#a>"),
        "{statements}"
    );
    let with_sums = WantedOntology {
        id: id("y"),
        checksum_url: Some(
            format!("https://s.example.org/sums?sig={PLANTED}")
                .parse()
                .unwrap(),
        ),
        ..wanted
    };
    let refused = &world.pull(vec![RequestedOntology::new(with_sums)])[0];
    assert_eq!(refused.status, PullEnding::Failed);
    assert!(!format!("{refused:?}").contains(PLANTED), "{refused:?}");
    assert_eq!(leaks(world.library().root()), [] as [PathBuf; 0]);
}

#[test]
fn contexts_that_are_not_loaded_are_recorded_without_credentials() {
    let text = format!(
        r#"{{"@context": "https://c.example.org/ctx?token={PLANTED}", "@id": "http://x.org/a",
        "http://x.org/p": "v"}}"#
    );
    let file = ScriptedReply::ok(text).header("content-type", "application/ld+json");
    let origin = OriginScript::new("f.example.org").handler(move |_, _| file.clone());
    let world = World::new(vec![origin]);
    let result = &world.pull(vec![RequestedOntology::new(at(
        "https://f.example.org/x.jsonld",
    ))])[0];
    let notes = format!("{result:?}");
    assert!(notes.contains("c.example.org/ctx?token=***"), "{notes}");
    assert!(!notes.contains(PLANTED), "{notes}");
    // The file itself is stored as it came.
    let recorded = leaks(world.library().root());
    assert!(
        recorded.iter().all(|file| file.ends_with("x.jsonld")),
        "{recorded:?}"
    );
}

#[test]
fn records_hold_no_control_characters() {
    let odd = "1\u{9b}31m\u{7f}";
    let file = ScriptedReply::ok(obo(odd, "")).header("etag", "\"one\"");
    let origin = OriginScript::new("f.example.org").handler(move |_, _| file.clone());
    let world = World::new(vec![origin]);
    let results = world.pull(vec![RequestedOntology::new(at(
        "https://f.example.org/x.obo",
    ))]);
    assert_eq!(results[0].status, PullEnding::Fresh, "{results:?}");
    assert_eq!(results[0].version.as_deref(), Some(odd));
    let lock = world.path("lock.json");
    let locked = docstokg_ontology::lock::LockFile::of(&results, "now");
    locked.write(&lock).unwrap();
    assert_eq!(
        docstokg_ontology::lock::LockFile::read(&lock).unwrap(),
        locked
    );
    let mut records = files(world.library().root());
    records.retain(|path| {
        path.extension()
            .is_some_and(|kind| kind == "json" || kind == "jsonl")
    });
    records.push(lock);
    assert!(records.len() >= 4, "{records:?}");
    for record in records {
        let text = std::fs::read_to_string(&record).unwrap();
        let is_odd = |letter: char| letter.is_control() && letter != '\n';
        assert!(!text.contains(is_odd), "{}: {text:?}", record.display());
    }
}

#[test]
fn links_in_a_library_are_not_followed() {
    let world = World::new(vec![
        OriginScript::new("f.example.org").handler(|_, _| ScriptedReply::ok(obo("1", ""))),
    ]);
    let (library, elsewhere) = (world.library(), world.path("elsewhere"));
    let precious = elsewhere.join(".new-1-1/file");
    std::fs::create_dir_all(precious.parent().unwrap()).unwrap();
    std::fs::write(&precious, "x").unwrap();
    std::fs::create_dir_all(library.root()).unwrap();
    symlink(&elsewhere, library.root().join("x")).unwrap();
    let own = library.root().join("y");
    for name in [
        ".new-12-0",
        ".new-latest-12",
        ".new-damaged-12",
        ".new-prune-12-2026-01-01",
        ".new-ideas",
        ".new-12",
        ".new-prune-12",
    ] {
        std::fs::create_dir_all(own.join(name)).unwrap();
    }
    library.remove_unfinished().unwrap();
    assert!(precious.exists(), "what a link leads to is not removed");
    let mut left: Vec<_> = std::fs::read_dir(&own)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, [".new-12", ".new-ideas", ".new-prune-12"]);
    let refused = library.stage(&id("x")).expect_err("a link is refused");
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(why.contains("is a symbolic link"), "{refused}: {why}");
    assert_eq!(files(&elsewhere), [precious], "nothing is written there");
}

#[test]
fn versions_behind_a_link_are_not_removed() {
    let answers = ["1", "2", "3"].map(|version| ScriptedReply::ok(obo(version, "")));
    let world = World::new(vec![
        OriginScript::new("f.example.org").route("/x.obo", answers),
    ]);
    for _ in 0..3 {
        world.pull(vec![RequestedOntology::new(at(
            "https://f.example.org/x.obo",
        ))]);
    }
    let (library, elsewhere) = (world.library(), world.path("elsewhere"));
    let own = library.root().join("x");
    let before = library.versions(&id("x")).unwrap().len();
    assert!(before > 1, "{before} versions");
    std::fs::rename(&own, &elsewhere).unwrap();
    symlink(&elsewhere, &own).unwrap();
    let refused = prune(&library, &id("x"), 1, PruneMode::Remove).expect_err("a link is refused");
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(why.contains("is a symbolic link"), "{refused}: {why}");
    assert_eq!(library.versions(&id("x")).unwrap().len(), before);
}

#[test]
fn events_and_the_shared_directory_of_the_facade_are_private() {
    use docstokg_ontology::facade::{Facade, JsonLines, settings::RateLimits};
    let world = World::new(Vec::new());
    let (events, link) = (world.path("events.jsonl"), world.path("link.jsonl"));
    JsonLines::append(&events).unwrap();
    assert_eq!(mode(&events), 0o600);
    std::fs::set_permissions(&events, std::fs::Permissions::from_mode(0o640)).unwrap();
    JsonLines::append(&events).unwrap();
    assert_eq!(mode(&events), 0o640, "an existing file is not changed");
    symlink(&events, &link).unwrap();
    let refused = JsonLines::append(&link).expect_err("a link is refused");
    assert!(refused.to_string().contains("symbolic link"), "{refused}");
    let shared = world.path("shared");
    let limits = RateLimits {
        shared_dir: Some(shared.clone()),
        ..RateLimits::default()
    };
    Facade::builder(limits).build().unwrap();
    assert_eq!(mode(&shared), 0o700);
}

#[test]
fn files_that_never_end_are_not_read() {
    let zero = Path::new("/dev/zero");
    let refused = docstokg_ontology::lock::LockFile::read(zero).unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(why.contains("larger than"), "{refused}: {why}");

    let mut world = World::new(Vec::new());
    world.config.sources = std::sync::Arc::new(SourceSettings {
        obo_registry: Some(zero.to_owned()),
        ..SourceSettings::default()
    });
    let result = &world.pull(vec![RequestedOntology::new(WantedOntology::new(id("x")))])[0];
    let tried = format!("{:?}", result.attempts);
    assert!(tried.contains("larger than"), "{tried}");

    let version = world.library().root().join("x/1");
    std::fs::create_dir_all(&version).unwrap();
    let record = std::fs::File::create(version.join("manifest.json")).unwrap();
    record.set_len(1 << 36).unwrap();
    let damaged = world.library().damaged(&id("x")).unwrap();
    assert_eq!(damaged.len(), 1, "it is one that cannot be read");
}
