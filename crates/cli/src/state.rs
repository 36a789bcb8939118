//! The directory and the store of the state that processes share.

use std::path::PathBuf;
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
pub(crate) fn directory(global: &GlobalArguments) -> PathBuf {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    global
        .state_dir
        .clone()
        .or_else(|| set("DOCSTOKG_STATE_DIR"))
        .unwrap_or_else(|| {
            let base =
                set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
            base.unwrap_or_else(std::env::temp_dir).join("docstokg")
        })
}

/// Records the first use of something with this state directory. Returns whether this is the first
/// time.
pub(crate) fn mark_first_time(global: &GlobalArguments, what: &str) -> bool {
    let directory = directory(global);
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
    match store::open_for(config, &directory(global), Arc::new(SystemClock), &notice) {
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
    let directory = directory(global);
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
    store::open_strict_for(config, &directory(global), Arc::new(SystemClock))
        .map_err(|error| CommandFailure::Failed(error.into()))
}
