//! What `ontofetch` may fetch, and who may change the library.

use std::fs::File;

use docstokg_origin_sim::{OriginScript, ScriptedReply};
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use crate::ontofetch::{OntofetchWorld, obo};

fn results(pulled: &Value) -> &Vec<Value> {
    pulled["results"].as_array().expect("a list")
}

/// The author of an ontology writes its imports: they may not lead into the private network, even
/// by a name that the user allows without https.
#[test]
fn an_import_whose_name_leads_to_loopback_is_refused() {
    // The address is known when the server runs.
    let address = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let known = std::sync::Arc::clone(&address);
    let files = OriginScript::new("files.example").handler(move |_, _| {
        let port = known.get().and_then(|address| address.rsplit_once(':'));
        let port = port.map_or("0", |(_, port)| port);
        ScriptedReply::ok(obo("1", &format!("import: http://localhost:{port}/b.obo")))
    });
    let world = OntofetchWorld::new(vec![
        ("files.example", files),
        (
            "localhost",
            OriginScript::new("localhost").handler(|_, _| ScriptedReply::ok(obo("1", ""))),
        ),
    ]);
    address.set(world.served.address.clone()).expect("once");
    world.config("100/SECOND", "");
    let spec = world.spec(&["a"]);
    let (code, pulled) = world.json(&["pull", "--spec", &spec, "--imports", "direct"]);
    assert_eq!(code, 1, "{pulled}");
    let import = &results(&pulled)[1];
    assert_eq!(import["reason"], "gate", "{import}");
    assert!(
        import["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("internal address")),
        "{import}"
    );
    // The user may name the same address.
    let port = world.served.address.rsplit_once(':').expect("a port").1;
    let own = world.write(
        "own.yaml",
        &format!("ontologies:\n  - {{ id: own, url: \"http://localhost:{port}/b.obo\" }}\n"),
    );
    let lock = world.path("own.json").display().to_string();
    let (_, pulled) = world.json(&["pull", "--spec", &own, "--lock-output", &lock]);
    let reached = results(&pulled)[0].clone();
    assert_ne!(reached["reason"], "gate", "{reached}");
}

#[test]
fn flags_about_hosts_and_licences_hold_for_a_lock_as_well() {
    let licence = "property_value: http://purl.org/dc/terms/license https://creativecommons.org/licenses/by-nc/4.0/";
    let files = OriginScript::new("files.example")
        .handler(move |_, _| ScriptedReply::ok(obo("1", licence)));
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a"]);
    let lock = world.path("lock.json").display().to_string();
    let accepted = ["--accept-license", "CC-BY-NC-4.0"];
    let (code, pulled) = world.json(
        &[
            &["pull", "--spec", &spec, "--lock-output", &lock],
            &accepted[..],
        ]
        .concat(),
    );
    assert_eq!(code, 0, "{pulled}");
    std::fs::remove_dir_all(world.path("library")).expect("a library");
    let (code, refused) = world.json(&["pull", "--lock", &lock]);
    assert_eq!(code, 1, "{refused}");
    assert_eq!(results(&refused)[0]["reason"], "licence", "{refused}");
    let (code, pulled) = world.json(&[&["pull", "--lock", &lock], &accepted[..]].concat());
    assert_eq!(code, 0, "{pulled}");
    std::fs::remove_dir_all(world.path("library")).expect("a library");
    let elsewhere = ["--allowed-hosts", "other.example"];
    // Hosts for plain http are allowed hosts, so the configuration names none.
    let words = [&["pull", "--lock", &lock], &accepted[..], &elsewhere[..]].concat();
    std::fs::write(world.path("config.yaml"), "version: 1\n").expect("a file");
    let (code, refused) = world.json(&words);
    assert_eq!(code, 1, "{refused}");
    assert!(
        results(&refused)[0]["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("allowed_hosts")),
        "{refused}"
    );
    let ran = world.run(&["pull", "--lock", &lock, "--url", "https://x.org/"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("leave --url out"), "{}", ran.err);
}

#[test]
fn a_lock_without_the_secret_of_an_address_says_so() {
    let files = OriginScript::new("files.example").handler(|arrival, _| {
        if arrival.path.contains("token=hush") {
            ScriptedReply::ok(obo("1", ""))
        } else {
            ScriptedReply::status(403)
        }
    });
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.write(
        "spec.yaml",
        "ontologies:\n  - { id: a, url: \"http://files.example/a.obo?token=hush\" }\n",
    );
    let lock = world.path("lock.json").display().to_string();
    let (code, pulled) = world.json(&["pull", "--spec", &spec, "--lock-output", &lock]);
    assert_eq!(code, 0, "{pulled}");
    let written = std::fs::read_to_string(&lock).expect("a file");
    assert!(!written.contains("hush"), "{written}");
    // What the library has is not asked for.
    let (code, cached) = world.json(&["pull", "--lock", &lock]);
    assert_eq!(code, 0, "{cached}");
    std::fs::remove_dir_all(world.path("library")).expect("a library");
    let asked = world.served.web.ledger().len();
    let (code, refused) = world.json(&["pull", "--lock", &lock]);
    assert_eq!(code, 1);
    assert_eq!(results(&refused)[0]["reason"], "credential", "{refused}");
    assert_eq!(world.served.web.ledger().len(), asked, "nothing is sent");
}

#[test]
fn versions_are_not_removed_while_a_pull_works_on_the_library() {
    let files = OriginScript::new("files.example").route(
        "/a.obo",
        [
            ScriptedReply::ok(obo("1", "")),
            ScriptedReply::ok(obo("2", "")),
        ],
    );
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a"]);
    world.json(&["pull", "--spec", &spec]);
    world.json(&["pull", "--spec", &spec]);
    let working = world.path("library/.ontofetch/.docstokg");
    std::fs::create_dir_all(&working).expect("a directory");
    let lock = File::create(working.join("lock")).expect("a file");
    flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("the lock");
    let ran = world.run(&["prune", "--keep", "1"]);
    assert_eq!(ran.code, 1, "{} {}", ran.out, ran.err);
    assert!(ran.err.contains("works on the library"), "{}", ran.err);
    assert!(!ran.err.contains("--out"), "{}", ran.err);
    let (_, listed) = world.json(&["prune", "--keep", "1", "--dry-run"]);
    assert_eq!(listed["removed"].as_array().map(Vec::len), Some(1));
    drop(lock);
    let (code, pruned) = world.json(&["prune", "--keep", "1"]);
    assert_eq!(code, 0, "{pruned}");
    assert_eq!(pruned["removed"].as_array().map(Vec::len), Some(1));
}
