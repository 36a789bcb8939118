//! Writes a body to a file: under a temporary name, hashed while it is written, and renamed at the
//! end.
//!
//! At every moment, the final name has no file, the old file or the complete new file. Temporary
//! files are removed when a download fails. A killed process leaves a file that its name
//! `.NAME.part-…` identifies.

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

/// Writes all files of a hub. It knows their durability, synchronises them in batches, and numbers
/// the temporary files.
#[derive(Clone)]
pub(crate) struct FileWriter {
    /// The [`Durability`] of finished files.
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

    /// Creates the [`PartFile`] of a download.
    ///
    /// # Errors
    /// Returns an [`io::Error`] if the file cannot be created.
    pub(crate) fn create(&self, path: &Path) -> io::Result<PartFile> {
        PartFile::create(path, self.random.number())
    }

    /// Renames a complete file to its final name, with the configured [`Durability`].
    pub(crate) async fn keep(&self, file: &Path, path: &Path) -> io::Result<()> {
        match self.durability {
            Durability::None => std::fs::rename(file, path),
            Durability::Batched => self.syncer.commit(File::open(file)?, file, path).await,
        }
    }

    /// Finishes a download: renames the file to its final name, with the configured [`Durability`].
    pub(crate) async fn finish(&self, part: PartFile) -> io::Result<SavedFile> {
        part.finish(self.durability, &self.syncer).await
    }

    /// Finishes a download whose caller makes it durable later, by [`FileWriter::keep`].
    pub(crate) async fn finish_for_now(&self, part: PartFile) -> io::Result<SavedFile> {
        part.finish(Durability::None, &self.syncer).await
    }
}

/// A file that is being written.
pub(crate) struct PartFile {
    file: File,
    /// The temporary path; `None` for a device, which is written directly and never replaced.
    part: Option<PathBuf>,
    path: PathBuf,
    hash: FileHashing,
    ends: FileEnds,
    bytes: u64,
    done: bool,
    /// The [`ResumableDownload`] whose part file is kept after an interruption; `None` if the
    /// download cannot be resumed.
    partial: Option<ResumableDownload>,
}

impl PartFile {
    /// Creates a temporary file in the directory of the final one.
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

    /// Opens the part file of a [`ResumableDownload`].
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

    /// Writes the note of a large body before the body is read, so that the download can be
    /// resumed.
    pub(crate) fn note_begun(&mut self, url: &Url, headers: &HeaderMap, expected: Option<u64>) {
        if let Some(partial) = &mut self.partial {
            partial.note_begun(url, headers, expected);
        }
    }

    /// Writes the note of a body that broke off, so that the download can be resumed.
    pub(crate) fn note_broken_off(&mut self, url: &Url, headers: &HeaderMap) {
        if let Some(partial) = &mut self.partial {
            partial.note(url, headers);
        }
    }

    /// Opens a device such as `/dev/null`, to write to it directly: a rename would replace the
    /// device for every process.
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

    /// Returns the number of bytes in the file.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a piece to the file and its hash.
    pub(crate) async fn write(&mut self, piece: &Bytes) -> io::Result<()> {
        self.hash.update(piece).await;
        self.ends.take(piece);
        self.file.write_all(piece)?;
        self.bytes += piece.len() as u64;
        Ok(())
    }

    /// Makes the file durable according to [`Durability`], and renames it to its final name.
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
            // A temporary file that cannot be removed stays behind, but its name identifies it.
            let _ = std::fs::remove_file(part);
        }
    }
}

/// Shortens a name, so that the temporary name fits into the limits of the file system.
fn shortened(name: &std::ffi::OsStr) -> String {
    let mut text = name.to_string_lossy().into_owned();
    while text.len() > 200 {
        text.pop();
    }
    text
}

/// The file to which a body is written.
pub(crate) struct FileTarget<'a> {
    pub(crate) files: &'a FileWriter,
    pub(crate) path: Arc<Path>,
    /// `true` if the download may continue an earlier attempt, even one of an earlier process, and
    /// can be continued itself.
    pub(crate) resume: bool,
    /// The [`Transfer`] that shows the progress to the caller, if any.
    pub(crate) transfer: Option<Arc<Transfer>>,
}
