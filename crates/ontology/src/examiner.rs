//! Reads a downloaded file with the parsers of [`format`](crate::format): what it is, whether it is
//! whole, and what it says about itself.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use docstokg_hub::json::escape_controls;
use serde_json::json;

use crate::format::unpack::{Extracted, UnpackError, UnpackLimits, extract_zip, gunzip};
use crate::format::{
    ContextLoader, Detected, Format, HEAD_BYTES, Limits, NormalizeError, Normalized, Options,
    Outcome, Packing, Problem, Refusal, Report, VersionOrigin, detect, normalize, validate,
};
use crate::memory_budget::{MemoryBudget, MemoryShare, estimate};
use crate::pull::examine::{About, Examined, Examiner, Finding};

/// Reads files with the parsers of this crate.
#[derive(Clone, Default)]
pub struct FormatExaminer {
    /// What reading a file may cost.
    pub limits: Limits,
    /// What may come out of packed files.
    pub unpack: UnpackLimits,
    /// Where remote JSON-LD contexts come from; without it they are reported as not loaded.
    pub contexts: Option<Arc<dyn ContextLoader>>,
    /// What all files that are read at the same time may take.
    pub(crate) memory: MemoryBudget,
}

/// A file that may be compressed.
enum Opened {
    Plain(BufReader<File>),
    Gzip(Box<dyn Read + Send>),
}

impl Read for Opened {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Gzip(stream) => stream.read(buffer),
        }
    }
}

/// What a file was found to be.
#[derive(Clone, Debug)]
pub enum Recognised {
    /// An ontology, perhaps compressed.
    Ontology(Format, Option<Packing>),
    /// An archive of files.
    Archive,
    /// Something else.
    Refused(Refusal),
    /// Packed in a way that cannot be read.
    Damaged(String),
}

/// What an archive holds, and the files that were unpacked.
#[derive(Debug)]
pub enum Archive {
    /// An ontology: where it is now, and what it is.
    Ontology(Vec<Extracted>, PathBuf, Format, Option<Packing>),
    /// A taxonomy package, or nothing that can be read.
    Judged(Vec<Extracted>, Finding),
}

impl FormatExaminer {
    /// Makes an examiner that loads remote JSON-LD contexts.
    #[must_use]
    pub fn with_contexts(contexts: Arc<dyn ContextLoader>) -> Self {
        Self {
            contexts: Some(contexts),
            ..Self::default()
        }
    }

    /// Finds out what a file is by its bytes. A media type decides only between formats that the
    /// bytes leave open, and so does the name of the file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn recognise(&self, file: &Path, media_type: Option<&str>) -> io::Result<Recognised> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let hint = media_type
            .and_then(Format::from_media_type)
            .or_else(|| Format::from_file_name(name));
        let first = head(&mut File::open(file)?)?;
        match detect(&first, hint) {
            Detected::Ontology(format) => Ok(Recognised::Ontology(format, None)),
            Detected::Refused(refusal) => Ok(Recognised::Refused(refusal)),
            Detected::Packed(Packing::Zip) => Ok(Recognised::Archive),
            Detected::Packed(Packing::Gzip) => {
                let inside = match head(&mut self.open(file, Some(Packing::Gzip))?) {
                    Ok(inside) => inside,
                    Err(error) => return Ok(Recognised::Damaged(error.to_string())),
                };
                Ok(match detect(&inside, hint) {
                    Detected::Ontology(format) => Recognised::Ontology(format, Some(Packing::Gzip)),
                    Detected::Refused(refusal) => Recognised::Refused(refusal),
                    Detected::Packed(_) => {
                        Recognised::Damaged("it is packed twice, which is not unpacked".to_owned())
                    }
                })
            }
        }
    }

    fn open(&self, file: &Path, packing: Option<Packing>) -> io::Result<Opened> {
        let opened = BufReader::with_capacity(256 << 10, File::open(file)?);
        Ok(match packing {
            Some(Packing::Gzip) => Opened::Gzip(Box::new(gunzip(opened, self.unpack))),
            Some(Packing::Zip) | None => Opened::Plain(opened),
        })
    }

    /// Waits until there is memory to read a file.
    fn share(
        &self,
        file: &Path,
        format: Format,
        packing: Option<Packing>,
    ) -> io::Result<MemoryShare> {
        let bytes = std::fs::metadata(file)?.len();
        let needed = estimate(bytes, format, packing, &self.limits);
        Ok(self.memory.wait_for(needed))
    }

    fn options(&self, base: &str) -> Options {
        Options {
            limits: self.limits.clone(),
            contexts: self.contexts.clone(),
            ..Options::with_base(base)
        }
    }

    /// Reads a whole file, and returns what it says; a text where its packing is damaged.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn report(
        &self,
        file: &Path,
        format: Format,
        packing: Option<Packing>,
        base: &str,
    ) -> io::Result<Result<Report, String>> {
        let _share = self.share(file, format, packing)?;
        let opened = self.open(file, packing)?;
        match validate(opened, format, &self.options(base)) {
            Ok(report) => Ok(Ok(report)),
            // What gunzip refuses is a fault of the file.
            Err(error) if packing.is_some() && is_damage(&error) => Ok(Err(error.to_string())),
            Err(error) => Err(error),
        }
    }

    fn examine_ontology(
        &self,
        file: &Path,
        (format, packing): (Format, Option<Packing>),
        about: &About,
        version: &Path,
    ) -> io::Result<Finding> {
        if matches!(format, Format::OwlFunctional | Format::OwlManchester) {
            return Ok(Finding::Unsupported(format!(
                "this is {format}, which is recognised and not read here; a file in RDF/XML, Turtle \
                 or OBO is needed"
            )));
        }
        about.show("reading");
        let report = match self.report(file, format, packing, &about.url)? {
            Ok(report) => report,
            Err(damage) => return Ok(Finding::Invalid(format!("the file is damaged: {damage}"))),
        };
        let report = if report.is_unordered {
            self.as_json(report, file, packing)?
        } else {
            report
        };
        let mut text = escape_controls(serde_json::to_string_pretty(&report)?);
        text.push('\n');
        std::fs::write(version.join("validation/report.json"), text)?;
        if report.outcome == Outcome::Invalid {
            let first = report
                .errors
                .first()
                .map(ToString::to_string)
                .unwrap_or_default();
            let more = report.error_count.saturating_sub(1);
            let more = if more == 0 {
                String::new()
            } else {
                format!(" (and {more} more)")
            };
            return Ok(Finding::Invalid(format!(
                "this is not valid {format}: {first}{more}"
            )));
        }
        // A registry that answers with an empty document must not become the latest version.
        if holds_nothing(&report) {
            return Ok(Finding::NotAnOntology(format!(
                "this is {format} without content: it holds no statements"
            )));
        }
        let mut note = None;
        about.show("normalising");
        let normalized = if report.is_valid() && format.is_rdf() {
            match self.normalise(file, (format, packing), about, version)? {
                Ok(normalized) => Some(normalized),
                Err(why) => {
                    note = Some(why);
                    None
                }
            }
        } else {
            None
        };
        let mut examined = examined(&report, normalized);
        examined.notes.extend(note);
        Ok(Finding::Ontology(Box::new(examined)))
    }

    /// Judges a large JSON-LD file whose keys are in another order than streaming demands: it is
    /// not validated if it is whole as JSON.
    fn as_json(
        &self,
        mut report: Report,
        file: &Path,
        packing: Option<Packing>,
    ) -> io::Result<Report> {
        let reader = BufReader::with_capacity(256 << 10, self.open(file, packing)?);
        match serde_json::from_reader::<_, serde::de::IgnoredAny>(reader) {
            Ok(_) => {
                report.outcome = Outcome::NotValidated;
                report.warnings.append(&mut report.errors);
                report.error_count = 0;
                (report.statements, report.terms, report.obsolete) = (0, 0, 0);
            }
            Err(error) if error.is_io() => return Err(error.into()),
            Err(error) => {
                report.is_unordered = false;
                let message = format!("this is not JSON: {error}");
                report.errors = vec![Problem::of_file(message)];
            }
        }
        Ok(report)
    }

    fn normalise(
        &self,
        file: &Path,
        (format, packing): (Format, Option<Packing>),
        about: &About,
        version: &Path,
    ) -> io::Result<Result<Normalized, String>> {
        let target = version.join("normalized/statements.nt");
        let _share = self.share(file, format, packing)?;
        let opened = self.open(file, packing)?;
        match normalize(opened, format, &self.options(&about.url), &target) {
            Ok(normalized) => Ok(Ok(normalized)),
            Err(NormalizeError::Io(error)) => Err(error),
            Err(other) => Ok(Err(format!("there is no normalised form: {other}"))),
        }
    }

    /// Unpacks an archive into `target`, and finds what it holds: a taxonomy package, or the largest
    /// ontology in it.
    ///
    /// # Errors
    /// It cannot be read, or its files cannot be written.
    pub fn open_archive(&self, file: &Path, target: &Path) -> io::Result<Archive> {
        let extracted = match extract_zip(File::open(file)?, target, self.unpack) {
            Ok(extracted) => extracted,
            Err(UnpackError::Refused(why)) => {
                let finding = Finding::Invalid(format!("the archive is refused: {why}"));
                return Ok(Archive::Judged(Vec::new(), finding));
            }
            Err(UnpackError::Io(error)) => return Err(error),
        };
        let is_package = |file: &Extracted| file.path.ends_with("META-INF/taxonomyPackage.xml");
        if extracted.iter().any(is_package) {
            let finding = crate::xbrl_package::examine(target, &extracted)?;
            return Ok(Archive::Judged(extracted, finding));
        }
        let mut files: Vec<&Extracted> = extracted.iter().collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
        for file in files {
            let path: PathBuf = target.join(&file.path);
            if let Recognised::Ontology(format, packing) = self.recognise(&path, None)? {
                return Ok(Archive::Ontology(extracted, path, format, packing));
            }
        }
        let finding = Finding::NotAnOntology("the archive holds no ontology".to_owned());
        Ok(Archive::Judged(extracted, finding))
    }

    /// Unpacks an archive beside itself, and reads what it holds.
    fn examine_archive(&self, file: &Path, about: &About, version: &Path) -> io::Result<Finding> {
        about.show("unpacking");
        let archive = self.open_archive(file, &version.join("original/unpacked"))?;
        let (Archive::Judged(extracted, _) | Archive::Ontology(extracted, ..)) = &archive;
        let mut audit = escape_controls(serde_json::to_string_pretty(extracted)?);
        audit.push('\n');
        std::fs::write(version.join("validation/extracted.json"), audit)?;
        match archive {
            Archive::Judged(_, finding) => Ok(finding),
            Archive::Ontology(_, path, format, packing) => {
                self.examine_ontology(&path, (format, packing), about, version)
            }
        }
    }
}

impl Examiner for FormatExaminer {
    fn examine(&self, file: &Path, about: &About, version: &Path) -> io::Result<Finding> {
        match self.recognise(file, about.content_type.as_deref())? {
            Recognised::Ontology(format, packing) => {
                self.examine_ontology(file, (format, packing), about, version)
            }
            Recognised::Archive => self.examine_archive(file, about, version),
            Recognised::Refused(Refusal::Html) => Ok(Finding::Page),
            Recognised::Refused(refusal) => Ok(Finding::NotAnOntology(refusal.to_string())),
            Recognised::Damaged(why) => Ok(Finding::Invalid(format!("the file is damaged: {why}"))),
        }
    }
}

/// Tells whether a file was read to its end and says nothing: no statements or stanzas, no imports.
fn holds_nothing(report: &Report) -> bool {
    let content = match &report.obo {
        Some(obo) => obo.terms + obo.typedefs + obo.instances + obo.other_stanzas,
        None => report.statements,
    };
    report.outcome == Outcome::Valid && content == 0 && report.imports.is_empty()
}

/// Reads as many bytes as the format is named by.
fn head(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(HEAD_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof
    )
}

/// Returns the licences that a file states: those of a licence property before statements of rights,
/// which may name holders only, and known ones first.
fn licences(report: &Report) -> Vec<String> {
    let mut stated: Vec<_> = report.licences.iter().collect();
    stated.sort_by_key(|stated| {
        let property = stated.property.to_ascii_lowercase();
        let is_licence = property.contains("license") || property.contains("licence");
        let read = crate::licence::Licence::read(&stated.value);
        let is_known = read.is_some_and(|licence| licence.spdx.is_some());
        (!is_licence, !is_known)
    });
    stated
        .into_iter()
        .map(|stated| stated.value.clone())
        .collect()
}

fn examined(report: &Report, normalized: Option<Normalized>) -> Examined {
    let version = report.version().map(|version| {
        let from = match version.origin {
            VersionOrigin::VersionIri => "owl:versionIRI",
            VersionOrigin::VersionInfo => "owl:versionInfo",
            VersionOrigin::DataVersion => "data-version",
        };
        (version.value.clone(), from.to_owned())
    });
    let versions = report.versions.iter();
    let versions = versions.map(|version| version.value.clone()).collect();
    let mut notes: Vec<String> = report
        .warnings
        .iter()
        .take(5)
        .map(ToString::to_string)
        .collect();
    notes.extend(report.contexts_not_loaded.iter().map(|context| {
        format!("the JSON-LD context {context} was not loaded, so the file was not validated")
    }));
    Examined {
        format: Some(report.format.name().to_owned()),
        version,
        versions,
        imports: report.imports.clone(),
        licences: licences(report),
        statements: Some(report.statements).filter(|_| !report.is_unordered),
        terms: Some(report.terms).filter(|_| !report.is_unordered),
        fingerprint: report
            .content_hash
            .as_ref()
            .map(|hash| format!("{}:{}", hash.scheme, hash.hex)),
        validation: json!({
            "parse": {
                "ok": report.is_valid(),
                "outcome": report.outcome,
                "statements": report.statements,
                "terms": report.terms,
                "obsolete": report.obsolete,
                "output_files": ["validation/report.json"],
            },
            "normalize": normalized.as_ref().map(|normalized| json!({
                "ok": true,
                "statements": normalized.statements,
                "sha256": normalized.sha256,
                "output_files": ["normalized/statements.nt"],
            })),
        }),
        normalized_sha256: normalized.map(|normalized| normalized.sha256),
        notes,
    }
}
