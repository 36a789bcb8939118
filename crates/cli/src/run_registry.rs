//! The runs of a state directory: which there were, and in which directories they work. One small
//! file for each, so that runs do not wait for each other.

use std::path::{Path, PathBuf};

use docstokg_bulk::run_snapshot::RunSnapshot;
use docstokg_hub::stores::private;

/// The directory of these files, below the state directory.
const RUNS_DIRECTORY: &str = "runs";
/// The greatest number of runs that are remembered.
const MAX_RUNS: usize = 200;

/// Remembers a run, or how it ended. If that fails, only the list of runs lacks it.
pub(crate) fn remember(snapshot: &RunSnapshot) {
    let directory = snapshot.state_directory.join(RUNS_DIRECTORY);
    if private::make_directory(&snapshot.state_directory)
        .and_then(|()| private::make_directory(&directory))
        .is_err()
    {
        return;
    }
    let _ = snapshot.write_file(&directory.join(format!("{}.json", snapshot.run_id)));
    for forgotten in files(&directory).into_iter().skip(MAX_RUNS) {
        let _ = std::fs::remove_file(forgotten);
    }
}

/// Lists the runs of a state directory, the newest first.
pub(crate) fn list(state_directory: &Path) -> Vec<RunSnapshot> {
    let files = files(&state_directory.join(RUNS_DIRECTORY)).into_iter();
    files
        .filter_map(|path| RunSnapshot::read_file(&path))
        .collect()
}

/// Lists the files, the newest first: the ids of runs sort by time.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort_by(|a, b| b.cmp(a));
    files
}
