//! A body to a file: under a temporary name, hashed on the way, then renamed into its place.
//!
//! Whatever happens, the final name is either absent, the old file, or the new one complete.
//! Temporary files are removed when a download fails; what a killed process leaves is named
//! `.NAME.part-…` and recognisable.

use std::fs::{File, FileType};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::clock::Random;
use crate::config::Durability;
use crate::files::hex;
use crate::response::SavedFile;

mod ends;
mod hash;
mod partial;
mod sync;
mod transfer;

pub use ends::FileEnds;
use hash::FileHashing;
use partial::BegunDownload;
pub(crate) use partial::{ResumableDownload, ResumeStart};
use sync::Syncer;
pub use transfer::Transfer;

/// What every file of a hub is written with.
#[derive(Clone)]
pub(crate) struct FileWriter {
    /// What finished files survive.
    durability: Durability,
    syncer: Syncer,
    random: Random,
}

impl FileWriter {
    pub(crate) fn new(durability: Durability, random: Random) -> Self {
        Self {
            durability,
            syncer: Syncer::default(),
            random,
        }
    }

    /// Creates the temporary file of a download.
    pub(crate) fn create(&self, path: &Path) -> io::Result<PartFile> {
        PartFile::create(path, self.random.number())
    }

    /// Gives a complete file its name, made durable as the configuration says.
    pub(crate) async fn keep(&self, file: &Path, path: &Path) -> io::Result<()> {
        match self.durability {
            Durability::None => std::fs::rename(file, path),
            Durability::Batched => self.syncer.commit(File::open(file)?, file, path).await,
        }
    }

    /// Finishes a download: its file appears under its name, made durable as the configuration
    /// says.
    pub(crate) async fn finish(&self, part: PartFile) -> io::Result<SavedFile> {
        part.finish(self.durability, &self.syncer).await
    }

    /// Finishes a download that its caller makes durable later, with [`FileWriter::keep`].
    pub(crate) async fn finish_for_now(&self, part: PartFile) -> io::Result<SavedFile> {
        part.finish(Durability::None, &self.syncer).await
    }
}

/// A file being written.
pub(crate) struct PartFile {
    file: File,
    /// The temporary name; none for a device, which is written to and never replaced.
    part: Option<PathBuf>,
    path: PathBuf,
    hash: FileHashing,
    ends: FileEnds,
    bytes: u64,
    done: bool,
    /// What is left of a download that breaks off is kept, so that it can be resumed.
    partial: Option<ResumableDownload>,
}

impl PartFile {
    /// Creates the temporary file beside its final place.
    fn create(path: &Path, tag: u64) -> io::Result<Self> {
        if path.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        if let Ok(found) = std::fs::metadata(path)
            && !found.is_file()
        {
            return Self::device(path, found.file_type());
        }
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
        let mut part_name = std::ffi::OsString::from(".");
        part_name.push(shortened(name));
        part_name.push(format!(".part-{tag:016x}"));
        let part = path.with_file_name(part_name);
        let file = File::options().write(true).create_new(true).open(&part)?;
        Ok(Self::new(file, Some(part), path))
    }

    /// Opens the part file of a download that may be resumed.
    pub(crate) fn resume(
        path: &Path,
        mut partial: ResumableDownload,
        start: ResumeStart,
    ) -> io::Result<Self> {
        let BegunDownload {
            file,
            hash,
            ends,
            bytes,
        } = partial.open(start)?;
        let part = Some(partial.part().to_owned());
        Ok(Self {
            file,
            part,
            path: path.to_owned(),
            hash: FileHashing::from(hash),
            ends,
            bytes,
            done: false,
            partial: Some(partial),
        })
    }

    /// Records what is needed to resume a large body, before it is read.
    pub(crate) fn note_begun(&mut self, url: &Url, headers: &HeaderMap, expected: Option<u64>) {
        if let Some(partial) = &mut self.partial {
            partial.note_begun(url, headers, expected);
        }
    }

    /// Records what is needed to resume a body that broke off.
    pub(crate) fn note_broken_off(&mut self, url: &Url, headers: &HeaderMap) {
        if let Some(partial) = &mut self.partial {
            partial.note(url, headers);
        }
    }

    /// Opens a device such as `/dev/null`. A file renamed onto it would replace it for every
    /// process.
    fn device(path: &Path, kind: FileType) -> io::Result<Self> {
        if !kind.is_char_device() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is neither a file nor a device",
            ));
        }
        let file = File::options().write(true).open(path)?;
        Ok(Self::new(file, None, path))
    }

    fn new(file: File, part: Option<PathBuf>, path: &Path) -> Self {
        let (hash, ends) = (FileHashing::from(Sha256::new()), FileEnds::default());
        Self {
            file,
            part,
            path: path.to_owned(),
            hash,
            ends,
            bytes: 0,
            done: false,
            partial: None,
        }
    }

    /// Returns how many bytes are there.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a piece.
    pub(crate) async fn write(&mut self, piece: &Bytes) -> io::Result<()> {
        self.hash.update(piece).await;
        self.ends.take(piece);
        self.file.write_all(piece)?;
        self.bytes += piece.len() as u64;
        Ok(())
    }

    /// Makes the file durable as asked, and gives it its name.
    async fn finish(mut self, durability: Durability, syncer: &Syncer) -> io::Result<SavedFile> {
        let hash = std::mem::replace(&mut self.hash, FileHashing::from(Sha256::new()))
            .finish()
            .await;
        let hash = hash
            .ok_or_else(|| io::Error::other("the thread that computes its checksum ended early"))?;
        let saved = SavedFile {
            path: self.path.clone(),
            bytes: self.bytes,
            sha256: hex(&hash),
            ends: std::mem::take(&mut self.ends),
        };
        if let Some(part) = &self.part {
            match durability {
                Durability::None => std::fs::rename(part, &self.path)?,
                Durability::Batched => {
                    syncer
                        .commit(self.file.try_clone()?, part, &self.path)
                        .await?;
                }
            }
        }
        self.done = true;
        if let Some(partial) = &mut self.partial {
            partial.forget();
        }
        Ok(saved)
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if self.done
            || self
                .partial
                .as_ref()
                .is_some_and(ResumableDownload::is_noted)
        {
            return;
        }
        if let Some(part) = &self.part {
            // Nothing more can be done about a temporary file that cannot be removed; it is
            // recognisable by its name.
            let _ = std::fs::remove_file(part);
        }
    }
}

/// Cuts a name so that the temporary one around it is not too long for the file system.
fn shortened(name: &std::ffi::OsStr) -> String {
    let mut text = name.to_string_lossy().into_owned();
    while text.len() > 200 {
        text.pop();
    }
    text
}

/// Where a body is to go.
pub(crate) struct FileTarget<'a> {
    pub(crate) files: &'a FileWriter,
    pub(crate) path: Arc<Path>,
    /// Whether an attempt resumes where an earlier one, also of an earlier process, broke off.
    pub(crate) resume: bool,
    /// Where the caller can see how far it is.
    pub(crate) transfer: Option<Arc<Transfer>>,
}
