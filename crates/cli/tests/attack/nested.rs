//! Ontologies nested far deeper than any stack, through every command that reads them.

use std::path::Path;

use docstokg_origin_sim::hostile::deep_ontologies;
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::measured::{Ended, PATIENCE, measure};
use crate::response_forms::{alone, conclude, some};
use crate::support::{Served, ontofetch};

const HOST: &str = "files.example";
const DEPTH: usize = 100_000;

/// Allows plain http and more requests than a real host.
const CONFIGURATION: &str = "version: 1
limits:
  hosts:
    files.example: { metadata: { rates: [\"100/SECOND\"] }, artifact: { rates: [\"100/SECOND\"] } }
ontology:
  plain_http_hosts: [files.example]
  ratelimit: { per_service: \"direct:200/second+9000/minute\" }
";

/// Runs `ontofetch` with its state, library and streams in a directory.
fn run(directory: &Path, words: &[&str]) -> Ended {
    let mut command = ontofetch();
    command
        .env_remove("DOCSTOKG_RLIMIT_BACKEND")
        .env("DOCSTOKG_STATE_DIR", directory.join("state"))
        .env("ONTOFETCH_LIBRARY", directory.join("library"))
        .args(words);
    measure(&mut command, directory, PATIENCE)
}

/// Returns the files and directories that a pull left unfinished.
fn unfinished(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".new-") {
            found.push(entry.path().display().to_string());
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(unfinished(&entry.path()));
        }
    }
    found
}

#[test]
fn ontologies_of_any_depth_are_validated_compared_and_pulled() {
    let _turn = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let path = |name: &str| directory.join(name).display().to_string();
    let files = some(deep_ontologies(DEPTH), 5);
    let mut problems = Vec::new();
    let mut spec = "ontologies:\n".to_owned();
    for (name, text) in &files {
        let file = path(name);
        std::fs::write(&file, text).expect("a file");
        for words in [&["validate", &file][..], &["diff", &file, &file]] {
            let ended = run(directory, words).problems().into_iter();
            problems.extend(ended.map(|problem| format!("{} {name}: {problem}", words[0])));
        }
        let id = name.split('.').next().unwrap_or_default();
        spec.push_str(&format!(
            "  - {{ id: {id}, url: \"http://{HOST}/{name}\" }}\n"
        ));
    }
    let origin = files
        .iter()
        .fold(OriginScript::new(HOST), |origin, (name, text)| {
            origin.route(&format!("/{name}"), [ScriptedReply::ok(text.clone())])
        });
    let served = Served::start(origin);
    std::fs::write(path("spec.yaml"), spec).expect("a file");
    std::fs::write(path("config.yaml"), CONFIGURATION).expect("a file");
    let (spec, config) = (path("spec.yaml"), path("config.yaml"));
    let mapping = format!("{HOST}:80={}", served.address);
    let words = [
        "--spec",
        &spec,
        "--config",
        &config,
        "--connect-to",
        &mapping,
    ];
    let ended = run(
        directory,
        &[&["pull", "--json", "--quiet"][..], &words].concat(),
    );
    problems.extend(
        ended
            .problems()
            .into_iter()
            .map(|problem| format!("pull: {problem}")),
    );
    let pulled: serde_json::Value = serde_json::from_str(&ended.out).unwrap_or_default();
    let results = pulled["results"].as_array().map_or(0, Vec::len);
    if results != files.len() {
        problems.push(format!(
            "pull: {results} results of {}: {}",
            files.len(),
            ended.err
        ));
    }
    let left = unfinished(directory);
    problems.extend(left.into_iter().map(|path| format!("pull: {path} is left")));
    conclude("nested ontologies", files.len(), "", &problems);
}
