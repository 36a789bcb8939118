//! Partial reads of a file that may be larger than memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The number of bytes read at a time by [`PdfSource::each_chunk`].
pub(super) const CHUNK_BYTES: usize = 256 << 10;
/// Maximum number of bytes that are read for long objects and for object streams of a file. A
/// comment after every object could make each of them as long as the file.
const MAX_OBJECT_BYTES: u64 = 32 << 20;
/// Maximum decompressed size of all streams of a file, in the check of their zeros.
const MAX_EXPANDED_BYTES: u64 = 1 << 30;

/// A file that is read in parts.
pub(super) struct PdfSource {
    file: File,
    pub(super) length: u64,
    objects_left: u64,
    /// The remaining bytes of streams that may be read in the check of their zeros. The streams of
    /// a file together are not longer than the file, unless they overlap.
    streams_left: u64,
    /// The remaining decompressed bytes of streams.
    pub(super) expanded_left: u64,
    /// The number of bytes read in total, and the largest number read at once.
    #[cfg(test)]
    pub(super) read: (u64, u64),
}

impl PdfSource {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            file,
            length,
            objects_left: MAX_OBJECT_BYTES,
            streams_left: length,
            expanded_left: MAX_EXPANDED_BYTES,
            #[cfg(test)]
            read: (0, 0),
        })
    }

    /// Subtracts the cost of reading more of an object from the allowance of the file. Returns
    /// `false` if the allowance is used up.
    pub(super) fn spend_on_objects(&mut self, bytes: u64) -> bool {
        let is_enough = self.objects_left > 0;
        self.objects_left = self.objects_left.saturating_sub(bytes);
        is_enough
    }

    /// Subtracts the cost of reading a stream from the allowance of the file. Returns `false` if
    /// the allowance is used up.
    pub(super) fn spend_on_streams(&mut self, bytes: u64) -> bool {
        let is_enough = bytes <= self.streams_left;
        self.streams_left = self.streams_left.saturating_sub(bytes);
        is_enough
    }

    /// Reads up to `most` bytes from a position. Beyond the end of the file, the result is empty.
    pub(super) fn window(&mut self, at: u64, most: u64) -> io::Result<Vec<u8>> {
        let most = most.min(self.length.saturating_sub(at));
        let mut bytes = Vec::with_capacity(usize::try_from(most).unwrap_or(0) + 32);
        #[cfg(test)]
        {
            self.read = (self.read.0 + most, self.read.1.max(most));
        }
        if most > 0 {
            self.file.seek(SeekFrom::Start(at))?;
            (&mut self.file).take(most).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }

    /// Reads the whole file piece by piece. Each piece has its position and `overlap` bytes of the
    /// next piece.
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
