//! Converts byte offsets to line numbers, for parsers that report offsets only.

use std::collections::VecDeque;

/// Size of the part of a text, up to its newest byte, in which offsets can be converted.
const WINDOW_BYTES: u64 = 1 << 20;

/// The offsets of recent newlines, for [`LineIndex::position`].
#[derive(Debug, Default)]
pub(crate) struct LineIndex {
    /// Offsets of the bytes after newlines, oldest first.
    starts: VecDeque<u64>,
    /// Number of newlines that are no longer in `starts`.
    forgotten: u64,
    /// Start of the line before the first line in `starts`.
    oldest_start: u64,
    passed: u64,
}

impl LineIndex {
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        for at in memchr::memchr_iter(b'\n', bytes) {
            self.starts.push_back(self.passed + at as u64 + 1);
        }
        self.passed += bytes.len() as u64;
        while let Some(&start) = self.starts.front()
            && start + WINDOW_BYTES < self.passed
        {
            self.oldest_start = start;
            self.forgotten += 1;
            self.starts.pop_front();
        }
    }

    /// Returns line and column of an offset, from 1. Columns count bytes.
    pub(crate) fn position(&self, offset: u64) -> (u64, u64) {
        let behind = self.starts.partition_point(|&start| start <= offset);
        let start = behind
            .checked_sub(1)
            .map_or(self.oldest_start, |at| self.starts[at]);
        (
            self.forgotten + behind as u64 + 1,
            offset.saturating_sub(start) + 1,
        )
    }

    /// Returns the line of the newest byte.
    pub(crate) fn last_line(&self) -> u64 {
        self.forgotten + self.starts.len() as u64 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_have_lines_also_after_old_ones_are_forgotten() {
        let mut index = LineIndex::default();
        index.pass(b"one\ntwo\n");
        index.pass(b"three");
        assert_eq!(index.position(0), (1, 1));
        assert_eq!(index.position(3), (1, 4));
        assert_eq!(index.position(4), (2, 1));
        assert_eq!(index.position(10), (3, 3));
        index.pass(&b"\n".repeat(200_000));
        assert_eq!(index.last_line(), 200_003);
        assert_eq!(index.position(13 + 199_999), (200_002, 1));
    }
}
