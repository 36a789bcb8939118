//! Bodies that wait for their reader, in memory if they are short, otherwise in a file without a
//! name.
//!
//! So a caller that reads bodies more slowly than they arrive uses a bounded amount of memory for
//! each. The file is in the directory for temporary files. It disappears when its last handle is
//! closed, even if the process is killed. If no such file can be created, the body stays in memory.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use bytes::Bytes;

/// A body in memory, or in a file without a name.
///
/// ```
/// use docstokg_hub::Request;
/// # use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};
/// # let simulation = Simulation::exact();
/// # let origin = OriginScript::new("api.example").route("/dump", [ScriptedReply::ok("0123456789")]);
/// # let (hub, _web) = simulation.hub([origin]);
/// # simulation.block_on(async move {
/// let request = Request::get("http://api.example/dump".parse()?);
/// let spooled = hub.fetch_spooled(request, 4).await?;
/// assert_eq!(spooled.body.read(100)?, "0123456789");
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug)]
pub struct SpooledBody {
    beginning: Bytes,
    /// A file with the whole body; `None` if all of it is in memory.
    file: Option<File>,
    length: u64,
}

impl From<Bytes> for SpooledBody {
    fn from(bytes: Bytes) -> Self {
        Self {
            length: bytes.len() as u64,
            beginning: bytes,
            file: None,
        }
    }
}

impl SpooledBody {
    /// Returns the beginning of the body, which is in memory; the whole body if it is short.
    #[must_use]
    pub fn beginning(&self) -> &Bytes {
        &self.beginning
    }

    /// Reads the first `most` bytes into memory. Blocks if they are in a file.
    ///
    /// # Errors
    /// Returns an [`io::Error`] if the file cannot be read.
    pub fn read(&self, most: u64) -> io::Result<Bytes> {
        let length = usize::try_from(self.length.min(most)).map_err(io::Error::other)?;
        let Some(file) = self.file.as_ref().filter(|_| length > self.beginning.len()) else {
            return Ok(self.beginning.slice(..length));
        };
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes.into())
    }
}

/// A body that is being received. At its end, it becomes a [`SpooledBody`].
pub(crate) struct Spool {
    beginning: Vec<u8>,
    /// Maximum number of bytes that are kept in memory.
    keep: usize,
    file: Option<File>,
    length: u64,
}

impl Spool {
    pub(crate) fn new(keep: usize) -> Self {
        Self {
            beginning: Vec::new(),
            keep,
            file: None,
            length: 0,
        }
    }

    /// Appends a piece to the body.
    ///
    /// # Errors
    /// Returns an [`io::Error`] if the file cannot be written.
    pub(crate) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.length += piece.len() as u64;
        if let Some(file) = &mut self.file {
            return file.write_all(piece);
        }
        if self.beginning.len() + piece.len() > self.keep {
            match tempfile::tempfile() {
                Ok(mut file) => {
                    file.write_all(&self.beginning)?;
                    file.write_all(piece)?;
                    self.file = Some(file);
                }
                Err(_) => self.keep = usize::MAX,
            }
        }
        let kept = piece.len().min(self.keep - self.beginning.len());
        self.beginning.extend_from_slice(&piece[..kept]);
        Ok(())
    }

    pub(crate) fn finish(self) -> SpooledBody {
        SpooledBody {
            beginning: self.beginning.into(),
            file: self.file,
            length: self.length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_reads_back_whatever_its_length_and_its_pieces() {
        for (length, piece) in [
            (0, 1),
            (1, 1),
            (99, 10),
            (100, 100),
            (101, 100),
            (1_000, 1),
            (5_000, 4_999),
        ] {
            let body: Vec<u8> = (0..length)
                .map(|at| u8::try_from(at % 251).unwrap())
                .collect();
            let mut spool = Spool::new(100);
            for piece in body.chunks(piece) {
                spool.write(piece).unwrap();
            }
            let spooled = spool.finish();
            assert_eq!(spooled.beginning()[..], body[..body.len().min(100)]);
            assert_eq!(spooled.file.is_some(), body.len() > 100);
            assert_eq!(spooled.read(u64::MAX).unwrap(), body);
            for most in [0, 50, 100, 150] {
                let expected = &body[..body.len().min(most)];
                assert_eq!(spooled.read(most as u64).unwrap(), expected);
            }
        }
    }
}
