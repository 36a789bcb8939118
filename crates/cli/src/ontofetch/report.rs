//! The page at the end of a pull: what each ontology came to, and the figures of the run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use docstokg_hub::html::escape;
use docstokg_ontology::pull::{Ending, Pulled};
use docstokg_telemetry::report::{document, sections};
use docstokg_telemetry::sink::sqlite::open_to_read;
use docstokg_telemetry::summary::{self, RunChoice};

use crate::commands::summary::write_page;
use crate::exit::Failure;
use crate::view::mebibytes;

/// The name of the page in the library.
const PAGE: &str = "report.html";

/// Writes the page of a pull into the library, and returns where it is. Without recorded figures it
/// has the ontologies alone.
pub(super) fn write(
    library: &Path,
    results: &[Pulled],
    run_id: &str,
    database: Option<&Path>,
) -> Result<PathBuf, Failure> {
    let mut page = ontologies(results);
    let figures = database.and_then(|path| {
        let database = open_to_read(path).ok()?;
        let run = RunChoice::Named(run_id.to_owned());
        let found = summary::load(&database, &run).ok()?;
        sections(&database, &found).ok()
    });
    match figures {
        Some(figures) => page.push_str(&figures),
        None => page.push_str("<p class=\"warning\">No figures of this run were recorded.</p>"),
    }
    let path = library.join(PAGE);
    write_page(&path, &document(&format!("ontofetch run {run_id}"), &page))?;
    Ok(path)
}

fn ontologies(results: &[Pulled]) -> String {
    let count = |wanted: &[Ending]| {
        let found = results.iter();
        found
            .filter(|result| wanted.contains(&result.status))
            .count()
    };
    let mut page = String::from("<header><h1>Ontologies</h1></header><section class=\"cards\">");
    for (name, number) in [
        ("new", count(&[Ending::Fresh])),
        ("updated", count(&[Ending::Updated])),
        ("unchanged", count(&[Ending::Cached, Ending::Skipped])),
        ("failed", count(&[Ending::Failed])),
    ] {
        let _ = write!(
            page,
            "<div class=\"card\"><span>{name}</span><strong>{number}</strong></div>"
        );
    }
    page.push_str(
        "</section><section><div class=\"wide\"><table id=\"ontologies\"><thead><tr><th>id</th>\
         <th>outcome</th><th>version</th><th>source</th><th>licence</th><th>size</th>\
         <th>terms</th><th>reason or note</th></tr></thead><tbody>",
    );
    for result in results {
        row(&mut page, result);
    }
    page.push_str("</tbody></table></div></section>");
    page
}

fn row(page: &mut String, result: &Pulled) {
    let size = result
        .content_length
        .map_or_else(String::new, |bytes| match bytes {
            0..0x10_0000 => format!("{:.1} KiB", mebibytes(bytes * 1024)),
            _ => format!("{:.1} MiB", mebibytes(bytes)),
        });
    let terms = result
        .terms
        .map_or_else(String::new, |terms| terms.to_string());
    let detail = result.detail.iter().chain(&result.notes);
    let reason = result
        .reason
        .map(|reason| format!("{}: ", reason.as_str()))
        .unwrap_or_default()
        + &detail.map(String::as_str).collect::<Vec<_>>().join("; ");
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    page.push_str("<tr>");
    for value in [
        &result.id,
        result.status.as_str(),
        &text(&result.version),
        &text(&result.resolver),
        &text(&result.license),
        &size,
        &terms,
    ] {
        let _ = write!(page, "<td>{}</td>", escape(value));
    }
    let _ = write!(page, "<td class=\"url\">{}</td></tr>", escape(&reason));
}
