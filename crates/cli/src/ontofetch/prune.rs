//! `ontofetch prune`: the removal of old versions.

use std::process::ExitCode;

use docstokg_bulk::queue::CommitMode;
use docstokg_ontology::library::{Library, PruneMode, PrunedVersion, prune};
use docstokg_ontology::pull::Workplace;
use docstokg_telemetry::summary::bytes as size;
use serde_json::{Value, json};

use super::arguments::PruneArguments;
use super::show::failed;
use super::{library_directory, selection};
use crate::arguments::GlobalArguments;
use crate::exit::CommandFailure;
use crate::{output, session};

/// Locks the library for changes, like a pull.
fn take_library(library: &Library) -> Result<Workplace, CommandFailure> {
    session::block_on(async {
        let opened = Workplace::open(library, CommitMode::Inline).await;
        opened.map_err(|error| CommandFailure::Failed(error.into()))
    })
}

/// Runs the command.
pub(super) fn run(
    global: &GlobalArguments,
    arguments: &PruneArguments,
) -> Result<ExitCode, CommandFailure> {
    let loaded = global.load()?;
    let library = library_directory::library(global, &arguments.library, &loaded.ontology);
    let ids = if arguments.ids.is_empty() {
        library.ids().map_err(failed)?
    } else {
        let ids = arguments.ids.iter().map(|text| selection::id(text));
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        for id in &ids {
            library.find(id, None).map_err(failed)?;
        }
        ids
    };
    let mode = if arguments.dry_run {
        PruneMode::ListOnly
    } else {
        PruneMode::Remove
    };
    // A concurrent pull could otherwise lose the version that it publishes.
    let workplace = match mode {
        PruneMode::Remove => Some(take_library(&library)?),
        PruneMode::ListOnly => None,
    };
    let mut removed = Vec::new();
    for id in &ids {
        removed.extend(prune(&library, id, arguments.keep as usize, mode).map_err(failed)?);
    }
    if let Some(workplace) = workplace {
        workplace.close(None);
    }
    let bytes: u64 = removed.iter().map(|pruned| pruned.bytes).sum();
    if global.json {
        let shown = |pruned: &PrunedVersion| -> Value {
            json!({ "id": pruned.id.as_str(), "version": pruned.version.name, "bytes": pruned.bytes })
        };
        let removed: Vec<Value> = removed.iter().map(shown).collect();
        output::json(
            &json!({ "is_dry_run": arguments.dry_run, "removed": removed, "bytes": bytes }),
        );
        return Ok(ExitCode::SUCCESS);
    }
    let what = if arguments.dry_run {
        "would remove"
    } else {
        "removed"
    };
    for pruned in &removed {
        output::line(&format!("{what} {} {}", pruned.id, pruned.version.name));
    }
    output::line(&format!(
        "{what} {}, {}",
        crate::view::plural(removed.len() as u64, "version"),
        size(bytes)
    ));
    Ok(ExitCode::SUCCESS)
}
