//! Ontologies of 1 GiB, pulled from loopback by `ontofetch`: downloaded, hashed, read, normalised and
//! stored within 256 MiB of memory; and several at once within the same. Exits 1 when a target is
//! missed.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints its results"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, and its server runs on threads"
)]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, BufWriter};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Maximum memory, in KiB.
const MAX_MEMORY: u64 = 256 << 10;
/// Classes that are sent at once.
const BLOCK: u64 = 4_096;

const OBO: &str = "http://purl.obolibrary.org/obo/";
const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
const RDFS: &str = "http://www.w3.org/2000/01/rdf-schema#";
const OWL: &str = "http://www.w3.org/2002/07/owl#";

/// A file that is made while it is sent.
#[derive(Clone, Copy)]
struct Made {
    beginning: fn(u64) -> String,
    class: fn(u64, &mut String),
    end: &'static str,
}

const N_TRIPLES: Made = Made {
    beginning: |size| {
        format!(
            "<{OBO}x.owl> <{OWL}versionInfo> \"{size}\" .\n<{OBO}x.owl> <{RDF}type> <{OWL}Ontology> .\n"
        )
    },
    class: |number, text| {
        let subject = format!("<{OBO}X_{number:010}>");
        let _ = write!(
            text,
            "{subject} <{RDF}type> <{OWL}Class> .\n\
             {subject} <{RDFS}label> \"abnormality of part {number:010}\"@en .\n\
             {subject} <{RDFS}subClassOf> <{OBO}X_{:010}> .\n",
            number / 2
        );
        if number % 5 == 0 {
            let _ = write!(
                text,
                "{subject} <{RDFS}subClassOf> _:r{number:010} .\n\
                 _:r{number:010} <{OWL}onProperty> <{OBO}BFO_0000050> .\n"
            );
        }
    },
    end: "",
};

const RDF_XML: Made = Made {
    beginning: |size| {
        format!(
            "<?xml version=\"1.0\"?>\n<rdf:RDF xmlns:rdf=\"{RDF}\" xmlns:rdfs=\"{RDFS}\" \
             xmlns:owl=\"{OWL}\">\n<owl:Ontology rdf:about=\"{OBO}x.owl\"><owl:versionInfo>{size}\
             </owl:versionInfo></owl:Ontology>\n"
        )
    },
    class: |number, text| {
        let _ = write!(
            text,
            "  <owl:Class rdf:about=\"{OBO}X_{number:010}\">\n    <rdfs:label xml:lang=\"en\">\
             abnormality of part {number:010}</rdfs:label>\n    <rdfs:subClassOf \
             rdf:resource=\"{OBO}X_{:010}\"/>\n",
            number / 2
        );
        if number % 5 == 0 {
            text.push_str(
                "    <rdfs:subClassOf>\n      <owl:Restriction>\n        <owl:onProperty ",
            );
            let _ = write!(
                text,
                "rdf:resource=\"{OBO}BFO_0000050\"/>\n      </owl:Restriction>\n    \
                 </rdfs:subClassOf>\n"
            );
        }
        text.push_str("  </owl:Class>\n");
    },
    end: "</rdf:RDF>\n",
};

impl Made {
    /// Returns how many classes make a file of about this size, and its exact length.
    fn plan(self, bytes: u64) -> (u64, u64) {
        // Every number has as many digits as every other.
        let mut text = String::new();
        (0..5).for_each(|number| (self.class)(number, &mut text));
        let five = text.len() as u64;
        let fives = bytes / five;
        let around = (self.beginning)(bytes).len() + self.end.len();
        (fives * 5, fives * five + around as u64)
    }
}

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    let gib: u64 = 1 << 30;
    let mut is_met = true;
    for (name, paths) in [
        ("N-Triples of 1 GiB", vec![format!("/{gib}.nt")]),
        ("RDF/XML of 1 GiB", vec![format!("/{gib}.owl")]),
        (
            "eight files of 128 MiB at once",
            (0..8)
                .map(|number| {
                    let kind = if number % 2 == 0 { "nt" } else { "owl" };
                    format!("/{}.{kind}", (gib >> 3) + number)
                })
                .collect(),
        ),
    ] {
        is_met &= pull(name, &paths, &address);
    }
    std::process::exit(i32::from(!is_met));
}

/// Answers requests for `/BYTES.KIND`.
fn serve(stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut writer = BufWriter::with_capacity(1 << 20, stream);
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
            line.clear();
        }
        let path = request.split(' ').nth(1).unwrap_or_default();
        let (size, kind) = path
            .trim_start_matches('/')
            .split_once('.')
            .unwrap_or_default();
        let made = if kind == "nt" { N_TRIPLES } else { RDF_XML };
        let Ok(size) = size.parse() else { return };
        if send(&mut writer, made, size).is_err() {
            return;
        }
    }
}

fn send(to: &mut impl std::io::Write, made: Made, size: u64) -> std::io::Result<()> {
    let (classes, length) = made.plan(size);
    write!(
        to,
        "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: {length}\r\n\r\n"
    )?;
    to.write_all((made.beginning)(size).as_bytes())?;
    let mut text = String::new();
    for number in 0..classes {
        (made.class)(number, &mut text);
        if number % BLOCK == BLOCK - 1 {
            to.write_all(text.as_bytes())?;
            text.clear();
        }
    }
    to.write_all(text.as_bytes())?;
    to.write_all(made.end.as_bytes())?;
    to.flush()
}

/// Pulls files, and checks what came and what it cost.
fn pull(name: &str, paths: &[String], address: &str) -> bool {
    let directory = tempfile::tempdir().expect("a directory");
    let entries: Vec<String> = paths
        .iter()
        .enumerate()
        .map(|(number, path)| {
            format!("  - {{ id: o{number}, url: \"http://large.example{path}\" }}\n")
        })
        .collect();
    let spec = directory.path().join("sources.yaml");
    std::fs::write(&spec, format!("ontologies:\n{}", entries.concat())).expect("a file");
    let config = directory.path().join("config.yaml");
    std::fs::write(
        &config,
        "version: 1\nontology:\n  plain_http_hosts: [large.example]\n",
    )
    .expect("a file");
    let begun = Instant::now();
    let mut child = start(directory.path(), &spec, &config, address);
    let mut peak = 0;
    let status = loop {
        peak = peak.max(memory(&child));
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let took = begun.elapsed();
    let output = std::fs::read_to_string(directory.path().join("out.json")).unwrap_or_default();
    let results: Value = serde_json::from_str(&output).unwrap_or_default();
    let is_stored = status.success() && is_complete(paths, &results);
    if !is_stored {
        println!("{output}");
    }
    let is_met = is_stored && peak <= MAX_MEMORY;
    println!(
        "{} {name}: {} pulled in {:.0} s, memory at its peak {:.0} MiB (at most {})",
        if is_met { "ok    " } else { "MISSED" },
        results["results"][0]["statements"],
        took.as_secs_f64(),
        peak as f64 / 1_024.0,
        MAX_MEMORY >> 10
    );
    is_met
}

/// Checks that every file is stored, with its version, as many classes as were made and a normalised form.
fn is_complete(paths: &[String], results: &Value) -> bool {
    let Some(results) = results["results"].as_array() else {
        return false;
    };
    results.len() == paths.len()
        && results.iter().zip(paths).all(|(result, path)| {
            let (size, kind) = path
                .trim_start_matches('/')
                .split_once('.')
                .unwrap_or_default();
            let made = if kind == "nt" { N_TRIPLES } else { RDF_XML };
            let (classes, length) = made.plan(size.parse().unwrap_or_default());
            let stored = result["path"].as_str().unwrap_or_default();
            result["status"] == "fresh"
                && result["version"] == size
                && result["terms"] == classes
                && result["content_length"] == length
                && Path::new(stored).join("normalized/statements.nt").is_file()
        })
}

fn start(directory: &Path, spec: &Path, config: &Path, address: &str) -> Child {
    let out = std::fs::File::create(directory.join("out.json")).expect("a file");
    Command::new(env!("CARGO_BIN_EXE_ontofetch"))
        .args(["pull", "--json", "--quiet", "--spec"])
        .arg(spec)
        .arg("--config")
        .arg(config)
        .arg("--library")
        .arg(directory.join("library"))
        .args(["--connect-to", &format!("large.example:80={address}")])
        .env("DOCSTOKG_STATE_DIR", directory.join("state"))
        .stdout(Stdio::from(out))
        .stderr(Stdio::inherit())
        .spawn()
        .expect("ontofetch")
}

/// Returns the peak memory of a process so far, in KiB.
fn memory(child: &Child) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}
