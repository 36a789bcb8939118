//! What keeps a file out of the library: addresses, licences, checksums and pins.

use docstokg_ontology::lock::LockFile;
use docstokg_ontology::pull::{PullEnding, RequestedOntology};
use docstokg_ontology::source::AbsenceReason;
use docstokg_ontology::wanted_ontology::{FileChecksum, WantedOntology};
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::pull_world::{JSONLD, PURL, REGISTRY, World, id, obo, requested, with_registry};

#[test]
fn redirect_to_an_unsafe_address_is_refused() {
    let evil = |to: &str| {
        let to = to.to_owned();
        OriginScript::new(PURL).handler(move |_, _| ScriptedReply::redirect(302, &to))
    };
    for (to, wanted) in [
        ("file:///etc/passwd", "file"),
        ("https://u:p@files.example.org/x", "user name or password"),
        ("https://127.0.0.1/x.obo", "address of a private network"),
        ("https://files.example.org:9999/x", "has a port of its own"),
    ] {
        let mut world = with_registry(&["hp"], evil(to));
        world.config.prefer_source = vec!["obo".to_owned()];
        let result = &world.pull(requested(&["hp"]))[0];
        assert_eq!(result.reason, Some(AbsenceReason::Gate), "{to}: {result:?}");
        let detail = result.detail.as_deref().unwrap();
        assert!(detail.contains(wanted), "{to}: {detail}");
    }
    let mut world = with_registry(&["hp"], evil("https://elsewhere.example/x"));
    world.config.prefer_source = vec!["obo".to_owned()];
    let settings = docstokg_config::NameList(vec![PURL.to_owned(), REGISTRY.to_owned()]);
    let settings = docstokg_ontology::config::OntologySettings {
        allowed_hosts: Some(docstokg_config::SourcedValue::new(
            settings,
            docstokg_config::ValueSource::Program,
        )),
        ..Default::default()
    };
    world.config.gate = settings.resolve().unwrap().gate;
    let result = &world.pull(requested(&["hp"]))[0];
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
    let purl = OriginScript::new(PURL).handler(|_, _| ScriptedReply::ok(obo("1", "")));
    let registry =
        OriginScript::new(REGISTRY).route(JSONLD, [ScriptedReply::ok(registry.to_string())]);
    let mut world = World::new(vec![registry, purl]);
    world.config.prefer_source = vec!["obo".to_owned()];
    let result = &world.pull(requested(&["hp"]))[0];
    assert_eq!(result.reason, Some(AbsenceReason::Licence));
    assert!(world.ledger().at(PURL).is_empty());
    world.config.accept_licenses = vec!["https://hpo.jax.org/app/license".to_owned()];
    assert_eq!(world.pull(requested(&["hp"]))[0].status, PullEnding::Fresh);
}

#[test]
fn a_licence_inside_the_file_is_judged_where_the_source_says_nothing() {
    let more = "property_value: http://purl.org/dc/terms/license https://creativecommons.org/licenses/by-nc/4.0/";
    let body = obo("1", more);
    let files =
        OriginScript::new("files.example.org").handler(move |_, _| ScriptedReply::ok(body.clone()));
    let world = World::new(vec![files]);
    let url = "https://files.example.org/x.obo".parse().unwrap();
    let wanted = WantedOntology {
        url: Some(url),
        ..WantedOntology::new(id("x"))
    };
    let result = &world.pull(vec![RequestedOntology::new(wanted)])[0];
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
    let files = OriginScript::new("files.example.org").handler(move |arrival, _| {
        if arrival.path.ends_with("SHA256SUMS") {
            ScriptedReply::ok(list.clone())
        } else {
            ScriptedReply::ok(body.clone())
        }
    });
    let world = World::new(vec![files]);
    let wanted = |name: &str| WantedOntology {
        url: Some(format!("https://files.example.org/{name}").parse().unwrap()),
        ..WantedOntology::new(id("x"))
    };
    let wrong = WantedOntology {
        checksum: Some(FileChecksum::parse(&"1".repeat(64)).unwrap()),
        ..wanted("x.obo")
    };
    let result = &world.pull(vec![RequestedOntology::new(wrong)])[0];
    assert_eq!(result.reason, Some(AbsenceReason::Checksum), "{result:?}");
    let listed = |name| WantedOntology {
        checksum_url: Some("https://files.example.org/SHA256SUMS".parse().unwrap()),
        ..wanted(name)
    };
    assert_eq!(
        world.pull(vec![RequestedOntology::new(listed("y.obo"))])[0].reason,
        Some(AbsenceReason::Checksum)
    );
    let result = &world.pull(vec![RequestedOntology::new(listed("x.obo"))])[0];
    assert_eq!(result.status, PullEnding::Fresh, "{result:?}");
    let manifest = world.library().latest(&id("x")).unwrap().unwrap().manifest;
    assert_eq!(manifest.expected_checksum.unwrap().value, sha256);
}

#[test]
fn a_lock_pins_address_version_and_checksum() {
    let purl = OriginScript::new(PURL).route(
        "/obo/hp.obo",
        [
            ScriptedReply::ok(obo("1", "")),
            ScriptedReply::ok(obo("2", "")),
            ScriptedReply::ok(obo("1", "")),
        ],
    );
    let mut world = with_registry(&["hp"], purl);
    world.config.prefer_source = vec!["obo".to_owned()];
    let results = world.pull(requested(&["hp"]));
    let lock = LockFile::of(&results, "now");
    let path = world.path("ontologies.lock.json");
    lock.write(&path).unwrap();
    let lock = LockFile::read(&path).unwrap();
    assert_eq!(lock.entries[0].version.as_deref(), Some("1"));
    let registry_asked = world.ledger().at(REGISTRY).len();
    // What is in the library already is not requested for.
    assert_eq!(
        world.pull(RequestedOntology::of_lock(&lock))[0].status,
        PullEnding::Cached
    );
    std::fs::remove_dir_all(world.library().root()).unwrap();
    let changed = &world.pull(RequestedOntology::of_lock(&lock))[0];
    assert_eq!(changed.reason, Some(AbsenceReason::Checksum), "{changed:?}");
    let same = &world.pull(RequestedOntology::of_lock(&lock))[0];
    assert_eq!(
        (same.status, same.version.as_deref()),
        (PullEnding::Fresh, Some("1"))
    );
    assert_eq!(
        world.ledger().at(REGISTRY).len(),
        registry_asked,
        "no source is requested"
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
