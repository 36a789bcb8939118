//! Sorts lines that do not fit into memory: sorted runs in temporary files, merged at the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Maximum number of runs that are merged at once, because each needs an open file and a buffer.
const FAN_IN: usize = 64;
const RUN_BUFFER_BYTES: usize = 64 << 10;

/// Collects lines and returns them in the order of their bytes, without repetitions.
pub(crate) struct LineSorter {
    directory: PathBuf,
    memory: usize,
    text: Vec<u8>,
    /// Start and end of each line in `text`.
    lines: Vec<(usize, usize)>,
    runs: Vec<File>,
}

impl LineSorter {
    /// Creates a sorter that uses about `memory` bytes and writes its temporary files to
    /// `directory`.
    pub(crate) fn new(directory: &Path, memory: usize) -> Self {
        Self {
            directory: directory.to_owned(),
            memory,
            text: Vec::new(),
            lines: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Adds a line without a newline.
    pub(crate) fn push(&mut self, line: &[u8]) -> io::Result<()> {
        let start = self.text.len();
        self.text.extend_from_slice(line);
        self.lines.push((start, self.text.len()));
        let held = self.text.len() + self.lines.len() * size_of::<(usize, usize)>();
        if held >= self.memory {
            self.spill()
        } else {
            Ok(())
        }
    }

    fn sort(&mut self) {
        let text = &self.text;
        self.lines
            .sort_unstable_by(|a, b| text[a.0..a.1].cmp(&text[b.0..b.1]));
        self.lines.dedup_by(|a, b| text[a.0..a.1] == text[b.0..b.1]);
    }

    fn spill(&mut self) -> io::Result<()> {
        self.sort();
        let mut writer = BufWriter::new(tempfile::tempfile_in(&self.directory)?);
        for &(start, end) in &self.lines {
            writer.write_all(&self.text[start..end])?;
            writer.write_all(b"\n")?;
        }
        self.runs.push(rewound(writer)?);
        self.text.clear();
        self.lines.clear();
        if self.runs.len() == FAN_IN {
            let runs = std::mem::take(&mut self.runs);
            let mut writer = BufWriter::new(tempfile::tempfile_in(&self.directory)?);
            merge(runs, &mut |line| {
                writer.write_all(line)?;
                writer.write_all(b"\n")
            })?;
            self.runs.push(rewound(writer)?);
        }
        Ok(())
    }

    /// Passes every distinct line to the callback, in the order of the bytes.
    pub(crate) fn finish(
        mut self,
        on_line: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.runs.is_empty() {
            self.sort();
            return self
                .lines
                .iter()
                .try_for_each(|&(start, end)| on_line(&self.text[start..end]));
        }
        if !self.lines.is_empty() {
            self.spill()?;
        }
        (self.text, self.lines) = (Vec::new(), Vec::new());
        merge(self.runs, on_line)
    }
}

fn rewound(writer: BufWriter<File>) -> io::Result<File> {
    let mut file = writer
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

fn merge(runs: Vec<File>, on_line: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut readers: Vec<_> = runs
        .into_iter()
        .map(|run| BufReader::with_capacity(RUN_BUFFER_BYTES, run))
        .collect();
    let mut heads = BinaryHeap::new();
    for (at, reader) in readers.iter_mut().enumerate() {
        let mut line = Vec::new();
        if next_line(reader, &mut line)? {
            heads.push(Reverse((line, at)));
        }
    }
    let mut last: Option<Vec<u8>> = None;
    while let Some(Reverse((line, at))) = heads.pop() {
        let mut spare = if last.as_ref() == Some(&line) {
            line
        } else {
            on_line(&line)?;
            last.replace(line).unwrap_or_default()
        };
        if next_line(&mut readers[at], &mut spare)? {
            heads.push(Reverse((spare, at)));
        }
    }
    Ok(())
}

fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    reader.read_until(b'\n', line)?;
    Ok(line.pop().is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_come_back_sorted_and_once(
            lines in proptest::collection::vec("[a-c]{0,4}", 0..200),
            memory in 1usize..4000,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let mut sorter = LineSorter::new(directory.path(), memory);
            for line in &lines {
                sorter.push(line.as_bytes()).unwrap();
            }
            let mut sorted = Vec::new();
            sorter.finish(&mut |line| {
                sorted.push(String::from_utf8(line.to_vec()).unwrap());
                Ok(())
            }).unwrap();
            let expected: std::collections::BTreeSet<_> = lines.into_iter().collect();
            prop_assert_eq!(sorted, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
