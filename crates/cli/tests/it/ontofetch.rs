//! The commands of `ontofetch`, against simulated registries on loopback.

use std::path::{Path, PathBuf};
use std::process::Command;

use docstokg_origin_sim::{OriginScript, ScriptedReply};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Ran, Served, ontofetch};

/// A host of ontologies on loopback, a library, and a state directory.
pub(crate) struct OntofetchWorld {
    pub(crate) served: Served,
    pub(crate) directory: TempDir,
    hosts: Vec<&'static str>,
}

/// Writes an OBO file.
pub(crate) fn obo(version: &str, more: &str) -> String {
    format!(
        "format-version: 1.2\ndata-version: {version}\nontology: x\n{more}\n\n[Term]\nid: X:1\n\
         name: one\n\n[Term]\nid: X:2\nname: two\nis_a: X:1\n"
    )
}

impl OntofetchWorld {
    pub(crate) fn new(origins: Vec<(&'static str, OriginScript)>) -> Self {
        let hosts = origins.iter().map(|(host, _)| *host).collect();
        Self {
            served: Served::start_all(origins.into_iter().map(|(_, origin)| origin)),
            directory: tempfile::tempdir().expect("a directory"),
            hosts,
        }
    }

    pub(crate) fn files(origin: OriginScript) -> Self {
        Self::new(vec![("files.example", origin)])
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file, and returns its path as text.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    /// Writes a list of ontologies at `http://files.example/NAME.obo`.
    pub(crate) fn spec(&self, names: &[&str]) -> String {
        let entry = |name: &&str| {
            format!("  - {{ id: {name}, url: \"http://files.example/{name}.obo\" }}\n")
        };
        let entries: Vec<String> = names.iter().map(entry).collect();
        self.write(
            "sources.yaml",
            &format!("ontologies:\n{}", entries.concat()),
        )
    }

    /// Writes the configuration: plain http, and more than real hosts allow.
    pub(crate) fn config(&self, rate: &str, more: &str) -> String {
        let hosts: Vec<String> = self
            .hosts
            .iter()
            .map(|host| {
                let limits = format!("{{ rates: [\"{rate}\"], max_concurrent: 16 }}");
                format!("    {host}: {{ metadata: {limits}, artifact: {limits} }}\n")
            })
            .collect();
        let text = format!(
            "version: 1\nlimits:\n  hosts:\n{}ontology:\n  plain_http_hosts: [{}]\n  ratelimit: {{ per_service: \"direct:200/second+9000/minute\" }}\n{more}",
            hosts.concat(),
            self.hosts.join(", ")
        );
        self.write("config.yaml", &text)
    }

    /// The command with its state, library, configuration and connections.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = ontofetch();
        command
            .env_remove("DOCSTOKG_RLIMIT_BACKEND")
            .env("DOCSTOKG_STATE_DIR", self.path("state"))
            .env("ONTOFETCH_LIBRARY", self.path("library"))
            .args(words);
        if self.path("config.yaml").exists() {
            command.arg("--config").arg(self.path("config.yaml"));
        }
        for host in &self.hosts {
            command.args([
                "--connect-to",
                &format!("{host}:80={}", self.served.address),
            ]);
        }
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        self.command(words).output().expect("the program").into()
    }

    /// Runs a command with `--json`, and reads what it writes.
    pub(crate) fn json(&self, words: &[&str]) -> (i32, Value) {
        let ran = self.run(&[words, &["--json", "--quiet"]].concat());
        let value = serde_json::from_str(&ran.out)
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {} {}", ran.out, ran.err));
        (ran.code, value)
    }
}

/// Serves every path as an OBO file of its own.
fn served() -> OriginScript {
    OriginScript::new("files.example").handler(|arrival, _| {
        ScriptedReply::ok(obo("2026-01-01", &format!("remark: {}", arrival.path)))
            .header("etag", "\"1\"")
    })
}

#[test]
fn the_demo_stores_every_ontology_that_can_be_had() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("demo").display().to_string();
    let ran: Ran = ontofetch()
        .env_remove("DOCSTOKG_RLIMIT_BACKEND")
        .args(["demo", "--json", "--ontologies", "30", "--out", &out])
        .output()
        .expect("the program")
        .into();
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    let shown: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(shown["ok"], true, "{shown}");
    assert_eq!(shown["stored"], 24);
    assert_eq!(shown["avoidable_429"], 0);
    // The page has every ontology with its outcome, and the figures of the run.
    let page = shown["report"].as_str().expect("a report");
    let page = std::fs::read_to_string(page).expect("a page");
    let rows = page.split("id=\"ontologies\"").nth(1).expect("a table");
    let rows = rows.split("</table>").next().expect("its end");
    assert_eq!(rows.matches("<tr><td>").count(), 30, "{rows}");
    for part in [
        "<td>fresh</td>",
        "<td>failed</td>",
        "restricted: ",
        "obsolete: ",
        "CC-BY-4.0",
        "<h2>Outcomes</h2>",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_pull_is_listed_shown_validated_compared_and_pruned() {
    let files = OriginScript::new("files.example").route(
        "/a.obo",
        [
            ScriptedReply::ok(obo("2026-01-01", "")),
            ScriptedReply::ok(obo("2026-02-01", "") + "\n[Term]\nid: X:3\nname: three\n"),
        ],
    );
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a"]);
    let (code, pulled) = world.json(&["pull", "--spec", &spec]);
    assert_eq!(code, 0, "{pulled}");
    assert_eq!(pulled["results"][0]["status"], "fresh");
    assert_eq!(pulled["results"][0]["terms"], 2);
    let (_, pulled) = world.json(&["pull", "--spec", &spec]);
    assert_eq!(pulled["results"][0]["status"], "updated");

    let (_, listed) = world.json(&["list"]);
    assert_eq!(listed["ontologies"][0]["id"], "a");
    assert_eq!(listed["ontologies"][0]["versions"], 2);
    let (_, shown) = world.json(&["show", "a"]);
    assert_eq!(shown["version"], "2026-02-01");
    assert_eq!(shown["manifest"]["schema_version"], "1.0");
    let (_, versions) = world.json(&["show", "a", "--versions"]);
    assert_eq!(versions["versions"].as_array().map(Vec::len), Some(2));
    let (code, valid) = world.json(&["validate", "a", "a@2026-01-01"]);
    assert_eq!((code, &valid["ok"]), (0, &Value::Bool(true)), "{valid}");
    let (_, diff) = world.json(&["diff", "a@2026-01-01", "a"]);
    assert_eq!(
        diff["diff"]["added"].as_array().map(Vec::len),
        Some(1),
        "{diff}"
    );
    let (_, pruned) = world.json(&["prune", "--keep", "1", "--dry-run"]);
    assert_eq!(pruned["removed"][0]["version"], "2026-01-01");
    world.json(&["prune", "--keep", "1"]);
    let (_, versions) = world.json(&["show", "a", "--versions"]);
    assert_eq!(versions["versions"].as_array().map(Vec::len), Some(1));
    // People get the same as text.
    for words in [
        &["list"] as &[&str],
        &["show", "a"],
        &["show", "a", "--versions"],
        &["validate", "a"],
    ] {
        let ran = world.run(words);
        assert!(
            ran.code == 0 && ran.out.contains("2026-02-01"),
            "{words:?}: {} {}",
            ran.out,
            ran.err
        );
    }
    let missing = world.run(&["show", "nosuch"]);
    assert_eq!(missing.code, 1);
    assert!(
        missing.err.contains("ontofetch pull nosuch"),
        "{}",
        missing.err
    );
}

#[test]
fn a_plan_is_locked_compared_and_pulled() {
    let world = OntofetchWorld::files(served());
    world.config("100/SECOND", "");
    let spec = world.spec(&["a", "b"]);
    let lock = world.path("lock.json").display().to_string();
    let (code, planned) = world.json(&["plan", "--spec", &spec, "--lock-output", &lock]);
    assert_eq!(code, 0, "{planned}");
    assert_eq!(planned["plans"][0]["status"], "planned");
    assert!(planned["plans"][0]["content_length"].is_u64(), "{planned}");
    assert!(!world.path("library").exists(), "a plan stores nothing");
    let (_, same) = world.json(&["plan-diff", "--spec", &spec, "--baseline", &lock]);
    assert_eq!(same["is_same"], true, "{same}");
    let spec = world.spec(&["a", "c"]);
    let (_, differs) = world.json(&["plan-diff", "--spec", &spec, "--baseline", &lock]);
    assert_eq!(differs["diff"]["added"][0], "c");
    assert_eq!(differs["diff"]["removed"][0], "b");
    let pinned = world.path("pinned.json").display().to_string();
    let (code, pulled) = world.json(&["pull", "--lock", &lock, "--lock-output", &pinned]);
    assert_eq!(code, 0, "{pulled}");
    let written: Value =
        serde_json::from_str(&std::fs::read_to_string(&pinned).expect("a file")).expect("JSON");
    assert!(
        written["entries"][0]["checksum"]["value"].is_string(),
        "{written}"
    );
    let (_, again) = world.json(&["pull", "--lock", &pinned]);
    assert_eq!(again["results"][0]["status"], "cached");
    let dry = world.run(&["pull", "--spec", &spec, "--dry-run"]);
    assert!(
        dry.code == 0 && dry.out.contains("http://files.example/c.obo"),
        "{} {}",
        dry.out,
        dry.err
    );
}

#[test]
fn imports_are_followed_around_circles() {
    let import = |to: &str| format!("import: http://files.example/{to}.obo");
    let files = OriginScript::new("files.example")
        .route("/a.obo", [ScriptedReply::ok(obo("1", &import("b")))])
        .route("/b.obo", [ScriptedReply::ok(obo("1", &import("c")))])
        .route("/c.obo", [ScriptedReply::ok(obo("1", &import("a")))]);
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a"]);
    let count = |how: &str| {
        let (code, pulled) = world.json(&["pull", "--spec", &spec, "--imports", how, "--force"]);
        assert_eq!(code, 0, "{pulled}");
        pulled["results"].as_array().map(Vec::len)
    };
    assert_eq!(count("none"), Some(1));
    assert_eq!(count("direct"), Some(2));
    assert_eq!(count("closure"), Some(3));
}

#[test]
fn pull_reports_all_problems_before_the_first_request() {
    let world = OntofetchWorld::files(served());
    world.config("100/SECOND", "");
    let spec = world.write(
        "bad.yaml",
        "ontologies:\n  - id: a\n    resolvr: obo\n  - id: '../x'\n",
    );
    for (words, code, wanted) in [
        (&["pull"] as &[&str], 2, "ontofetch init"),
        (&["pull", "--spec", &spec], 2, "did you mean 'resolver'"),
        (&["pull", "../x"], 2, "is not the id of an ontology"),
        (&["pull", "hp", "--resolver", "ontobee"], 2, "use obo"),
        (
            &["pull", "hp", "--resolver", "bioprotal"],
            2,
            "did you mean 'bioportal'",
        ),
        (&["pull", "hp", "--since", "yesterday"], 2, "is not a date"),
        (
            &["pull", "hp", "--target-formats", "pdf"],
            2,
            "is not a format",
        ),
        (&["pull", "--lock", &spec], 2, "is not a lock file"),
        (&["validate", "nosuch/file"], 2, "neither a file nor"),
        (&["prune", "--keep", "0"], 2, "0"),
    ] {
        let ran = world.run(words);
        assert_eq!(ran.code, code, "{words:?}: {}", ran.err);
        assert!(ran.err.contains(wanted), "{words:?}: {}", ran.err);
        assert!(!ran.err.contains("docstokg:"), "{words:?}: {}", ran.err);
    }
    assert!(world.served.web.ledger().is_empty());
}

#[test]
fn init_writes_a_list_that_can_be_read() {
    let world = OntofetchWorld::files(served());
    let file = world.path("sources.yaml").display().to_string();
    assert_eq!(world.run(&["init", &file]).code, 0);
    let again = world.run(&["init", &file]);
    assert_eq!(again.code, 2);
    assert!(again.err.contains("is there already"), "{}", again.err);
    docstokg_ontology::wanted_ontology::SpecFile::read(Path::new(&file)).expect("a list");
}

#[test]
fn doctors_report_credentials_rates_and_endpoints() {
    let world = OntofetchWorld::new(vec![
        ("files.example", served()),
        ("obofoundry.org", OriginScript::new("obofoundry.org")),
    ]);
    world.config(
        "100/SECOND",
        "  prefer_source: [obo, bioportal]\n  sources: { obo: { url: \"http://obofoundry.org\" }, bioportal: { url: \"http://files.example\" } }\n",
    );
    let (code, checks) = world.json(&["doctor"]);
    assert_eq!(code, 0, "{checks}");
    let levels: Vec<(&str, &str)> = checks["checks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|check| {
            (
                check["check"].as_str().unwrap_or_default(),
                check["level"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    assert!(levels.contains(&("credentials", "warning")), "{levels:?}");
    assert!(levels.contains(&("store", "ok")), "{levels:?}");
    assert!(levels.contains(&("endpoint", "ok")), "{levels:?}");
    let spec = world.spec(&["a", "b"]);
    assert_eq!(world.run(&["pull", "--spec", &spec]).code, 0);
    let (_, keys) = world.json(&["rl", "doctor"]);
    let key = keys["keys"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|key| key["key"] == "direct:files.example")
        .unwrap_or_else(|| panic!("{keys}"));
    assert_eq!(key["windows"][1]["used"], 2, "{key}");
    assert!(
        key["windows"][0]["per_second"]
            .as_f64()
            .is_some_and(|rate| rate > 100.0)
    );
    let text = world.run(&["rl", "doctor"]);
    assert!(text.out.contains("next request"), "{}", text.out);
    assert!(world.run(&["list", "--sources"]).out.contains("ontobee"));
    assert_eq!(world.run(&["config", "check"]).code, 0);
}

#[test]
fn failures_are_told_apart_and_exit_with_one() {
    let files = OriginScript::new("files.example")
        .route("/gone.obo", [ScriptedReply::status(404)])
        .route(
            "/page.obo",
            [ScriptedReply::ok(
                "<!DOCTYPE html><html><body>no</body></html>",
            )],
        )
        .route(
            "/cut.obo",
            [ScriptedReply::ok(
                "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            )],
        );
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["gone", "page", "cut"]);
    let (code, pulled) = world.json(&["pull", "--spec", &spec]);
    assert_eq!(code, 1);
    let reasons: Vec<&str> = pulled["results"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|result| result["reason"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(
        reasons,
        ["http_status", "not_an_ontology", "not_an_ontology"],
        "{pulled}"
    );
    assert!(!world.path("library/gone").exists() && !world.path("library/cut").exists());
}

#[test]
fn a_remote_context_is_loaded_through_the_hub_and_only_once() {
    let ontology = |name: &str| {
        format!(
            r#"{{"@context": "http://files.example/context.jsonld", "@id": "http://x.org/{name}", "@type": "Ontology", "label": "{name}"}}"#
        )
    };
    let files = OriginScript::new("files.example").handler(move |arrival, _| {
        if arrival.path.ends_with("context.jsonld") {
            return ScriptedReply::ok(
                r#"{"@context": {"Ontology": "http://www.w3.org/2002/07/owl#Ontology", "label": "http://www.w3.org/2000/01/rdf-schema#label"}}"#,
            )
            .header("content-type", "application/ld+json");
        }
        ScriptedReply::ok(ontology(&arrival.path)).header("content-type", "application/ld+json")
    });
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a", "b", "c"]);
    let (code, pulled) = world.json(&["pull", "--spec", &spec]);
    assert_eq!(code, 0, "{pulled}");
    assert_eq!(pulled["results"][0]["statements"], 2, "{pulled}");
    let arrivals = world.served.web.ledger().at("files.example");
    let contexts = arrivals
        .iter()
        .filter(|arrival| arrival.path.contains("context"))
        .count();
    assert_eq!(contexts, 1);
    let (_, shown) = world.json(&["show", "a"]);
    assert_eq!(shown["manifest"]["format"], "JSON-LD", "{shown}");
    assert!(
        shown["manifest"]["normalized_sha256"].is_string(),
        "{shown}"
    );
}

#[test]
fn a_pull_that_ends_early_says_what_waits_and_how_to_go_on() {
    let files =
        OriginScript::new("files.example").handler(|arrival, _| match arrival.path.as_str() {
            "/later.obo" => ScriptedReply::status(503).header("retry-after", "7200"),
            _ => ScriptedReply::ok(obo("1", "")),
        });
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["done", "later"]);
    let command = ["pull", "--max-wait", "5", "--spec", &spec];
    let (code, pulled) = world.json(&command);
    assert_eq!(code, 3, "{pulled}");
    // The other one is deferred, too, if its request comes after the 503.
    let mut deferred = pulled["deferred"].as_array().expect("a list").iter();
    let deferred = deferred.find(|ontology| ontology["id"] == "later");
    let deferred = deferred.unwrap_or_else(|| panic!("{pulled}"));
    assert_eq!(deferred["host"], "files.example");
    assert!(
        deferred["until"]
            .as_str()
            .is_some_and(|at| at.ends_with('Z')),
        "{deferred}"
    );
    assert!(
        deferred["why"]
            .as_str()
            .is_some_and(|why| why.contains("503")),
        "{deferred}"
    );
    let expected = format!("ontofetch pull --max-wait 5 --spec {spec}");
    let same = pulled["continue_with"].as_str().unwrap_or_default();
    assert!(same.starts_with(&expected), "{same}");

    let ran = world.run(&command);
    let line = ran.out.lines().find(|line| line.starts_with("later:"));
    assert!(
        line.is_some_and(|line| line.contains("waiting for files.example until")),
        "{}",
        ran.out
    );
    assert!(
        ran.err.contains(&format!("continue with: {expected}")),
        "{}",
        ran.err
    );

    // A plan, too, and its baseline stays as it is.
    let planned = ["plan", "--spec", &spec];
    let (code, plan) = world.json(&planned);
    assert_eq!((code, plan["deferred"].is_array()), (3, true), "{plan}");
}
