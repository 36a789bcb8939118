//! Pulls from the origin's side: what is requested, how often, and what ends up in the library.

use std::time::Duration;

use docstokg_bulk::scheduler::{RunEnd, RunMode};
use docstokg_ontology::facade::settings::RateLimits;
use docstokg_ontology::library::PruneMode;
use docstokg_ontology::pull::{ProbeMode, PullEnding, PullOptions, RequestedOntology};
use docstokg_ontology::source::AbsenceReason;
use docstokg_ontology::wanted_ontology::WantedOntology;
use docstokg_origin_sim::{OriginScript, Piece, ScriptedReply, Simulation};

use crate::pull_world::{
    JSONLD, PURL, REGISTRY, World, id, obo, registry, requested, with_registry,
};

#[test]
fn an_ontology_is_looked_up_fetched_and_stored() {
    let purl = OriginScript::new(PURL).route(
        "/obo/hp.obo",
        [ScriptedReply::ok(obo("releases/2026-06-20", "")).header("etag", "\"one\"")],
    );
    let world = with_registry(&["hp"], purl);
    let results = world.pull(requested(&["hp"]));
    let result = &results[0];
    assert_eq!(result.status, PullEnding::Fresh, "{result:?}");
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
    let purl =
        OriginScript::new(PURL).handler(move |arrival, _| match arrival.header("if-none-match") {
            Some("\"one\"") => ScriptedReply::status(304),
            _ => ScriptedReply::ok(body.clone()).header("etag", "\"one\""),
        });
    let world = with_registry(&["hp"], purl);
    assert_eq!(world.pull(requested(&["hp"]))[0].status, PullEnding::Fresh);
    let again = &world.pull(requested(&["hp"]))[0];
    assert_eq!(again.status, PullEnding::Cached, "{again:?}");
    assert_eq!(world.library().versions(&id("hp")).unwrap().len(), 1);
    let forced = PullOptions {
        force: true,
        ..PullOptions::default()
    };
    let (_, forced) = world.pull_with(requested(&["hp"]), forced);
    assert_eq!(
        forced[0].status,
        PullEnding::Cached,
        "the same version and content"
    );
    assert_eq!(world.library().versions(&id("hp")).unwrap().len(), 1);
}

#[test]
fn versions_stay_beside_each_other_and_latest_is_switched() {
    let purl = OriginScript::new(PURL).route(
        "/obo/hp.obo",
        [
            ScriptedReply::ok(obo("2026-01-01", "")),
            ScriptedReply::ok(obo("2026-02-01", "")),
            ScriptedReply::ok(obo("2026-02-01", "remark: rebuilt")),
        ],
    );
    let world = with_registry(&["hp"], purl);
    for wanted in [PullEnding::Fresh, PullEnding::Updated, PullEnding::Updated] {
        assert_eq!(world.pull(requested(&["hp"]))[0].status, wanted);
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
    let purl = OriginScript::new(PURL)
        .limit("2/SECOND")
        .handler(|arrival, _| ScriptedReply::ok(obo("1.0", &format!("remark: {}", arrival.path))));
    let world = with_registry(&names, purl);
    let results = world.pull(requested(&names));
    assert!(
        results
            .iter()
            .all(|result| result.status == PullEnding::Fresh)
    );
    assert_eq!(world.ledger().at(REGISTRY).len(), 1);
    assert_eq!(world.ledger().statuses().get(&429), None);
    world
        .ledger()
        .no_window_exceeded(PURL, 2, Duration::from_secs(1))
        .unwrap();
}

#[test]
fn a_host_without_an_entry_gets_eight_a_second() {
    let urls: Vec<RequestedOntology> = (0..40)
        .map(|number| {
            let url = format!("https://files.example.org/{number}.obo")
                .parse()
                .unwrap();
            RequestedOntology::new(WantedOntology {
                url: Some(url),
                ..WantedOntology::new(id(&format!("o{number}")))
            })
        })
        .collect();
    let files = OriginScript::new("files.example.org")
        .handler(|arrival, _| ScriptedReply::ok(obo("1.0", &format!("remark: {}", arrival.path))));
    let world = World::new(vec![files]);
    let begun = world.simulation.elapsed();
    let results = world.pull(urls);
    let took = world.simulation.elapsed().saturating_sub(begun);
    assert!(
        results
            .iter()
            .all(|result| result.status == PullEnding::Fresh)
    );
    world
        .ledger()
        .no_window_exceeded("files.example.org", 8, Duration::from_secs(1))
        .unwrap();
    // Eight at once, then eight each second: not two, as files of scholarly works get.
    assert!(took < Duration::from_secs(7), "{took:?}");
}

#[test]
fn without_a_default_a_host_without_an_entry_has_no_rate() {
    let urls: Vec<RequestedOntology> = (0..20)
        .map(|number| {
            let url = format!("https://files.example.org/{number}.obo")
                .parse()
                .unwrap();
            RequestedOntology::new(WantedOntology {
                url: Some(url),
                ..WantedOntology::new(id(&format!("o{number}")))
            })
        })
        .collect();
    let files = OriginScript::new("files.example.org")
        .handler(|arrival, _| ScriptedReply::ok(obo("1.0", &format!("remark: {}", arrival.path))));
    let mut world = World::new(vec![files]);
    world.config.limits = RateLimits::from_text("default: null", "settings").unwrap();
    let begun = world.simulation.elapsed();
    let results = world.pull(urls);
    let took = world.simulation.elapsed().saturating_sub(begun);
    assert!(
        results
            .iter()
            .all(|result| result.status == PullEnding::Fresh)
    );
    // Files of scholarly works get two a second, and with the default it would be eight.
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn an_http_address_that_https_does_not_serve_is_reported_as_upgraded() {
    let registry = OriginScript::new(REGISTRY).route(JSONLD, [registry(&["hp"])]);
    let purl = OriginScript::new(PURL)
        .handler(|_, _| ScriptedReply::redirect(302, "http://old.example.org/hp.obo"));
    let old =
        OriginScript::new("old.example.org").handler(|_, _| ScriptedReply::dead(Piece::Reset));
    let mut world = World::new(vec![registry, purl, old]);
    world.config.prefer_source = vec!["obo".to_owned()];
    let result = &world.pull(requested(&["hp"]))[0];
    let detail = result.detail.as_deref().unwrap();
    assert!(
        detail.contains("was tried as https") && detail.contains("old.example.org"),
        "{detail}"
    );
    assert!(detail.contains("plain_http_hosts"), "{detail}");
}

#[test]
fn a_service_and_its_host_are_charged_together() {
    let names: Vec<String> = (0..12).map(|number| format!("o{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ols = OriginScript::new("www.ebi.ac.uk").handler(|arrival, _| {
        let id = arrival.path.rsplit('/').next().unwrap_or_default();
        let location = format!("https://files.example.org/{id}.obo");
        ScriptedReply::ok(serde_json::json!({ "config": { "fileLocation": location } }).to_string())
    });
    let files =
        OriginScript::new("files.example.org").handler(|_, _| ScriptedReply::ok(obo("1.0", "")));
    let mut world = World::new(vec![ols, files]);
    world.config.prefer_source = vec!["ols".to_owned()];
    assert!(
        world
            .pull(requested(&names))
            .iter()
            .all(|result| result.status == PullEnding::Fresh)
    );
    // The host allows five in a second, the service four.
    world
        .ledger()
        .no_window_exceeded("www.ebi.ac.uk", 4, Duration::from_secs(1))
        .unwrap();
    assert_eq!(
        world.ledger().at("www.ebi.ac.uk").len(),
        12,
        "nothing is requested twice"
    );
}

#[test]
fn the_next_source_is_asked_when_files_fail() {
    let purl = OriginScript::new(PURL).route("/obo/hp.obo", [ScriptedReply::status(404)]);
    let ols = OriginScript::new("www.ebi.ac.uk").handler(|_, _| {
        let location = "https://files.example.org/hp.obo";
        ScriptedReply::ok(serde_json::json!({ "config": { "fileLocation": location } }).to_string())
    });
    let files =
        OriginScript::new("files.example.org").handler(|_, _| ScriptedReply::ok(obo("1.0", "")));
    let registry = OriginScript::new(REGISTRY).route(JSONLD, [registry(&["hp"])]);
    let world = World::new(vec![registry, purl, ols, files]);
    let result = &world.pull(requested(&["hp"]))[0];
    assert_eq!(result.status, PullEnding::Fresh, "{result:?}");
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

#[test]
fn a_plan_fetches_nothing_and_probes_where_asked() {
    let purl = OriginScript::new(PURL).handler(|_, _| {
        ScriptedReply::ok(obo("1", "")).header("last-modified", "Wed, 01 Jul 2026 00:00:00 GMT")
    });
    let mut world = with_registry(&["hp", "ro"], purl);
    world.config.prefer_source = vec!["obo".to_owned()];
    let plan = |probes| PullOptions {
        mode: RunMode::ListOnly,
        probes,
        ..PullOptions::default()
    };
    let (_, planned) = world.pull_with(requested(&["hp", "ro", "nosuch"]), plan(ProbeMode::Skip));
    assert!(world.ledger().at(PURL).is_empty());
    assert_eq!(planned[0].status, PullEnding::Planned);
    assert_eq!(
        planned[0].url.as_deref(),
        Some("https://purl.obolibrary.org/obo/hp.obo")
    );
    assert_eq!(planned[2].reason, Some(AbsenceReason::NotListed));
    let (_, probed) = world.pull_with(requested(&["hp"]), plan(ProbeMode::Send));
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
        requested(&["hp"]),
        PullOptions {
            since,
            ..PullOptions::default()
        },
    );
    assert_eq!(results[0].status, PullEnding::Skipped);
    assert!(world.library().ids().unwrap().is_empty());
}

#[test]
fn pages_are_asked_again_as_data() {
    let server = OriginScript::new("vocab.example.org").handler(|arrival, _| {
        match arrival.header("accept") {
            Some("application/rdf+xml") => ScriptedReply::ok(obo("1", "")),
            _ => ScriptedReply::ok("<html><body>Vocabulary</body></html>"),
        }
    });
    let world = World::new(vec![server]);
    let url = "https://vocab.example.org/terms".parse().unwrap();
    let wanted = WantedOntology {
        url: Some(url),
        sources: vec!["skos".to_owned()],
        ..WantedOntology::new(id("v"))
    };
    let result = &world.pull(vec![RequestedOntology::new(wanted)])[0];
    assert_eq!(result.status, PullEnding::Fresh, "{result:?}");
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
    let purl = OriginScript::new(PURL).handler(move |_, _| {
        match count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => ScriptedReply::status(429).header("retry-after", "90"),
            _ => ScriptedReply::ok(body.clone()),
        }
    });
    let mut world = with_registry(&["hp"], purl);
    world.config.prefer_source = vec!["obo".to_owned()];
    let (ended, results) = world.pull_with(requested(&["hp"]), PullOptions::default());
    assert_eq!(ended, RunEnd::Complete);
    assert_eq!(results[0].status, PullEnding::Fresh, "{:?}", results[0]);
    world.ledger().nothing_before_retry_after(PURL).unwrap();
    assert_eq!(world.ledger().at(PURL).len(), 2);
}

#[test]
fn a_lost_network_is_waited_for_whatever_the_address() {
    let purl = OriginScript::new(PURL).handler(|_, _| ScriptedReply::ok(obo("1", "")));
    let registry = OriginScript::new(REGISTRY).route(JSONLD, [registry(&["hp"])]);
    let registry = registry.latency(Duration::from_secs(1));
    let mut world = World::new(vec![registry, purl]);
    world.config.prefer_source = vec!["obo".to_owned()];
    // The registry answers, and nobody has served a file yet at what was an http address.
    world.outage = Duration::from_millis(500)..Duration::from_secs(400);
    let (ended, results) = world.pull_with(requested(&["hp"]), PullOptions::default());
    assert_eq!(ended, RunEnd::Complete);
    assert_eq!(results[0].status, PullEnding::Fresh, "{:?}", results[0]);
    assert!(world.simulation.elapsed() > Duration::from_secs(400));
}

#[test]
fn behind_a_redirect_the_host_that_asks_to_wait_is_named() {
    let mirror = "mirror.example.org";
    let to = format!("http://{mirror}/hp.obo");
    let purl = OriginScript::new(PURL).handler(move |_, _| ScriptedReply::redirect(302, &to));
    let mut world = World::new(vec![
        OriginScript::new(REGISTRY).route(JSONLD, [registry(&["hp"])]),
        purl,
        OriginScript::new(mirror)
            .handler(|_, _| ScriptedReply::status(429).header("retry-after", "900")),
    ]);
    world.config.prefer_source = vec!["obo".to_owned()];
    let deferred = world.deferred_by(
        requested(&["hp"]),
        PullOptions {
            max_wait: Duration::ZERO,
            ..PullOptions::default()
        },
    );
    assert_eq!(deferred.len(), 1, "{deferred:?}");
    assert_eq!(deferred[0].host, mirror, "{deferred:?}");
}

#[test]
fn every_ontology_comes_after_an_outage_of_its_host() {
    let names: Vec<String> = (0..30).map(|number| format!("o{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // Where connections fail from the start, nobody may serve https at an address that was http.
    let reset = ScriptedReply::dead(Piece::Reset);
    let refusing = ScriptedReply::status(503);
    for (reply, outages) in [
        (refusing, [0..150, 2..32, 2..600]),
        (reset, [2..32, 2..150, 2..600]),
    ] {
        for down in outages {
            let simulation = Simulation::new();
            let (time, reply) = (simulation.clone(), reply.clone());
            let length = down.end;
            let purl = OriginScript::new(PURL).handler(move |_, _| {
                if down.contains(&time.elapsed().as_secs()) {
                    return reply.clone();
                }
                ScriptedReply::ok(obo("1", ""))
            });
            let registry = OriginScript::new(REGISTRY).route(JSONLD, [registry(&names)]);
            let mut world = World::within(simulation, vec![registry, purl]);
            world.config.prefer_source = vec!["obo".to_owned()];
            let (ended, results) = world.pull_with(requested(&names), PullOptions::default());
            assert_eq!(ended, RunEnd::Complete);
            let lost = results.iter().find(|it| it.status != PullEnding::Fresh);
            assert!(lost.is_none() && results.len() == 30, "{length}: {lost:?}");
            let took = world.simulation.elapsed().as_secs();
            assert!(took < length * 6 / 5 + 20, "{length}: {took} s");
        }
    }
}
