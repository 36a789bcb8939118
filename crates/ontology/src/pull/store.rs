//! The way of a downloaded file into the library: check, read, name and store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use docstokg_bulk::blocking::run_blocking;
use docstokg_bulk::digest::sha256_of;
use docstokg_bulk::progress::ActiveFile;
use docstokg_hub::{RequestGroup, ResponseHead, SavedFile, redact};
use http::header::{CONTENT_TYPE, ETAG, LAST_MODIFIED};

use super::describe::{cached, pulled};
use super::examine::{ExaminedFile, FileFinding, FileOrigin};
use super::fetch::{GatedLocation, is_wanted, try_after_page};
use super::fetch_failure::Verdict;
use super::filename::filename;
use super::ontologies::{ActiveOntology, OntologiesJob};
use super::outcome::PullOutcome;
use super::probe::text;
use super::version::{check_format, check_version};
use super::{address, checksum, saved_file};
use crate::library::{
    Artifact, Manifest, Publication, PullStatus, SCHEMA_VERSION, StagedVersion, StoredVersion,
    TriedLocation,
};
use crate::licence::Judgement;
use crate::source::{Absence, AbsenceReason};
use crate::wanted_ontology::FileChecksum;
use docstokg_lookup::licence::SourceLicence;

/// A file that was downloaded, with its response.
pub(super) struct ReceivedFile<'a> {
    pub(super) target: &'a GatedLocation,
    pub(super) head: ResponseHead,
    pub(super) file: SavedFile,
    /// True if there is no version of the ontology yet.
    pub(super) is_first: bool,
    /// The display of the file's progress.
    pub(super) active: Arc<ActiveFile>,
}

fn halted(error: impl std::fmt::Display) -> Verdict {
    Verdict::Halt(error.to_string())
}

impl OntologiesJob {
    /// Makes a version of a file, or returns the reason why it is unusable. Unusable files are
    /// removed.
    pub(super) async fn keep(
        &self,
        item: &mut ActiveOntology,
        arrived: ReceivedFile<'_>,
        requests: &Arc<RequestGroup>,
    ) -> Result<PullOutcome, Verdict> {
        let kept = self.keep_checked(item, &arrived, requests).await;
        if matches!(kept, Ok(_) | Err(Verdict::Never(..))) {
            saved_file::forget(&arrived.file.path);
        }
        kept
    }

    async fn keep_checked(
        &self,
        item: &mut ActiveOntology,
        arrived: &ReceivedFile<'_>,
        requests: &Arc<RequestGroup>,
    ) -> Result<PullOutcome, Verdict> {
        let filename = filename(arrived.target, &arrived.head, item.state.wanted.id.as_str());
        let expected = self
            .expected_checksum(&item.state, &filename, requests)
            .await?;
        if let Some(expected) = &expected {
            checksum::check(&arrived.file.path, expected).await?;
        }
        if let Some(known) = self.same_content(item, arrived).await? {
            return Ok(cached(item, arrived.target, &known));
        }
        let staged = self.library.stage(&item.state.wanted.id).map_err(halted)?;
        let original = staged.path().join("original").join(&filename);
        // The download stays in its place until it is a version, so that the next process finds it
        // there after this one is killed.
        std::fs::hard_link(&arrived.file.path, &original)
            .or_else(|_| std::fs::copy(&arrived.file.path, &original).map(|_| ()))
            .map_err(|error| {
                halted(format!("{} cannot be written: {error}", original.display()))
            })?;
        let finding = self.examine(&original, &staged, arrived).await?;
        let (reason, what) = match finding {
            FileFinding::Ontology(examined) => {
                return self
                    .publish(item, arrived, staged, *examined, filename, expected)
                    .await;
            }
            FileFinding::Page => return Err(try_after_page(item, arrived.target, &arrived.head)),
            FileFinding::NotAnOntology(what) => (AbsenceReason::NotAnOntology, what),
            FileFinding::Unsupported(what) => (AbsenceReason::Unsupported, what),
            FileFinding::Invalid(what) => (AbsenceReason::Invalid, what),
        };
        Err(never(reason, what, &arrived.head))
    }

    /// Finds an undamaged version with the same content that is also the requested version. The
    /// version becomes the latest, and its record gets the newer validators.
    async fn same_content(
        &self,
        item: &ActiveOntology,
        arrived: &ReceivedFile<'_>,
    ) -> Result<Option<StoredVersion>, Verdict> {
        if self.options.force {
            return Ok(None);
        }
        let id = item.state.wanted.id.clone();
        let known = self.library.with_content(&id, &arrived.file.sha256);
        let known = known.map_err(halted)?;
        let Some(known) = known.filter(|known| is_wanted(&item.state, known)) else {
            return Ok(None);
        };
        let head = &arrived.head;
        let newer = Manifest {
            etag: text(&head.headers, &ETAG),
            last_modified: text(&head.headers, &LAST_MODIFIED),
            revision: arrived.target.location.revision.clone(),
            resolver: arrived.target.location.source.clone(),
            url: redact(&arrived.target.url),
            final_url: redact(&head.url),
            ..known.manifest.clone()
        };
        let library = self.library.clone();
        let taken_up = run_blocking(move || {
            if known.damaged_files().is_empty() {
                library.take_up(&id, &known, &newer).map(Some)
            } else {
                Ok(None)
            }
        });
        taken_up
            .await
            .ok_or_else(|| halted("the version could not be compared"))?
            .map_err(halted)
    }

    /// Judges the facts that the file declares, and makes a version of it.
    async fn publish(
        &self,
        item: &mut ActiveOntology,
        arrived: &ReceivedFile<'_>,
        staged: StagedVersion,
        examined: ExaminedFile,
        filename: String,
        expected: Option<FileChecksum>,
    ) -> Result<PullOutcome, Verdict> {
        let code = Some(arrived.head.status.as_u16());
        let checked = check_version(&item.state, arrived.target, &examined)
            .and_then(|()| check_format(&item.state, arrived.target, &examined));
        checked.map_err(|absence| Verdict::Never(absence, code))?;
        let licence = self.licence_of(item, arrived, &examined)?;
        let manifest = self.manifest(item, arrived, &examined, licence, filename, expected);
        let manifest = Manifest {
            artifacts: artifacts(staged.path()).map_err(halted)?,
            ..manifest
        };
        let library = self.library.clone();
        let published = run_blocking(move || library.publish(staged, &manifest));
        let (version, publication) = published
            .await
            .ok_or_else(|| halted("the version could not be stored"))?
            .map_err(halted)?;
        if publication == Publication::Replaced && !arrived.is_first {
            item.state.note(format!(
                "files of version {} were damaged, and were replaced",
                version.name
            ));
        }
        self.context.progress.count(|counters| {
            counters.files += 1;
            counters.bytes += arrived.file.bytes;
        });
        Ok(pulled(item, arrived, &examined, &version, publication))
    }

    async fn examine(
        &self,
        original: &Path,
        staged: &StagedVersion,
        arrived: &ReceivedFile<'_>,
    ) -> Result<FileFinding, Verdict> {
        let (examiner, file, version) = (
            Arc::clone(&self.examiner),
            original.to_owned(),
            staged.path().to_owned(),
        );
        let about = FileOrigin {
            url: address::base(&arrived.head.url).into(),
            content_type: text(&arrived.head.headers, &CONTENT_TYPE),
            shown: Some(Arc::clone(&arrived.active)),
        };
        let found = run_blocking(move || examiner.examine(&file, &about, &version)).await;
        match found {
            Some(Ok(finding)) => Ok(finding),
            Some(Err(error)) => Err(halted(format!(
                "{} cannot be read: {error}",
                original.display()
            ))),
            None => Ok(FileFinding::Invalid(
                "reading the file failed by a defect of the reader".to_owned(),
            )),
        }
    }

    /// Judges the licence that the file declares, if its source declared no licence.
    fn licence_of(
        &self,
        item: &ActiveOntology,
        arrived: &ReceivedFile<'_>,
        examined: &ExaminedFile,
    ) -> Result<Option<SourceLicence>, Verdict> {
        if let Some(known) = &arrived.target.licence {
            return Ok(Some(known.clone()));
        }
        let stated = examined
            .licences
            .iter()
            .find_map(|text| SourceLicence::read(text));
        match self.licences.judge(stated.as_ref()) {
            Judgement::Refused(why) => {
                let detail = format!("{} is not stored: {why}", item.state.wanted.id);
                Err(never(AbsenceReason::Licence, detail, &arrived.head))
            }
            Judgement::Accepted | Judgement::NotStated => Ok(stated),
        }
    }

    fn manifest(
        &self,
        item: &ActiveOntology,
        arrived: &ReceivedFile<'_>,
        examined: &ExaminedFile,
        licence: Option<SourceLicence>,
        filename: String,
        expected: Option<FileChecksum>,
    ) -> Manifest {
        let (target, head, state) = (arrived.target, &arrived.head, &item.state);
        let now = self.context.clock.runtime().wall().to_string();
        let (version, version_from) = version(target, examined, &arrived.file.sha256, &now);
        let mut notes = target.location.notes.clone();
        notes.extend(state.notes.iter().chain(&examined.notes).cloned());
        if licence.is_none() {
            notes.push("no licence is stated".to_owned());
        }
        let mut attempts = state.tried.clone();
        attempts.push(TriedLocation {
            resolver: target.location.source.clone(),
            url: Some(redact(&target.url)),
            status: "ok".to_owned(),
            reason: None,
            detail: None,
            http_status: Some(head.status.as_u16()),
        });
        Manifest {
            schema_version: SCHEMA_VERSION.to_owned(),
            id: state.wanted.id.to_string(),
            resolver: target.location.source.clone(),
            url: redact(&target.url),
            final_url: redact(&head.url),
            filename,
            version,
            version_from,
            license: licence.map(|licence| licence.name().to_owned()),
            status: if arrived.is_first {
                PullStatus::Fresh
            } else {
                PullStatus::Updated
            },
            sha256: arrived.file.sha256.clone(),
            normalized_sha256: examined.normalized_sha256.clone(),
            fingerprint: examined.fingerprint.clone(),
            etag: text(&head.headers, &ETAG),
            last_modified: text(&head.headers, &LAST_MODIFIED),
            revision: target.location.revision.clone(),
            content_type: text(&head.headers, &CONTENT_TYPE),
            content_length: arrived.file.bytes,
            format: examined.format.clone(),
            expected_checksum: expected,
            downloaded_at: now,
            target_formats: state.wanted.formats.clone(),
            imports: examined.imports.clone(),
            validation: examined.validation.clone(),
            artifacts: Vec::new(),
            resolver_attempts: attempts,
            notes,
        }
    }
}

fn never(reason: AbsenceReason, detail: String, head: &ResponseHead) -> Verdict {
    let status = Some(head.status.as_u16());
    Verdict::Never(Absence { reason, detail }, status)
}

/// Returns the version and its origin: the file, the source, or the date with the checksum.
fn version(
    target: &GatedLocation,
    examined: &ExaminedFile,
    sha256: &str,
    now: &str,
) -> (String, String) {
    if let Some((version, from)) = &examined.version {
        return (version.clone(), from.clone());
    }
    if let Some(version) = &target.location.version {
        return (version.clone(), "source".to_owned());
    }
    let date = now.get(..10).unwrap_or("undated");
    (
        format!("{date}-{sha256:.8}"),
        "date and checksum".to_owned(),
    )
}

/// Lists the files of a version.
fn artifacts(version: &Path) -> std::io::Result<Vec<Artifact>> {
    let mut found = Vec::new();
    for part in ["original", "normalized", "validation"] {
        let mut directories = vec![PathBuf::from(part)];
        let mut files: Vec<PathBuf> = Vec::new();
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(version.join(&directory))? {
                let entry = entry?;
                let path = directory.join(entry.file_name());
                // Links are not followed; archives with a link are refused.
                match entry.file_type()? {
                    kind if kind.is_dir() => directories.push(path),
                    kind if kind.is_file() => files.push(path),
                    _ => {}
                }
            }
        }
        files.sort();
        for path in files {
            let file = version.join(&path);
            found.push(Artifact {
                sha256: sha256_of(&file)?,
                bytes: std::fs::metadata(&file)?.len(),
                path: path.display().to_string(),
            });
        }
    }
    Ok(found)
}
