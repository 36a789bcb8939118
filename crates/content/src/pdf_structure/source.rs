//! A file of which parts are read: it may be larger than memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// How much is read at once where all of a file is.
pub(super) const CHUNK_BYTES: usize = 256 << 10;
/// How much is read, all together, of objects that are longer than the first part of them that is
/// read, and of streams of objects. A comment behind every object makes each of them as long as the
/// file.
const MAX_OBJECT_BYTES: u64 = 32 << 20;
/// How much the streams of a file may expand to, all together, when zeros in them are judged.
const MAX_EXPANDED_BYTES: u64 = 1 << 30;

/// A file of which parts are read.
pub(super) struct PdfSource {
    file: File,
    pub(super) length: u64,
    objects_left: u64,
    /// How much more of streams is read when zeros in them are judged. The streams of a file are
    /// together not longer than the file, unless they overlap.
    streams_left: u64,
    /// How much more the streams of the file may expand to.
    pub(super) expanded_left: u64,
    /// How much was read in all, and at once at most.
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

    /// Takes the cost of reading more of an object from the budget of the file. Returns `false` if
    /// too much was read already.
    pub(super) fn spend_on_objects(&mut self, bytes: u64) -> bool {
        let is_enough = self.objects_left > 0;
        self.objects_left = self.objects_left.saturating_sub(bytes);
        is_enough
    }

    /// Takes the cost of reading a stream from the budget of the file. Returns `false` if too much
    /// was read already.
    pub(super) fn spend_on_streams(&mut self, bytes: u64) -> bool {
        let is_enough = bytes <= self.streams_left;
        self.streams_left = self.streams_left.saturating_sub(bytes);
        is_enough
    }

    /// Reads up to `most` bytes from a place on; none beyond the end.
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
