//! How fast ontologies are read, beside `rapper` in the same run, and what the rate facade costs
//! where it refuses. Exits 1 when a target is missed.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints its results"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use docstokg_ontology::facade::{AcquireMode, Facade, RateLimits};
use docstokg_ontology::format::{OntologyFormat, ReadOptions, validate};

/// The allocator of `ontofetch`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How much faster than `rapper` a format is read at least.
const LEAST_RATIO: f64 = 1.5;
/// The longest median of a refusal.
const MAX_REFUSAL: Duration = Duration::from_micros(100);
/// Each program reads a file this often; the fastest counts.
const ROUNDS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let megabytes = arguments
        .iter()
        .position(|word| word == "--megabytes")
        .and_then(|at| arguments.get(at + 1)?.parse().ok())
        .unwrap_or(200);
    let directory = tempfile::tempdir().expect("a directory");
    let mut is_met = true;
    for (format, name, write, least) in [
        (
            OntologyFormat::NTriples,
            "ntriples",
            n_triples as Writer,
            LEAST_RATIO,
        ),
        (OntologyFormat::RdfXml, "rdfxml", rdf_xml, LEAST_RATIO),
        // One thread parses Turtle: what that gives is in docs/reference/ontology-sources.md.
        (OntologyFormat::Turtle, "turtle", turtle, 0.0),
    ] {
        let path = directory.path().join(name);
        write_file(&path, megabytes << 20, write);
        is_met &= compare(&path, format, name, least);
        std::fs::remove_file(path).expect("a file");
    }
    is_met &= refusals("memory", None);
    is_met &= refusals("shared", Some(directory.path().join("limits")));
    std::process::exit(i32::from(!is_met));
}

/// Appends the statements about one class.
type Writer = fn(Part, &mut String);

/// What is written next.
#[derive(Clone, Copy)]
enum Part {
    Beginning,
    Class(u64),
    End,
}

fn write_file(path: &Path, bytes: u64, write: Writer) {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    let (mut text, mut written) = (String::new(), 0);
    write(Part::Beginning, &mut text);
    for number in 0.. {
        write(Part::Class(number), &mut text);
        if text.len() > 1 << 20 {
            file.write_all(text.as_bytes()).expect("space");
            written += text.len() as u64;
            text.clear();
        }
        if written >= bytes {
            break;
        }
    }
    write(Part::End, &mut text);
    file.write_all(text.as_bytes()).expect("space");
    file.flush().expect("space");
}

const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
const RDFS: &str = "http://www.w3.org/2000/01/rdf-schema#";
const OWL: &str = "http://www.w3.org/2002/07/owl#";
const OBO: &str = "http://purl.obolibrary.org/obo/";

fn n_triples(part: Part, text: &mut String) {
    let Part::Class(number) = part else { return };
    let parent = number / 2;
    let subject = format!("<{OBO}X_{number:08}>");
    let _ = write!(
        text,
        "{subject} <{RDF}type> <{OWL}Class> .\n\
         {subject} <{RDFS}label> \"abnormality of part {number}\"@en .\n\
         {subject} <{RDFS}comment> \"A definition of {number} with \\\"quotes\\\" and more words.\" .\n\
         {subject} <{RDFS}subClassOf> <{OBO}X_{parent:08}> .\n\
         {subject} <{RDFS}subClassOf> _:r{number} .\n\
         _:r{number} <{OWL}onProperty> <{OBO}BFO_0000050> .\n"
    );
}

fn rdf_xml(part: Part, text: &mut String) {
    let _ = match part {
        Part::Beginning => writeln!(
            text,
            "<?xml version=\"1.0\"?>\n<rdf:RDF xmlns:rdf=\"{RDF}\" xmlns:rdfs=\"{RDFS}\" \
             xmlns:owl=\"{OWL}\">\n<owl:Ontology rdf:about=\"{OBO}x.owl\"/>"
        ),
        Part::Class(number) => write!(
            text,
            "  <owl:Class rdf:about=\"{OBO}X_{number:08}\">\n    <rdfs:label xml:lang=\"en\">\
             abnormality of part {number}</rdfs:label>\n    <rdfs:comment>A definition of {number} \
             &amp; more words.</rdfs:comment>\n    <rdfs:subClassOf rdf:resource=\"{OBO}X_{:08}\"/>\n    \
             <rdfs:subClassOf>\n      <owl:Restriction>\n        <owl:onProperty \
             rdf:resource=\"{OBO}BFO_0000050\"/>\n      </owl:Restriction>\n    \
             </rdfs:subClassOf>\n  </owl:Class>\n",
            number / 2
        ),
        Part::End => writeln!(text, "</rdf:RDF>"),
    };
}

fn turtle(part: Part, text: &mut String) {
    let _ = match part {
        Part::Beginning => write!(
            text,
            "@prefix rdfs: <{RDFS}> .\n@prefix owl: <{OWL}> .\n@prefix obo: <{OBO}> .\n"
        ),
        Part::Class(number) => write!(
            text,
            "obo:X_{number:08} a owl:Class ;\n    rdfs:label \"abnormality of part {number}\"@en ;\n    \
             rdfs:comment \"A definition of {number} with \\\"quotes\\\" and more words.\" ;\n    \
             rdfs:subClassOf obo:X_{:08} ,\n        [ a owl:Restriction ; owl:onProperty \
             obo:BFO_0000050 ] .\n\n",
            number / 2
        ),
        Part::End => Ok(()),
    };
}

/// Reads a file with this crate and with `rapper`, and prints both.
fn compare(path: &Path, format: OntologyFormat, name: &str, least: f64) -> bool {
    let bytes = std::fs::metadata(path).expect("a file").len();
    let (mut own, mut other) = (Duration::MAX, Duration::MAX);
    let mut statements = 0;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let report = validate(
            File::open(path).expect("a file"),
            format,
            &ReadOptions::with_base("http://example.org/"),
        )
        .expect("a report");
        own = own.min(begun.elapsed());
        assert!(report.is_valid(), "{:?}", report.errors);
        statements = report.statements;
        let begun = Instant::now();
        // Counted, not written: the least that it can do.
        let status = Command::new("rapper")
            .args(["--quiet", "--count", "--input", name])
            .arg(path)
            .arg("http://example.org/")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("rapper");
        other = other.min(begun.elapsed());
        assert!(status.success());
    }
    let rate = |took: Duration| bytes as f64 / took.as_secs_f64() / f64::from(1 << 20);
    let ratio = other.as_secs_f64() / own.as_secs_f64();
    println!(
        "{} {format}: {statements} statements, {:.0} MiB/s read, counted and hashed; rapper counts at \
         {:.0} MiB/s: {ratio:.2}x (at least {least})",
        verdict(ratio >= least),
        rate(own),
        rate(other)
    );
    ratio >= least
}

/// Measures what a refusal costs: a window that is full, asked without waiting.
fn refusals(store: &str, shared: Option<PathBuf>) -> bool {
    const CALLS: usize = 20_000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let shared = shared.map_or_else(String::new, |path| {
        format!("\nshared_dir: {}", path.display())
    });
    let text = format!("default: 1/hour{shared}");
    let limits = RateLimits::from_text(&text, "settings").expect("settings");
    let mut times: Vec<Duration> = runtime.block_on(async {
        let facade = Facade::builder(limits).build().expect("a facade");
        let acquire = || facade.acquire(Some("ols"), Some("www.ebi.ac.uk"), AcquireMode::Fail, 1);
        acquire().await.expect("the first is permitted");
        let mut times = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let begun = Instant::now();
            acquire().await.expect_err("the window is full");
            times.push(begun.elapsed());
        }
        times
    });
    times.sort();
    let micros = |at: usize| times[at].as_secs_f64() * 1e6;
    let is_met = times[CALLS / 2] * 5 < MAX_REFUSAL;
    println!(
        "{} refusal, {store} store: {:.2} us median, {:.2} us for 99 of 100 (a fifth of {} us at most)",
        verdict(is_met),
        micros(CALLS / 2),
        micros(CALLS * 99 / 100),
        MAX_REFUSAL.as_micros()
    );
    is_met
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "ok    " } else { "MISSED" }
}
