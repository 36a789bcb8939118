//! The tracked files that the check reads.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::source::{self, SourceRegion};

/// Extensions of documents and other texts, besides Rust.
const TEXT_EXTENSIONS: &[&str] = &["md", "toml", "yaml", "yml", "lua", "sql"];

/// A tracked file with its text.
pub(super) struct TrackedFile {
    /// The path from the root of the workspace.
    pub(super) path: String,
    pub(super) text: String,
    /// Code, comments and strings of a Rust file; empty for any other file.
    pub(super) regions: Vec<SourceRegion>,
    /// The offset after each line end.
    line_ends: Vec<usize>,
}

impl TrackedFile {
    /// Prepares the text of a file.
    pub(super) fn new(path: &str, text: String) -> Self {
        let regions = if has_extension(path, "rs") {
            source::scan(&text)
        } else {
            Vec::new()
        };
        let line_ends = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        Self {
            path: path.to_owned(),
            text,
            regions,
            line_ends,
        }
    }

    /// Returns true if the file is Rust source.
    pub(super) fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }

    /// Returns true if the file is Rust source of a library or a program, not of its tests.
    pub(super) fn is_product(&self) -> bool {
        self.is_rust() && self.path.contains("/src/") && !self.path.contains("/tests")
    }

    /// Returns true if the file is a document.
    pub(super) fn is_document(&self) -> bool {
        has_extension(&self.path, "md")
    }

    /// Returns the line of a byte, from 1.
    pub(super) fn line_of(&self, at: usize) -> usize {
        1 + self.line_ends.partition_point(|end| *end <= at)
    }
}

/// Every file that the check reads, and the paths of all other files.
pub(super) struct TrackedFiles {
    pub(super) files: Vec<TrackedFile>,
    /// Every tracked path, for any kind of file.
    pub(super) paths: Vec<String>,
}

impl TrackedFiles {
    /// Reads the files that git tracks. A file that was deleted but not committed is left out.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let output = Command::new("git")
            .arg("-C")
            .arg(root)
            .args(["ls-files", "-z"])
            .output();
        let output = output.context("git cannot be started")?;
        if !output.status.success() {
            bail!(
                "git ls-files failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let paths = String::from_utf8(output.stdout).context("a path that is not UTF-8")?;
        let paths = paths.split_terminator('\0').map(str::to_owned);
        let paths: Vec<String> = paths.filter(|path| root.join(path).is_file()).collect();
        let wanted: Vec<&String> = paths.iter().filter(|path| is_read(path)).collect();
        let (first, second) = wanted.split_at(wanted.len() / 2);
        let mut files = std::thread::scope(|scope| {
            let other = scope.spawn(|| read_all(root, second));
            let mut files = read_all(root, first)?;
            match other.join() {
                Ok(others) => files.extend(others?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
            anyhow::Ok(files)
        })?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files, paths })
    }
}

fn is_read(path: &str) -> bool {
    let is_text = TEXT_EXTENSIONS
        .iter()
        .any(|extension| has_extension(path, extension));
    has_extension(path, "rs") || (is_text && !path.contains("fixtures"))
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|found| found == extension)
}

fn read_all(root: &Path, paths: &[&String]) -> anyhow::Result<Vec<TrackedFile>> {
    let read = |path: &&String| {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| (*path).clone())?;
        Ok(TrackedFile::new(path, text))
    };
    paths.iter().map(read).collect()
}
