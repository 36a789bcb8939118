//! Files of every kind, pulled from loopback by the program: whole, packed, cut and hostile.

use std::io::{Cursor, Write as _};
use std::time::Duration;

use docstokg_origin_sim::{OriginScript, Piece, ScriptedReply};
use serde_json::Value;
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::ontofetch::{OntofetchWorld, obo};

fn first(pulled: &Value) -> &Value {
    &pulled["results"][0]
}

/// Serves bytes at `http://files.example/a.obo`, and pulls them twice: what comes first, and what
/// comes then.
fn pulled_after(good: Vec<u8>, bad: Vec<u8>) -> (OntofetchWorld, Value) {
    let files = OriginScript::new("files.example")
        .route("/a.obo", [ScriptedReply::ok(good), ScriptedReply::ok(bad)]);
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a"]);
    let (code, pulled) = world.json(&["pull", "--spec", &spec]);
    assert_eq!(code, 0, "{pulled}");
    let (_, pulled) = world.json(&["pull", "--spec", &spec]);
    (world, pulled)
}

/// Checks that a file is refused as invalid, for this reason, and that the latest version stays.
fn check_refused(bad: Vec<u8>, wanted: &str) {
    let (world, pulled) = pulled_after(obo("2026-01-01", "").into_bytes(), bad);
    let result = first(&pulled);
    assert_eq!(result["reason"], "invalid", "{wanted}: {result}");
    assert!(
        result["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains(wanted)),
        "{wanted}: {result}"
    );
    let latest = std::fs::read_link(world.path("library/a/latest")).expect("a link");
    assert_eq!(latest.to_str(), Some("2026-01-01"));
    let names = std::fs::read_dir(world.path("library/a")).expect("a directory");
    assert_eq!(names.count(), 2, "one version, and the link to it");
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Packs files into an archive.
pub(crate) fn zipped(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        let options = SimpleFileOptions::default();
        writer.start_file(*name, options).expect("an entry");
        writer.write_all(bytes).expect("memory");
    }
    writer.finish().expect("an archive").into_inner()
}

#[test]
fn a_broken_download_is_resumed_by_range_and_stored_whole() {
    let body = (obo("1", "") + &"! padding padding padding\n".repeat(80_000)).into_bytes();
    let whole = body.clone();
    let files = OriginScript::new("files.example").handler(move |arrival, _| {
        let start = arrival.header("range").and_then(|range| {
            range
                .strip_prefix("bytes=")?
                .split('-')
                .next()?
                .parse()
                .ok()
        });
        match start {
            None => ScriptedReply::ok("")
                .header("etag", "\"e\"")
                .claiming(body.len() as u64)
                .pieces([
                    Piece::Bytes(body[..body.len() / 2].to_vec().into()),
                    Piece::Cut,
                ]),
            Some(start) => {
                let start: usize = start;
                let range = format!("bytes {start}-{}/{}", body.len() - 1, body.len());
                ScriptedReply::status(206)
                    .body(body[start..].to_vec())
                    .header("etag", "\"e\"")
                    .header("content-range", &range)
            }
        }
    });
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a"]);
    let (code, pulled) = world.json(&["pull", "--spec", &spec]);
    assert_eq!(code, 0, "{pulled}");
    assert_eq!(first(&pulled)["status"], "fresh");
    let stored = std::fs::read(world.path("library/a/latest/original/a.obo")).expect("a file");
    assert!(stored == whole, "{} bytes of {}", stored.len(), whole.len());
    let arrivals = world.served.web.ledger().at("files.example");
    assert_eq!(arrivals.len(), 2, "{arrivals:?}");
    assert!(arrivals[1].header("range").is_some());
}

#[test]
fn compressed_files_are_read_and_kept_as_they_came() {
    let (world, pulled) = pulled_after(
        obo("2026-01-01", "").into_bytes(),
        gzipped(obo("2026-02-01", "").as_bytes()),
    );
    assert_eq!(first(&pulled)["status"], "updated", "{pulled}");
    assert_eq!(first(&pulled)["version"], "2026-02-01");
    assert_eq!(first(&pulled)["terms"], 2);
    let stored = std::fs::read(world.path("library/a/latest/original/a.obo")).expect("a file");
    assert!(
        stored.starts_with(b"\x1f\x8b"),
        "the original is as it came"
    );
}

#[test]
fn archives_are_unpacked_and_their_largest_ontology_is_read() {
    let archive = zipped(&[
        ("readme.txt", b"nothing to see"),
        ("small.obo", obo("0.1", "").as_bytes()),
        (
            "dir/large.obo",
            obo("2026-02-01", &"remark: x\n".repeat(50)).as_bytes(),
        ),
    ]);
    let (world, pulled) = pulled_after(obo("2026-01-01", "").into_bytes(), archive);
    assert_eq!(first(&pulled)["version"], "2026-02-01", "{pulled}");
    let unpacked = world.path("library/a/latest/original/unpacked/dir/large.obo");
    assert!(unpacked.is_file());
    let (_, shown) = world.json(&["show", "a"]);
    let listed = shown["manifest"]["artifacts"].to_string();
    assert!(listed.contains("unpacked/dir/large.obo"), "{listed}");
}

#[test]
fn archives_that_leave_their_directory_or_explode_are_refused() {
    let slip = zipped(&[("xx/../../evil.obo", obo("1", "").as_bytes())]);
    check_refused(slip, "the archive is refused");
    let absolute = zipped(&[("/etc/evil.obo", obo("1", "").as_bytes())]);
    check_refused(absolute, "the archive is refused");
    let bomb = zipped(&[("bomb.obo", &vec![b'!'; 64 << 20])]);
    assert!(bomb.len() < 1 << 20);
    check_refused(bomb, "the archive is refused");
    let bomb = gzipped(&[obo("1", "").as_bytes(), &vec![b'\n'; 64 << 20]].concat());
    check_refused(bomb, "damaged");
    let cut = gzipped(obo("1", &"remark: x\n".repeat(10_000)).as_bytes());
    check_refused(cut[..cut.len() - 20].to_vec(), "damaged");
}

const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";

#[test]
fn cut_files_and_entity_bombs_are_invalid() {
    let whole = format!(
        "<rdf:RDF xmlns:rdf=\"{RDF}\">\n<rdf:Description rdf:about=\"http://x.org/a\">\
         <rdf:value>1</rdf:value></rdf:Description>\n</rdf:RDF>\n"
    );
    // The parser alone takes a file that is cut between two tags for a whole one.
    let cut = whole.replace("</rdf:RDF>\n", "");
    check_refused(cut.into_bytes(), "RDF/XML");
    let entity = |level: usize| {
        let inner = format!("&l{};", level - 1).repeat(10);
        format!("<!ENTITY l{level} \"{inner}\">\n")
    };
    let lols = (1..10).map(entity).collect::<Vec<_>>().concat();
    let bomb = format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE rdf:RDF [\n<!ENTITY l0 \"lol\">\n{lols}]>\n\
         <rdf:RDF xmlns:rdf=\"{RDF}\"><rdf:Description rdf:about=\"http://x.org/a\">\
         <rdf:value>&l9;</rdf:value></rdf:Description></rdf:RDF>\n"
    );
    assert!(bomb.len() < 2_000);
    check_refused(bomb.into_bytes(), "RDF/XML");
    // Entities as real files declare them are read.
    let owl = format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE rdf:RDF [ <!ENTITY x \"http://x.org/\"> ]>\n\
         <rdf:RDF xmlns:rdf=\"{RDF}\"><rdf:Description rdf:about=\"&x;a\">\
         <rdf:value>1</rdf:value></rdf:Description></rdf:RDF>\n"
    );
    let (_, pulled) = pulled_after(obo("1", "").into_bytes(), owl.into_bytes());
    assert_eq!(first(&pulled)["status"], "updated", "{pulled}");
}

const PACKAGE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<tp:taxonomyPackage xmlns:tp="http://xbrl.org/2016/taxonomy-package" xml:lang="en">
  <tp:identifier>http://example.org/taxonomy/2026</tp:identifier>
  <tp:name>Example</tp:name>
  <tp:publicationDate>2026-03-31</tp:publicationDate>
  <tp:license name="CC0" href="https://creativecommons.org/publicdomain/zero/1.0/"/>
  <tp:entryPoints><tp:entryPoint><tp:name>all</tp:name>
    <tp:entryPointDocument href="http://example.org/taxonomy/2026/all.xsd"/></tp:entryPoint></tp:entryPoints>
</tp:taxonomyPackage>"#;

const CATALOG: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog">
  <rewriteURI uriStartString="http://example.org/taxonomy/2026/" rewritePrefix="../files/"/>
</catalog>"#;

#[test]
fn a_taxonomy_package_is_stored_with_its_publication_date_as_version() {
    let package = zipped(&[
        ("p/META-INF/taxonomyPackage.xml", PACKAGE.as_bytes()),
        ("p/META-INF/catalog.xml", CATALOG.as_bytes()),
        (
            "p/files/all.xsd",
            b"<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"/>",
        ),
    ]);
    let files = OriginScript::new("files.example").handler(move |_, _| {
        ScriptedReply::ok(package.clone()).header("content-type", "application/zip")
    });
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.write(
        "spec.yaml",
        "ontologies:\n  - { id: tax, resolver: xbrl, url: \"http://files.example/tax.zip\" }\n",
    );
    let (code, pulled) = world.json(&["pull", "--spec", &spec]);
    assert_eq!(code, 0, "{pulled}");
    assert_eq!(first(&pulled)["version"], "2026-03-31", "{pulled}");
    assert_eq!(first(&pulled)["license"], "CC0-1.0");
    let (code, valid) = world.json(&["validate", "tax"]);
    assert_eq!(code, 0, "{valid}");
    assert_eq!(valid["files"][0]["package"]["ok"], true, "{valid}");
    // A stored file that changed since is found.
    let schema = world.path("library/tax/latest/original/unpacked/p/files/all.xsd");
    std::fs::write(schema, "<other/>").expect("a file");
    let (code, damaged) = world.json(&["validate", "tax"]);
    assert_eq!(code, 1, "{damaged}");
    assert!(damaged.to_string().contains("all.xsd"), "{damaged}");
    let ran = world.run(&["validate", "tax"]);
    assert!(ran.out.contains("not as it was stored"), "{}", ran.out);
}

#[test]
fn archives_are_validated_and_compared_by_the_ontology_in_them() {
    let world = OntofetchWorld::files(OriginScript::new("files.example"));
    let older = zipped(&[("a/x.obo", obo("1", "").as_bytes()), ("readme", b"words")]);
    let newer = obo("2", "") + "\n[Term]\nid: X:3\nname: three\n";
    std::fs::write(world.path("older.zip"), older).expect("a file");
    std::fs::write(
        world.path("newer.zip"),
        zipped(&[("x.obo", newer.as_bytes())]),
    )
    .expect("a file");
    let path = |name: &str| world.path(name).display().to_string();
    let (code, valid) = world.json(&["validate", &path("older.zip")]);
    assert_eq!(code, 0, "{valid}");
    assert_eq!(valid["files"][0]["report"]["terms"], 2, "{valid}");
    let (_, diff) = world.json(&["diff", &path("older.zip"), &path("newer.zip")]);
    assert_eq!(
        diff["diff"]["added"].as_array().map(Vec::len),
        Some(1),
        "{diff}"
    );
    std::fs::write(world.path("none.zip"), zipped(&[("readme", b"words")])).expect("a file");
    let ran = world.run(&["validate", &path("none.zip")]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("holds no ontology"), "{}", ran.out);
}

#[test]
fn a_file_that_is_validated_has_its_contexts_loaded() {
    let files = OriginScript::new("files.example").handler(|_, _| {
        ScriptedReply::ok(
            r#"{"@context": {"label": "http://www.w3.org/2000/01/rdf-schema#label"}}"#,
        )
        .header("content-type", "application/ld+json")
    });
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let file = world.write(
        "x.jsonld",
        r#"{"@context": "http://files.example/context.jsonld", "@id": "http://x.org/a", "label": "a"}"#,
    );
    let (code, valid) = world.json(&["validate", &file]);
    assert_eq!(code, 0, "{valid}");
    let report = &valid["files"][0]["report"];
    assert_eq!(
        (&report["outcome"], &report["statements"]),
        (&"valid".into(), &1.into()),
        "{valid}"
    );
    assert_eq!(world.served.web.ledger().len(), 1);
}

#[test]
fn a_context_is_kept_in_the_state_directory_for_the_next_command() {
    let files = OriginScript::new("files.example").handler(|_, _| {
        ScriptedReply::ok(
            r#"{"@context": {"label": "http://www.w3.org/2000/01/rdf-schema#label"}}"#,
        )
        .header("content-type", "application/ld+json")
        .header("cache-control", "max-age=3600")
    });
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let file = world.write(
        "x.jsonld",
        r#"{"@context": "http://files.example/context.jsonld", "@id": "http://x.org/a", "label": "a"}"#,
    );
    for _ in 0..2 {
        let (code, valid) = world.json(&["validate", &file]);
        assert_eq!(code, 0, "{valid}");
    }
    assert_eq!(world.served.web.ledger().len(), 1);
}

#[test]
fn a_snapshot_of_the_registry_needs_no_registry() {
    let files = OriginScript::new("files.example").handler(|_, _| ScriptedReply::ok(obo("1", "")));
    let world = OntofetchWorld::files(files);
    let snapshot = world.write(
        "ontologies.jsonld",
        r#"{"@context": "http://obofoundry.github.io/registry/context.jsonld", "ontologies": [
            {"id": "hp", "license": {"url": "http://creativecommons.org/licenses/by/4.0/"},
             "products": [{"id": "hp.obo", "ontology_purl": "http://files.example/obo/hp.obo"}]}]}"#,
    );
    world.config(
        "100/SECOND",
        &format!("  obo_registry: \"{snapshot}\"\n  prefer_source: [obo]\n"),
    );
    let (code, pulled) = world.json(&["pull", "hp"]);
    assert_eq!(code, 0, "{pulled}");
    assert_eq!(first(&pulled)["resolver"], "obo");
    let hosts = world.served.web.ledger().arrivals();
    assert!(hosts.iter().all(|arrival| arrival.host == "files.example"));
}

#[test]
fn a_closure_of_imports_is_locked_and_pulled_again() {
    let import = |to: &str| format!("import: http://files.example/{to}.obo");
    let files = OriginScript::new("files.example")
        .route("/a.obo", [ScriptedReply::ok(obo("1", &import("b")))])
        .route("/b.obo", [ScriptedReply::ok(obo("1", &import("c")))])
        .route("/c.obo", [ScriptedReply::ok(obo("1", &import("a")))]);
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a"]);
    let lock = world.path("lock.json").display().to_string();
    let words = [
        "pull",
        "--spec",
        &spec,
        "--imports",
        "closure",
        "--lock-output",
        &lock,
    ];
    let (code, pulled) = world.json(&words);
    assert_eq!(code, 0, "{pulled}");
    std::fs::remove_dir_all(world.path("library")).expect("a library");
    let (code, again) = world.json(&["pull", "--lock", &lock]);
    assert_eq!(code, 0, "{again}");
    let list = |pulled: &Value| -> Vec<(String, String)> {
        let entry = |result: &Value| (result["id"].to_string(), result["checksum"].to_string());
        let mut list: Vec<_> = pulled["results"]
            .as_array()
            .expect("a list")
            .iter()
            .map(entry)
            .collect();
        list.sort();
        list
    };
    assert_eq!(list(&pulled), list(&again));
    assert_eq!(list(&again).len(), 3);
}

#[test]
fn a_context_on_a_private_address_is_not_loaded() {
    let files = OriginScript::new("files.example").handler(|arrival, _| {
        let context = if arrival.path.contains("literal") {
            "http://127.0.0.1/context.jsonld"
        } else {
            "http://localhost/context.jsonld"
        };
        ScriptedReply::ok(format!(
            r#"{{"@context": "{context}", "@id": "http://x.org/a", "@type": "http://www.w3.org/2002/07/owl#Ontology"}}"#
        ))
        .header("content-type", "application/ld+json")
    });
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["literal", "name"]);
    let (_, pulled) = world.json(&["pull", "--spec", &spec]);
    for result in pulled["results"].as_array().expect("a list") {
        let notes = result["notes"].to_string();
        assert!(
            notes.contains("context.jsonld was not loaded, so the file was not validated"),
            "{result}"
        );
    }
    let arrivals = world.served.web.ledger().arrivals();
    assert!(
        arrivals
            .iter()
            .all(|arrival| arrival.host == "files.example"),
        "{arrivals:?}"
    );
    let (code, checked) = world.json(&["validate", "literal"]);
    assert_eq!(
        (code, &checked["ok"]),
        (1, &Value::Bool(false)),
        "{checked}"
    );
}

#[test]
fn a_large_file_is_shown_while_it_comes_and_while_it_is_read() {
    let padding = format!("! {}\n", "padding ".repeat(4_000));
    let body = obo("1", "") + &padding.repeat((54 << 20) / padding.len());
    let files = OriginScript::new("files.example").handler(move |_, _| {
        ScriptedReply::ok("").claiming(body.len() as u64).drip(
            body.as_bytes(),
            1 << 20,
            Duration::from_millis(40),
        )
    });
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a"]);
    let ran = world.run(&["pull", "--spec", &spec]);
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    let shown: Vec<&str> = ran
        .err
        .lines()
        .filter(|line| line.contains("a: downloading, "))
        .collect();
    assert!(shown.len() >= 2, "{}", ran.err);
    assert!(shown[0].contains(" of 54.0 MiB ("), "{}", ran.err);
    // At most a line for each tenth.
    assert!(shown.len() <= 10, "{}", ran.err);
}
