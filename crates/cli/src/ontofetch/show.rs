//! `ontofetch show` and `list`: the content of the library.

use std::process::ExitCode;

use docstokg_ontology::library::{LibraryError, StoredVersion};
use docstokg_ontology::source;
use docstokg_telemetry::summary::{bytes, table};
use serde_json::{Value, json};

use super::arguments::{ListArguments, ShowArguments};
use super::{library_directory, selection};
use crate::arguments::GlobalArguments;
use crate::exit::CommandFailure;
use crate::output;

pub(super) fn failed(error: LibraryError) -> CommandFailure {
    CommandFailure::Failed(error.into())
}

/// Runs `show`.
pub(super) fn run(
    global: &GlobalArguments,
    arguments: &ShowArguments,
) -> Result<ExitCode, CommandFailure> {
    let loaded = global.load()?;
    let library = library_directory::library(global, &arguments.library, &loaded.ontology);
    let id = selection::id(&arguments.id)?;
    let version = library
        .find(&id, arguments.version.as_deref())
        .map_err(failed)?;
    if arguments.versions {
        let versions = library.versions(&id).map_err(failed)?;
        if global.json {
            let versions: Vec<Value> = versions.iter().map(version_json).collect();
            output::json(&json!({ "id": id.as_str(), "versions": versions }));
        } else {
            output::text(&version_table(&versions));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if global.json {
        let mut shown = version_json(&version);
        shown["manifest"] = json!(version.manifest);
        output::json(&shown);
    } else {
        output::line(&text(&version));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `list`.
pub(super) fn list(
    global: &GlobalArguments,
    arguments: &ListArguments,
) -> Result<ExitCode, CommandFailure> {
    if arguments.sources {
        sources(global);
        return Ok(ExitCode::SUCCESS);
    }
    let loaded = global.load()?;
    let library = library_directory::library(global, &arguments.library, &loaded.ontology);
    let mut latest = Vec::new();
    let mut damaged = Vec::new();
    for id in library.ids().map_err(failed)? {
        let versions = library.versions(&id).map_err(failed)?;
        damaged.extend(library.damaged(&id).map_err(failed)?);
        let count = versions.len();
        let newest = versions
            .iter()
            .position(|version| version.is_latest)
            .unwrap_or(0);
        if let Some(version) = versions.into_iter().nth(newest) {
            latest.push((version, count));
        }
    }
    if global.json {
        let ontologies: Vec<Value> = latest
            .iter()
            .map(|(version, count)| {
                let mut shown = version_json(version);
                shown["id"] = json!(version.manifest.id);
                shown["versions"] = json!(count);
                shown
            })
            .collect();
        output::json(&json!({
            "library": library.root().display().to_string(),
            "ontologies": ontologies,
            "damaged": damaged.iter().map(|version| &version.why).collect::<Vec<_>>(),
        }));
    } else if latest.is_empty() {
        output::line(&format!(
            "{} has no ontologies yet",
            library.root().display()
        ));
    } else {
        let rows = latest.iter().map(|(version, count)| {
            columns([
                &version.manifest.id,
                &version.name,
                &count.to_string(),
                version.manifest.license.as_deref().unwrap_or("not stated"),
                &bytes(version.manifest.content_length),
                date(version),
            ])
        });
        let header = ["id", "version", "versions", "licence", "size", "downloaded"];
        output::text(&table(&header, &rows.collect::<Vec<_>>()));
    }
    if !global.json {
        for version in &damaged {
            output::print_note(&version.why);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn sources(global: &GlobalArguments) {
    let left_out = source::LEFT_OUT.iter();
    if global.json {
        let known: Vec<Value> = source::all()
            .iter()
            .map(|source| {
                let spec = source.spec();
                json!({
                    "name": spec.name,
                    "title": spec.title,
                    "about": spec.about,
                    "rate": spec.rate,
                    "endpoints": spec.endpoints.iter().map(|endpoint| endpoint.address).collect::<Vec<_>>(),
                    "variable": spec.credentials.first().map(|credential| credential.variable),
                })
            })
            .collect();
        let left: Vec<Value> = left_out
            .map(|left| json!({ "name": left.name, "why": left.why }))
            .collect();
        output::json(&json!({ "sources": known, "left_out": left }));
        return;
    }
    let known = source::all();
    let known = known.iter().map(|source| {
        let spec = source.spec();
        let key = spec
            .credentials
            .first()
            .map_or("", |credential| credential.variable);
        columns([spec.name, spec.about, key])
    });
    let left_out = left_out.map(|left| columns([left.name, left.why, ""]));
    let rows: Vec<Vec<String>> = known.chain(left_out).collect();
    output::text(&table(&["source", "what it is", "key"], &rows));
}

fn columns<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).into()
}

fn date(version: &StoredVersion) -> &str {
    version.manifest.downloaded_at.get(..10).unwrap_or_default()
}

fn version_table(versions: &[StoredVersion]) -> String {
    let rows = versions.iter().map(|version| {
        columns([
            &version.name,
            if version.is_latest { "yes" } else { "" },
            &version.manifest.resolver,
            &bytes(version.manifest.content_length),
            date(version),
            version.manifest.sha256.get(..12).unwrap_or_default(),
        ])
    });
    let header = [
        "version",
        "latest",
        "source",
        "size",
        "downloaded",
        "sha256",
    ];
    table(&header, &rows.collect::<Vec<_>>())
}

fn version_json(version: &StoredVersion) -> Value {
    json!({
        "version": version.manifest.version,
        "directory": version.name,
        "path": version.path.display().to_string(),
        "is_latest": version.is_latest,
        "resolver": version.manifest.resolver,
        "license": version.manifest.license,
        "sha256": version.manifest.sha256,
        "content_length": version.manifest.content_length,
        "downloaded_at": version.manifest.downloaded_at,
    })
}

fn text(version: &StoredVersion) -> String {
    let manifest = &version.manifest;
    let latest = if version.is_latest { " (latest)" } else { "" };
    let mut lines = vec![
        format!("{} {}{latest}", manifest.id, manifest.version),
        format!(
            "  file: {}",
            version
                .path
                .join("original")
                .join(&manifest.filename)
                .display()
        ),
        format!("  from: {} ({})", manifest.final_url, manifest.resolver),
        format!("  version stated by: {}", manifest.version_from),
        format!(
            "  licence: {}",
            manifest.license.as_deref().unwrap_or("not stated")
        ),
        format!(
            "  format: {}",
            manifest.format.as_deref().unwrap_or("not recognised")
        ),
        format!(
            "  size: {}, sha256 {}",
            bytes(manifest.content_length),
            manifest.sha256
        ),
        format!("  downloaded: {}", manifest.downloaded_at),
    ];
    if !manifest.imports.is_empty() {
        lines.push(format!("  imports: {}", manifest.imports.join(", ")));
    }
    lines.extend(manifest.notes.iter().map(|note| format!("  note: {note}")));
    lines.join("\n")
}
