//! Opens compressed and packed files, with limits on the size of their output.
//!
//! An archive must neither fill the disk nor write outside of its directory. Archives within
//! archives are not unpacked.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use docstokg_hub::files::hex;
use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

mod zip_archive;

pub use zip_archive::extract_zip;

/// Size of output that is always allowed, whatever the size of the input, in bytes.
const FREE_BYTES: u64 = 1 << 20;

/// Limits on the output of a packed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Maximum size of the output, as a multiple of the compressed size. For real ontologies, the
    /// multiple is 4 to 24.
    pub max_ratio: u64,
    /// Maximum number of files and directories in an archive.
    pub max_entries: usize,
    /// Maximum nesting of directories.
    pub max_depth: usize,
    /// Maximum size of all files together, in bytes.
    pub max_total_bytes: u64,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self {
            max_ratio: 100,
            max_entries: 50_000,
            max_depth: 32,
            max_total_bytes: 10 << 30,
        }
    }
}

impl UnpackLimits {
    /// Returns the message if `output` bytes are too many for `input` compressed bytes; `None` if
    /// they are allowed.
    fn excess(&self, input: u64, output: u64) -> Option<String> {
        if output > self.max_total_bytes {
            return Some(format!(
                "it unpacks to more than {} bytes",
                self.max_total_bytes
            ));
        }
        let allowed = input
            .saturating_mul(self.max_ratio)
            .saturating_add(FREE_BYTES);
        (output > allowed)
            .then(|| format!("it unpacks to more than {} times its size", self.max_ratio))
    }
}

/// The reason why a packed file was not opened.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The archive is corrupt, or has content that is not accepted.
    #[error("the archive is refused: {0}")]
    Refused(String),
    /// A file could not be read or written.
    #[error("cannot unpack the archive: {0}")]
    Io(#[from] io::Error),
}

/// A file that was extracted from an archive by [`extract_zip`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractedFile {
    /// The path below the target directory.
    pub path: PathBuf,
    /// The size, in bytes.
    pub bytes: u64,
    /// The SHA-256 of the file, 64 hexadecimal digits.
    pub sha256: String,
}

/// Returns a reader of the content of a gzip stream, with one or more members.
///
/// Reading fails with [`io::ErrorKind::InvalidData`] if the output exceeds the limits or the stream
/// is corrupt. Reading fails with [`io::ErrorKind::UnexpectedEof`] if the stream is cut short.
pub fn gunzip<R: Read>(reader: R, limits: UnpackLimits) -> Gunzip<R> {
    Gunzip {
        decoder: MultiGzDecoder::new(MeteredReader {
            inner: reader,
            bytes: 0,
        }),
        limits,
        output: 0,
    }
}

/// The reader that [`gunzip`] returns.
#[derive(Debug)]
pub struct Gunzip<R> {
    decoder: MultiGzDecoder<MeteredReader<R>>,
    limits: UnpackLimits,
    output: u64,
}

impl<R: Read> Gunzip<R> {
    /// Returns the number of compressed bytes that were read so far.
    #[must_use]
    pub fn compressed_bytes(&self) -> u64 {
        self.decoder.get_ref().bytes
    }
}

impl<R: Read> Read for Gunzip<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(out)?;
        self.output += read as u64;
        match self.limits.excess(self.compressed_bytes(), self.output) {
            Some(reason) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the gzip stream is refused: {reason}"),
            )),
            None => Ok(read),
        }
    }
}

#[derive(Debug)]
struct MeteredReader<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for MeteredReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Unpacks a gzip stream to the file `target`, which becomes visible only when it is complete.
///
/// # Errors
/// [`UnpackError`] if the stream exceeds a limit, is corrupt or cut short, or a file operation
/// fails.
pub fn extract_gzip(
    reader: impl Read,
    target: &Path,
    limits: UnpackLimits,
) -> Result<ExtractedFile, UnpackError> {
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    let copied = copy_hashed(&mut gunzip(reader, limits), &mut file);
    let (bytes, sha256) = copied.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            UnpackError::Refused(error.to_string())
        }
        io::ErrorKind::UnexpectedEof => {
            UnpackError::Refused("the gzip stream is cut short".to_owned())
        }
        _ => error.into(),
    })?;
    file.as_file().sync_all()?;
    file.persist(target).map_err(|error| error.error)?;
    let path = target.file_name().map(PathBuf::from).unwrap_or_default();
    Ok(ExtractedFile {
        path,
        bytes,
        sha256,
    })
}

fn copy_hashed(reader: &mut impl Read, writer: &mut impl Write) -> io::Result<(u64, String)> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    let mut bytes = 0;
    loop {
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
        writer.write_all(&buffer[..read])?;
        bytes += read as u64;
    }
    Ok((bytes, hex(&digest.finalize())))
}

#[cfg(test)]
#[path = "unpack/tests.rs"]
mod tests;
