//! A file of which parts are read: it may be larger than memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// How much is read at once where all of a file is.
const CHUNK_BYTES: usize = 256 << 10;

/// A file of which parts are read.
pub(super) struct Source {
    file: File,
    pub(super) length: u64,
}

impl Source {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { file, length })
    }

    /// Reads up to `most` bytes from a place on; none beyond the end.
    pub(super) fn window(&mut self, at: u64, most: u64) -> io::Result<Vec<u8>> {
        let most = most.min(self.length.saturating_sub(at));
        let mut bytes = Vec::with_capacity(usize::try_from(most).unwrap_or(0) + 32);
        if most > 0 {
            self.file.seek(SeekFrom::Start(at))?;
            (&mut self.file).take(most).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }

    /// Reads all of it, piece by piece: each with its place and `overlap` bytes of the next one.
    pub(super) fn each_chunk(
        &mut self,
        overlap: usize,
        mut take: impl FnMut(u64, &[u8]),
    ) -> io::Result<()> {
        let mut at = 0;
        while at < self.length {
            let bytes = self.window(at, (CHUNK_BYTES + overlap) as u64)?;
            if bytes.is_empty() {
                break;
            }
            take(at, &bytes);
            at += CHUNK_BYTES as u64;
        }
        Ok(())
    }
}
