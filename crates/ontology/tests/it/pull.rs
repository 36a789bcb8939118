//! Pulls from the origin's side: what is asked, how often, and what ends up in the library.

use std::time::Duration;

use docstokg_bulk::scheduler::{Ended, RunMode};
use docstokg_ontology::library::PruneMode;
use docstokg_ontology::lock::LockFile;
use docstokg_ontology::pull::{Asked, Ending, Options, Probes};
use docstokg_ontology::source::AbsenceReason;
use docstokg_ontology::wanted::{Checksum, Wanted};
use docstokg_origin_sim::{Origin, Reply};

use crate::pull_world::{World, asked, id, obo, registry};

const REGISTRY: &str = "obofoundry.org";
const PURL: &str = "purl.obolibrary.org";
const JSONLD: &str = "/registry/ontologies.jsonld";

fn with_registry(names: &[&str], purl: Origin) -> World {
    World::new(vec![
        Origin::new(REGISTRY).route(JSONLD, [registry(names)]),
        purl,
    ])
}

#[test]
fn an_ontology_is_looked_up_fetched_and_stored() {
    let purl = Origin::new(PURL).route(
        "/obo/hp.obo",
        [Reply::ok(obo("releases/2026-06-20", "")).header("etag", "\"one\"")],
    );
    let world = with_registry(&["hp"], purl);
    let results = world.pull(asked(&["hp"]));
    let result = &results[0];
    assert_eq!(result.status, Ending::Fresh, "{result:?}");
    assert_eq!(result.version.as_deref(), Some("releases/2026-06-20"));
    assert_eq!(result.license.as_deref(), Some("CC-BY-4.0"));
    let latest = world.library().latest(&id("hp")).unwrap().unwrap();
    assert_eq!(latest.name, "2026-06-20");
    let manifest = &latest.manifest;
    assert_eq!(
        manifest.url, "https://purl.obolibrary.org/obo/hp.obo",
        "http became https"
    );
    assert_eq!(manifest.etag.as_deref(), Some("\"one\""));
    assert_eq!(
        manifest.version, "releases/2026-06-20",
        "the original stays in the manifest"
    );
    let original = std::fs::read_to_string(latest.path.join("original/hp.obo")).unwrap();
    assert_eq!(original, obo("releases/2026-06-20", ""));
    let paths: Vec<&str> = manifest
        .artifacts
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(paths, ["original/hp.obo", "validation/report.json"]);
    let link = std::fs::read_link(world.library().root().join("hp/latest")).unwrap();
    assert_eq!(link.to_str(), Some("2026-06-20"));
}

#[test]
fn nothing_is_transferred_when_nothing_has_changed() {
    let body = obo("2026-06-20", "");
    let purl = Origin::new(PURL).handler(move |arrival, _| match arrival.header("if-none-match") {
        Some("\"one\"") => Reply::status(304),
        _ => Reply::ok(body.clone()).header("etag", "\"one\""),
    });
    let world = with_registry(&["hp"], purl);
    assert_eq!(world.pull(asked(&["hp"]))[0].status, Ending::Fresh);
    let again = &world.pull(asked(&["hp"]))[0];
    assert_eq!(again.status, Ending::Cached, "{again:?}");
    assert_eq!(world.library().versions(&id("hp")).unwrap().len(), 1);
    let forced = Options {
        force: true,
        ..Options::default()
    };
    let (_, forced) = world.pull_with(asked(&["hp"]), forced);
    assert_eq!(
        forced[0].status,
        Ending::Cached,
        "the same version and content"
    );
    assert_eq!(world.library().versions(&id("hp")).unwrap().len(), 1);
}

#[test]
fn versions_stay_beside_each_other_and_latest_is_switched() {
    let purl = Origin::new(PURL).route(
        "/obo/hp.obo",
        [
            Reply::ok(obo("2026-01-01", "")),
            Reply::ok(obo("2026-02-01", "")),
            Reply::ok(obo("2026-02-01", "remark: rebuilt")),
        ],
    );
    let world = with_registry(&["hp"], purl);
    for wanted in [Ending::Fresh, Ending::Updated, Ending::Updated] {
        assert_eq!(world.pull(asked(&["hp"]))[0].status, wanted);
    }
    let library = world.library();
    let names: Vec<String> = library
        .versions(&id("hp"))
        .unwrap()
        .into_iter()
        .map(|version| version.name)
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    // The same version with other content gets a name that its checksum completes.
    let latest = library.latest(&id("hp")).unwrap().unwrap();
    assert!(latest.name.starts_with("2026-02-01-"), "{}", latest.name);
    assert_eq!(
        library.find(&id("hp"), Some("2026-01-01")).unwrap().name,
        "2026-01-01"
    );
    let error = library
        .find(&id("hp"), Some("1999"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("there are"), "{error}");
    let listed =
        docstokg_ontology::library::prune(&library, &id("hp"), 1, PruneMode::ListOnly).unwrap();
    assert_eq!(listed.len(), 2);
    docstokg_ontology::library::prune(&library, &id("hp"), 1, PruneMode::Remove).unwrap();
    assert_eq!(library.versions(&id("hp")).unwrap().len(), 1);
    assert!(library.latest(&id("hp")).unwrap().is_some());
}

#[test]
fn the_registry_is_asked_once_for_many_ontologies() {
    let names: Vec<String> = (0..40).map(|number| format!("o{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let purl = Origin::new(PURL)
        .limit("2/SECOND")
        .handler(|arrival, _| Reply::ok(obo("1.0", &format!("remark: {}", arrival.path))));
    let world = with_registry(&names, purl);
    let results = world.pull(asked(&names));
    assert!(results.iter().all(|result| result.status == Ending::Fresh));
    assert_eq!(world.ledger().at(REGISTRY).len(), 1);
    assert_eq!(world.ledger().statuses().get(&429), None);
    world
        .ledger()
        .no_window_exceeded(PURL, 2, Duration::from_secs(1))
        .unwrap();
}

#[test]
fn a_host_without_an_entry_gets_eight_a_second() {
    let urls: Vec<Asked> = (0..40)
        .map(|number| {
            let url = format!("https://files.example.org/{number}.obo")
                .parse()
                .unwrap();
            Asked::new(Wanted {
                url: Some(url),
                ..Wanted::new(id(&format!("o{number}")))
            })
        })
        .collect();
    let files = Origin::new("files.example.org")
        .handler(|arrival, _| Reply::ok(obo("1.0", &format!("remark: {}", arrival.path))));
    let world = World::new(vec![files]);
    let begun = world.simulation.elapsed();
    let results = world.pull(urls);
    let took = world.simulation.elapsed().saturating_sub(begun);
    assert!(results.iter().all(|result| result.status == Ending::Fresh));
    world
        .ledger()
        .no_window_exceeded("files.example.org", 8, Duration::from_secs(1))
        .unwrap();
    // Eight at once, then eight each second: not two, as files of scholarly works get.
    assert!(took < Duration::from_secs(7), "{took:?}");
}

#[test]
fn a_service_and_its_host_are_charged_together() {
    let names: Vec<String> = (0..12).map(|number| format!("o{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ols = Origin::new("www.ebi.ac.uk").handler(|arrival, _| {
        let id = arrival.path.rsplit('/').next().unwrap_or_default();
        let location = format!("https://files.example.org/{id}.obo");
        Reply::ok(serde_json::json!({ "config": { "fileLocation": location } }).to_string())
    });
    let files = Origin::new("files.example.org").handler(|_, _| Reply::ok(obo("1.0", "")));
    let mut world = World::new(vec![ols, files]);
    world.config.prefer_source = vec!["ols".to_owned()];
    assert!(
        world
            .pull(asked(&names))
            .iter()
            .all(|result| result.status == Ending::Fresh)
    );
    // The host allows five in a second, the service four.
    world
        .ledger()
        .no_window_exceeded("www.ebi.ac.uk", 4, Duration::from_secs(1))
        .unwrap();
    assert_eq!(
        world.ledger().at("www.ebi.ac.uk").len(),
        12,
        "nothing is asked twice"
    );
}

#[test]
fn the_next_source_is_asked_when_files_fail() {
    let purl = Origin::new(PURL).route("/obo/hp.obo", [Reply::status(404)]);
    let ols = Origin::new("www.ebi.ac.uk").handler(|_, _| {
        let location = "https://files.example.org/hp.obo";
        Reply::ok(serde_json::json!({ "config": { "fileLocation": location } }).to_string())
    });
    let files = Origin::new("files.example.org").handler(|_, _| Reply::ok(obo("1.0", "")));
    let registry = Origin::new(REGISTRY).route(JSONLD, [registry(&["hp"])]);
    let world = World::new(vec![registry, purl, ols, files]);
    let result = &world.pull(asked(&["hp"]))[0];
    assert_eq!(result.status, Ending::Fresh, "{result:?}");
    assert_eq!(result.resolver.as_deref(), Some("ols"));
    let tried: Vec<(&str, Option<AbsenceReason>)> = result
        .attempts
        .iter()
        .map(|tried| (tried.resolver.as_str(), tried.reason))
        .collect();
    assert_eq!(
        tried,
        [("obo", Some(AbsenceReason::HttpStatus)), ("ols", None)]
    );
}

fn portal(file: Reply) -> Origin {
    Origin::new("data.bioontology.org").handler(move |arrival, _| {
        if arrival.header("authorization") != Some("apikey token=s3cret") {
            return Reply::status(401);
        }
        if arrival.path.contains("/latest_submission") {
            return Reply::ok(r#"{"submissionId": 7, "version": "2026AA"}"#);
        }
        file.clone()
    })
}

fn at_bioportal(file: Reply) -> World {
    let mut world = World::new(vec![portal(file)]);
    world.config.prefer_source = vec!["bioportal".to_owned()];
    world
}

#[test]
fn a_portals_refusals_are_answers_and_not_repeated() {
    for (status, reason) in [
        (403, AbsenceReason::Restricted),
        (404, AbsenceReason::NoFile),
        (401, AbsenceReason::Credential),
    ] {
        let world = at_bioportal(Reply::status(status));
        let result = &world.pull(asked(&["sty"]))[0];
        assert_eq!(
            (result.status, result.reason),
            (Ending::Failed, Some(reason))
        );
        assert_eq!(world.ledger().len(), 2, "{status} is not asked for again");
        assert!(!format!("{result:?}").contains("s3cret"));
    }
}

#[test]
fn a_portals_submission_says_whether_anything_changed() {
    let file = Reply::ok(obo("2026AA", ""))
        .header("content-disposition", "attachment; filename=\"sty.obo\"");
    let world = at_bioportal(file);
    assert_eq!(world.pull(asked(&["sty"]))[0].status, Ending::Fresh);
    let latest = world.library().latest(&id("sty")).unwrap().unwrap();
    assert_eq!(latest.manifest.filename, "sty.obo");
    let before = world.ledger().len();
    assert_eq!(world.pull(asked(&["sty"]))[0].status, Ending::Cached);
    assert_eq!(
        world.ledger().len() - before,
        1,
        "only the submission is asked for"
    );
}

#[test]
fn a_portal_that_is_too_busy_is_left_alone_until_its_reset() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let origin = Origin::new("data.bioontology.org").handler(move |arrival, _| {
        if arrival.path.contains("/latest_submission") {
            return Reply::ok(r#"{"submissionId": 7}"#);
        }
        match count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0..4 => Reply::status(429)
                .header("ratelimit-reset", "40")
                .body("Rate limit"),
            _ => Reply::ok(obo("1", "")),
        }
    });
    let mut world = World::new(vec![origin]);
    world.config.prefer_source = vec!["bioportal".to_owned()];
    let result = &world.pull(asked(&["sty"]))[0];
    assert_eq!(result.status, Ending::Fresh, "{result:?}");
    assert!(world.simulation.elapsed() > Duration::from_secs(40));
}

#[test]
fn a_key_does_not_travel_along_a_chain_of_redirects() {
    let hop = |host: &str, to: &str| {
        Origin::new(host).handler({
            let to = to.to_owned();
            move |_, _| Reply::redirect(302, &to)
        })
    };
    let portal = Origin::new("data.bioontology.org").handler(|arrival, _| {
        if arrival.path.contains("/latest_submission") {
            return Reply::ok(r#"{"submissionId": 7}"#);
        }
        Reply::redirect(302, "https://a.example.org/1")
    });
    let mut world = World::new(vec![
        portal,
        hop("a.example.org", "https://b.example.org/2"),
        hop("b.example.org", "http://c.example.org/3"),
        hop("c.example.org", "https://d.example.org/4"),
        hop("d.example.org", "https://e.example.org/5"),
        Origin::new("e.example.org").handler(|_, _| Reply::ok(obo("1", ""))),
    ]);
    world.config.prefer_source = vec!["bioportal".to_owned()];
    let result = &world.pull(asked(&["sty"]))[0];
    assert_eq!(result.status, Ending::Fresh, "{result:?}");
    assert_eq!(result.final_url.as_deref(), Some("https://e.example.org/5"));
    for arrival in world.ledger().arrivals() {
        let has_key = arrival.header("authorization").is_some();
        assert_eq!(
            has_key,
            arrival.host == "data.bioontology.org",
            "{}",
            arrival.host
        );
    }
    // Plain http on the way became https.
    assert_eq!(world.ledger().at("c.example.org").len(), 1);
}

#[test]
fn gates_hold_on_every_hop() {
    let evil = |to: &str| {
        let to = to.to_owned();
        Origin::new(PURL).handler(move |_, _| Reply::redirect(302, &to))
    };
    for (to, wanted) in [
        ("file:///etc/passwd", "file"),
        ("https://u:p@files.example.org/x", "user name or password"),
        ("https://127.0.0.1/x.obo", "address of a private network"),
        ("https://files.example.org:9999/x", "has a port of its own"),
    ] {
        let mut world = with_registry(&["hp"], evil(to));
        world.config.prefer_source = vec!["obo".to_owned()];
        let result = &world.pull(asked(&["hp"]))[0];
        assert_eq!(result.reason, Some(AbsenceReason::Gate), "{to}: {result:?}");
        let detail = result.detail.as_deref().unwrap();
        assert!(detail.contains(wanted), "{to}: {detail}");
    }
    let mut world = with_registry(&["hp"], evil("https://elsewhere.example/x"));
    world.config.prefer_source = vec!["obo".to_owned()];
    let settings = docstokg_config::Names(vec![PURL.to_owned(), REGISTRY.to_owned()]);
    let settings = docstokg_ontology::config::OntologySettings {
        allowed_hosts: Some(docstokg_config::Sourced::new(
            settings,
            docstokg_config::Source::Program,
        )),
        ..Default::default()
    };
    world.config.gate = settings.resolve().unwrap().gate;
    let result = &world.pull(asked(&["hp"]))[0];
    assert!(
        result
            .detail
            .as_deref()
            .unwrap()
            .contains("not in allowed_hosts"),
        "{result:?}"
    );
    assert!(world.ledger().at("elsewhere.example").is_empty());
}

#[test]
fn a_licence_that_is_not_accepted_costs_no_download() {
    let registry = serde_json::json!({ "ontologies": [{
        "id": "hp",
        "license": { "url": "https://hpo.jax.org/app/license" },
        "products": [{ "id": "hp.obo", "ontology_purl": "http://purl.obolibrary.org/obo/hp.obo" }],
    }]});
    let purl = Origin::new(PURL).handler(|_, _| Reply::ok(obo("1", "")));
    let registry = Origin::new(REGISTRY).route(JSONLD, [Reply::ok(registry.to_string())]);
    let mut world = World::new(vec![registry, purl]);
    world.config.prefer_source = vec!["obo".to_owned()];
    let result = &world.pull(asked(&["hp"]))[0];
    assert_eq!(result.reason, Some(AbsenceReason::Licence));
    assert!(world.ledger().at(PURL).is_empty());
    world.config.accept_licenses = vec!["https://hpo.jax.org/app/license".to_owned()];
    assert_eq!(world.pull(asked(&["hp"]))[0].status, Ending::Fresh);
}

#[test]
fn a_licence_inside_the_file_is_judged_where_the_source_says_nothing() {
    let more = "property_value: http://purl.org/dc/terms/license https://creativecommons.org/licenses/by-nc/4.0/";
    let body = obo("1", more);
    let files = Origin::new("files.example.org").handler(move |_, _| Reply::ok(body.clone()));
    let world = World::new(vec![files]);
    let url = "https://files.example.org/x.obo".parse().unwrap();
    let wanted = Wanted {
        url: Some(url),
        ..Wanted::new(id("x"))
    };
    let result = &world.pull(vec![Asked::new(wanted)])[0];
    assert_eq!(result.reason, Some(AbsenceReason::Licence), "{result:?}");
    assert!(world.library().latest(&id("x")).unwrap().is_none());
    assert!(world.library().ids().unwrap().is_empty());
}

#[test]
fn checksums_are_checked_inline_and_by_address() {
    let body = obo("1", "");
    let sha256 = {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &body).unwrap();
        docstokg_bulk::digest::sha256_of(file.path()).unwrap()
    };
    let list = format!("{sha256}  x.obo\n{}  y.obo\n", "0".repeat(64));
    let files = Origin::new("files.example.org").handler(move |arrival, _| {
        if arrival.path.ends_with("SHA256SUMS") {
            Reply::ok(list.clone())
        } else {
            Reply::ok(body.clone())
        }
    });
    let world = World::new(vec![files]);
    let wanted = |name: &str| Wanted {
        url: Some(format!("https://files.example.org/{name}").parse().unwrap()),
        ..Wanted::new(id("x"))
    };
    let wrong = Wanted {
        checksum: Some(Checksum::parse(&"1".repeat(64)).unwrap()),
        ..wanted("x.obo")
    };
    let result = &world.pull(vec![Asked::new(wrong)])[0];
    assert_eq!(result.reason, Some(AbsenceReason::Checksum), "{result:?}");
    let listed = |name| Wanted {
        checksum_url: Some("https://files.example.org/SHA256SUMS".parse().unwrap()),
        ..wanted(name)
    };
    assert_eq!(
        world.pull(vec![Asked::new(listed("y.obo"))])[0].reason,
        Some(AbsenceReason::Checksum)
    );
    let result = &world.pull(vec![Asked::new(listed("x.obo"))])[0];
    assert_eq!(result.status, Ending::Fresh, "{result:?}");
    let manifest = world.library().latest(&id("x")).unwrap().unwrap().manifest;
    assert_eq!(manifest.expected_checksum.unwrap().value, sha256);
}

#[test]
fn a_lock_pins_address_version_and_checksum() {
    let purl = Origin::new(PURL).route(
        "/obo/hp.obo",
        [
            Reply::ok(obo("1", "")),
            Reply::ok(obo("2", "")),
            Reply::ok(obo("1", "")),
        ],
    );
    let mut world = with_registry(&["hp"], purl);
    world.config.prefer_source = vec!["obo".to_owned()];
    let results = world.pull(asked(&["hp"]));
    let lock = LockFile::of(&results, "now");
    let path = world.path("ontologies.lock.json");
    lock.write(&path).unwrap();
    let lock = LockFile::read(&path).unwrap();
    assert_eq!(lock.entries[0].version.as_deref(), Some("1"));
    let registry_asked = world.ledger().at(REGISTRY).len();
    // What is in the library already is not asked for.
    assert_eq!(world.pull(Asked::of_lock(&lock))[0].status, Ending::Cached);
    std::fs::remove_dir_all(world.library().root()).unwrap();
    let changed = &world.pull(Asked::of_lock(&lock))[0];
    assert_eq!(changed.reason, Some(AbsenceReason::Checksum), "{changed:?}");
    let same = &world.pull(Asked::of_lock(&lock))[0];
    assert_eq!(
        (same.status, same.version.as_deref()),
        (Ending::Fresh, Some("1"))
    );
    assert_eq!(
        world.ledger().at(REGISTRY).len(),
        registry_asked,
        "no source is asked"
    );
    for (text, wanted) in [
        ("{}", "is not a lock file"),
        (
            r#"{"schema_version":"9","generated_at":"","entries":[]}"#,
            "format 9",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = LockFile::read(&path).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn a_plan_fetches_nothing_and_probes_where_asked() {
    let purl = Origin::new(PURL).handler(|_, _| {
        Reply::ok(obo("1", "")).header("last-modified", "Wed, 01 Jul 2026 00:00:00 GMT")
    });
    let mut world = with_registry(&["hp", "ro"], purl);
    world.config.prefer_source = vec!["obo".to_owned()];
    let plan = |probes| Options {
        mode: RunMode::ListOnly,
        probes,
        ..Options::default()
    };
    let (_, planned) = world.pull_with(asked(&["hp", "ro", "nosuch"]), plan(Probes::Skip));
    assert!(world.ledger().at(PURL).is_empty());
    assert_eq!(planned[0].status, Ending::Planned);
    assert_eq!(
        planned[0].url.as_deref(),
        Some("https://purl.obolibrary.org/obo/hp.obo")
    );
    assert_eq!(planned[2].reason, Some(AbsenceReason::NotListed));
    let (_, probed) = world.pull_with(asked(&["hp"]), plan(Probes::Send));
    let arrivals = world.ledger().at(PURL);
    assert!(
        arrivals.iter().all(|arrival| arrival.method == "HEAD"),
        "{arrivals:?}"
    );
    assert_eq!(
        probed[0].last_modified.as_deref(),
        Some("Wed, 01 Jul 2026 00:00:00 GMT")
    );
    assert!(probed[0].content_length.is_some());
    // Nothing newer than the date: left as it is.
    let since = docstokg_hub::policy::retry_after::http_date("Wed, 15 Jul 2026 00:00:00 GMT");
    let (_, results) = world.pull_with(
        asked(&["hp"]),
        Options {
            since,
            ..Options::default()
        },
    );
    assert_eq!(results[0].status, Ending::Skipped);
    assert!(world.library().ids().unwrap().is_empty());
}

#[test]
fn pages_are_asked_again_as_data() {
    let server =
        Origin::new("vocab.example.org").handler(|arrival, _| match arrival.header("accept") {
            Some("application/rdf+xml") => Reply::ok(obo("1", "")),
            _ => Reply::ok("<html><body>Vocabulary</body></html>"),
        });
    let world = World::new(vec![server]);
    let url = "https://vocab.example.org/terms".parse().unwrap();
    let wanted = Wanted {
        url: Some(url),
        sources: vec!["skos".to_owned()],
        ..Wanted::new(id("v"))
    };
    let result = &world.pull(vec![Asked::new(wanted)])[0];
    assert_eq!(result.status, Ending::Fresh, "{result:?}");
    let accepts: Vec<String> = world
        .ledger()
        .arrivals()
        .iter()
        .map(|arrival| arrival.header("accept").unwrap_or_default().to_owned())
        .collect();
    assert_eq!(accepts.len(), 3, "{accepts:?}");
    assert_eq!(accepts[1..], ["text/turtle", "application/rdf+xml"]);
}

#[test]
fn an_outage_is_waited_for_and_a_retry_after_is_obeyed() {
    let body = obo("1", "");
    let count = std::sync::atomic::AtomicUsize::new(0);
    let purl = Origin::new(PURL).handler(move |_, _| {
        match count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Reply::status(429).header("retry-after", "90"),
            _ => Reply::ok(body.clone()),
        }
    });
    let mut world = with_registry(&["hp"], purl);
    world.config.prefer_source = vec!["obo".to_owned()];
    let (ended, results) = world.pull_with(asked(&["hp"]), Options::default());
    assert_eq!(ended, Ended::Complete);
    assert_eq!(results[0].status, Ending::Fresh, "{:?}", results[0]);
    world.ledger().nothing_before_retry_after(PURL).unwrap();
    assert_eq!(world.ledger().at(PURL).len(), 2);
}
