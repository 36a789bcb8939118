//! A web of several hosts on loopback, and the program that downloads from it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_origin_sim::scholarly::WorkLibrary;
use docstokg_origin_sim::{Listener, OriginScript, ScriptedReply, Security, SimulatedWeb};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::support::program;

/// Several hosts on loopback, a directory for everything, and the program.
pub(crate) struct DownloadWorld {
    pub(crate) web: SimulatedWeb,
    pub(crate) address: String,
    hosts: Vec<String>,
    directory: tempfile::TempDir,
    _listener: Listener,
    _runtime: tokio::runtime::Runtime,
}

impl DownloadWorld {
    /// Starts a host that gives thirty files, one after the other, each after a delay. The list of
    /// them is `list.txt`.
    pub(crate) fn one_by_one(delay: Duration) -> Self {
        let reply = move |path: &str| match path {
            "/robots.txt" => ScriptedReply::status(404),
            path => pdf(path).after(delay),
        };
        let origin = OriginScript::new("a.example").handler(move |arrival, _| reply(&arrival.path));
        let config = "version: 1\nlimits: { hosts: { a.example: { artifact: { rates: [], \
                      max_concurrent: 1 } } } }\n";
        let world = Self::start(vec![origin], vec!["a.example".to_owned()], config);
        let urls: Vec<String> = (0..30)
            .map(|n| format!("http://a.example/{n}.pdf"))
            .collect();
        std::fs::write(world.path("list.txt"), urls.join("\n")).expect("a list");
        world
    }

    pub(crate) fn start(origins: Vec<OriginScript>, hosts: Vec<String>, config: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let web = SimulatedWeb::new(origins, SystemClock.boot());
        let listener = runtime
            .block_on(Listener::start(&web, Security::Plain))
            .expect("a port");
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("config.yaml"), config).expect("a file");
        Self {
            web,
            address: listener.address.to_string(),
            hosts,
            directory,
            _listener: listener,
            _runtime: runtime,
        }
    }

    pub(crate) fn of(library: &WorkLibrary) -> Self {
        let world = Self::start(
            library.origins(),
            library.hosts(),
            &library.client_configuration(),
        );
        std::fs::write(world.path("works.txt"), library.input_lines().join("\n")).expect("a file");
        world
    }

    /// One host that gives a PDF for every path, without limits.
    pub(crate) fn plain() -> Self {
        let origin =
            OriginScript::new("a.example").handler(|arrival, _| match arrival.path.as_str() {
                "/robots.txt" => ScriptedReply::status(404),
                path if path.starts_with("/missing") => ScriptedReply::status(404),
                path => pdf(path),
            });
        let config = "version: 1\nlimits: { defaults: { artifact: { rates: [], \
                      max_concurrent: 16 }, landing: { rates: [] } } }\n";
        Self::start(vec![origin], vec!["a.example".to_owned()], config)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command
            .arg("download")
            .args(arguments)
            .arg("--config")
            .arg(self.path("config.yaml"));
        if !arguments.contains(&"--out") {
            command.arg("--out").arg(self.path("out"));
        }
        for host in &self.hosts {
            command
                .arg("--connect-to")
                .arg(format!("{host}:80={}", self.address));
        }
        command
            .env("DOCSTOKG_STATE_DIR", self.path("state"))
            .env_remove("DOCSTOKG_RLIMIT_BACKEND");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program")
    }

    pub(crate) fn records(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("out/manifest.jsonl")).expect("a manifest");
        text.lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
            })
            .collect()
    }

    pub(crate) fn manifests(&self) -> Vec<Value> {
        self.records()
            .into_iter()
            .filter(|record| record["record_type"] == "manifest")
            .collect()
    }
}

/// Returns the SHA-256 of a file, in hex.
pub(crate) fn sha256(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

pub(crate) fn pdf(name: &str) -> ScriptedReply {
    let noted = format!("{name}{}", " ".repeat(1_200));
    ScriptedReply::ok(docstokg_origin_sim::pdf::carrying(noted.as_bytes()))
        .header("content-type", "application/pdf")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
