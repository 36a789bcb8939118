//! `docstokg cache`: the stored responses, their size, and their verification.

use std::process::ExitCode;
use std::sync::Arc;

use docstokg_hub::Host;
use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::policy::freshness::StoredResponse;
use docstokg_hub::policy::time::Timestamp;
use docstokg_hub::store;
use docstokg_hub::stores::StoreError;
use docstokg_hub::stores::cache::{
    CacheStats, CacheStore, ListPosition, ListedEntry, RemovedEntries, VerificationReport,
};
use docstokg_telemetry::summary::{bytes, table};
use serde_json::{Value, json};

use crate::arguments::{CacheArguments, CacheCommand, GlobalArguments};
use crate::exit::{self, CommandFailure};
use crate::view::text::plural;
use crate::{output, session, state};

/// The number of entries that are read at a time.
const ENTRIES_PER_PAGE: usize = 500;

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &CacheArguments,
) -> Result<ExitCode, CommandFailure> {
    let config = global.load()?.config.cache;
    let directory = store::cache_directory(&config, Some(&state::directory(global)?));
    let directory = directory
        .ok_or_else(|| CommandFailure::Usage("no directory is set for the cache".to_owned()))?;
    let limits = store::cache_limits(&config);
    let failed = |error: StoreError| CommandFailure::Failed(error.into());
    let cache =
        CacheStore::disk(&directory, limits, Arc::new(SystemClock), None).map_err(failed)?;
    session::block_on(async {
        match &arguments.command {
            CacheCommand::Show { host } => show(global, &cache, host.as_deref()).await,
            CacheCommand::Stats => {
                let stats = cache.stats().await.map_err(failed)?;
                tell_stats(global, &stats, &directory.display().to_string());
                Ok(ExitCode::SUCCESS)
            }
            CacheCommand::Purge { host } => {
                let host = known(host.as_deref())?;
                let name = host.as_ref().map(Host::as_str);
                let removed = cache.purge(name).await.map_err(failed)?;
                tell_removed(global, removed, name);
                Ok(ExitCode::SUCCESS)
            }
            CacheCommand::Verify => {
                let verified = cache.verify().await.map_err(failed)?;
                Ok(tell_verified(global, &verified))
            }
        }
    })
}

fn known(host: Option<&str>) -> Result<Option<Host>, CommandFailure> {
    host.map(Host::parse)
        .transpose()
        .map_err(|error| CommandFailure::Usage(error.to_string()))
}

async fn show(
    global: &GlobalArguments,
    cache: &CacheStore,
    host: Option<&str>,
) -> Result<ExitCode, CommandFailure> {
    let host = known(host)?;
    let name = host.as_ref().map(Host::as_str);
    let now = SystemClock.wall();
    let mut after = ListPosition::default();
    let (mut shown, mut rows): (Vec<Value>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
    loop {
        let page = cache.list(name, after, ENTRIES_PER_PAGE).await;
        let page = page.map_err(|error| CommandFailure::Failed(error.into()))?;
        let Some(last) = page.last() else { break };
        after = last.position;
        for entry in &page {
            let stored = serde_json::from_slice::<StoredResponse>(&entry.metadata).ok();
            shown.push(entry_json(entry, stored.as_ref(), now));
            rows.push(entry_row(entry, stored.as_ref(), now));
        }
    }
    if global.json {
        output::json(&json!({ "entries": shown }));
    } else if rows.is_empty() {
        output::line("nothing is stored");
    } else {
        let header = ["stored", "age", "status", "bytes", "url"];
        output::line(table(&header, &rows).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn entry_json(entry: &ListedEntry, stored: Option<&StoredResponse>, now: Timestamp) -> Value {
    json!({
        "url": entry.url,
        "host": entry.host,
        "status": stored.map(|stored| stored.status().as_u16()),
        "bytes": entry.body_length,
        "stored": entry.stored_at.to_string(),
        "used": entry.used_at.to_string(),
        "age_s": stored.map(|stored| stored.age(now).as_secs()),
    })
}

fn entry_row(entry: &ListedEntry, stored: Option<&StoredResponse>, now: Timestamp) -> Vec<String> {
    let unknown = || "?".to_owned();
    vec![
        entry.stored_at.to_string(),
        stored.map_or_else(unknown, |stored| format!("{} s", stored.age(now).as_secs())),
        stored.map_or_else(unknown, |stored| stored.status().as_u16().to_string()),
        entry.body_length.to_string(),
        entry.url.clone(),
    ]
}

fn tell_stats(global: &GlobalArguments, stats: &CacheStats, directory: &str) {
    if global.json {
        output::json(&json!({
            "directory": directory,
            "entries": stats.entries,
            "bytes": stats.bytes,
            "max_bytes": stats.max_bytes,
        }));
        return;
    }
    output::line(&format!(
        "{} answers, {} of {} in {directory}",
        stats.entries,
        bytes(stats.bytes),
        bytes(stats.max_bytes)
    ));
}

fn tell_removed(global: &GlobalArguments, removed: RemovedEntries, host: Option<&str>) {
    if global.json {
        output::json(&json!({
            "host": host,
            "removed": removed.entries,
            "bytes": removed.bytes,
        }));
        return;
    }
    output::line(&format!(
        "removed {} ({})",
        plural(removed.entries, "answer"),
        bytes(removed.bytes)
    ));
}

fn tell_verified(global: &GlobalArguments, verified: &VerificationReport) -> ExitCode {
    let is_intact = verified.damaged == 0 && !verified.index_replaced;
    if global.json {
        let list = verified.list.iter();
        let list: Vec<Value> = list
            .map(|damaged| json!({ "url": damaged.url, "why": damaged.why }))
            .collect();
        output::json(&json!({
            "ok": is_intact,
            "entries": verified.entries,
            "bytes": verified.bytes,
            "damaged": verified.damaged,
            "orphans": verified.orphans,
            "index_replaced": verified.index_replaced,
            "list": list,
        }));
    } else {
        output::line(&format!(
            "checked {} answers ({}): {} damaged and removed, {} files without an entry removed",
            verified.entries,
            bytes(verified.bytes),
            verified.damaged,
            verified.orphans
        ));
        if verified.index_replaced {
            output::line("the index was damaged: the cache starts empty");
        }
        for damaged in &verified.list {
            output::line(&format!("{}: {}", damaged.url, damaged.why));
        }
    }
    if is_intact {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::EXIT_FAILED)
    }
}
