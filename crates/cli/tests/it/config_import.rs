//! Files of DocsToKG: its configuration becomes ours, and what has no counterpart is listed; what its
//! manifest records is kept.

use std::path::Path;

use docstokg_origin_sim::pdf::carrying;
use serde_json::Value;

use crate::download_world::{DownloadWorld, sha256, text};
use crate::support::{Ran, run};

const RATELIMITS: &str = "version: 1
defaults:
  metadata: { rates: [\"10/SECOND\", \"5000/HOUR\"], max_delay_ms: 200, count_head: false }
hosts:
  api.crossref.org:
    metadata: { rates: [\"50/SECOND\"], max_delay_ms: 250, mode: wait }
backend: { kind: redis, dsn: \"redis://me:SECRET@host/0\" }
aimd: { enabled: false, window_s: 60 }
global_max_inflight: 400
";

const BREAKERS: &str = "defaults:
  fail_max: 5
  classify:
    failure_statuses: [500, 503]
    neutral_statuses: [401, 404]
  half_open: { jitter_ms: 120 }
  roles:
    metadata: { fail_max: 3, reset_timeout_s: 45, success_threshold: 2 }
advanced:
  rolling: { enabled: true, threshold_failures: 3, window_s: 10, cooldown_s: 30 }
hosts:
  export.arxiv.org: { fail_max: 10, retry_after_cap_s: 600 }
resolvers:
";

const CACHE: &str = "storage: { kind: file, path: \"${ROOT}/cache\", ttl: 259200 }
controller: { cacheable_methods: [GET], allow_stale: false }
hosts:
  api.crossref.org:
    ttl_s: 100
    role:
      metadata: { ttl_s: 200, swrv_s: 60 }
      artifact: { ttl_s: 300 }
";

const SOURCES: &str = "defaults:
  normalize_to: [ttl]
  prefer_source: [obo, skos]
  http:
    max_retries: 5
    timeout_sec: 20
    per_host_rate_limit: 4/second
    rate_limits: { ols: 5/second }
    validate_media_type: true
  logging: { level: INFO }
ontologies:
  - { id: hp, resolver: obo, target_formats: [owl] }
  - { id: eurovoc, resolver: skos, extras: { url: \"https://example.org/e.rdf\" } }
";

fn import(directory: &Path, files: &[(&str, &str)], more: &[&str]) -> Ran {
    let mut words = vec!["config".to_owned(), "import".to_owned()];
    for (name, text) in files {
        let path = directory.join(name);
        std::fs::write(&path, text).expect("a file");
        words.push(path.display().to_string());
    }
    words.extend(more.iter().map(|word| (*word).to_owned()));
    run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn the_files_of_docstokg_become_one_configuration() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = [
        ("ratelimits.yaml", RATELIMITS),
        ("breakers.yaml", BREAKERS),
        ("cache.yaml", CACHE),
        ("sources.yaml", SOURCES),
    ];
    let ran = import(directory.path(), &files, &["--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.out.contains("SECRET") && !ran.err.contains("SECRET"));
    let shown: Value = serde_json::from_str(&ran.out).expect("JSON");
    let at = |path: &str| {
        shown["config"]
            .pointer(path)
            .unwrap_or(&Value::Null)
            .to_string()
    };
    for (path, wanted) in [
        (
            "/limits/defaults/metadata/rates",
            r#"["10/SECOND","5000/HOUR"]"#,
        ),
        (
            "/limits/hosts/api.crossref.org/metadata/max_delay_ms",
            "250",
        ),
        ("/limits/global/max_inflight", "400"),
        ("/limits/backend/kind", "\"redis\""),
        ("/limits/backend/dsn", "null"),
        ("/breakers/defaults/classify/failure", "[500,503,429]"),
        ("/breakers/defaults/classify/neutral", "[401,404]"),
        ("/breakers/defaults/jitter_ms", "120"),
        ("/breakers/defaults/window/threshold_failures", "3"),
        ("/breakers/defaults/roles/metadata/fail_max", "3"),
        ("/breakers/hosts/export.arxiv.org/fail_max", "10"),
        ("/cache/directory", "null"),
        ("/cache/hosts/api.crossref.org/ttl_s", "100.0"),
        ("/cache/hosts/api.crossref.org/metadata/ttl_s", "200.0"),
        ("/ontology/target_formats", "\"ttl\""),
        ("/ontology/prefer_source", "\"obo,skos\""),
        ("/ontology/ratelimit/per_service/ols", "\"5/SECOND\""),
        ("/retry/attempts", "6"),
        ("/transport/header_timeout_s", "20.0"),
    ] {
        assert_eq!(at(path), wanted, "{path}: {shown}");
    }
    assert_eq!(shown["ontologies"][0]["target_formats"][0], "owl");
    assert_eq!(shown["ontologies"][1]["resolver"], "skos");
    let left_out: Vec<&str> = shown["left_out"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|problem| problem["key"].as_str().unwrap_or_default())
        .collect();
    for key in [
        "limits.hosts.api.crossref.org.metadata.mode",
        "backend.dsn",
        "defaults.roles.metadata.success_threshold",
        "storage.path",
        "storage.ttl",
        "controller.allow_stale",
        "hosts.api.crossref.org.metadata.swrv_s",
        "hosts.api.crossref.org.artifact.ttl_s",
        "defaults.http.validate_media_type",
        "defaults.logging.level",
    ] {
        assert!(left_out.contains(&key), "{key}: {left_out:?}");
    }
}

#[test]
fn what_is_written_is_a_valid_configuration() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = [
        (
            "ratelimits.yaml",
            &*RATELIMITS
                .replace("redis", "memory")
                .replace("memory://me:SECRET@host/0", ""),
        ),
        ("breakers.yaml", BREAKERS),
        ("cache.yaml", CACHE),
    ];
    let ran = import(directory.path(), &files, &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err
            .contains("cache.yaml:1: storage.path: it names a variable"),
        "{}",
        ran.err
    );
    let written = directory.path().join("ours.yaml");
    std::fs::write(&written, &ran.out).expect("a file");
    let checked = run(&["config", "check", written.to_str().expect("text")]);
    assert_eq!(checked.code, 0, "{}\n{}", checked.err, ran.out);
    assert!(
        ran.out.contains("  global:\n    max_inflight: 400\n"),
        "{}",
        ran.out
    );

    let out = directory.path().join("out");
    let again = import(
        directory.path(),
        &[("sources.yaml", SOURCES)],
        &["--out", out.to_str().expect("text")],
    );
    assert_eq!((again.code, again.out.as_str()), (0, ""), "{}", again.err);
    let list = docstokg_ontology::wanted_ontology::SpecFile::read(&out.join("sources.yaml"));
    assert_eq!(list.expect("a list of ontologies").ontologies.len(), 2);
}

#[test]
fn files_of_hosts_or_defaults_alone_are_recognised() {
    for (text, key, value) in [
        (
            "hosts: { a.example: { artifact: { rates: [\"1/SECOND\"] } } }\n",
            "/limits/hosts/a.example/artifact/rates/0",
            Value::from("1/SECOND"),
        ),
        (
            "defaults: { landing: { max_delay_ms: 70 } }\n",
            "/limits/defaults/landing/max_delay_ms",
            70.into(),
        ),
        (
            "hosts: { a.example: { retry_after_cap_s: 600 } }\n",
            "/breakers/hosts/a.example/retry_after_cap_s",
            600.0.into(),
        ),
        (
            "defaults: { fail_max: 7 }\n",
            "/breakers/defaults/fail_max",
            7.into(),
        ),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let ran = import(directory.path(), &[("one.yaml", text)], &["--json"]);
        assert_eq!(ran.code, 0, "{text}: {}", ran.err);
        let shown: Value = serde_json::from_str(&ran.out).expect("JSON");
        let read = shown["config"].pointer(key).cloned();
        let as_number = |value: &Value| value.as_f64().map_or(value.clone(), Value::from);
        assert_eq!(
            read.as_ref().map(as_number),
            Some(as_number(&value)),
            "{text}: {shown}"
        );
    }
}

#[test]
fn config_import_refuses_files_of_other_formats() {
    let directory = tempfile::tempdir().expect("a directory");
    let ran = import(directory.path(), &[("other.yaml", "a: 1\n")], &[]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("not one of the files of DocsToKG"),
        "{}",
        ran.err
    );
}

/// Writes a record as DocsToKG writes them.
fn record(work: &str, path: &str, sha256: &str) -> String {
    let record = serde_json::json!({
        "record_type": "manifest",
        "schema_version": 5,
        "run_id": "r1",
        "timestamp": "2025-10-20T10:00:00Z",
        "work_id": work,
        "title": "A title",
        "publication_year": 2024,
        "resolver": "unpaywall",
        "url": format!("http://a.example/{work}.pdf"),
        "canonical_url": format!("http://a.example/{work}.pdf"),
        "original_url": format!("http://a.example/{work}.pdf"),
        "path": path,
        "path_mtime_ns": 1,
        "classification": "pdf",
        "content_type": "application/pdf",
        "reason": null,
        "reason_detail": null,
        "html_paths": [],
        "sha256": sha256,
        "content_length": 1300,
        "etag": "\"v1\"",
        "last_modified": null,
        "extracted_text_path": null,
        "dry_run": false,
    });
    format!("{record}\n")
}

/// Files that a manifest of DocsToKG records are kept if they are what it says, and are downloaded
/// otherwise.
#[test]
fn files_that_a_manifest_records_are_not_downloaded_again() {
    let world = DownloadWorld::plain();
    let old = world.path("old/PDF");
    std::fs::create_dir_all(&old).expect("a directory");
    let write = |name: &str, bytes: &[u8]| {
        let path = old.join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    };
    let whole = |name: &str| carrying(name.repeat(2_000).as_bytes());
    let paper = |name: &str| write(name, &whole(name));
    let (absolute, relative, changed) = (paper("w1.pdf"), paper("w2.pdf"), paper("w3.pdf"));
    // Recorded when they were damaged already.
    let cut = whole("w5.pdf");
    let cut = write("w5.pdf", &cut[..cut.len() / 2]);
    let mut holed = whole("w6.pdf");
    let middle = holed.len() / 2;
    holed[middle..middle + 4_096].fill(0);
    let holed = write("w6.pdf", &holed);
    let lines = [
        record("W11", &absolute.display().to_string(), &sha256(&absolute)),
        record("W12", "PDF/w2.pdf", &sha256(&relative)),
        record("W13", &changed.display().to_string(), &"0".repeat(64)),
        record("W14", "PDF/gone.pdf", &"0".repeat(64)),
        record("W15", "PDF/w5.pdf", &sha256(&cut)),
        record("W16", "PDF/w6.pdf", &sha256(&holed)),
    ];
    let manifest = world.path("old/manifest.jsonl");
    std::fs::write(&manifest, lines.concat()).expect("a manifest");
    let words = ["--resume", "--disable", "openalex,landing_page,wayback"];
    let manifest = manifest.display().to_string();
    let ran = world.run(&[&[manifest.as_str()], &words[..]].concat());
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let requested: Vec<String> = world
        .web
        .ledger()
        .at("a.example")
        .iter()
        .map(|arrival| arrival.path.clone())
        .filter(|path| path != "/robots.txt")
        .collect();
    let mut sorted = requested.clone();
    sorted.sort();
    assert_eq!(sorted, ["/W13.pdf", "/W14.pdf", "/W15.pdf", "/W16.pdf"]);
    for why in [
        "w3.pdf is downloaded again: it is not the file that the manifest records",
        "w5.pdf is downloaded again: ",
        "w6.pdf is downloaded again: it has zeros where data should be",
    ] {
        assert!(text(&ran.stderr).contains(why), "{}", text(&ran.stderr));
    }
    let records = world.manifests();
    assert_eq!(records.len(), 6, "{records:?}");
    let of = |work: &str| {
        let mut records = records.iter();
        let record = records.find(|record| {
            record["work_id"]
                .as_str()
                .is_some_and(|id| id.ends_with(work))
        });
        record.unwrap_or_else(|| panic!("{work}: {records:?}"))
    };
    let kept = world
        .path("out")
        .join(of("W11")["path"].as_str().expect("a path"));
    assert_eq!(sha256(&kept), sha256(&absolute));
    assert_eq!(of("W12")["sha256"], sha256(&relative));
    assert_eq!(of("W11")["etag"], "\"v1\"");
    assert!(absolute.exists(), "the old file stays");

    // A second run knows the works.
    let again = world.run(&[&[manifest.as_str()], &words[..]].concat());
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_eq!(world.manifests().len(), 6);
}
