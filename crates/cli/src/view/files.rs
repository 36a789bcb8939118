//! Large files: a line for each on a terminal, and a plain line for every tenth of a file.

use std::collections::HashMap;
use std::sync::Arc;

use docstokg_bulk::progress::{ActiveFile, RunProgress};
use docstokg_telemetry::summary::bytes;
use parking_lot::Mutex;

/// Minimum size of a file with lines of its own, in bytes.
const LARGE_FILE_BYTES: u64 = 50 << 20;
/// Maximum number of files that a terminal shows.
const MAX_LINES: usize = 3;

/// The last reports about large files.
#[derive(Default)]
pub(super) struct LargeFiles {
    /// The last reported tenths and phase, by name.
    told: Mutex<HashMap<String, (u64, &'static str)>>,
}

fn is_large(file: &Arc<ActiveFile>) -> bool {
    file.transfer
        .expected()
        .unwrap_or(0)
        .max(file.transfer.received())
        >= LARGE_FILE_BYTES
}

/// Describes the progress of a file.
fn sentence(file: &ActiveFile) -> String {
    let received = bytes(file.transfer.received());
    match (file.phase(), file.transfer.expected()) {
        ("downloading", Some(expected)) => format!(
            "{}: downloading, {received} of {} ({} %)",
            file.name,
            bytes(expected),
            percent(file, 100)
        ),
        (phase, _) => format!("{}: {phase}, {received}", file.name),
    }
}

/// Returns the downloaded share of a file, in parts of its expected size.
fn percent(file: &ActiveFile, parts: u64) -> u64 {
    let Some(expected) = file.transfer.expected() else {
        return 0;
    };
    let share = u128::from(file.transfer.received()) * u128::from(parts) / u128::from(expected);
    u64::try_from(share).unwrap_or(parts).min(parts)
}

/// Returns the lines for a terminal: the largest files.
pub(super) fn lines(progress: &RunProgress) -> Vec<String> {
    let files = progress.files();
    let large = files.iter().filter(|file| is_large(file)).take(MAX_LINES);
    large.map(|file| sentence(file)).collect()
}

impl LargeFiles {
    /// Returns plain lines: one for every tenth of a large file, and one for each later phase.
    pub(super) fn news(&self, progress: &RunProgress) -> Vec<String> {
        let mut told = self.told.lock();
        let mut news = Vec::new();
        for file in progress.files().iter().filter(|file| is_large(file)) {
            let now = (percent(file, 10), file.phase());
            let before = told.insert(file.name.clone(), now);
            if before != Some(now) && now != (0, "downloading") {
                news.push(sentence(file));
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_file_has_no_progress_line() {
        let progress = RunProgress::default();
        let file = progress.work_on("hp");
        assert!(lines(&progress).is_empty());
        assert!(LargeFiles::default().news(&progress).is_empty());
        file.set_phase("reading");
        assert_eq!(sentence(&file), "hp: reading, 0 B");
        drop(file);
        assert!(progress.files().is_empty(), "it is shown while it lives");
    }
}
