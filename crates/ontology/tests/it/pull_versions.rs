//! Versions and formats that the user asks for: what the sources have of them, and what is refused
//! because it is something else. And what must not become a version at all.

use docstokg_bulk::scheduler::RunMode;
use docstokg_ontology::examiner::FormatExaminer;
use docstokg_ontology::lock::LockFile;
use docstokg_ontology::pull::examine::{FileExaminer, FileFinding, FileOrigin};
use docstokg_ontology::pull::{ProbeMode, PullEnding, PullOptions, RequestedOntology};
use docstokg_ontology::source::AbsenceReason;
use docstokg_ontology::wanted_ontology::{TargetFormat, WantedOntology};
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use serde_json::json;

use crate::pull_world::{
    JSONLD, PURL, REGISTRY, World, id, obo, registry, requested, with_registry,
};

fn version(name: &str, version: &str) -> Vec<RequestedOntology> {
    vec![RequestedOntology::new(WantedOntology {
        version: Some(version.to_owned()),
        ..WantedOntology::new(id(name))
    })]
}

#[test]
fn a_release_of_the_foundry_is_asked_for_by_its_version() {
    let purl = OriginScript::new(PURL).handler(|arrival, _| match arrival.path.as_str() {
        "/obo/hp/releases/2025-01-16/hp.obo" => {
            ScriptedReply::ok(obo("hp/releases/2025-01-16", ""))
        }
        "/obo/ro/2025-02-02/ro.obo" => ScriptedReply::ok(obo("2025-02-02", "")),
        "/obo/hp.obo" | "/obo/ro.obo" => ScriptedReply::ok(obo("2026-06-20", "")),
        _ => ScriptedReply::status(404),
    });
    let mut world = with_registry(&["hp", "ro"], purl);
    world.config.prefer_source = vec!["obo".to_owned()];
    let old = &world.pull(version("hp", "2025-01-16"))[0];
    assert_eq!(
        old.version.as_deref(),
        Some("hp/releases/2025-01-16"),
        "{old:?}"
    );
    let other = &world.pull(version("ro", "2025-02-02"))[0];
    assert_eq!(other.version.as_deref(), Some("2025-02-02"), "{other:?}");
    // A version that nobody has is not answered with the newest.
    let missing = &world.pull(version("hp", "1999-01-01"))[0];
    assert_eq!(missing.reason, Some(AbsenceReason::Version), "{missing:?}");
    let detail = missing.detail.as_deref().unwrap();
    assert!(
        detail.contains("1999-01-01") && detail.contains("2026-06-20"),
        "{detail}"
    );
    let newest = &world.pull(version("hp", "2026-06-20"))[0];
    assert_eq!(newest.status, PullEnding::Updated, "{newest:?}");
}

#[test]
fn a_version_in_the_library_does_not_answer_for_another() {
    // The server does not send validators along with the version: the same address, 304 for all.
    let files = OriginScript::new("files.example.org").handler(|arrival, _| {
        match arrival.header("if-none-match") {
            Some(_) => ScriptedReply::status(304),
            None => ScriptedReply::ok(obo("1", "")).header("etag", "\"e\""),
        }
    });
    let world = World::new(vec![files]);
    let at = |version: Option<&str>| {
        vec![RequestedOntology::new(WantedOntology {
            url: Some("https://files.example.org/x.obo".parse().unwrap()),
            version: version.map(str::to_owned),
            ..WantedOntology::new(id("x"))
        })]
    };
    assert_eq!(world.pull(at(None))[0].status, PullEnding::Fresh);
    assert_eq!(world.pull(at(Some("1")))[0].status, PullEnding::Cached);
    let other = &world.pull(at(Some("2")))[0];
    assert_eq!(other.reason, Some(AbsenceReason::Version), "{other:?}");
}

#[test]
fn a_portal_is_asked_for_the_submission_of_a_version() {
    let portal = OriginScript::new("data.bioontology.org").handler(|arrival, _| {
        match arrival.path.split('?').next().unwrap_or_default() {
            "/ontologies/X/submissions" => ScriptedReply::ok(
                json!([
                    { "submissionId": 3, "version": "2.0" },
                    { "submissionId": 2, "version": "v1.0" },
                    { "submissionId": 1, "version": "0.9" },
                ])
                .to_string(),
            ),
            // What a file says about itself may be older than what its owner states.
            "/ontologies/X/submissions/2/download" => ScriptedReply::ok(obo("draft", "")),
            _ => ScriptedReply::status(404),
        }
    });
    let mut world = World::new(vec![portal]);
    world.config.prefer_source = vec!["bioportal".to_owned()];
    let found = &world.pull(version("x", "1.0"))[0];
    assert_eq!(found.status, PullEnding::Fresh, "{found:?}");
    assert_eq!(found.revision.as_deref(), Some("submission 2"));
    let missing = &world.pull(version("x", "7"))[0];
    assert_eq!(missing.reason, Some(AbsenceReason::Version), "{missing:?}");
}

#[test]
fn a_pin_without_a_checksum_is_compared_by_its_version() {
    let purl = OriginScript::new(PURL).handler(|_, _| ScriptedReply::ok(obo("2", "")));
    let mut world = with_registry(&["hp"], purl);
    world.config.prefer_source = vec!["obo".to_owned()];
    let plan = PullOptions {
        mode: RunMode::ListOnly,
        ..PullOptions::default()
    };
    let (_, mut planned) = world.pull_with(requested(&["hp"]), plan);
    for (pinned, is_good) in [("1", false), ("2", true)] {
        planned[0].version = Some(pinned.to_owned());
        let lock = LockFile::of(&planned, "now");
        let result = &world.pull(RequestedOntology::of_lock(&lock))[0];
        assert_eq!(result.status.is_good(), is_good, "{pinned}: {result:?}");
    }
}

#[test]
fn formats_that_are_not_wanted_are_not_taken() {
    let ols = OriginScript::new("www.ebi.ac.uk").handler(|arrival, _| {
        let name = arrival.path.rsplit('/').next().unwrap_or_default();
        let location = match name {
            "named" => "https://files.example.org/named.owl",
            _ => "https://files.example.org/unnamed",
        };
        ScriptedReply::ok(json!({ "config": { "fileLocation": location } }).to_string())
    });
    let files = OriginScript::new("files.example.org")
        .handler(|_, _| ScriptedReply::ok("<http://a> <http://b> <http://c> .\n"));
    let mut world = World::new(vec![ols, files]);
    world.config.prefer_source = vec!["ols".to_owned()];
    let pull = |name: &str, format: TargetFormat| {
        let wanted = WantedOntology {
            formats: vec![format],
            ..WantedOntology::new(id(name))
        };
        world.pull(vec![RequestedOntology::new(wanted)]).remove(0)
    };
    let named = pull("named", TargetFormat::Obo);
    assert_eq!(named.reason, Some(AbsenceReason::Format), "{named:?}");
    assert!(world.ledger().at("files.example.org").is_empty());
    let unnamed = pull("unnamed", TargetFormat::Obo);
    assert_eq!(unnamed.reason, Some(AbsenceReason::Format), "{unnamed:?}");
    assert_eq!(pull("unnamed", TargetFormat::Nt).status, PullEnding::Fresh);
}

#[test]
fn a_plan_goes_on_to_the_next_location_where_a_link_is_dead() {
    let purl = OriginScript::new(PURL).handler(|_, _| ScriptedReply::status(404));
    let ols = OriginScript::new("www.ebi.ac.uk").handler(|_, _| {
        let location = "https://files.example.org/hp.obo";
        ScriptedReply::ok(json!({ "config": { "fileLocation": location } }).to_string())
    });
    let files = OriginScript::new("files.example.org").handler(|arrival, _| {
        // Signed for GET alone.
        match arrival.method.as_str() {
            "HEAD" => ScriptedReply::status(403),
            _ => ScriptedReply::ok(obo("1", "")),
        }
    });
    let registry = OriginScript::new(REGISTRY).route(JSONLD, [registry(&["hp"])]);
    let world = World::new(vec![registry, purl, ols, files]);
    let plan = PullOptions {
        mode: RunMode::ListOnly,
        probes: ProbeMode::Send,
        ..PullOptions::default()
    };
    let (_, planned) = world.pull_with(requested(&["hp"]), plan);
    assert_eq!(planned[0].status, PullEnding::Planned, "{planned:?}");
    assert_eq!(planned[0].resolver.as_deref(), Some("ols"), "{planned:?}");
    assert!(planned[0].notes[0].contains("403"), "{planned:?}");
}

#[test]
fn a_plan_knows_what_a_portal_does_not_give_out() {
    let portal = OriginScript::new("data.bioontology.org").handler(|arrival, _| {
        if arrival.path.contains("/download") {
            ScriptedReply::status(403)
        } else {
            ScriptedReply::ok(json!({ "submissionId": 3, "version": "2" }).to_string())
        }
    });
    let mut world = World::new(vec![portal]);
    world.config.prefer_source = vec!["bioportal".to_owned()];
    let plan = PullOptions {
        mode: RunMode::ListOnly,
        probes: ProbeMode::Send,
        ..PullOptions::default()
    };
    let (_, planned) = world.pull_with(requested(&["snomedct"]), plan);
    assert_eq!(
        planned[0].reason,
        Some(AbsenceReason::Restricted),
        "{planned:?}"
    );
}

const OWL_XML: &str = r#"<?xml version="1.0"?>
<Ontology xmlns="http://www.w3.org/2002/07/owl#" ontologyIRI="http://x.org/o" versionIRI="http://x.org/o/1.4">
  <Import>http://x.org/other</Import>
  <Declaration><Class IRI="http://x.org/A"/></Declaration>
  <SubClassOf><Class IRI="http://x.org/A"/><Class abbreviatedIRI="owl:Thing"/></SubClassOf>
</Ontology>"#;

#[test]
fn what_holds_nothing_or_is_not_read_here_is_no_version() {
    let directory = tempfile::tempdir().unwrap();
    let examine = |name: &str, text: &str| {
        let version = directory.path().join(name);
        for part in ["original", "normalized", "validation"] {
            std::fs::create_dir_all(version.join(part)).unwrap();
        }
        let file = version.join("original").join(name);
        std::fs::write(&file, text).unwrap();
        let about = FileOrigin {
            url: "https://x.org/o".to_owned(),
            content_type: None,
            shown: None,
        };
        FormatExaminer::default()
            .examine(&file, &about, &version)
            .unwrap()
    };
    for (name, text) in [
        ("a.ttl", "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"),
        (
            "a.rdf",
            "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"></rdf:RDF>",
        ),
        ("a.obo", "format-version: 1.2\nontology: x\n"),
        ("a.json", "{\"graphs\": []}"),
        ("a.jsonld", "{\"@context\": {}, \"@graph\": []}"),
    ] {
        let found = examine(name, text);
        assert!(
            matches!(&found, FileFinding::NotAnOntology(why) if why.contains("holds no statements")),
            "{name}: {found:?}"
        );
    }
    // An ontology that only imports others says something.
    let imports = examine("i.obo", "format-version: 1.2\nimport: http://x.org/o\n");
    assert!(matches!(imports, FileFinding::Ontology(_)), "{imports:?}");
    for (name, text, syntax) in [
        (
            "f.owl",
            "Prefix(:=<http://x.org/>)\nOntology()\n",
            "functional",
        ),
        ("m.owl", "Ontology: <http://x.org/o>\n", "Manchester"),
    ] {
        let found = examine(name, text);
        assert!(
            matches!(&found, FileFinding::Unsupported(why) if why.contains(syntax)),
            "{name}: {found:?}"
        );
    }
    let FileFinding::Ontology(examined) = examine("x.owl", OWL_XML) else {
        panic!("OWL/XML is stored");
    };
    assert_eq!(examined.versions, ["http://x.org/o/1.4"]);
    assert_eq!(examined.imports, ["http://x.org/other"]);
    assert_eq!((examined.statements, examined.terms), (Some(2), Some(1)));
    assert_eq!(examined.validation["parse"]["ok"], false, "not validated");
    assert!(
        examined
            .notes
            .iter()
            .any(|note| note.contains("not checked"))
    );
    // Too large to be read in any order, and not in the order for streaming: kept, and said so.
    let nodes = ",{\"@id\": \"a:1\", \"a:p\": \"x\"}".repeat(120_000);
    let large = format!(
        "{{\"@graph\": [{}], \"@context\": {{\"a\": \"http://a/\"}}}}",
        &nodes[1..]
    );
    let FileFinding::Ontology(unordered) = examine("large.jsonld", &large) else {
        panic!("it is stored");
    };
    assert_eq!((unordered.statements, unordered.terms), (None, None));
    assert_eq!(unordered.validation["parse"]["outcome"], "not_validated");
    assert!(
        unordered.notes[0].contains("has to be streamed"),
        "{:?}",
        unordered.notes
    );
    let cut = examine("cut.jsonld", &large[..large.len() - 1]);
    assert!(matches!(cut, FileFinding::Invalid(_)), "{cut:?}");
    for cut in [OWL_XML.len() - 12, OWL_XML.len() - 40, 200] {
        let found = examine("cut.owl", &OWL_XML[..cut]);
        assert!(matches!(found, FileFinding::Invalid(_)), "{cut}: {found:?}");
    }
}
