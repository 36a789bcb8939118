//! Zip archives.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::result::ZipError;

use super::{ExtractedFile, UnpackError, UnpackLimits, copy_hashed};

const END_RECORD: &[u8] = b"PK\x05\x06";
const ZIP64_LOCATOR: &[u8] = b"PK\x06\x07";
const END_RECORD_BYTES: usize = 22;
const MAX_ZIP_COMMENT_BYTES: usize = u16::MAX as usize;

/// Extracts a zip archive into the new directory `target`, which becomes visible only when it is
/// complete.
///
/// An archive is refused if it has any of these:
/// - Names that are absolute, or contain `..`, backslashes or control characters.
/// - Links and other special files.
/// - Encrypted or duplicate entries, or too many entries.
/// - Output beyond the [`UnpackLimits`].
///
/// # Errors
/// [`UnpackError`] if the archive is refused or corrupt, `target` exists, or a file operation
/// fails.
pub fn extract_zip(
    mut archive: impl Read + Seek,
    target: &Path,
    limits: UnpackLimits,
) -> Result<Vec<ExtractedFile>, UnpackError> {
    let refused = |reason: String| Err(UnpackError::Refused(reason));
    if target.symlink_metadata().is_ok() {
        let message = format!("{} exists", target.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message).into());
    }
    let entries = entry_count(&mut archive)?;
    if entries > limits.max_entries as u64 {
        return refused(format!(
            "it has {entries} entries, more than {}",
            limits.max_entries
        ));
    }
    let mut archive = ZipArchive::new(archive).map_err(zip_error)?;
    if archive.len() as u64 != entries {
        return refused("it has entries of the same name, or its directory is corrupt".to_owned());
    }
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let staging = tempfile::Builder::new()
        .prefix(".unpack-")
        .tempdir_in(parent)?;
    let mut extracted = Vec::new();
    let mut total = 0;
    for index in 0..archive.len() {
        let files = extract_entry(&mut archive, index, staging.path(), &limits, &mut total)?;
        extracted.extend(files);
    }
    fs::rename(staging.keep(), target)?;
    Ok(extracted)
}

fn extract_entry<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    index: usize,
    directory: &Path,
    limits: &UnpackLimits,
    total: &mut u64,
) -> Result<Option<ExtractedFile>, UnpackError> {
    let mut entry = archive.by_index(index).map_err(zip_error)?;
    let name = entry.name().map_err(zip_error)?.into_owned();
    let refused =
        |reason: String| UnpackError::Refused(format!("{}: {reason}", name.escape_debug()));
    let path = safe_path(&name, limits).map_err(refused)?;
    if entry.encrypted() {
        return Err(refused("the entry is encrypted".to_owned()));
    }
    // The upper bits of the mode are the kind of file. If they are zero, the entry is a plain file.
    let kind = entry.unix_mode().unwrap_or(0) & 0o170_000;
    if entry.is_symlink() || !matches!(kind, 0 | 0o100_000 | 0o040_000) {
        return Err(refused("the entry is a link or a special file".to_owned()));
    }
    let full = directory.join(&path);
    if entry.is_dir() {
        fs::create_dir_all(&full)?;
        return Ok(None);
    }
    if let Some(parent) = full.parent() {
        fs::create_dir_all(parent)?;
    }
    let compressed = entry.compressed_size();
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&full)?;
    let mut limited = LimitedReader {
        inner: &mut entry,
        limits,
        compressed,
        output: 0,
        total,
        excess: None,
    };
    let copied = copy_hashed(&mut limited, &mut file);
    match (limited.excess.take(), copied) {
        (Some(reason), _) => Err(refused(reason)),
        (None, Ok((bytes, sha256))) => Ok(Some(ExtractedFile {
            path,
            bytes,
            sha256,
        })),
        (None, Err(error)) if is_corruption(&error) => Err(refused(error.to_string())),
        (None, Err(error)) => Err(error.into()),
    }
}

fn is_corruption(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof
    )
}

/// Counts the actual output of an entry, because the sizes that the archive declares are not
/// trusted.
struct LimitedReader<'a, R> {
    inner: &'a mut R,
    limits: &'a UnpackLimits,
    compressed: u64,
    output: u64,
    total: &'a mut u64,
    excess: Option<String>,
}

impl<R: Read> Read for LimitedReader<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.output += read as u64;
        *self.total += read as u64;
        let excess = self.limits.excess(self.compressed, self.output);
        let excess = excess.or_else(|| self.limits.excess(u64::MAX, *self.total));
        if excess.is_some() {
            self.excess = excess;
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        Ok(read)
    }
}

fn zip_error(error: ZipError) -> UnpackError {
    match error {
        ZipError::Io(error) if !is_corruption(&error) => UnpackError::Io(error),
        other => UnpackError::Refused(other.to_string()),
    }
}

/// Returns the path of an entry, or an error if the path could leave its directory on any operating
/// system.
fn safe_path(name: &str, limits: &UnpackLimits) -> Result<PathBuf, String> {
    let mut path = PathBuf::new();
    let mut depth = 0;
    if name.contains(['\\', ':']) || name.chars().any(char::is_control) {
        return Err("the name has a backslash, colon or control character".to_owned());
    }
    if name.starts_with('/') {
        return Err("the name is absolute".to_owned());
    }
    for part in name.strip_suffix('/').unwrap_or(name).split('/') {
        depth += 1;
        match part {
            "" | "." | ".." => {
                return Err("the name leaves its directory, or has empty parts".to_owned());
            }
            _ if part.len() > 255 => return Err("the name is too long".to_owned()),
            _ if depth > limits.max_depth + 1 => {
                return Err(format!(
                    "it lies more than {} directories deep",
                    limits.max_depth
                ));
            }
            _ => path.push(part),
        }
    }
    Ok(path)
}

/// Returns the number of entries that the archive declares, without reading them into memory.
fn entry_count(archive: &mut (impl Read + Seek)) -> Result<u64, UnpackError> {
    let length = archive.seek(SeekFrom::End(0))?;
    let tail_length = length.min((END_RECORD_BYTES + MAX_ZIP_COMMENT_BYTES + 20) as u64);
    archive.seek(SeekFrom::Start(length - tail_length))?;
    let mut tail = Vec::new();
    archive.by_ref().take(tail_length).read_to_end(&mut tail)?;
    let at = memchr::memmem::rfind(&tail, END_RECORD)
        .filter(|&at| at + END_RECORD_BYTES <= tail.len())
        .ok_or_else(|| UnpackError::Refused("it is no zip archive, or cut short".to_owned()))?;
    let count = u64::from(u16::from_le_bytes([tail[at + 10], tail[at + 11]]));
    let Some(locator) = at
        .checked_sub(20)
        .filter(|&at| tail[at..].starts_with(ZIP64_LOCATOR))
    else {
        archive.seek(SeekFrom::Start(0))?;
        return Ok(count);
    };
    let offset = little_endian(&tail[locator + 8..locator + 16]);
    archive.seek(SeekFrom::Start(offset.min(length)))?;
    let mut record = Vec::new();
    archive.by_ref().take(40).read_to_end(&mut record)?;
    archive.seek(SeekFrom::Start(0))?;
    if record.len() < 40 {
        return Err(UnpackError::Refused(
            "its directory is cut short".to_owned(),
        ));
    }
    Ok(little_endian(&record[32..40]))
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, &byte| value << 8 | u64::from(byte))
}
