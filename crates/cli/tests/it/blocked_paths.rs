//! What stands in the way of a run: directories and links with the names of its files, a robots.txt
//! that cannot be read, a flag of another command. Each has a sentence, and costs no more than it
//! has to.

use docstokg_bulk::digest::Fingerprint;
use docstokg_bulk::staging::staging_file;
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use serde_json::Value;

use crate::download_world::{DownloadWorld, pdf, text};

fn url(number: usize) -> String {
    format!("http://a.example/{number}.pdf")
}

/// Returns the reason and its detail in the record of a work.
fn reason_of(records: &[Value], work: &str) -> (String, String) {
    let found = records
        .iter()
        .find(|record| record["work_id"] == work)
        .unwrap_or_else(|| panic!("{work} is not in {records:?}"));
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("reason_detail"))
}

#[test]
fn a_directory_where_a_file_should_be_fails_one_work() {
    let world = DownloadWorld::plain();
    let out = world.path("out");
    // Works are numbered from 1 in the order of the input.
    let part = staging_file(&out, 2, Fingerprint::of(&url(2)));
    let part = part.with_file_name(format!(
        "{}.part",
        part.file_name().expect("a name").to_string_lossy()
    ));
    let staged = staging_file(&out, 3, Fingerprint::of(&url(3)));
    for directory in [&part, &staged] {
        std::fs::create_dir_all(directory).expect("a directory");
    }
    let urls: Vec<String> = (1..=4).map(url).collect();
    let ran = world.run(&urls.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.status.code(), Some(1), "{}", text(&ran.stderr));
    let records = world.manifests();
    for (number, directory) in [(2, &part), (3, &staged)] {
        let (reason, detail) = reason_of(&records, &url(number));
        assert_eq!(reason, "path_blocked");
        assert!(
            detail.contains(&format!("{} is a directory", directory.display()))
                && detail.contains("move the directory away"),
            "{detail}"
        );
    }
    let files = std::fs::read_dir(out.join("pdf")).expect("files").count();
    assert_eq!(files, 2, "the other works have their files");

    // Without the directories the same command gets the rest; another one lies where a file goes.
    for directory in [&part, &staged] {
        std::fs::remove_dir(directory).expect("it is empty");
    }
    let ran = world.run(&[&url(2), &url(3), "--retry-failed"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let second = DownloadWorld::plain();
    let names = std::fs::read_dir(out.join("pdf")).expect("files");
    for name in names
        .map(|entry| entry.expect("an entry").file_name())
        .take(1)
    {
        std::fs::create_dir_all(second.path("out/pdf").join(name)).expect("a directory");
    }
    let ran = second.run(&urls.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.status.code(), Some(1), "{}", text(&ran.stderr));
    let records = second.manifests();
    let blocked = records
        .iter()
        .filter(|record| record["reason"] == "path_blocked");
    assert_eq!((blocked.count(), records.len()), (1, 4));
}

#[test]
fn databases_are_not_made_through_links() {
    for name in ["out/manifest.sqlite3", "state/state.sqlite"] {
        let world = DownloadWorld::plain();
        let (link, target) = (world.path(name), world.path("elsewhere"));
        std::fs::create_dir_all(link.parent().expect("a directory")).expect("a directory");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let ran = world.run(&[&url(1)]);
        let said = text(&ran.stderr);
        assert_ne!(ran.status.code(), Some(0), "{said}");
        assert!(
            said.contains(&link.display().to_string())
                && said.contains("it is a symbolic link")
                && said.contains("remove the link"),
            "{said}"
        );
        assert!(!target.exists(), "{name} was followed");
        assert!(world.web.ledger().is_empty(), "nothing was requested");
    }
}

#[test]
fn directories_of_the_output_that_are_links_are_refused_and_the_output_itself_may_be_one() {
    for name in ["pdf", "xml", "html", "other", "sha256", ".docstokg"] {
        let world = DownloadWorld::plain();
        let (link, target) = (world.path("out").join(name), world.path("elsewhere"));
        std::fs::create_dir_all(world.path("out")).expect("a directory");
        std::fs::create_dir(&target).expect("a directory");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let ran = world.run(&[&url(1)]);
        let said = text(&ran.stderr);
        assert_ne!(ran.status.code(), Some(0), "{said}");
        assert!(
            said.contains(&link.display().to_string())
                && said.contains("is a symbolic link")
                && said.contains("remove the link"),
            "{said}"
        );
        let behind = std::fs::read_dir(&target).expect("a directory").count();
        assert_eq!(behind, 0, "{name} was followed");
        assert!(world.web.ledger().is_empty(), "nothing was requested");
    }
    let world = DownloadWorld::plain();
    let target = world.path("elsewhere");
    std::fs::create_dir(&target).expect("a directory");
    std::os::unix::fs::symlink(&target, world.path("out")).expect("a link");
    let ran = world.run(&[&url(1)]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(target.join("pdf").is_dir());
}

#[test]
fn a_link_below_the_directories_of_the_output_is_refused_and_the_file_kept_for_later() {
    let world = DownloadWorld::plain();
    let (shards, target) = (world.path("out/sha256"), world.path("elsewhere"));
    for directory in [&shards, &target] {
        std::fs::create_dir_all(directory).expect("a directory");
    }
    for shard in 0..256 {
        let link = shards.join(format!("{shard:02x}"));
        std::os::unix::fs::symlink(&target, link).expect("a link");
    }
    let file = url(1);
    let arguments = [file.as_str(), "--content-addressed"];
    let ran = world.run(&arguments);
    let said = text(&ran.stderr);
    assert_ne!(ran.status.code(), Some(0), "{said}");
    assert!(said.contains("is a symbolic link"), "{said}");
    assert_eq!(std::fs::read_dir(&target).expect("a directory").count(), 0);
    // Without the links the next run goes on.
    std::fs::remove_dir_all(&shards).expect("the links");
    let ran = world.run(&arguments);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
}

#[test]
fn a_robots_txt_that_cannot_be_read_says_so_and_how_to_go_on() {
    let origin = OriginScript::new("a.example").handler(|arrival, _| match arrival.path.as_str() {
        "/robots.txt" => ScriptedReply::ok("Disallow: /\n".repeat(1 << 20)),
        path => pdf(path),
    });
    let config =
        "version: 1\nlimits: { defaults: { artifact: { rates: [] }, landing: { rates: [] } } }\n";
    let world = DownloadWorld::start(vec![origin], vec!["a.example".to_owned()], config);
    let ran = world.run(&[&url(1)]);
    assert_eq!(ran.status.code(), Some(1), "{}", text(&ran.stderr));
    let (reason, detail) = reason_of(&world.manifests(), &url(1));
    assert_eq!(reason, "robots_unreachable");
    assert!(
        detail
            .contains("the robots.txt of a.example cannot be read, so nothing is requested there")
            && detail.contains("the body is larger than")
            && detail.contains("--ignore-robots"),
        "{detail}"
    );
    assert!(
        world
            .web
            .ledger()
            .arrivals()
            .iter()
            .all(|arrival| arrival.path == "/robots.txt"),
        "nothing else was requested"
    );
    let ran = world.run(&[&url(1), "--retry-failed", "--ignore-robots"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
}

#[test]
fn the_deadline_of_fetch_is_pointed_out_to_be_another_one_in_a_download() {
    let world = DownloadWorld::plain();
    let ran = world.run(&[&url(1), "--deadline", "30"]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(
        said.contains("--deadline bounds single requests of fetch, not a download")
            && said.contains("--item-deadline SECONDS bounds each work"),
        "{said}"
    );
    let ran = world.run(&[&url(2), "--item-deadline", "30"]);
    assert!(!text(&ran.stderr).contains("bounds each work"));
}
