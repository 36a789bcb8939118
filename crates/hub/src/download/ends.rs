//! The beginning and the end of a file, remembered while it is written, so that the type of the
//! file can be determined without reading it again.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The first and the last bytes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileEnds {
    /// The first bytes, at most [`FileEnds::FIRST`] of them.
    pub first: Vec<u8>,
    /// The last bytes, at most [`FileEnds::LAST`] of them.
    pub last: Vec<u8>,
}

impl FileEnds {
    /// Maximum number of first bytes that are kept.
    pub const FIRST: usize = 64 << 10;
    /// Maximum number of last bytes that are kept.
    pub const LAST: usize = 2 << 10;

    /// Adds the next piece of the file.
    pub(crate) fn take(&mut self, piece: &[u8]) {
        let room = Self::FIRST - self.first.len();
        self.first
            .extend_from_slice(&piece[..piece.len().min(room)]);
        let new = &piece[piece.len().saturating_sub(Self::LAST)..];
        let stale = (self.last.len() + new.len()).saturating_sub(Self::LAST);
        self.last.drain(..stale);
        self.last.extend_from_slice(new);
    }

    /// Reads the ends of an existing file.
    ///
    /// # Errors
    /// Returns an [`io::Error`] if the file cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut ends = Self::default();
        (&mut file)
            .take(Self::FIRST as u64)
            .read_to_end(&mut ends.first)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(Self::LAST as u64)))?;
        file.take(Self::LAST as u64).read_to_end(&mut ends.last)?;
        Ok(ends)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The remembered ends do not depend on the pieces in which the file arrives.
        #[test]
        fn file_ends_of_pieces_equal_those_of_the_whole(
            lengths in prop::collection::vec(0_usize..5_000, 0..40),
        ) {
            let length: usize = lengths.iter().sum();
            let byte = |n: usize| u8::try_from(n * 31 % 251).unwrap();
            let whole: Vec<u8> = (0..length).map(byte).collect();
            let (mut ends, mut rest) = (FileEnds::default(), whole.as_slice());
            for length in lengths {
                let (piece, after) = rest.split_at(length);
                ends.take(piece);
                rest = after;
            }
            prop_assert_eq!(&ends.first[..], &whole[..whole.len().min(FileEnds::FIRST)]);
            prop_assert_eq!(&ends.last[..], &whole[whole.len().saturating_sub(FileEnds::LAST)..]);
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &whole).unwrap();
            prop_assert_eq!(FileEnds::of(file.path()).unwrap(), ends);
        }
    }
}
