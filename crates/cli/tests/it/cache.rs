//! Stored answers, between runs and between processes, judged by what the origin received.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use docstokg_origin_sim::scholarly::{LibraryPlan, WorkLibrary};
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use serde_json::Value;

use crate::download_world::{DownloadWorld, text};
use crate::support::{Ran, Served, sharing};

const URL: &str = "http://a.example/data";

/// An origin whose first answer is fresh for ten minutes, and slow.
fn origin() -> Served {
    let answer =
        |body: &'static str| ScriptedReply::ok(body).header("cache-control", "max-age=600");
    let slow = std::time::Duration::from_millis(700);
    Served::start(
        OriginScript::new("a.example")
            .latency(slow)
            .route("/data", [answer("one"), answer("two")]),
    )
}

fn docstokg(served: &Served, state: &Path, arguments: &[&str]) -> Command {
    let mut command = sharing(state);
    command
        .args(arguments)
        .arg("--connect-to")
        .arg(format!("a.example:80={}", served.address));
    command
}

fn run(served: &Served, state: &Path, arguments: &[&str]) -> Ran {
    let output = docstokg(served, state, arguments).output();
    output.expect("the program").into()
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out))
}

#[test]
fn a_second_fetch_is_answered_by_the_cache_which_can_be_shown_and_emptied() {
    let served = origin();
    let state = tempfile::tempdir().expect("a directory");
    let state = state.path().join("state");
    let cache = |arguments: &[&str]| json(&run(&served, &state, arguments));
    let first = cache(&["fetch", URL, "--json"]);
    assert_eq!(
        (&first["body"], &first["journey"]["cache"]),
        (&"one".into(), &"stored".into())
    );
    let second = cache(&["fetch", URL, "--json"]);
    assert_eq!(
        (&second["body"], &second["journey"]["cache"]),
        (&"one".into(), &"hit".into())
    );
    let offline = cache(&["fetch", URL, "--offline", "--json"]);
    assert_eq!(offline["body"], "one");
    let shown = cache(&["cache", "show", "--json"]);
    assert_eq!(shown["entries"][0]["url"], URL);
    assert_eq!(shown["entries"][0]["status"], 200);
    assert_eq!(cache(&["cache", "stats", "--json"])["entries"], 1);
    assert_eq!(cache(&["cache", "verify", "--json"])["ok"], true);
    let summary = run(&served, &state, &["summary"]);
    assert!(summary.out.contains("reused 1 answer"), "{}", summary.out);
    assert_eq!(served.web.ledger().len(), 1);

    assert_eq!(
        cache(&["cache", "purge", "other.example", "--json"])["removed"],
        0
    );
    assert_eq!(
        cache(&["cache", "purge", "a.example", "--json"])["removed"],
        1
    );
    let missing = run(&served, &state, &["fetch", URL, "--offline", "--json"]);
    assert_eq!(
        (missing.code, &json(&missing)["error"]),
        (1, &"not_cached".into())
    );
    assert_eq!(served.web.ledger().len(), 1);

    assert_eq!(
        cache(&["fetch", URL, "--no-cache", "--json"])["journey"]["cache"],
        "none"
    );
    assert_eq!(cache(&["cache", "stats", "--json"])["entries"], 0);
    assert_eq!(
        cache(&["fetch", URL, "--refresh", "--json"])["journey"]["cache"],
        "stored"
    );
    assert_eq!(
        cache(&["fetch", URL, "--refresh", "--json"])["journey"]["cache"],
        "stored"
    );
    assert_eq!(served.web.ledger().len(), 4);
}

#[test]
fn processes_that_want_the_same_at_once_send_one_request() {
    let served = origin();
    let state = tempfile::tempdir().expect("a directory");
    let state = state.path().join("state");
    run(&served, &state, &["cache", "stats"]);
    let spawn = || {
        docstokg(&served, &state, &["fetch", URL])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the program")
    };
    let processes: Vec<_> = (0..6).map(|_| spawn()).collect();
    for process in processes {
        let output = process.wait_with_output().expect("its output");
        assert_eq!(text(&output.stdout), "one", "{}", text(&output.stderr));
    }
    assert_eq!(served.web.ledger().len(), 1);
}

/// Hosts that are asked for metadata and whose answers are reused. Not arXiv, which answers passing
/// faults with 200.
fn is_service(host: &str) -> bool {
    host.starts_with("api.")
        || ["www.ebi.ac.uk", "pmc.ncbi.nlm.nih.gov", "doaj.org"].contains(&host)
}

#[test]
fn a_second_run_over_the_same_list_asks_no_service_again() {
    let library = WorkLibrary::generate(&LibraryPlan {
        seed: 7,
        works: 40,
        scale: 40,
        ..LibraryPlan::default()
    });
    let world = DownloadWorld::of(&library);
    let works = world.path("works.txt").display().to_string();
    let services = || {
        let arrivals = world.web.ledger().arrivals().into_iter();
        arrivals
            .filter(|arrival| is_service(&arrival.host))
            .filter(|arrival| arrival.path != "/robots.txt" && !arrival.path.starts_with("/pdf/"))
            .map(|arrival| (format!("{}{}", arrival.host, arrival.path), arrival.status))
            .collect::<Vec<_>>()
    };
    world.run(&[&works]);
    let first = services();
    let answered: HashSet<String> = first
        .iter()
        .filter(|(_, status)| [200, 404].contains(status))
        .map(|(url, _)| url.clone())
        .collect();
    assert!(answered.len() > 10, "{first:?}");
    let out = world.path("again").display().to_string();
    world.run(&[&works, "--out", &out]);
    let again = services().split_off(first.len());
    let asked_twice: Vec<_> = again
        .iter()
        .filter(|(url, _)| answered.contains(url))
        .collect();
    assert!(asked_twice.is_empty(), "{asked_twice:?}");
    // What was never answered is asked for, and so are batches of works that were not together in
    // one batch before: which works wait at the same time differs from run to run.
    assert!(again.len() * 2 <= first.len(), "{again:?} after {first:?}");
}
