//! Runs that wait: for whom, how long, and when they stop waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_bulk::connectivity::Reachability;
use docstokg_bulk::job::BoxFuture;
use docstokg_bulk::progress::RunProgress;
use docstokg_bulk::scheduler::RunEnd;
use docstokg_content::identifier::Identifier;
use docstokg_content::run::RunOptions;
use docstokg_content::run::inputs::WorkList;
use docstokg_content::work::Work;
use docstokg_hub::Host;
use docstokg_hub::policy::site::{RequestOperation, SiteOperation};
use docstokg_hub::stores::StoreError;
use docstokg_hub::stores::conformance::wrapper::{HookedStore, Treatment};
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::run_world::{World, pdf};

const FREE: &str = "{ artifact: { rates: [] }, landing: { rates: [] }, metadata: { rates: [] } }";

/// Two hosts: one that plays the services, and the archive of last resort.
fn world(answer: impl Fn(&str, &str, u32) -> ScriptedReply + Send + Sync + 'static) -> World {
    let asked = parking_lot::Mutex::new(std::collections::HashMap::<String, u32>::new());
    let answer = Arc::new(move |host: &str, path: &str| {
        let path = path.split('?').next().unwrap_or_default();
        let mut asked = asked.lock();
        let before = asked.entry(format!("{host}{path}")).or_default();
        *before += 1;
        if path == "/robots.txt" {
            ScriptedReply::status(404)
        } else {
            answer(host, path, *before - 1)
        }
    });
    let origins = ["svc.example", "archive.example"].map(|host| {
        let answer = Arc::clone(&answer);
        OriginScript::new(host).handler(move |arrival, _| answer(host, &arrival.path))
    });
    let yaml = format!(
        "version: 1\nlimits: {{ hosts: {{ svc.example: {FREE}, archive.example: {FREE} }} }}\n"
    );
    World::new(origins.into(), &yaml, |service| {
        let host = if service == "wayback" {
            "archive.example"
        } else {
            "svc.example"
        };
        Some(format!("http://{host}/{service}/"))
    })
}

fn run(
    world: &World,
    id: &str,
    change: impl FnOnce(&mut RunOptions),
) -> (RunEnd, Duration, Arc<RunProgress>) {
    let work = Work::new(Identifier::parse(id).unwrap());
    world.run(Box::new(WorkList::new("list", vec![work])), change)
}

fn manifest(world: &World) -> serde_json::Value {
    world
        .records()
        .into_iter()
        .rfind(|record| record["record_type"] == "manifest")
        .unwrap()
}

#[test]
fn a_failing_archive_of_last_resort_is_waited_for_minutes_and_not_an_hour() {
    let world = world(|host, path, _| match (host, path) {
        ("archive.example", _) => ScriptedReply::status(503),
        (_, "/unpaywall/10.5555/a") => found_at("/gone.pdf"),
        _ => ScriptedReply::status(404),
    });
    let (ended, took, _) = run(&world, "10.5555/a", |_| {});
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    assert!(took < Duration::from_secs(310), "{took:?}");
    let record = manifest(&world);
    assert_eq!(
        (&record["reason"], &record["http_status"]),
        (&"http_status".into(), &404.into()),
        "{record}"
    );
}

/// What the archive says of a file that it has a copy of.
const COPIES: &str = r#"[["timestamp", "original", "mimetype", "statuscode", "digest", "length"],
    ["20200101000000", "http://svc.example/gone.pdf", "application/pdf", "200", "A", "9"]]"#;

/// Two works whose files only the archive has. The first answer for a URL that contains `paused` is
/// a pause of so many seconds.
fn two_works_of_the_archive(paused: &'static str, pause: u64) -> World {
    world(move |host, path, before| match (host, path) {
        (_, path) if path.contains(paused) && before == 0 => {
            ScriptedReply::status(429).header("retry-after", &pause.to_string())
        }
        ("archive.example", "/wayback/cdx/search/cdx") => {
            ScriptedReply::ok(COPIES).header("content-type", "application/json")
        }
        ("archive.example", _) => pdf(path),
        (_, "/unpaywall/10.5555/a" | "/unpaywall/10.5555/b") => found_at("/gone.pdf"),
        _ => ScriptedReply::status(404),
    })
}

fn assert_both_works_wait(world: &World, pause: u64) {
    let works = ["10.5555/a", "10.5555/b"].map(|id| Work::new(Identifier::parse(id).unwrap()));
    let (ended, took, progress) = world.run(Box::new(WorkList::new("list", works.into())), |_| {});
    assert!(matches!(ended, RunEnd::Complete), "{pause}: {ended:?}");
    let counters = progress.counters();
    let ended = (counters.done, counters.failed);
    assert_eq!(ended, (2, 0), "{pause}: both works wait for it");
    assert!(took > Duration::from_secs(pause - 1), "{pause}: {took:?}");
}

const PAUSES: [u64; 5] = [240, 301, 600, 1_800, 3_500];

#[test]
fn a_pause_that_a_server_states_is_believed_however_long_it_is() {
    for pause in PAUSES {
        for paused in ["/cdx", "/unpaywall/10.5555/a"] {
            assert_both_works_wait(&two_works_of_the_archive(paused, pause), pause);
        }
    }
}

#[test]
fn a_pause_that_an_operator_states_is_believed_however_long_it_is() {
    for pause in PAUSES {
        let mut world = two_works_of_the_archive("no such URL", pause);
        world.store = Some(world.simulation.shared_store());
        let operator = world.hub();
        let blocked = world.simulation.block_on(async move {
            let archive = Host::parse("archive.example").unwrap();
            let pause = Duration::from_secs(pause);
            operator.block(&archive, pause, "maintenance").await
        });
        blocked.unwrap();
        assert_both_works_wait(&world, pause);
    }
}

#[test]
fn a_copy_that_the_archive_has_is_waited_for_as_any_other_file() {
    let world = world(move |host, path, before| match (host, path) {
        ("archive.example", "/wayback/cdx/search/cdx") => {
            ScriptedReply::ok(COPIES).header("content-type", "application/json")
        }
        ("archive.example", _) if before == 0 => {
            ScriptedReply::status(429).header("retry-after", "1800")
        }
        ("archive.example", _) => pdf(path),
        (_, "/unpaywall/10.5555/a") => found_at("/gone.pdf"),
        _ => ScriptedReply::status(404),
    });
    let (ended, took, _) = run(&world, "10.5555/a", |_| {});
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    assert!(took > Duration::from_secs(1_700), "{took:?}");
    assert_eq!(manifest(&world)["classification"], "pdf");
}

fn found_at(place: &str) -> ScriptedReply {
    let location = format!(
        r#"{{"url_for_pdf":"http://svc.example{place}","url":"http://svc.example{place}","url_for_landing_page":null}}"#
    );
    ScriptedReply::ok(format!(r#"{{"doi":"10.5555/a","is_oa":true,"title":"A","best_oa_location":{location},"oa_locations":[{location}]}}"#))
        .header("content-type", "application/json")
}

#[test]
fn a_run_that_waits_says_for_whom_and_with_no_wait_ends_at_once() {
    let world = world(|_, path, before| match (path, before) {
        ("/file.pdf", 0) => ScriptedReply::status(503).header("retry-after", "900"),
        ("/file.pdf", _) => pdf(path),
        _ => ScriptedReply::status(404),
    });
    let (ended, took, progress) = run(&world, "http://svc.example/file.pdf", |options| {
        options.max_wait = Duration::ZERO;
    });
    assert!(
        matches!(ended, RunEnd::Deferred { left: 1, .. }),
        "{ended:?}"
    );
    assert!(took < Duration::from_secs(30), "{took:?}");
    let waiting = progress.waiting();
    assert_eq!(
        (waiting.len(), waiting[0].host.as_str(), waiting[0].items),
        (1, "svc.example", 1)
    );
    assert_eq!(waiting[0].why, "the host asked for no requests");
    // What the server asked for holds in the next run, too.
    let (ended, took, _) = world.run(Box::new(WorkList::new("list", Vec::new())), |_| {});
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    assert!(took > Duration::from_secs(800), "{took:?}");
    assert_eq!(manifest(&world)["classification"], "pdf");
}

#[test]
fn lookups_that_were_held_back_are_not_recorded_as_attempts() {
    let world = world(|_, _, _| ScriptedReply::status(503).header("retry-after", "900"));
    let (ended, ..) = run(&world, "10.5555/a", |options| {
        options.max_wait = Duration::ZERO;
    });
    assert!(
        matches!(ended, RunEnd::Deferred { left: 1, .. }),
        "{ended:?}"
    );
    let mut attempts = world.records();
    attempts.retain(|record| record["record_type"] == "attempt");
    assert!(!attempts.is_empty(), "the first lookup was sent");
    for attempt in &attempts {
        assert_eq!(attempt["http_status"], 503, "{attempt}");
    }
}

#[test]
fn a_store_that_is_lost_for_a_while_makes_no_work_give_a_source_up() {
    let mut world = world(|_, path, _| match path {
        "/unpaywall/10.5555/a" => found_at("/file.pdf"),
        "/file.pdf" => pdf(path),
        _ => ScriptedReply::status(404),
    });
    // As with `on_store_failure: refuse`.
    let time = world.simulation.clone();
    let losing = HookedStore::new(time.shared_store(), move |operation| {
        let is_enter = matches!(
            operation,
            Some(SiteOperation::Request(_, RequestOperation::Enter { .. }))
        );
        if !is_enter || time.elapsed() > Duration::from_secs(60) {
            return Treatment::Forward;
        }
        Treatment::Fail(StoreError::Unavailable {
            store: "the store".to_owned(),
            why: "closed".to_owned(),
        })
    });
    world.store = Some(Arc::new(losing));
    let (ended, took, _) = run(&world, "10.5555/a", |_| {});
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    assert!(took > Duration::from_secs(60), "{took:?}");
    let record = manifest(&world);
    assert_eq!(record["classification"], "pdf", "{record}");
    let mut attempts = world.records();
    attempts.retain(|record| record["record_type"] == "attempt");
    for attempt in &attempts {
        assert_ne!(attempt["status"], "error", "nothing was sent: {attempt}");
    }
}

/// A network that is there, or not.
struct Switch(AtomicBool);

impl Reachability for Switch {
    fn is_reachable<'a>(&'a self, host: &'a str) -> BoxFuture<'a, bool> {
        let there = self.0.load(Ordering::Relaxed) || host == "intranet.example";
        Box::pin(std::future::ready(there))
    }
}

#[test]
fn without_a_network_nothing_is_sent_and_the_works_stay_queued() {
    let mut world = world(|_, path, _| pdf(path));
    let switch = Arc::new(Switch(AtomicBool::new(false)));
    world.reachability = Some(Arc::clone(&switch) as Arc<dyn Reachability>);
    let (ended, took, _) = run(&world, "http://svc.example/file.pdf", |_| {});
    assert!(matches!(ended, RunEnd::Offline { left: 1 }), "{ended:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(world.web.ledger().len(), 0);
    assert_eq!(
        world.records().len(),
        0,
        "nothing is recorded against anybody"
    );
    switch.0.store(true, Ordering::Relaxed);
    let (ended, ..) = world.run(Box::new(WorkList::new("list", Vec::new())), |_| {});
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    assert_eq!(manifest(&world)["classification"], "pdf");
}

#[test]
fn works_that_meet_a_lost_network_wait_for_it_and_go_on_when_it_is_back() {
    let mut world = world(|_, path, _| {
        if path.contains(".pdf") {
            pdf(path)
        } else {
            ScriptedReply::status(404)
        }
    });
    world.outage = Duration::ZERO..Duration::from_secs(400);
    let works = (0..6)
        .map(|n| Work::new(Identifier::parse(&format!("http://svc.example/{n}.pdf")).unwrap()))
        .collect();
    let (ended, took, progress) = world.run(Box::new(WorkList::new("list", works)), |_| {});
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    assert_eq!(
        (progress.counters().done, progress.counters().failed),
        (6, 0),
        "{:?}",
        world.records()
    );
    assert!(
        took > Duration::from_secs(400) && took < Duration::from_secs(600),
        "{took:?}"
    );
}

#[test]
fn a_network_that_stays_away_ends_the_run_when_the_wait_is_over() {
    let mut world = world(|_, path, _| pdf(path));
    world.outage = Duration::ZERO..Duration::from_secs(100_000);
    let (ended, took, progress) = run(&world, "http://svc.example/file.pdf", |options| {
        options.max_wait = Duration::from_secs(120);
    });
    assert!(
        matches!(ended, RunEnd::Deferred { left: 1, .. }),
        "{ended:?}"
    );
    assert!(took < Duration::from_secs(400), "{took:?}");
    assert_eq!(progress.waiting()[0].why, "no network");
}
