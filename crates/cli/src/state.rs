//! The directory and the store of the state that processes share.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use docstokg_hub::clock::SystemClock;
use docstokg_hub::config::{BackendKind, Config, OnStoreFailure};
use docstokg_hub::store;
use docstokg_hub::stores::StateStore;
use docstokg_hub::stores::fallback::AvailabilityNotice;
use docstokg_hub::stores::memory::MemoryStore;
use docstokg_hub::stores::private;

use crate::arguments::GlobalArguments;
use crate::exit::CommandFailure;
use crate::output;

/// Returns the state directory, from the flag, the environment, or the system's directory for
/// state.
///
/// # Errors
/// No variable and no entry of the system names one, or it belongs to another user.
pub(crate) fn directory(global: &GlobalArguments) -> Result<PathBuf, CommandFailure> {
    let named = (global.state_dir.clone()).or_else(default_directory);
    let directory = named.ok_or_else(|| {
        CommandFailure::Usage(format!(
            "there is no place for state: neither HOME nor XDG_STATE_HOME is set, and the system \
             knows no home directory of this user; name one with --state-dir DIR or \
             {STATE_DIR_VARIABLE}"
        ))
    })?;
    refuse_foreign(&directory)?;
    Ok(directory)
}

/// The variable that names the state directory.
const STATE_DIR_VARIABLE: &str = "DOCSTOKG_STATE_DIR";

/// Returns the state directory that the flag or the environment names.
pub(crate) fn named_directory(global: &GlobalArguments) -> Option<PathBuf> {
    (global.state_dir.clone()).or_else(|| path_variable(STATE_DIR_VARIABLE))
}

/// Returns the state directory that applies without the flag.
pub(crate) fn default_directory() -> Option<PathBuf> {
    path_variable(STATE_DIR_VARIABLE).or_else(|| Some(default_base()?.join("docstokg")))
}

/// Returns the directory for state that the system prescribes (XDG): without `HOME` that of the
/// user's home directory, as the system knows it.
fn default_base() -> Option<PathBuf> {
    let home = || {
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        Some(home?.join(".local/state"))
    };
    path_variable("XDG_STATE_HOME").or_else(home)
}

fn path_variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// Refuses a directory of another user, who could read, change or withhold what is written there,
/// unless a group shares it.
fn refuse_foreign(directory: &Path) -> Result<(), CommandFailure> {
    let Ok(found) = directory.metadata() else {
        return Ok(());
    };
    let owner = found.uid();
    let is_shared = private::sharing_group().is_some_and(|group| group == found.gid());
    if owner == rustix::process::geteuid().as_raw() || is_shared {
        return Ok(());
    }
    Err(CommandFailure::Usage(format!(
        "{} belongs to another user (number {owner}), so no state is written there; name another \
         directory with --state-dir DIR or {STATE_DIR_VARIABLE}, or share it with a group \
         (limits.backend.group)",
        directory.display()
    )))
}

/// Records the first use of something with this state directory. Returns whether this is the first
/// time.
pub(crate) fn mark_first_time(global: &GlobalArguments, what: &str) -> bool {
    let Ok(directory) = directory(global) else {
        return false;
    };
    let mark = directory.join(what);
    if mark.exists() {
        return false;
    }
    // If the record fails, the next time counts as the first again.
    let _ = private::make_directory(&directory).and_then(|()| private::make_file(&mark));
    true
}

/// Returns the notice that reports the availability of stores to the user.
pub(crate) fn notice(global: &GlobalArguments) -> AvailabilityNotice {
    let quiet = global.quiet;
    Arc::new(move |text: &str| {
        if !quiet {
            output::print_note(text);
        }
    })
}

/// Opens the store for a run. An unusable state directory is an error, because limits would apply
/// to this process only.
pub(crate) fn open(
    global: &GlobalArguments,
    config: &Config,
) -> Result<Arc<dyn StateStore>, CommandFailure> {
    set_privacy(global, config)?;
    let notice = notice(global);
    match store::open_for(config, &directory(global)?, Arc::new(SystemClock), &notice) {
        Ok(store) => Ok(store),
        Err(error) if config.limits.backend.on_failure == OnStoreFailure::Refuse => {
            Err(CommandFailure::Failed(error.into()))
        }
        Err(error)
            if matches!(
                config.limits.backend.kind.value,
                BackendKind::Sqlite | BackendKind::Multiprocess
            ) =>
        {
            Err(CommandFailure::Failed(anyhow::anyhow!(
                "{error}, or use --rate-backend memory for limits that hold for this process \
                 alone"
            )))
        }
        Err(error) => {
            output::complain(&error.to_string());
            output::hint("continuing with limits that hold for this process alone");
            Ok(Arc::new(MemoryStore::new(Arc::new(SystemClock))))
        }
    }
}

/// Makes state private, or shared with the configured group. Warns once about a directory that
/// other users can read.
fn set_privacy(global: &GlobalArguments, config: &Config) -> Result<(), CommandFailure> {
    if let Some(group) = &config.limits.backend.group {
        private::share_with(group)
            .map_err(|error| CommandFailure::Usage(format!("limits.backend.group: {error}")))?;
    }
    let directory = directory(global)?;
    if private::is_open_to_others(&directory)
        && !global.quiet
        && mark_first_time(global, "permissions-notice")
    {
        output::print_note(&format!(
            "warning: other users can read {}; chmod 700 makes it private, \
             limits.backend.group shares it with a group",
            directory.display()
        ));
    }
    Ok(())
}

/// Opens the store for an operator's command, which fails if the store is unavailable.
pub(crate) fn open_strict(
    global: &GlobalArguments,
    config: &Config,
) -> Result<Arc<dyn StateStore>, CommandFailure> {
    let kinds = [
        Some(&config.limits.backend),
        config.breakers.backend.as_ref(),
    ];
    if kinds
        .into_iter()
        .flatten()
        .all(|backend| backend.kind.value == BackendKind::Memory)
    {
        return Err(CommandFailure::Usage(
            "with the memory backend every process keeps its own state, and this command has none \
             to show; choose sqlite, multiprocess or redis (limits.backend.kind, \
             DOCSTOKG_RLIMIT_BACKEND or --rate-backend) for the runs and for this command"
                .to_owned(),
        ));
    }
    set_privacy(global, config)?;
    store::open_strict_for(config, &directory(global)?, Arc::new(SystemClock))
        .map_err(|error| CommandFailure::Failed(error.into()))
}
