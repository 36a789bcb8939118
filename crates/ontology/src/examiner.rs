//! Reads a downloaded file with the parsers of [`format`](crate::format).
//!
//! The examiner names the format, checks that the file is complete, and collects what the file says
//! about itself.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use docstokg_hub::json::escape_controls;
use serde_json::json;

use crate::format::unpack::{ExtractedFile, UnpackError, UnpackLimits, extract_zip, gunzip};
use crate::format::{
    ContentRefusal, ContextLoader, DetectedFormat, FormatLimits, FormatProblem, HEAD_BYTES,
    NormalizeError, NormalizedFile, OntologyFormat, Packing, ReadOptions, ValidationOutcome,
    ValidationReport, VersionOrigin, detect, normalize, validate,
};
use crate::memory_budget::{MemoryBudget, MemoryShare, estimate};
use crate::pull::examine::{ExaminedFile, FileExaminer, FileFinding, FileOrigin};

/// The [`FileExaminer`] that uses the parsers of this crate.
#[derive(Clone, Default)]
pub struct FormatExaminer {
    /// Limits on the input and memory of one file.
    pub limits: FormatLimits,
    /// Limits on the output of packed files.
    pub unpack: UnpackLimits,
    /// Loader of remote JSON-LD contexts. Without a loader, contexts are reported as not loaded.
    pub contexts: Option<Arc<dyn ContextLoader>>,
    /// Common memory limit of all files that are read at the same time.
    pub(crate) memory: MemoryBudget,
}

/// A file that may be compressed, opened by [`FormatExaminer`].
enum OpenedFile {
    Plain(BufReader<File>),
    Gzip(Box<dyn Read + Send>),
}

impl Read for OpenedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Gzip(stream) => stream.read(buffer),
        }
    }
}

/// The kind of a file, recognised by its bytes.
#[derive(Clone, Debug)]
pub enum RecognisedFile {
    /// An [`OntologyFormat`], perhaps in a [`Packing`].
    Ontology(OntologyFormat, Option<Packing>),
    /// An archive of files.
    Archive,
    /// Neither an ontology nor an archive.
    Refused(ContentRefusal),
    /// Packed, but the packing is corrupt; the text says why.
    Damaged(String),
}

/// The content of an archive, with the files that were unpacked.
#[derive(Debug)]
pub enum Archive {
    /// An ontology: the unpacked files, its path, its format and its packing.
    Ontology(Vec<ExtractedFile>, PathBuf, OntologyFormat, Option<Packing>),
    /// A taxonomy package, or an archive without readable content, with its [`FileFinding`].
    Judged(Vec<ExtractedFile>, FileFinding),
}

impl FormatExaminer {
    /// Creates an examiner that loads remote JSON-LD contexts.
    #[must_use]
    pub fn with_contexts(contexts: Arc<dyn ContextLoader>) -> Self {
        Self {
            contexts: Some(contexts),
            ..Self::default()
        }
    }

    /// Recognises a file by its bytes. The media type and the file name decide only between formats
    /// that the bytes leave open.
    ///
    /// # Errors
    /// The [`io::Error`] if the file cannot be read.
    pub fn recognise(&self, file: &Path, media_type: Option<&str>) -> io::Result<RecognisedFile> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let hint = media_type
            .and_then(OntologyFormat::from_media_type)
            .or_else(|| OntologyFormat::from_file_name(name));
        let first = head(&mut File::open(file)?)?;
        match detect(&first, hint) {
            DetectedFormat::Ontology(format) => Ok(RecognisedFile::Ontology(format, None)),
            DetectedFormat::Refused(refusal) => Ok(RecognisedFile::Refused(refusal)),
            DetectedFormat::Packed(Packing::Zip) => Ok(RecognisedFile::Archive),
            DetectedFormat::Packed(Packing::Gzip) => {
                let inside = match head(&mut self.open(file, Some(Packing::Gzip))?) {
                    Ok(inside) => inside,
                    Err(error) => return Ok(RecognisedFile::Damaged(error.to_string())),
                };
                Ok(match detect(&inside, hint) {
                    DetectedFormat::Ontology(format) => {
                        RecognisedFile::Ontology(format, Some(Packing::Gzip))
                    }
                    DetectedFormat::Refused(refusal) => RecognisedFile::Refused(refusal),
                    DetectedFormat::Packed(_) => RecognisedFile::Damaged(
                        "it is packed twice, which is not unpacked".to_owned(),
                    ),
                })
            }
        }
    }

    fn open(&self, file: &Path, packing: Option<Packing>) -> io::Result<OpenedFile> {
        let opened = BufReader::with_capacity(256 << 10, File::open(file)?);
        Ok(match packing {
            Some(Packing::Gzip) => OpenedFile::Gzip(Box::new(gunzip(opened, self.unpack))),
            Some(Packing::Zip) | None => OpenedFile::Plain(opened),
        })
    }

    /// Waits for the [`MemoryShare`] that the file needs.
    fn share(
        &self,
        file: &Path,
        format: OntologyFormat,
        packing: Option<Packing>,
    ) -> io::Result<MemoryShare> {
        let bytes = std::fs::metadata(file)?.len();
        let needed = estimate(bytes, format, packing, &self.limits);
        Ok(self.memory.wait_for(needed))
    }

    fn options(&self, base: &str) -> ReadOptions {
        ReadOptions {
            limits: self.limits.clone(),
            contexts: self.contexts.clone(),
            ..ReadOptions::with_base(base)
        }
    }

    /// Reads a whole file into a [`ValidationReport`], or returns a text if its packing is damaged.
    ///
    /// # Errors
    /// The [`io::Error`] if the file cannot be read.
    pub fn report(
        &self,
        file: &Path,
        format: OntologyFormat,
        packing: Option<Packing>,
        base: &str,
    ) -> io::Result<Result<ValidationReport, String>> {
        let _share = self.share(file, format, packing)?;
        let opened = self.open(file, packing)?;
        match validate(opened, format, &self.options(base)) {
            Ok(report) => Ok(Ok(report)),
            // A gunzip error is a fault of the file, not of the disk.
            Err(error) if packing.is_some() && is_damage(&error) => Ok(Err(error.to_string())),
            Err(error) => Err(error),
        }
    }

    fn examine_ontology(
        &self,
        file: &Path,
        (format, packing): (OntologyFormat, Option<Packing>),
        about: &FileOrigin,
        version: &Path,
    ) -> io::Result<FileFinding> {
        if matches!(
            format,
            OntologyFormat::OwlFunctional | OntologyFormat::OwlManchester
        ) {
            return Ok(FileFinding::Unsupported(format!(
                "this is {format}, which is recognised and not read here; a file in RDF/XML, Turtle \
                 or OBO is needed"
            )));
        }
        about.show("reading");
        let report = match self.report(file, format, packing, &about.url)? {
            Ok(report) => report,
            Err(damage) => {
                return Ok(FileFinding::Invalid(format!(
                    "the file is damaged: {damage}"
                )));
            }
        };
        let report = if report.is_unordered {
            self.as_json(report, file, packing)?
        } else {
            report
        };
        let mut text = escape_controls(serde_json::to_string_pretty(&report)?);
        text.push('\n');
        std::fs::write(version.join("validation/report.json"), text)?;
        if report.outcome == ValidationOutcome::Invalid {
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
            return Ok(FileFinding::Invalid(format!(
                "this is not valid {format}: {first}{more}"
            )));
        }
        // An empty document from a registry must not become the latest version.
        if holds_nothing(&report) {
            return Ok(FileFinding::NotAnOntology(format!(
                "this is {format} without content: it holds no statements"
            )));
        }
        let mut note = None;
        about.show("normalising");
        let normalized = if report.is_valid() && format.has_normal_form() {
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
        Ok(FileFinding::Ontology(Box::new(examined)))
    }

    /// Judges a large JSON-LD file whose keys are not in the order that streaming needs. A file
    /// that is complete JSON counts as not validated instead of invalid.
    fn as_json(
        &self,
        mut report: ValidationReport,
        file: &Path,
        packing: Option<Packing>,
    ) -> io::Result<ValidationReport> {
        let reader = BufReader::with_capacity(256 << 10, self.open(file, packing)?);
        match serde_json::from_reader::<_, serde::de::IgnoredAny>(reader) {
            Ok(_) => {
                report.outcome = ValidationOutcome::NotValidated;
                report.warnings.append(&mut report.errors);
                report.error_count = 0;
                (report.statements, report.terms, report.obsolete) = (0, 0, 0);
            }
            Err(error) if error.is_io() => return Err(error.into()),
            Err(error) => {
                report.is_unordered = false;
                let message = format!("this is not JSON: {error}");
                report.errors = vec![FormatProblem::of_file(message)];
            }
        }
        Ok(report)
    }

    fn normalise(
        &self,
        file: &Path,
        (format, packing): (OntologyFormat, Option<Packing>),
        about: &FileOrigin,
        version: &Path,
    ) -> io::Result<Result<NormalizedFile, String>> {
        let target = version.join("normalized/statements.nt");
        let _share = self.share(file, format, packing)?;
        let opened = self.open(file, packing)?;
        match normalize(opened, format, &self.options(&about.url), &target) {
            Ok(normalized) => Ok(Ok(normalized)),
            Err(NormalizeError::Io(error)) => Err(error),
            Err(other) => Ok(Err(format!("there is no normalised form: {other}"))),
        }
    }

    /// Unpacks an archive into `target`, and finds a taxonomy package or the largest ontology in
    /// it.
    ///
    /// # Errors
    /// The [`io::Error`] if the archive cannot be read, or its files cannot be written.
    pub fn open_archive(&self, file: &Path, target: &Path) -> io::Result<Archive> {
        let extracted = match extract_zip(File::open(file)?, target, self.unpack) {
            Ok(extracted) => extracted,
            Err(UnpackError::Refused(why)) => {
                let finding = FileFinding::Invalid(format!("the archive is refused: {why}"));
                return Ok(Archive::Judged(Vec::new(), finding));
            }
            Err(UnpackError::Io(error)) => return Err(error),
        };
        let is_package = |file: &ExtractedFile| file.path.ends_with("META-INF/taxonomyPackage.xml");
        if extracted.iter().any(is_package) {
            let finding = crate::xbrl_package::examine(target, &extracted)?;
            return Ok(Archive::Judged(extracted, finding));
        }
        let mut files: Vec<&ExtractedFile> = extracted.iter().collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
        for file in files {
            let path: PathBuf = target.join(&file.path);
            if let RecognisedFile::Ontology(format, packing) = self.recognise(&path, None)? {
                return Ok(Archive::Ontology(extracted, path, format, packing));
            }
        }
        let finding = FileFinding::NotAnOntology("the archive holds no ontology".to_owned());
        Ok(Archive::Judged(extracted, finding))
    }

    /// Unpacks an archive beside itself, and reads its content.
    fn examine_archive(
        &self,
        file: &Path,
        about: &FileOrigin,
        version: &Path,
    ) -> io::Result<FileFinding> {
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

impl FileExaminer for FormatExaminer {
    fn examine(&self, file: &Path, about: &FileOrigin, version: &Path) -> io::Result<FileFinding> {
        match self.recognise(file, about.content_type.as_deref())? {
            RecognisedFile::Ontology(format, packing) => {
                self.examine_ontology(file, (format, packing), about, version)
            }
            RecognisedFile::Archive => self.examine_archive(file, about, version),
            RecognisedFile::Refused(ContentRefusal::Html) => Ok(FileFinding::Page),
            RecognisedFile::Refused(refusal) => Ok(FileFinding::NotAnOntology(refusal.to_string())),
            RecognisedFile::Damaged(why) => {
                Ok(FileFinding::Invalid(format!("the file is damaged: {why}")))
            }
        }
    }
}

/// Returns true if a file was read to its end and has no statements, stanzas or imports.
fn holds_nothing(report: &ValidationReport) -> bool {
    let content = match &report.obo {
        Some(obo) => obo.terms + obo.typedefs + obo.instances + obo.other_stanzas,
        None => report.statements,
    };
    report.outcome == ValidationOutcome::Valid && content == 0 && report.imports.is_empty()
}

/// Reads the first bytes of a file, as many as [`detect()`] uses.
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

/// Returns the licences that a file declares. Licence properties come before statements of rights,
/// which may only name the holder; known licences come first.
fn licences(report: &ValidationReport) -> Vec<String> {
    let mut stated: Vec<_> = report.licences.iter().collect();
    stated.sort_by_key(|stated| {
        let property = stated.property.to_ascii_lowercase();
        let is_licence = property.contains("license") || property.contains("licence");
        let read = docstokg_lookup::licence::SourceLicence::read(&stated.value);
        let is_known = read.is_some_and(|licence| licence.spdx.is_some());
        (!is_licence, !is_known)
    });
    stated
        .into_iter()
        .map(|stated| stated.value.clone())
        .collect()
}

fn examined(report: &ValidationReport, normalized: Option<NormalizedFile>) -> ExaminedFile {
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
    ExaminedFile {
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
