//! What `ontofetch` hands on: lock files, reports, catalogs, differences, and the library itself.

use std::path::Path;

use docstokg_origin_sim::{OriginScript, ScriptedReply};
use serde_json::Value;

use crate::ontofetch::{OntofetchWorld, obo};
use crate::support::Ran;

/// A host that serves every path, and one that asks to wait for hours.
fn world_with_a_wait() -> (OntofetchWorld, String) {
    let files = OriginScript::new("files.example").handler(|_, _| ScriptedReply::ok(obo("1", "")));
    let hours = OriginScript::new("hours.example")
        .handler(|_, _| ScriptedReply::status(503).header("retry-after", "7200"));
    let world = OntofetchWorld::new(vec![("files.example", files), ("hours.example", hours)]);
    world.config("100/SECOND", "");
    let spec = world.write(
        "sources.yaml",
        "ontologies:\n  - { id: zoo, url: \"http://files.example/zoo.obo\" }\n  \
         - { id: later, url: \"http://hours.example/later.obo\" }\n",
    );
    (world, spec)
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON")
}

#[test]
fn lock_file_and_report_name_the_ontologies_that_wait() {
    let (world, spec) = world_with_a_wait();
    let lock = world.path("lock.json");
    let lock_name = lock.display().to_string();
    let warning = format!("{lock_name} lacks 1 ontology: later (waits for hours.example until ");
    // The pull meets the wait, and the plan knows of it.
    for command in [&["pull", "--max-wait", "5"] as &[&str], &["plan"]] {
        let words = [command, &["--spec", &spec, "--lock-output", &lock_name]].concat();
        let ran = world.run(&words);
        assert_eq!(ran.code, 3, "{} {}", ran.out, ran.err);
        assert!(ran.err.contains(&warning), "{}", ran.err);
        let line = "later: waiting for hours.example until ";
        assert!(ran.out.contains(line), "{}", ran.out);
        let written = read_json(&lock);
        assert_eq!(written["entries"][0]["id"], "zoo", "{written}");
        assert_eq!(written["deferred"][0]["id"], "later", "{written}");
        assert_eq!(written["deferred"][0]["host"], "hours.example", "{written}");
    }
    let report = std::fs::read_to_string(world.path("library/report.html")).expect("a report");
    assert!(
        report.contains("<td>waiting</td>") && report.contains("waiting for hours.example until"),
        "{report}"
    );
    let ran = world.run(&["pull", "--max-wait", "5", "--spec", &spec]);
    assert!(ran.err.contains("2 ontologies: 0 new"), "{}", ran.err);
    assert!(
        ran.err.contains("1 waiting for paused hosts"),
        "{}",
        ran.err
    );
    // Who pulls what the file pins learns what it does not pin.
    // The pull of before still waits for the other one.
    let ran = world.run(&["pull", "--lock", &lock_name, "--max-wait", "1"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    let warning = format!("{lock_name} lacks 1 ontology: later (waited for hours.example)");
    assert!(ran.err.contains(&warning), "{}", ran.err);
}

#[test]
fn sizes_are_shown_in_the_unit_that_fits() {
    let (world, spec) = world_with_a_wait();
    let pulled = world.run(&["pull", "zoo", "--spec", &spec]);
    assert_eq!(pulled.code, 0, "{}", pulled.err);
    for words in [
        &["list"] as &[&str],
        &["show", "zoo"],
        &["plan", "zoo", "--spec", &spec],
    ] {
        let ran = world.run(words);
        assert!(ran.out.contains(" B"), "{words:?}: {}", ran.out);
        assert!(!ran.out.contains("MiB"), "{words:?}: {}", ran.out);
    }
    assert!(!pulled.out.contains("0.0 MiB"), "{}", pulled.out);
}

#[test]
fn the_doctor_warns_of_an_address_without_a_service() {
    let files = OriginScript::new("files.example").handler(|_, _| ScriptedReply::status(404));
    let world = OntofetchWorld::new(vec![("files.example", files)]);
    world.config(
        "100/SECOND",
        "  prefer_source: [obo]\n  sources: { obo: { url: \"http://files.example\" } }\n",
    );
    let (code, checks) = world.json(&["doctor"]);
    assert_eq!(code, 0, "{checks}");
    let checks = checks["checks"].as_array().expect("a list").iter();
    let mut endpoints = checks.filter(|check| check["check"] == "endpoint");
    let endpoint = endpoints.next().expect("a check");
    assert_eq!(endpoint["level"], "warning", "{endpoint}");
    let detail = endpoint["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("responds with 404"), "{detail}");
    assert!(detail.contains("ontology.sources.obo.url"), "{detail}");
}

#[test]
fn the_rate_doctor_writes_durations_with_units() {
    let files = OriginScript::new("files.example").handler(|_, _| ScriptedReply::ok(obo("1", "")));
    let world = OntofetchWorld::files(files);
    world.write(
        "config.yaml",
        "version: 1\nontology:\n  plain_http_hosts: [files.example]\n  \
         ratelimit: { per_service: \"direct:1/hour\" }\n",
    );
    let spec = world.spec(&["a"]);
    assert_eq!(world.run(&["pull", "--spec", &spec]).code, 0);
    let shown = world.run(&["rl", "doctor", "direct"]);
    let line = shown
        .out
        .lines()
        .find(|line| line.starts_with("direct:files.example"));
    assert!(
        line.is_some_and(|line| line.contains("next request at ") && line.ends_with(" min)")),
        "{}",
        shown.out
    );
}

#[test]
fn missing_files_and_baselines_are_named_with_what_to_do() {
    let (world, spec) = world_with_a_wait();
    let ran = world.run(&["validate", "nofile.owl"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.out.contains("there is no file 'nofile.owl'"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("ontofetch pull"), "{}", ran.out);
    let ran = world.run(&["validate", "hp"]);
    assert!(ran.out.contains("there is no file 'hp'"), "{}", ran.out);
    assert!(ran.out.contains("ontofetch pull hp"), "{}", ran.out);

    let baseline = world.path("baseline.json").display().to_string();
    let words = ["plan-diff", "zoo", "--spec", &spec, "--baseline", &baseline];
    let ran = world.run(&words);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("there is no earlier plan"), "{}", ran.err);
    assert!(ran.err.contains("--update-baseline"), "{}", ran.err);
    let first = world.run(&[&words[..], &["--update-baseline", "--exit-code"]].concat());
    assert_eq!(
        (first.code, first.out.trim()),
        (1, "+ zoo"),
        "{}",
        first.err
    );
    let same = world.run(&[&words[..], &["--exit-code"]].concat());
    assert_eq!(same.code, 0, "{} {}", same.out, same.err);
}

#[test]
fn the_library_does_not_depend_on_the_working_directory() {
    let (world, spec) = world_with_a_wait();
    let run = |directory: &str, words: &[&str]| -> Ran {
        let directory = world.path(directory);
        std::fs::create_dir_all(&directory).expect("a directory");
        let mut command = world.command(words);
        command
            .env_remove("ONTOFETCH_LIBRARY")
            .env("XDG_DATA_HOME", world.path("data"))
            .current_dir(directory);
        command.output().expect("the program").into()
    };
    let pulled = run("here", &["pull", "zoo", "--spec", &spec]);
    assert_eq!(pulled.code, 0, "{}", pulled.err);
    assert!(world.path("data/docstokg/ontologies/zoo/latest").exists());
    let listed = run("there", &["list"]);
    assert!(listed.out.contains("zoo"), "{}", listed.out);
    // The library of earlier versions is found where it is, and named.
    let earlier = world.path("here/ontologies").display().to_string();
    let pulled = run(
        "here",
        &["pull", "zoo", "--spec", &spec, "--library", &earlier],
    );
    assert_eq!(pulled.code, 0, "{}", pulled.err);
    std::fs::rename(world.path("data"), world.path("gone")).expect("a directory");
    let listed = run("here", &["list"]);
    assert!(listed.out.contains("zoo"), "{}", listed.out);
    assert!(
        listed.err.contains("using the library ./ontologies"),
        "{}",
        listed.err
    );
    // A directory of that name without ontologies is not a library.
    std::fs::create_dir_all(world.path("there/ontologies/notes")).expect("a directory");
    let listed = run("there", &["list"]);
    assert!(
        listed.out.contains("data/docstokg/ontologies"),
        "{}",
        listed.out
    );
}

#[test]
fn limits_and_breakers_are_shown_and_changed_as_in_docstokg() {
    let (world, spec) = world_with_a_wait();
    assert_eq!(world.run(&["pull", "zoo", "--spec", &spec]).code, 0);
    let shown = world.run(&["limits", "show"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    for wanted in ["files.example", "8/SECOND", "direct", "200/SECOND"] {
        assert!(shown.out.contains(wanted), "{wanted}: {}", shown.out);
    }
    let doctor = world.run(&["limits", "doctor", "files.example"]);
    assert!(
        doctor.out.contains("files.example"),
        "{} {}",
        doctor.out,
        doctor.err
    );
    let opened = world.run(&["breaker", "open", "files.example", "--seconds", "600"]);
    assert_eq!(opened.code, 0, "{}", opened.err);
    let (_, breakers) = world.json(&["breaker", "show", "--open-only"]);
    assert_eq!(
        breakers["breakers"][0]["host"], "files.example",
        "{breakers}"
    );
    let words = ["pull", "zoo", "--spec", &spec, "--max-wait", "1", "--force"];
    let waits = world.run(&words);
    assert_eq!(waits.code, 3, "{} {}", waits.out, waits.err);
    assert_eq!(world.run(&["breaker", "close", "files.example"]).code, 0);
    let (_, breakers) = world.json(&["breaker", "show", "--open-only"]);
    assert_eq!(breakers["breakers"], serde_json::json!([]), "{breakers}");
}

const OLDER: &str = "format-version: 1.2\ndata-version: 2026-01-01\nontology: x\n\n\
    [Term]\nid: X:1\nname: one\n\n[Term]\nid: X:2\nname: two\nis_a: X:1\n\
    synonym: \"zwei\" EXACT []\n\n[Term]\nid: X:3\nname: <b>three</b>\n";

#[test]
fn differences_are_written_in_four_formats_with_an_exit_code() {
    let (world, _) = world_with_a_wait();
    let newer = OLDER
        .replace("2026-01-01", "2026-02-01")
        .replace("is_a: X:1\n", "is_a: X:3\n")
        .replace("\"zwei\" EXACT", "\"deux\" NARROW");
    let older = world.write("older.obo", OLDER);
    let newer = world.write("newer.obo", &newer);
    let run = |more: &[&str]| world.run(&[&["diff", &older, &newer], more].concat());
    let text = run(&[]);
    assert_eq!(text.code, 0, "{}", text.err);
    for wanted in [
        "version changed",
        "synonyms changed: 1",
        "+ narrow: deux",
        "- http://purl.obolibrary.org/obo/X_1 (one)",
        "2 terms are the same",
    ] {
        assert!(text.out.contains(wanted), "{wanted}: {}", text.out);
    }
    let markdown = run(&["--format", "markdown"]);
    for wanted in [
        "# Changes from",
        "## Parents changed (1)",
        "X\\_3 (&lt;b&gt;three",
    ] {
        assert!(markdown.out.contains(wanted), "{wanted}: {}", markdown.out);
    }
    let page = run(&["--format", "html"]);
    for wanted in ["<!DOCTYPE html>", "Changed parents", "X_3 (&lt;b&gt;three"] {
        assert!(page.out.contains(wanted), "{wanted}: {}", page.out);
    }
    assert!(!page.out.contains("<b>three"), "{}", page.out);
    let kgcl = run(&["--format", "kgcl"]);
    let commands: Vec<&str> = kgcl.out.lines().collect();
    assert_eq!(commands.len(), 4, "{}", kgcl.out);
    assert!(
        commands.contains(&"create narrow synonym 'deux' for <http://purl.obolibrary.org/obo/X_2>"),
        "{}",
        kgcl.out
    );
    assert!(kgcl.err.contains("no command for 1 change"), "{}", kgcl.err);
    let (_, json) = world.json(&["diff", &older, &newer]);
    let iri = "http://purl.obolibrary.org/obo/X_1";
    assert_eq!(json["diff"]["names"][iri], "one", "{json}");
    assert_eq!(
        json["diff"]["synonyms"][0]["added"][0], "narrow: deux",
        "{json}"
    );

    assert_eq!(run(&["--exit-code"]).code, 1);
    assert_eq!(world.run(&["diff", &older, &older, "--exit-code"]).code, 0);
    let broken = world.write("broken.obo", "[Term]\nname: no id\n");
    assert_eq!(world.run(&["diff", &older, &broken, "--exit-code"]).code, 2);
}

#[test]
fn an_obo_file_has_a_normalised_form_in_the_library() {
    let (world, spec) = world_with_a_wait();
    let (code, pulled) = world.json(&["pull", "zoo", "--spec", &spec]);
    assert_eq!(code, 0, "{pulled}");
    let normalized = world.path("library/zoo/latest/normalized/statements.nt");
    let normalized = std::fs::read_to_string(normalized).expect("a file");
    let line = "<http://purl.obolibrary.org/obo/X_2> \
                <http://www.w3.org/2000/01/rdf-schema#subClassOf> \
                <http://purl.obolibrary.org/obo/X_1> .";
    assert!(
        normalized.lines().any(|found| found == line),
        "{normalized}"
    );
    let (_, shown) = world.json(&["show", "zoo"]);
    assert!(
        shown["manifest"]["normalized_sha256"].is_string(),
        "{shown}"
    );
    assert_eq!(world.run(&["validate", "zoo"]).code, 0);
}

#[test]
fn a_closure_of_imports_has_catalogs_for_other_tools() {
    let import = |to: &str| obo("1", &format!("import: http://files.example/{to}.obo"));
    let files = OriginScript::new("files.example")
        .route("/a.obo", [ScriptedReply::ok(import("b"))])
        .route("/b.obo", [ScriptedReply::ok(import("c"))])
        .route("/c.obo", [ScriptedReply::ok(obo("1", ""))]);
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a"]);
    let ran = world.run(&["pull", "--spec", &spec, "--imports", "closure"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let original = world.path("library/a/latest/original");
    let original = std::fs::canonicalize(original).expect("a directory");
    let text = std::fs::read_to_string(original.join("catalog-v001.xml")).expect("a catalog");
    assert!(
        text.contains("xmlns=\"urn:oasis:names:tc:entity:xmlns:xml:catalog\""),
        "{text}"
    );
    for name in ["b", "c"] {
        let entry = format!("<uri name=\"http://files.example/{name}.obo\" uri=\"");
        let (_, rest) = text.split_once(&entry).expect("an entry");
        let (target, _) = rest.split_once('"').expect("a path");
        assert!(original.join(target).is_file(), "{target}");
        assert!(
            target.ends_with(&format!("/original/{name}.obo")),
            "{target}"
        );
    }
    let last = text.rsplit("original/").next().unwrap_or_default();
    assert!(last.starts_with("c.obo"), "{text}");
    // A version stays as it was stored, with the catalog beside it.
    assert_eq!(world.run(&["validate", "a"]).code, 0);
}
