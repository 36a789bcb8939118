//! The page at the end of a pull: the result of each ontology, and the figures of the run.

use std::path::{Path, PathBuf};

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_ontology::pull::{DeferredOntology, PullEnding, PullOutcome};
use docstokg_telemetry::html::{TableLayout, card, document, table};
use docstokg_telemetry::report::sections;
use docstokg_telemetry::sink::sqlite::open_to_read;
use docstokg_telemetry::summary::{self, RunChoice, bytes};
use maud::{Markup, html};

use super::pull::wait_sentence;
use super::run::RoundsResult;
use crate::commands::summary::write_page;
use crate::exit::CommandFailure;

/// The name of the page in the library.
const REPORT_FILE_NAME: &str = "report.html";

/// Writes the page of a pull into the library, and returns its path. Without recorded figures the
/// page contains only the ontologies.
pub(super) fn write(
    library: &Path,
    worked: &RoundsResult,
    run_id: &str,
    database: Option<&Path>,
) -> Result<PathBuf, CommandFailure> {
    let figures = database.and_then(|path| {
        let database = open_to_read(path).ok()?;
        let run = RunChoice::Named(run_id.to_owned());
        let found = summary::load(&database, &run).ok()?;
        sections(&database, &found).ok()
    });
    let page = html! {
        (ontologies(worked))
        @if let Some(figures) = figures {
            (figures)
        } @else {
            p.warning { "No figures of this run were recorded." }
        }
    };
    let path = library.join(REPORT_FILE_NAME);
    write_page(&path, &document(&format!("ontofetch run {run_id}"), &page))?;
    Ok(path)
}

fn ontologies(worked: &RoundsResult) -> Markup {
    let results = &worked.results;
    let count = |wanted: &[PullEnding]| {
        let found = results.iter();
        found
            .filter(|result| wanted.contains(&result.status))
            .count()
    };
    let columns = [
        "id",
        "outcome",
        "version",
        "source",
        "licence",
        "size",
        "terms",
        "reason or note",
    ];
    let rows = html! {
        @for result in results { (row(result)) }
        @for waiting in &worked.deferred { (waiting_row(waiting)) }
    };
    html! {
        header { h1 { "Ontologies" } }
        section.cards {
            (card("", "new", count(&[PullEnding::Fresh]), ""))
            (card("", "updated", count(&[PullEnding::Updated]), ""))
            (card("", "unchanged", count(&[PullEnding::Cached, PullEnding::Skipped]), ""))
            (card("", "failed", count(&[PullEnding::Failed]), ""))
            (card("", "waiting", worked.deferred.len(), ""))
        }
        section #ontologies { (table(TableLayout::Wide, &columns, &rows)) }
    }
}

fn row(result: &PullOutcome) -> Markup {
    let size = result.content_length.map_or_else(String::new, bytes);
    let detail = result.detail.iter().chain(&result.notes);
    let reason = result
        .reason
        .map(|reason| format!("{}: ", reason.as_str()))
        .unwrap_or_default()
        + &detail.map(String::as_str).collect::<Vec<_>>().join("; ");
    html! {
        tr {
            td { (result.id) }
            td { (result.status.as_str()) }
            td { @if let Some(version) = &result.version { (version) } }
            td { @if let Some(resolver) = &result.resolver { (resolver) } }
            td { @if let Some(license) = &result.license { (license) } }
            td { (size) }
            td { @if let Some(terms) = result.terms { (terms) } }
            td.url { (reason) }
        }
    }
}

/// Formats the row of an ontology that waits for a host.
fn waiting_row(waiting: &DeferredOntology) -> Markup {
    html! {
        tr {
            td { (waiting.id) }
            td { "waiting" }
            @for _ in 0..5 { td {} }
            td.url { (wait_sentence(waiting, SystemClock.wall())) }
        }
    }
}
