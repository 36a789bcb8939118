//! Lock files of `plan`, `plan-diff` and `pull`, with a warning about each requested ontology that a
//! file lacks.

use std::path::Path;

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_ontology::lock::LockFile;
use docstokg_ontology::pull::{DeferredOntology, PullOutcome};

use super::run::PullResult;
use crate::arguments::GlobalArguments;
use crate::exit::CommandFailure;
use crate::output;
use crate::view::clock_time;

/// Maximum number of missing ontologies that a warning names.
const MAX_NAMED: usize = 20;

/// Makes the lock file of a run.
pub(super) fn of(done: &PullResult) -> LockFile {
    let now = SystemClock.wall().to_string();
    LockFile::of(&done.results, &now).with_deferred(&done.deferred)
}

/// Writes the lock file of a run, and warns about ontologies that the file lacks.
pub(super) fn write(
    global: &GlobalArguments,
    done: &PullResult,
    path: &Path,
) -> Result<(), CommandFailure> {
    of(done)
        .write(path)
        .map_err(|error| CommandFailure::Failed(error.into()))?;
    if !global.quiet
        && let Some(missing) = missing(done)
    {
        let path = path.display();
        output::print_note(&format!("warning: {path} lacks {missing}"));
    }
    Ok(())
}

/// Reads a lock file, and warns about ontologies that the file lacks because they were deferred.
pub(super) fn read(global: &GlobalArguments, path: &Path) -> Result<LockFile, CommandFailure> {
    let lock = LockFile::read(path).map_err(|error| CommandFailure::Usage(error.to_string()))?;
    let named = lock.deferred.iter();
    let named = named.map(|waiting| format!("{} (waited for {})", waiting.id, waiting.host));
    let named: Vec<String> = named.collect();
    if !named.is_empty() && !global.quiet {
        output::print_note(&format!(
            "warning: {} lacks {}; write it again to pin the rest",
            path.display(),
            joined(&named, named.len())
        ));
    }
    Ok(lock)
}

/// Names the requested ontologies without an entry; `None` if every ontology has one.
fn missing(done: &PullResult) -> Option<String> {
    let failed = |result: &&PullOutcome| !result.status.is_good();
    let failed = done.results.iter().filter(failed);
    let failed = failed.map(|result| format!("{} (failed)", result.id));
    let waiting = |waiting: &DeferredOntology| {
        let until = clock_time(waiting.until);
        format!("{} (waits for {} until {until})", waiting.id, waiting.host)
    };
    let named: Vec<String> = failed.chain(done.deferred.iter().map(waiting)).collect();
    let unreached = usize::try_from(done.left()).unwrap_or(usize::MAX);
    let total = named.len() + unreached.saturating_sub(done.deferred.len());
    (total > 0).then(|| joined(&named, total))
}

/// Joins names: `2 ontologies: a (failed), b (failed)`.
fn joined(named: &[String], total: usize) -> String {
    let count = crate::program::running().count(total as u64);
    let shown = &named[..named.len().min(MAX_NAMED)];
    let rest = match total - shown.len() {
        0 => String::new(),
        rest if shown.is_empty() => return crate::program::running().count(rest as u64),
        rest => format!(" and {rest} more"),
    };
    format!("{count}: {}{rest}", shown.join(", "))
}
